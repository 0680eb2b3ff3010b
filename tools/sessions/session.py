"""A session: one command, its output, its exit status, and the calls that wait for it."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field

from tools.files import utf8
from tools.sessions.origin import EndedBy, Ending, Origin
from tools.sessions.output_log import OutputLog, Stream
from tools.sessions.process import Child, Status, Terminal

if TYPE_CHECKING:
    from tools.sessions.manager import SessionManager

_RETRY_S = 0.05
_MOST_READERS = 256
_MOST_LINE_BYTES = 8_192
# A line end after a backslash does not end the command line.
_LINE_END = re.compile(rb"(?<!\\)[\r\n]")


class HeadTailBuffer:
    """A head and tail buffer: the first and the last `most_bytes / 2` bytes of a stream, and its total size."""

    def __init__(self, most_bytes: int) -> None:
        self._half = most_bytes // 2
        self._head: list[bytes] = []
        self._head_bytes = 0
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self.total = 0
        self._newlines = 0
        self._ends_in_newline = True

    @property
    def lines(self) -> int:
        """How many lines the stream has had; the last one may have no end yet."""
        return self._newlines + (not self._ends_in_newline)

    def add(self, data: bytes) -> None:
        self.total += len(data)
        self._newlines += data.count(b"\n")
        self._ends_in_newline = data.endswith(b"\n")
        room = self._half - self._head_bytes
        if room > 0:
            part = data[:room]
            self._head.append(part)
            self._head_bytes += len(part)
            data = data[room:]
        if data:
            self._tail.append(data)
            self._tail_bytes += len(data)
            while self._tail_bytes - len(self._tail[0]) >= self._half:
                self._tail_bytes -= len(self._tail.popleft())

    def text(self) -> tuple[str, str, int]:
        """The head, the tail, and the number of bytes left out between them. A complete stream has no tail."""
        head, tail = b"".join(self._head), b"".join(self._tail)
        if len(head) + len(tail) == self.total and len(tail) <= self._half:
            return (head + tail).decode("utf-8", "replace"), "", 0
        head, tail = head[: len(head) - utf8.incomplete_bytes(head)], tail[-self._half :]
        tail = tail[utf8.orphan_bytes(tail) :]
        return head.decode("utf-8", "replace"), tail.decode("utf-8", "replace"), self.total - len(head) - len(tail)


class OutputListener(Protocol):
    """Sends output events to clients and says when old output may be freed: the event hub."""

    def add_log(self, log: OutputLog) -> None: ...

    def notify_output(self, log: OutputLog) -> None: ...

    def notify_exit(self, log: OutputLog, exit_code: int, signal: str | None, ended_by: EndedBy | None) -> None: ...

    def drop_log(self, log: OutputLog) -> None: ...

    def is_needed(self, log: OutputLog, to: int, release: Callable[[], None]) -> bool: ...


class Session(Struct, eq=False, weakref=True):
    """A running or ended command. Clients get its events once it is published; before that it belongs to one call."""

    id: str
    command: str
    cwd: Path
    log: OutputLog
    hub: OutputListener
    origin: Origin
    owner: SessionManager
    captures: dict[Stream, HeadTailBuffer] = field(default_factory=dict)
    has_terminal: bool = False
    is_published: bool = False
    started_at: float = field(default_factory=time.time)
    started_monotonic: float = field(default_factory=time.monotonic)
    ended_at: float | None = None
    status: Status | None = None
    ended_by: EndedBy | None = None
    # Up to here the call that started it has given its output.
    first_shown: int = 0
    # Whether the call of a command that became a session has been answered, and its conversation has named it since.
    is_promoted: bool = False
    is_known: bool = False
    stop_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    expiry: asyncio.TimerHandle | None = None
    _child: Child | None = None
    _read_positions: dict[str, int] = field(default_factory=dict)
    # The program behind each connection that has read.
    _programs: dict[str, str] = field(default_factory=dict)
    _waiters: set[asyncio.Future[None]] = field(default_factory=set)
    _exit_waiters: set[asyncio.Future[None]] = field(default_factory=set)
    _retry: asyncio.TimerHandle | None = None
    _input_line: bytes = b""

    @property
    def child(self) -> Child:
        assert self._child is not None, "a session has a child from its start"
        return self._child

    @child.setter
    def child(self, child: Child) -> None:
        self._child = child

    @property
    def pid(self) -> int:
        return self.child.pid

    @property
    def output_path(self) -> str | None:
        return None if self.log.spool is None else str(self.log.path)

    @property
    def is_running(self) -> bool:
        return self.status is None

    @property
    def exit_code(self) -> int | None:
        return None if self.status is None else self.status.exit_code

    @property
    def signal(self) -> str | None:
        return None if self.status is None else self.status.signal

    @property
    def end(self) -> int:
        return self.log.end

    @property
    def age_s(self) -> float:
        return time.monotonic() - self.started_monotonic

    def publish(self) -> None:
        """Send its events to every client, beginning with its first byte."""
        self.log.start_spool()
        self.is_published = True
        self.hub.add_log(self.log)

    def on_output(self, stream: Stream, data: bytes) -> bool:
        """Store output of the child and wake all waiters.

        False means backpressure: the spool is full of output that a client is still reading, so the child must wait.
        """
        self.log.append(stream, data)
        if self.captures:
            capture = self.captures.get(stream)
            if capture is not None:
                capture.add(data)
        if self._waiters:
            _wake(self._waiters)
        if self.is_published and self.status is None:
            self.hub.notify_output(self.log)
        return self._make_room()

    def on_exit(self, status: Status) -> None:
        self.status = status
        self.ended_at = time.time()
        if self.is_published:
            self.hub.notify_exit(self.log, status.exit_code, status.signal, self.ended_by)
        _wake(self._waiters)
        _wake(self._exit_waiters)
        self.owner.on_exit(self)

    def on_output_closed(self) -> None:
        """Every process that could write to the output has closed it."""
        self.log.seal()

    async def wait_for_output(self, within_s: float | None) -> bool:
        """Wait for output or the exit. False if neither came in time."""
        return await self._wait(self._waiters, within_s)

    async def wait_for_exit(self, within_s: float | None) -> bool:
        """Wait for the exit. False if it did not come in time."""
        return not self.is_running or await self._wait(self._exit_waiters, within_s)

    def read_position(self, origin: Origin) -> int:
        """The offset after what this conversation was given last; 0 if it has not read here.

        A program that opens a connection for each call goes on where its last one was, see `on_disconnect`.
        """
        names = (*origin.names, _left_by(origin.program)) if origin.connection and not origin.chat else origin.names
        return next((self._read_positions[each] for each in names if each in self._read_positions), 0)

    def set_read_position(self, origin: Origin, offset: int) -> None:
        for each in origin.names:
            self._read_positions.pop(each, None)
            self._read_positions[each] = offset
        if origin.connection:
            self._programs[origin.connection] = origin.program
        for table in (self._read_positions, self._programs):
            while len(table) > _MOST_READERS:
                del table[next(iter(table))]

    def on_disconnect(self, connection: str) -> None:
        """Leave the read position of a connection that has ended to the next one of its program."""
        program = self._programs.pop(connection, None)
        position = self._read_positions.pop(connection, None)
        if program is not None and position is not None:
            self._read_positions[_left_by(program)] = position

    def text(self, offset: int, most_bytes: int) -> tuple[str, int, int]:
        return self.log.text(offset, most_bytes)

    def captured_lines(self, stream: Stream) -> int:
        capture = self.captures.get(stream)
        return 0 if capture is None else capture.lines

    def captured_output(self, stream: Stream) -> tuple[str, str, int]:
        capture = self.captures.get(stream)
        return ("", "", 0) if capture is None else capture.text()

    async def write(self, data: bytes) -> int:
        # With one byte more, which may be a backslash.
        begun = (self._input_line + data)[-_MOST_LINE_BYTES - 1 :]
        self._input_line = begun[max((end.end() for end in _LINE_END.finditer(begun)), default=0) :][-_MOST_LINE_BYTES:]
        return await self.child.write(data)

    @property
    def unfinished_line(self) -> str:
        return self._input_line.decode("utf-8", "replace")

    def close_input(self) -> None:
        if not self.has_terminal:
            self.child.close_input()

    def resize(self, columns: int, rows: int) -> bool:
        """Resize its terminal; the program gets SIGWINCH. False if it has no terminal, or has ended."""
        if self.has_terminal:
            self.child.resize(Terminal(columns, rows))
        return self.has_terminal and self.is_running

    @property
    def takes_input(self) -> bool:
        return self.child.takes_input

    @property
    def echoes_input(self) -> bool:
        return self.has_terminal and self.child.echoes_input

    def promote(self, ends_in_s: float | None) -> bool:
        return self.owner.promote(self, ends_in_s)

    def release(self, *, keeps_output: bool) -> None:
        self.owner.release(self, keeps_output=keeps_output)

    def abandon(self, grace_s: float) -> None:
        self.owner.abandon(self, grace_s)

    async def stop(self, number: int, grace_s: float | None = None, ended_by: EndedBy | None = None) -> Ending:
        return await self.owner.stop(self, number, grace_s, ended_by)

    def close(self) -> None:
        """Release everything but the stored output."""
        if self._retry is not None:
            self._retry.cancel()
        if self.expiry is not None:
            self.expiry.cancel()
        self.child.close()
        self.log.seal()

    def _make_room(self) -> bool:
        """Free old output if the spool is over its limit. False if a client still needs it; then we try again."""
        to = self.log.excess()
        if not to:
            return True
        if self.is_published and self.hub.is_needed(self.log, to, self._retry_after_backpressure):
            if self._retry is None:
                self._retry = asyncio.get_running_loop().call_later(_RETRY_S, self._retry_after_backpressure)
            return False
        self.log.free(to)
        return True

    def _retry_after_backpressure(self) -> None:
        """Resume the child if old output can be freed now: a client has read on, or its time is over."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._make_room():
            self.child.resume()

    async def _wait(self, waiters: set[asyncio.Future[None]], within_s: float | None) -> bool:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters.add(waiter)
        try:
            async with asyncio.timeout(within_s):
                await waiter
        except TimeoutError:
            return False
        finally:
            waiters.discard(waiter)
        return True


def _left_by(program: str) -> str:
    return f"{program}/left"


def describe_session(session: Session) -> dict[str, Any]:
    """A session as the Tools page and the command line show it."""
    return {
        "id": session.id,
        "command": session.command,
        "cwd": str(session.cwd),
        "pid": session.pid,
        "age_s": round(session.age_s, 1),
        "running": session.is_running,
        "exit_code": session.exit_code,
        "signal": session.signal,
        "ended_by": session.ended_by if not session.is_running else None,
        "output_bytes": session.end,
        "output_path": session.output_path,
        "pty": session.has_terminal,
        "started_at": session.started_at,
        "ended_at": session.ended_at,
        "owner": session.origin.token,
        "kept_from": session.log.kept_from,
    }


def _wake(waiters: set[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
