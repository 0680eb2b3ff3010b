"""One child process: started in a session of its own, read without waiting, watched by its descriptor.

We own the pipes. The leader is watched by a pidfd and never waited for, because a grandchild that holds the pipe
would make that wait endless. Children are started with `subprocess` and not through the event loop's own way,
which takes six times as long.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from mcp_agent.sessions.output_log import Stream
from tools.files import disk, utf8
from tools.kit.records import mutable, record

READ_BYTES = 64 * 1024
# How many reads one wake-up may take before others have their turn.
_READS_AT_ONCE = 16
_MOST_UNWRITTEN_S = 5.0
SHELL = ("cmd.exe", "/c") if sys.platform == "win32" else ("/bin/sh", "-c")

Heard = Callable[[Stream, bytes], bool]


@record
class Terminal:
    """A child's terminal: its size in characters."""

    cols: int
    rows: int


@record
class Status:
    """How a leader ended: a code, or the signal that ended it (then the code is 128 more than its number)."""

    exit_code: int
    signal: str | None = None

    @classmethod
    def of(cls, returncode: int) -> Status:
        if returncode >= 0:
            return cls(returncode)
        try:
            name = signal.Signals(-returncode).name.removeprefix("SIG")
        except ValueError:
            name = str(-returncode)
        return cls(128 - returncode, name)


@mutable
class _Reader:
    descriptor: int
    stream: Stream
    is_pipe: bool = True
    held: bytes = b""
    is_wide: bool = False


