"""Starts a child process, with pipes or on a terminal: its environment, its descriptors, and why it could not start.

`subprocess` starts one six times as fast as the event loop does.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tools.files.paths import to_wire
from tools.kit.errors import IoError, NotADirectory, ToolError, from_os_error
from tools.sessions import process_tree
from tools.sessions.process import Child, ChildOutput, OnOutput, Status, Terminal, set_size

SHELL = ("/bin/sh", "-c")
_NO_PAGER = {"PAGER": "cat", "GIT_PAGER": "cat"}
# The terminal that we give is not the one that the daemon was started in.
_WITH_TERMINAL = {b"TERM": b"xterm-256color"}
_WITHOUT_TERMINAL = {b"TERM": b"dumb"}


class ChildEnvironment:
    """Reads our own environment once, and encodes it as `subprocess` needs it.

    Encoding it for every process would take a tenth of the start time.
    """

    def __init__(self, secret: str) -> None:
        """`secret` is the name of the variable that no child gets."""
        self._ours = _encode({name: value for name, value in os.environ.items() if name != secret})
        self._without_pager = {**self._ours, **_encode(_NO_PAGER)}

    def of_command(
        self,
        tag: str,
        given: Mapping[str, str],
        *,
        has_terminal: bool,
        drops_variable: Callable[[str], bool] | None = None,
    ) -> dict[bytes, bytes]:
        """For a command of a caller, with the variables that it has given."""
        ours = self._without_pager
        if drops_variable is not None:
            ours = {name: value for name, value in ours.items() if not drops_variable(os.fsdecode(name))}
        terminal = _WITH_TERMINAL if has_terminal else _WITHOUT_TERMINAL
        return {**ours, **terminal, **_encode(given), **_encode({process_tree.TAG: tag})}

    def of_program(self, tag: str, given: Mapping[str, str], *, has_terminal: bool) -> dict[bytes, bytes]:
        """For a program of the daemon itself. With a terminal it is the shell of a person, who may want a pager."""
        ours = {**self._ours, **_WITH_TERMINAL} if has_terminal else self._without_pager
        return {**ours, **_encode(given), **_encode({process_tree.TAG: tag})}


def spawn(
    argv: Sequence[str],
    cwd: Path,
    environment: Mapping[bytes, bytes],
    *,
    on_output: OnOutput,
    on_exit: Callable[[Status], None],
    on_output_closed: Callable[[], None],
    terminal: Terminal | None = None,
    has_input: bool = False,
    reads_stderr: bool = True,
) -> Child:
    """Start a program as the leader of a new session. Raises OSError and leaves no descriptor open."""
    _reset_ignored_signals()
    opened: list[int] = []
    try:
        if terminal is not None:
            return _spawn_on_terminal(argv, cwd, environment, terminal, on_output, on_exit, on_output_closed, opened)
        out_read, out_write = os.pipe2(os.O_CLOEXEC)
        opened += [out_read, out_write]
        error_read = error_write = -1
        if reads_stderr:
            error_read, error_write = os.pipe2(os.O_CLOEXEC)
            opened += [error_read, error_write]
        in_read = in_write = -1
        if has_input:
            in_read, in_write = os.pipe2(os.O_CLOEXEC)
            opened += [in_read, in_write]
        opened.append(os.dup(out_read))
        process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=environment,
            stdin=in_read if has_input else subprocess.DEVNULL,
            stdout=out_write,
            stderr=error_write if reads_stderr else subprocess.DEVNULL,
            start_new_session=True,
            restore_signals=True,
        )
        child = Child(process, _pidfd(process, opened), on_output, on_exit, on_output_closed)
    except OSError:
        for descriptor in opened:
            os.close(descriptor)
        raise
    for descriptor in (out_write, error_write, in_read):
        if descriptor >= 0:
            os.close(descriptor)
    os.set_blocking(out_read, False)
    readers = [ChildOutput(out_read, "stdout")]
    if reads_stderr:
        os.set_blocking(error_read, False)
        readers.append(ChildOutput(error_read, "stderr"))
    if has_input:
        os.set_blocking(in_write, False)
    child.watch(readers, stdin=in_write if has_input else None)
    return child


def _reset_ignored_signals() -> None:
    """Replace SIG_IGN, which we inherit under `nohup`, by a handler that does nothing.

    For us that is the same. But a child inherits SIG_IGN and does not inherit a handler: with SIG_IGN, Ctrl-C in its
    terminal would have no effect.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            # Only the main thread may set handlers. Our programs run the loop there; a test may not.
            with contextlib.suppress(ValueError):
                signal.signal(number, lambda number, frame: None)


def _spawn_on_terminal(
    argv: Sequence[str],
    cwd: Path,
    environment: Mapping[bytes, bytes],
    terminal: Terminal,
    on_output: OnOutput,
    on_exit: Callable[[Status], None],
    on_output_closed: Callable[[], None],
    opened: list[int],
) -> Child:
    ours, theirs = os.openpty()
    opened += [ours, theirs]
    opened.append(os.dup(ours))
    set_size(theirs, terminal)
    name = os.ttyname(theirs)
    # A session leader that opens a terminal gets it as its controlling terminal. `exec` keeps the process the leader.
    opening = f'exec <"{name}" >"{name}" 2>&1; exec "$@"'
    process = subprocess.Popen(
        [*SHELL, opening, SHELL[0], *argv],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    child = Child(process, _pidfd(process, opened), on_output, on_exit, on_output_closed)
    os.set_blocking(ours, False)
    child.watch([ChildOutput(ours, "stdout", is_pipe=False)], stdin=ours, terminal=theirs)
    return child


def _pidfd(process: subprocess.Popen[bytes], opened: list[int]) -> int:
    """The pidfd of a child that has just been started.

    Reuse the descriptor reserved for it, the last of `opened`, so that opening cannot fail with EMFILE.
    """
    os.close(opened.pop())
    try:
        return os.pidfd_open(process.pid)
    except OSError:
        # Another thread was faster. What the child may have started by now is of its group.
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
        raise


def spawn_error(error: OSError, command: str, cwd: Path) -> ToolError:
    """Why a command could not be started, in the caller's terms."""
    match error.errno:
        case errno.ENOTDIR if cwd.exists():
            return NotADirectory(f"cwd {to_wire(cwd)} is a file, not a folder", hint="pass the folder it is in")
        case errno.EMFILE | errno.ENFILE:
            return IoError(
                "the command was not started: the daemon has no file descriptors left",
                hint="stop sessions that are no longer needed, or start the daemon with a higher `ulimit -n`",
            )
        case errno.EAGAIN | errno.ENOMEM:
            return IoError(
                f"the command was not started: {os.strerror(error.errno).lower()}",
                hint="the machine has no room for another process; end some, then try again",
            )
        case errno.E2BIG:
            return IoError(
                f"the command and its environment are too long for the system ({len(command)} characters)",
                hint="write it to a file with fs_write and run the file",
            )
    named = cwd if error.filename is None else os.fsdecode(error.filename)
    return from_os_error(error, to_wire(named))


def _encode(environment: Mapping[str, str]) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
