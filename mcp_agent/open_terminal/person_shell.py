"""One shell of a person and the WebSocket that it belongs to: bytes both ways, within bounds."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from starlette.types import Message, Receive, Send

from mcp_agent.calls.call import Caller
from mcp_agent.open_terminal.mode_queries import ModeQueries
from mcp_agent.open_terminal.typed_lines import TypedLines
from tools.kit.errors import ToolError
from tools.sessions.process import Status, Terminal
from tools.sessions.program import OwnProgram

# The page gives a sign of life every 25 s, and a browser that hides it lets it do so once a minute.
IDLE_S = 600.0
_LOOK_EVERY_S = 1.0
_MOST_MESSAGE_CHARS = 8_192
_AT_ONCE_BYTES = 64 * 1024
_MOST_UNSENT_BYTES = 256 * 1024
_MOST_SIDE = 1_000
# What was shown last, for a page that goes on with the shell of another.
_MOST_REPLAYED_BYTES = 64 * 1024
# Clears the line that is being typed, at the prompt of a shell as in a plain terminal.
_CLEAR_LINE = b"\x15"

ENDED, GONE, BAD_MESSAGE, BAD_TOKEN, FORBIDDEN, UNKNOWN, IDLE = 1000, 1001, 1008, 4001, 4003, 4004, 4008


class Closed(Exception):
    """The connection ends with this code and reason. A client that has left has no code."""

    def __init__(self, code: int | None = None, reason: str = "") -> None:
        super().__init__(reason)
        self.code, self.reason = code, reason


class PersonShell:
    """Carries what is typed to the shell, and what it prints to the page. A page that is slow slows the shell down."""

    def __init__(
        self,
        person: Caller,
        receive: Receive,
        send: Send,
        *,
        is_allowed: Callable[[Caller], bool],
        check_line: Callable[[Caller, str], Awaitable[None]],
    ) -> None:
        """`check_line` raises ToolError for a line that must not be sent to the shell."""
        self.person = person
        self.program: OwnProgram | None = None
        self.typed_bytes = self.shown_bytes = 0
        self._receive, self._send = receive, send
        self._is_allowed, self._check_line = is_allowed, check_line
        self._lines = TypedLines()
        self._queries = ModeQueries()
        self._unsent: deque[bytes] = deque()
        self._unsent_bytes = 0
        self._recent = bytearray()
        self._is_parked = False
        # Set when a parked shell is needed no more: another page has it, or it ends.
        self.is_released = asyncio.Event()
        self._woken = asyncio.Event()
        self._ending: Closed | None = None
        self._heard_at = asyncio.get_running_loop().time()

    def on_output(self, stream: str, data: bytes) -> bool:
        """Take output of the shell. False is backpressure: it must wait until the page has taken some."""
        if data := self._queries.drop(data):
            self._recent += data
            del self._recent[:-_MOST_REPLAYED_BYTES]
            if not self._is_parked:
                self._unsent.append(data)
                self._unsent_bytes += len(data)
                self._woken.set()
        return self._unsent_bytes < _MOST_UNSENT_BYTES

    def on_exit(self, status: Status) -> None:
        self.end(ENDED, f"the shell has ended with exit code {status.exit_code}")

    def end(self, code: int, reason: str) -> None:
        """Close the connection once all output is sent."""
        self._ending = self._ending or Closed(code, reason)
        self.is_released.set()
        self._woken.set()

    def park(self) -> None:
        """Go on without a page. What is printed is kept for the next one, as far as it is replayed."""
        self._is_parked = True
        self._unsent.clear()
        self._unsent_bytes = 0
        assert self.program is not None, "only a shell that runs is parked"
        self.program.child.resume()

    def move(self, person: Caller, receive: Receive, send: Send) -> None:
        """Go on with another page, which is shown what was shown before."""
        self.person, self._receive, self._send = person, receive, send
        self._is_parked = False
        self.is_released.set()
        self._unsent.append(bytes(self._recent))
        self._unsent_bytes = len(self._recent)
        self._heard_at = asyncio.get_running_loop().time()

    async def say(self, text: str) -> None:
        """A line of ours on the page, in red."""
        line = f"\r\n\x1b[31m[{text.strip()}]\x1b[0m\r\n".encode("utf-8", "replace")
        await self._send({"type": "websocket.send", "bytes": line})

    async def run(self) -> None:
        """Serve until one side ends. Raises Closed."""
        closed = Closed()
        try:
            async with asyncio.TaskGroup() as tasks:
                for serve in (self._read, self._write, self._watch):
                    tasks.create_task(serve())
        except* Closed as group:
            closed = next(each for each in group.exceptions if isinstance(each, Closed))
        raise closed

    async def _read(self) -> None:
        while True:
            message = await self._receive()
            self._heard_at = asyncio.get_running_loop().time()
            data = message.get("bytes")
            if message["type"] == "websocket.disconnect":
                raise Closed
            if data:
                await self._type(data)
            else:
                self._obey(read_object(message))

    async def _type(self, data: bytes) -> None:
        assert self.program is not None, "it is started before anything is read"
        for part in self._lines.feed(data):
            if part.line is not None:
                try:
                    await self._check_line(self.person, part.line)
                except ToolError as error:
                    await self.program.child.write(_CLEAR_LINE)
                    await self.say(f"{error.message}; {error.hint}" if error.hint else error.message)
                    return
            self.typed_bytes += len(part.data)
            await self.program.child.write(part.data)
            # A message has many lines, and others have their turn between them.
            await asyncio.sleep(0)

    def _obey(self, said: dict[str, Any]) -> None:
        """What a text message asks for: another size. Anything else is a sign of life."""
        cols, rows = said.get("cols"), said.get("rows")
        if said.get("type") == "resize" and isinstance(cols, int) and isinstance(rows, int):
            assert self.program is not None, "it is started before anything is read"
            self.program.child.resize(Terminal(*(min(max(each, 1), _MOST_SIDE) for each in (cols, rows))))

    async def _write(self) -> None:
        assert self.program is not None, "it is started before anything is written"
        while True:
            self._woken.clear()
            if self._unsent:
                data = self._take()
                try:
                    await self._send({"type": "websocket.send", "bytes": data})
                except OSError:
                    raise Closed from None
                self.shown_bytes += len(data)
                if self._unsent_bytes < _AT_ONCE_BYTES:
                    self.program.child.resume()
            elif self._ending is not None:
                raise self._ending
            else:
                await self._woken.wait()

    def _take(self) -> bytes:
        parts, size = [], 0
        while self._unsent and size < _AT_ONCE_BYTES:
            parts.append(self._unsent.popleft())
            size += len(parts[-1])
        self._unsent_bytes -= size
        return b"".join(parts)

    async def _watch(self) -> None:
        """End the shell of a person who may not have one any more, or who is not there."""
        now = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            if not self._is_allowed(self.person):
                await self.say("the shell was switched off")
                raise Closed(FORBIDDEN, "the shell was switched off")
            if now() - self._heard_at > IDLE_S:
                raise Closed(IDLE, f"nothing was heard for {IDLE_S:g} s")


def read_object(message: Message) -> dict[str, Any]:
    """The JSON object in a text message. Raises Closed."""
    if message["type"] == "websocket.disconnect":
        raise Closed
    text = message.get("text") or ""
    try:
        value = orjson.loads(text) if len(text) <= _MOST_MESSAGE_CHARS else None
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise Closed(BAD_MESSAGE, "a text message must be a small JSON object")
    return value
