"""One child process: the leader of its own session (setsid), with non-blocking pipes and a pidfd.

We own the pipes and watch the leader by its pidfd: `asyncio.subprocess` waits for the end of the pipes too, and so
hangs while a grandchild has them open. `spawn.py` starts it.
"""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import signal
import struct
import subprocess
import termios
from collections.abc import Callable

from msgspec import Struct, field

from tools.files import disk, utf8
from tools.sessions.output_log import Stream

READ_BYTES = 64 * 1024
# The most reads in one callback, so that one child does not block the event loop.
_READS_AT_ONCE = 16
_MOST_UNWRITTEN_S = 5.0
_MOST_TERMINAL_BYTES = 128 * 1024

# Of the event loop, which empties it before the next read.
_buffer = memoryview(bytearray(READ_BYTES))

OnOutput = Callable[[Stream, bytes], bool]


class Terminal(Struct, frozen=True):
    """The size of a child's terminal, in characters."""

    cols: int
    rows: int


class Status(Struct, frozen=True):
    """How a leader ended: a code, or the signal that ended it (then the code is 128 more than its number)."""

    exit_code: int
    signal: str | None = None

    @classmethod
    def unknown(cls) -> Status:
        """Of a process whose daemon was killed, so that nobody waited for its end."""
        return cls(-1)

    @classmethod
    def of(cls, returncode: int) -> Status:
        if returncode >= 0:
            return cls(returncode)
        try:
            name = signal.Signals(-returncode).name.removeprefix("SIG")
        except ValueError:
            name = str(-returncode)
        return cls(128 - returncode, name)


class ChildOutput(Struct, eq=False):
    """An output of a child that is read."""

    descriptor: int
    stream: Stream
    is_pipe: bool = True
    incomplete: bytes = b""
    is_wide: bool = False


class EndedProcess(Struct, eq=False):
    """A process that another daemon had started, and that has ended."""

    pid: int
    returncode: int = 0

    def poll(self) -> int:
        return self.returncode


