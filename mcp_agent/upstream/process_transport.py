"""An MCP server in a child process, as a transport of the official client.

The client's own stdio transport starts processes in its own way and reads lines of any length. This one starts them as
all our processes: tagged, on the crash record, and ended with every process that they started. A line has a limit, and
a server that writes faster than we read is paused by its pipe.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from mcp_agent.protocol.jsonrpc import JsonTooLarge, check_size
from tools.sessions.manager import SessionManager
from tools.sessions.output_log import Stream
from tools.sessions.process import Status
from tools.sessions.program import OwnProgram

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

MOST_MESSAGE_BYTES = 16 * 1024 * 1024
_MOST_WAITING_BYTES = 4 * 1024 * 1024
_GRACE_S = 2.0
_EXIT_S = 1.0
_STUCK = "it does not read what it is sent"
_AT_ONCE = 16
_STDERR_CHARS = 4_000


class ServerProcess:
    """What is known of a server besides its messages: what it last wrote to stderr, and how it ended."""

    def __init__(self) -> None:
        self.stderr = ""
        # What the owner keeps in a file or a variable: it is in none of the lines that are shown.
        self.secrets: Collection[str] = ()
        self.status: Status | None = None
        # Whether it ended by itself, and not because we ended it.
        self.has_ended_itself = False
        self.problem = ""
        # The last answer over HTTP that was an error, such as "401 Unauthorized".
        self.http_error = ""
        self.on_end: Callable[[], object] = lambda: None

    def hear_stderr(self, data: bytes) -> None:
        self.stderr = (self.stderr + data.decode("utf-8", "replace"))[-_STDERR_CHARS:]

    @property
    def last_lines(self) -> str:
        shown = self.stderr
        for secret in self.secrets:
            shown = shown.replace(secret, "…")
        return "\n".join(shown.splitlines()[-5:])


class _Lines:
    """Splits what a server prints into lines, and holds those that nobody has taken yet."""

    def __init__(self) -> None:
        self._unfinished = bytearray()
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._is_ended = False
        self._change = asyncio.Event()

    def feed(self, data: bytes) -> bool:
        """Take output. False if there is enough for now. Raises ValueError for a line that is too large."""
        *complete, rest = data.split(b"\n")
        for part in complete:
            line = part
            if self._unfinished:
                line = bytes(self._unfinished) + part
                self._unfinished.clear()
            try:
                check_size(line)
            except JsonTooLarge as error:
                raise ValueError(f"it sent a line that {error}") from None
            self._waiting.append(line)
            self._waiting_bytes += len(line)
            self._change.set()
        self._unfinished += rest
        if len(self._unfinished) > MOST_MESSAGE_BYTES:
            raise ValueError(f"it sent a line of more than {MOST_MESSAGE_BYTES} bytes")
        return self._waiting_bytes < _MOST_WAITING_BYTES

    def end(self) -> None:
        self._is_ended = True
        self._change.set()

    @property
    def is_low(self) -> bool:
        return not self._waiting

    async def take(self) -> bytes | None:
        """The next line; None at the end."""
        while not self._waiting:
            if self._is_ended:
                return None
            self._change.clear()
            await self._change.wait()
        line = self._waiting.popleft()
        self._waiting_bytes -= len(line)
        return line


class _Incoming:
    """The messages of the server, as the client reads them."""

    def __init__(self, lines: _Lines, program: OwnProgram, process: ServerProcess) -> None:
        self._lines = lines
        self._program = program
        self._process = process
        self._taken = 0

    async def receive(self) -> SessionMessage:
        """The next message. Raises EndOfStream when there are no more."""
        import anyio
        from mcp import types
        from mcp.shared.message import SessionMessage

        while (line := await self._lines.take()) is not None:
            if self._lines.is_low:
                self._program.child.resume()
            self._taken += 1
            if self._taken % _AT_ONCE == 0:
                # A server that never stops printing would keep the event loop to itself.
                await asyncio.sleep(0)
            if not line.strip():
                continue
            try:
                return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
            except ValueError:
                pass
            try:
                return SessionMessage(types.jsonrpc_message_adapter.validate_python(_read_loosely(line), by_name=False))
            except (ValueError, RecursionError):
                # Some servers print other things to their standard output. The client needs none of it.
                self._process.hear_stderr(line[:200] + b"\n")
        raise anyio.EndOfStream

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        import anyio

        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        self._lines.end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Outgoing:
    """What the client sends to the server, one message a line."""

    def __init__(self, program: OwnProgram, on_stuck: Callable[[], object]) -> None:
        self._program = program
        self._on_stuck = on_stuck
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def send(self, item: SessionMessage) -> None:
        import anyio

        line = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        child = self._program.child
        rest = line if self._waiting else line[child.write_at_once(line) :]
        if not rest:
            return
        # With nobody else here the lock is taken at once: nothing comes between the parts of a line.
        self._waiting += 1
        try:
            async with self._turn:
                if await child.write(rest) < len(rest):
                    self._on_stuck()
                    raise anyio.BrokenResourceError
        finally:
            self._waiting -= 1

    async def aclose(self) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


@contextlib.asynccontextmanager
async def process_transport(
    sessions: SessionManager,
    name: str,
    argv: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    process: ServerProcess,
) -> AsyncIterator[tuple[_Incoming, _Outgoing]]:
    """A transport that starts the server when it is entered and ends it when it is left."""
    import anyio

    lines = _Lines()

    def end(problem: str = "") -> None:
        process.problem = process.problem or problem
        lines.end()
        process.on_end()

    def on_output(stream: Stream, data: bytes) -> bool:
        if stream == "stderr":
            process.hear_stderr(data)
            return True
        try:
            return lines.feed(data)
        except ValueError as error:
            end(str(error))
            return False

    exited = asyncio.Event()
    is_ending = False

    def on_exit(status: Status) -> None:
        process.status = status
        process.has_ended_itself = not is_ending
        exited.set()
        end()

    program = sessions.start_program(name, argv, cwd, environment, on_output=on_output, on_exit=on_exit)
    try:
        yield _Incoming(lines, program, process), _Outgoing(program, lambda: end(_STUCK))
    finally:
        # Also where the task is being cancelled: no server may be left behind.
        with anyio.CancelScope(shield=True):
            if process.problem == _STUCK:
                # Nobody reads from the pipe of a program that has just ended, either.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(exited.wait(), _EXIT_S)
            is_ending = True
            await program.end(_GRACE_S)


def _read_loosely(line: bytes) -> Any:
    """What some servers write though it is no JSON: NaN, which is null, and half a character, where they cut a text."""
    whole = json.dumps(json.loads(line, parse_constant=lambda _: None), ensure_ascii=False).encode(
        "utf-16", "surrogatepass"
    )
    return json.loads(whole.decode("utf-16", "replace"))