@mutable
class Child:
    """A running command. `heard` is told of output and says whether it will take more; `ended` comes once.

    After `ended`, output that a grandchild still writes is heard until it lets go of the pipe (`is_quiet`).
    """

    process: subprocess.Popen[bytes]
    pidfd: int
    heard: Heard
    ended: Callable[[Status], None]
    finished: Callable[[], None]
    status: Status | None = None
    is_paused: bool = False
    # While the tree is being ended, the dead leader is left unreaped: its number cannot be given to a stranger.
    is_held: bool = False
    _readers: dict[int, _Reader] = field(default_factory=dict)
    _stdin: int | None = None
    _terminal: int | None = None
    _is_dead: bool = False

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_reaped(self) -> bool:
        return self.process.returncode is not None

    @property
    def is_quiet(self) -> bool:
        """Whether nobody holds the other end of its output any more."""
        return not self._readers

    @property
    def takes_input(self) -> bool:
        return self._stdin is not None

    def pause(self) -> None:
        """Stop reading for a while; the child waits once its pipe is full."""
        if not self.is_paused:
            self.is_paused = True
            for reader in self._readers.values():
                _loop().remove_reader(reader.descriptor)

    def resume(self) -> None:
        if self.is_paused:
            self.is_paused = False
            for reader in list(self._readers.values()):
                _loop().add_reader(reader.descriptor, self._readable, reader)
            if self._is_dead:
                self._leader_ended()

    async def write(self, data: bytes) -> int:
        """Give `data` to its standard input; fewer bytes are taken if it does not read for five seconds."""
        done = 0
        while done < len(data) and self._stdin is not None:
            try:
                done += os.write(self._stdin, data[done : done + READ_BYTES])
            except BlockingIOError:
                if not await _writable(self._stdin, _MOST_UNWRITTEN_S):
                    break
            except OSError:
                self.close_input()
                break
        return done

    def close_input(self) -> None:
        if self._stdin is not None:
            if self._stdin not in self._readers:
                os.close(self._stdin)
            self._stdin = None

    def reap(self) -> None:
        """Let the number of a dead leader go."""
        self.is_held = False
        if self._is_dead:
            self.process.poll()

    def close(self) -> None:
        """Stop listening. The tree has been ended, or nobody wants to hear it."""
        for reader in list(self._readers.values()):
            self._close_reader(reader)
        self.close_input()
        self._close_terminal()
        if self.pidfd >= 0:
            _loop().remove_reader(self.pidfd)
            os.close(self.pidfd)
            self.pidfd = -1

    def _start(self, readers: list[_Reader]) -> None:
        for reader in readers:
            self._readers[reader.descriptor] = reader
            _loop().add_reader(reader.descriptor, self._readable, reader)
        _loop().add_reader(self.pidfd, self._leader_ended)

    def _readable(self, reader: _Reader) -> None:
        for _ in range(_READS_AT_ONCE):
            try:
                data = os.read(reader.descriptor, READ_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                # A terminal says EIO when its last user is gone.
                data = b""
                if error.errno != errno.EIO:
                    self._close_reader(reader)
                    return
            if not data:
                self._close_reader(reader)
                return
            self._hear(reader, data)
            if self.is_paused:
                return
            if len(data) < READ_BYTES:
                break
            if reader.is_pipe and not reader.is_wide:
                # It prints faster than we look: let it go on while we are busy with what it has printed.
                reader.is_wide = True
                disk.widen_pipe(reader.descriptor)

    def _hear(self, reader: _Reader, data: bytes) -> None:
        if reader.held:
            data, reader.held = reader.held + data, b""
        if data[-1] >= 0x80 and (cut := utf8.incomplete_bytes(data)):
            reader.held, data = data[-cut:], data[:-cut]
            if not data:
                return
        if not self.heard(reader.stream, data):
            self.pause()

    def _leader_ended(self) -> None:
        """The leader is dead: hear what it wrote, then say so. Another reader may come too late otherwise."""
        self._is_dead = True
        if self.status is not None or self.is_paused:
            # A paused child is heard out when whoever reads it has caught up.
            if self.pidfd >= 0:
                _loop().remove_reader(self.pidfd)
            return
        for reader in list(self._readers.values()):
            self._drain(reader)
        self._close_terminal()
        _loop().remove_reader(self.pidfd)
        os.close(self.pidfd)
        status = _status(self.pid)
        if not self.is_held:
            self.process.poll()
        self.pidfd = -1
        self.status = status
        self.close_input()
        self.ended(status)
        if self.is_quiet:
            self.finished()

    def _drain(self, reader: _Reader) -> None:
        """What is in the pipe now: all of what the leader wrote, perhaps more, never more than the pipe holds."""
        left = _unread(reader.descriptor)
        while left > 0:
            try:
                data = os.read(reader.descriptor, min(left, READ_BYTES))
            except OSError:
                break
            if not data:
                break
            left -= len(data)
            self._hear(reader, data)
        if reader.held:
            held, reader.held = reader.held, b""
            self.heard(reader.stream, held)
        if self.is_paused:
            # Not here: the exit is about to be told, and the pipe is all but empty.
            self.is_paused = False
            for each in self._readers:
                _loop().add_reader(each, self._readable, self._readers[each])

    def _close_reader(self, reader: _Reader) -> None:
        if self._readers.pop(reader.descriptor, None) is None:
            return
        _loop().remove_reader(reader.descriptor)
        if reader.held:
            held, reader.held = reader.held, b""
            self.heard(reader.stream, held)
        if reader.descriptor == self._stdin:
            self._stdin = None
        os.close(reader.descriptor)
        if self.status is not None and self.is_quiet:
            self.finished()

    def _close_terminal(self) -> None:
        if self._terminal is not None:
            os.close(self._terminal)
            self._terminal = None


def spawn(
    command: str,
    cwd: Path,
    environment: Mapping[bytes, bytes],
    *,
    heard: Heard,
    ended: Callable[[Status], None],
    finished: Callable[[], None],
    shell: Sequence[str] = SHELL,
    terminal: Terminal | None = None,
    has_input: bool = False,
    hears_stderr: bool = True,
) -> Child:
    """Start `command` under the shell in a session of its own. Raises OSError, with nothing left open."""
    _hand_on_no_ignored_signals()
    opened: list[int] = []
    try:
        if terminal is not None:
            return _spawn_on_terminal(command, cwd, environment, terminal, heard, ended, finished, opened)
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        opened += [out_read, out_write]
        error_read = error_write = -1
        if hears_stderr:
            error_read, error_write = os.pipe2(os.O_CLOEXEC)
            opened += [error_read, error_write]
        in_read = in_write = -1
        if has_input:
            in_read, in_write = os.pipe2(os.O_CLOEXEC)
            opened += [in_read, in_write]
        process = subprocess.Popen(
            [*shell, command],
            cwd=cwd,
            env=environment,
            stdin=in_read if has_input else subprocess.DEVNULL,
            stdout=out_write,
            stderr=error_write if hears_stderr else subprocess.DEVNULL,
            start_new_session=True,
            restore_signals=True,
        )
        child = Child(process, os.pidfd_open(process.pid), heard, ended, finished)
    except OSError:
        for descriptor in opened:
            os.close(descriptor)
        raise
    for descriptor in (out_write, error_write, in_read):
        if descriptor >= 0:
            os.close(descriptor)
    os.set_blocking(out_read, False)
    readers = [_Reader(out_read, "stdout")]
    if hears_stderr:
        os.set_blocking(error_read, False)
        readers.append(_Reader(error_read, "stderr"))
    if has_input:
        os.set_blocking(in_write, False)
        child._stdin = in_write
    child._start(readers)
    return child


def _hand_on_no_ignored_signals() -> None:
    """Give a signal that our parent has us ignore, as `nohup` does, a handler that does nothing.

    To us that is the same. But what is ignored stays so in every program that is started, and what has a handler does
    not: Ctrl-C in a terminal would end nothing.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            # Only the main thread may; a loop in another one is not of a program of ours.
            with contextlib.suppress(ValueError):
                signal.signal(number, lambda number, frame: None)


def _spawn_on_terminal(
    command: str,
    cwd: Path,
    environment: Mapping[bytes, bytes],
    terminal: Terminal,
    heard: Heard,
    ended: Callable[[Status], None],
    finished: Callable[[], None],
    opened: list[int],
) -> Child:
    ours, theirs = os.openpty()
    opened += [ours, theirs]
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", terminal.rows, terminal.cols, 0, 0))
    name = os.ttyname(theirs)
    # A session's leader that opens a terminal by its name gets it as its own; `exec` keeps it the leader.
    opening = f'exec <"{name}" >"{name}" 2>&1; exec {SHELL[0]} {SHELL[1]} "$1"'
    process = subprocess.Popen(
        [*SHELL, opening, SHELL[0], command],
        cwd=cwd,
        env={b"TERM": b"xterm-256color", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    child = Child(process, os.pidfd_open(process.pid), heard, ended, finished)
    os.set_blocking(ours, False)
    child._stdin = ours
    # Kept until the leader is dead: with no user left, the terminal would say that it is over before it began.
    child._terminal = theirs
    child._start([_Reader(ours, "stdout", is_pipe=False)])
    return child


def _unread(descriptor: int) -> int:
    """How many bytes wait in a pipe or a terminal."""
    size: int = struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, b"\0\0\0\0"))[0]
    return size


def _status(pid: int) -> Status:
    """How a dead child of ours ended, without reaping it."""
    told = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
    assert told is not None, "its descriptor said that it is dead"
    return Status.of(told.si_status if told.si_code == os.CLD_EXITED else -told.si_status)


async def _writable(descriptor: int, within_s: float) -> bool:
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