class Child(Struct, eq=False):
    """A running command. `on_output` gets its output and returns whether it takes more; `on_exit` is called once.

    After `on_exit`, a grandchild may still write to the pipe. Its output is delivered until it closes the pipe; then
    `on_output_closed` is called.
    """

    process: subprocess.Popen[bytes] | EndedProcess
    pidfd: int
    on_output: OnOutput
    on_exit: Callable[[Status], None]
    on_output_closed: Callable[[], None]
    status: Status | None = None
    is_paused: bool = False
    # The dead leader stays a zombie while its process tree is being ended, so that no new process gets its pid.
    keeps_zombie: bool = False
    _readers: dict[int, ChildOutput] = field(default_factory=dict)
    _stdin: int | None = None
    _terminal: int | None = None
    _is_dead: bool = False

    @classmethod
    def ended(cls, pid: int, status: Status) -> Child:
        """One that has ended already, under an earlier daemon."""
        return cls(EndedProcess(pid), -1, _ignore_output, _ignore_exit, _ignore_close, status)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_reaped(self) -> bool:
        return self.process.returncode is not None

    @property
    def has_closed_output(self) -> bool:
        """Whether every process that could write to its output has closed it."""
        return not self._readers

    @property
    def takes_input(self) -> bool:
        return self._stdin is not None

    @property
    def echoes_input(self) -> bool:
        """Whether its terminal shows what is typed: by itself, or, with every key read at once, by a line editor."""
        if self._terminal is None:
            return False
        local: int = termios.tcgetattr(self._terminal)[3]
        return bool(local & termios.ECHO) or not local & termios.ICANON

    def pause(self) -> None:
        """Stop reading. This is the backpressure: the child blocks as soon as its pipe is full."""
        if not self.is_paused:
            self.is_paused = True
            for reader in self._readers.values():
                _loop().remove_reader(reader.descriptor)

    def resume(self) -> None:
        if self.is_paused:
            self.is_paused = False
            for reader in list(self._readers.values()):
                _loop().add_reader(reader.descriptor, self._on_readable, reader)
            if self._is_dead:
                self._on_leader_exit()

    async def write(self, data: bytes) -> int:
        """Write to its standard input. Returns how many bytes it accepted: fewer if it reads nothing for 5 seconds."""
        done = 0
        while done < len(data):
            taken = self.write_at_once(data[done : done + READ_BYTES])
            done += taken
            if not taken and (self._stdin is None or not await _wait_until_writable(self._stdin, _MOST_UNWRITTEN_S)):
                break
        return done

    def write_at_once(self, data: bytes) -> int:
        """Write as much to its standard input as there is room for, and return how many bytes that was."""
        if self._stdin is None:
            return 0
        try:
            return os.write(self._stdin, data)
        except BlockingIOError:
            return 0
        except OSError:
            self.close_input()
            return 0

    def close_input(self) -> None:
        if self._stdin is not None:
            if self._stdin not in self._readers:
                os.close(self._stdin)
            self._stdin = None

    def resize(self, size: Terminal) -> None:
        """Give its terminal another size. The kernel tells the programs in it."""
        if self._terminal is not None:
            set_size(self._terminal, size)

    def hang_up(self) -> None:
        """Tell the shell of a person that its terminal goes away. It ignores SIGTERM, and this ends it."""
        if self._terminal is not None and self.pidfd >= 0:
            signal.pidfd_send_signal(self.pidfd, signal.SIGHUP)

    def reap(self) -> None:
        """Reap the leader if it is a zombie; from now on it is reaped as soon as it ends."""
        self.keeps_zombie = False
        if self._is_dead:
            self.process.poll()

    def close(self) -> None:
        """Close all descriptors and stop watching."""
        for reader in list(self._readers.values()):
            self._close_reader(reader)
        self.close_input()
        self._close_terminal()
        if self.pidfd >= 0:
            _loop().remove_reader(self.pidfd)
            os.close(self.pidfd)
            self.pidfd = -1

    def watch(self, readers: list[ChildOutput], *, stdin: int | None = None, terminal: int | None = None) -> None:
        """Begin to read its output and to wait for its end. These descriptors are its own from now on.

        `terminal` is the child's end of a terminal. It stays open until the leader is dead: before the leader opens it,
        the terminal would have no user and return EIO.
        """
        self._stdin, self._terminal = stdin, terminal
        for reader in readers:
            self._readers[reader.descriptor] = reader
            _loop().add_reader(reader.descriptor, self._on_readable, reader)
        _loop().add_reader(self.pidfd, self._on_leader_exit)

    def _on_readable(self, reader: ChildOutput) -> None:
        for _ in range(_READS_AT_ONCE):
            try:
                data = self._read(reader)
            except BlockingIOError:
                return
            except OSError as error:
                # A pseudo-terminal returns EIO when its last user has closed it.
                data = b""
                if error.errno != errno.EIO:
                    self._close_reader(reader)
                    return
            if not data:
                self._close_reader(reader)
                return
            self._deliver(reader, data)
            if self.is_paused:
                return
            if len(data) < READ_BYTES:
                break
            if reader.is_pipe and not reader.is_wide:
                # It prints faster than we read: a larger pipe lets it continue while we handle what we have.
                reader.is_wide = True
                disk.widen_pipe(reader.descriptor)

    def _read(self, reader: ChildOutput) -> bytes:
        """What there is, up to READ_BYTES. Raises OSError.

        Most programs print little at a time: a new block of READ_BYTES for each read would fragment the heap. A program
        that prints much fills its blocks, and reading into them saves a copy.
        """
        if reader.is_wide:
            return os.read(reader.descriptor, READ_BYTES)
        count = os.readv(reader.descriptor, [_buffer])
        return bytes(_buffer[:count])

    def _deliver(self, reader: ChildOutput, data: bytes) -> None:
        if reader.incomplete:
            data, reader.incomplete = reader.incomplete + data, b""
        if data[-1] >= 0x80 and (cut := utf8.incomplete_bytes(data)):
            reader.incomplete, data = data[-cut:], data[:-cut]
            if not data:
                return
        if not self.on_output(reader.stream, data):
            self.pause()

    def _on_leader_exit(self) -> None:
        """Deliver what the leader has written, then report its exit, so that its output always comes first."""
        self._is_dead = True
        if self.status is not None or self.is_paused:
            # While paused we cannot deliver its last output; `resume` calls us again.
            if self.pidfd >= 0:
                _loop().remove_reader(self.pidfd)
            return
        for reader in list(self._readers.values()):
            self._drain(reader)
        self._close_terminal()
        _loop().remove_reader(self.pidfd)
        os.close(self.pidfd)
        status = _status(self.pid)
        if not self.keeps_zombie:
            self.process.poll()
        self.pidfd = -1
        self.status = status
        self.close_input()
        self.on_exit(status)
        if self.has_closed_output:
            self._report_closed_output()

    def _drain(self, reader: ChildOutput) -> None:
        """Deliver what is in the pipe now. A grandchild may go on writing, so we read no more than that.

        The kernel hands the output of a terminal over in the background: FIONREAD may say that there is none yet. Only
        a read waits for that, so we read until there is nothing left, up to what a terminal can hold.
        """
        left = _unread_bytes(reader.descriptor) if reader.is_pipe else _MOST_TERMINAL_BYTES
        while left > 0:
            try:
                data = os.read(reader.descriptor, min(left, READ_BYTES))
            except OSError:
                break
            if not data:
                break
            left -= len(data)
            self._deliver(reader, data)
        if reader.incomplete:
            rest, reader.incomplete = reader.incomplete, b""
            self.on_output(reader.stream, rest)
        if self.is_paused:
            # No backpressure here: the exit is reported next, and the pipe is nearly empty.
            self.is_paused = False
            for each in self._readers:
                _loop().add_reader(each, self._on_readable, self._readers[each])

    def _close_reader(self, reader: ChildOutput) -> None:
        if self._readers.pop(reader.descriptor, None) is None:
            return
        _loop().remove_reader(reader.descriptor)
        if reader.incomplete:
            rest, reader.incomplete = reader.incomplete, b""
            self.on_output(reader.stream, rest)
        if reader.descriptor == self._stdin:
            self._stdin = None
        os.close(reader.descriptor)
        if self.status is not None and self.has_closed_output:
            self._report_closed_output()

    def _report_closed_output(self) -> None:
        """The last report. Drop the callbacks to break the reference cycle with the session.

        Otherwise both would stay in memory, with all output, until the garbage collector finds the cycle, and that may
        be after thousands of commands.
        """
        report = self.on_output_closed
        self.on_output, self.on_exit, self.on_output_closed = _ignore_output, _ignore_exit, _ignore_close
        report()

    def _close_terminal(self) -> None:
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None


def _ignore_output(stream: Stream, data: bytes) -> bool:
    return True


def _ignore_exit(status: Status) -> None: ...


def _ignore_close() -> None: ...


def set_size(descriptor: int, size: Terminal) -> None:
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.cols, 0, 0))


def _unread_bytes(descriptor: int) -> int:
    """The number of bytes in a pipe that can be read now."""
    size: int = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0\0\0\0"))[0]
    return size


def _status(pid: int) -> Status:
    """The exit status of a zombie child, without reaping it."""
    info = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    assert info is not None, "its pidfd was readable, so it has ended"
    return Status.of(info.si_status if info.si_code == os.CLD_EXITED else -info.si_status)


async def _wait_until_writable(descriptor: int, within_s: float) -> bool:
    ready: asyncio.Future[None] = _loop().create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    _loop().add_writer(descriptor, wake)
    try:
        async with asyncio.timeout(within_s):
            await ready
    except TimeoutError:
        return False
    finally:
        _loop().remove_writer(descriptor)
    return True


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
