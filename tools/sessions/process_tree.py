"""Finds all processes of a command: by session, process group, descent, and a tag in the environment.

A daemonized process has left its process group (setsid) and its parent (double fork), but it has inherited the tag.
A pid may be reused, so a process is named by pid and start time: to signal it, we open a pidfd, compare the start time,
and only then send the signal through the pidfd. So we never signal a process that is not ours.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from tools.files import disk

TAG = "MCP_AGENT_SESSION"
# PF_KTHREAD of the kernel.
_KERNEL_THREAD = 0x00200000
# Where in /proc/PID/stat, from the state on, what `_Entry` holds after the state is.
_STAT_FIELDS = (1, 2, 3, 6, 17, 19, 47, 48)
# What a file of /proc has: the status of a process or a usual environment, and the largest one that Linux allows.
_USUAL_BYTES = 8_191
_MOST_BYTES = 6 * 1024 * 1024


class ProcessId(NamedTuple):
    """A process by pid and start time, which together name one process and no other."""

    pid: int
    start_time: int


class _Entry(NamedTuple):
    pid: int
    state: str
    parent: int
    group: int
    session: int
    flags: int
    threads: int
    start_time: int
    # Where in its memory its environment is: both 0 in the moment of an exec.
    environment_start: int
    environment_end: int

    @property
    def has_ended(self) -> bool:
        """Whether it is a zombie. A process whose first thread has ended looks like one while its others run on."""
        return self.state in "ZX" and self.threads <= 1


def why_nothing_starts() -> str | None:
    """Why no command can be started on this system; None where they can."""
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError) as error:
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            # It is not refused. What is started says that there are no descriptors left.
            return None
        why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else "it is not Linux 5.3 or newer"
        return (
            f"no command can be started: the system refuses pidfd_open ({why}), by which the daemon follows and ends "
            "what it starts; in a container its seccomp profile must allow it"
        )
    return None


def start_time(pid: int) -> int | None:
    """The start time of a process, in ticks since the start of the machine; None if there is no such process."""
    entry = _entry(pid)
    return None if entry is None else entry.start_time


def is_alive(member: ProcessId) -> bool:
    """Whether exactly this process still runs; a zombie does not."""
    entry = _entry(member.pid)
    return entry is not None and entry.start_time == member.start_time and not entry.has_ended


def environment_entry(value: str) -> bytes:
    """The environment entry of a process whose tag begins with `value`."""
    return f"{TAG}={value}".encode()


def find(tag: bytes, leaders: Iterable[int] = ()) -> set[ProcessId]:
    """As `Tree.look`, once."""
    return Tree(tag, lambda: leaders).look()


def runs(members: Iterable[ProcessId]) -> object:
    """The time that each thread of these processes has run. Of two that are equal none has run between them."""
    found = {}
    for member in members:
        try:
            threads = os.listdir(f"/proc/{member.pid}/task")  # noqa: PTH208 - names alone
            found[member] = {each: _read(f"/proc/{member.pid}/task/{each}/schedstat").split()[0] for each in threads}
        except (OSError, IndexError):
            # One that ends is at work, and a kernel that does not say is not believed: this is equal to nothing.
            return object()
    return found


class Tree:
    """The processes of a command, for several looks in a row.

    A process that is not of the command is looked at once: so a look takes less than a millisecond, and finds a
    process that lives for one.
    """

    def __init__(self, tag: bytes, leaders: Callable[[], Iterable[int]] = tuple) -> None:
        """`leaders` must not give a process that has been reaped: another process may have got its pid."""
        self.leaders = leaders
        # Whether the last look saw an orphan that had ended since the look before (what it started may live), or one in
        # the moment of an exec, in which it shows no environment.
        self.may_have_missed_one = False
        self._tag = tag
        self._own = os.getpid()
        self._strangers: set[int] = {self._own}

    def look(self) -> set[ProcessId]:
        """Every running process that has the tag, is in the session or group of a leader, or descends from one of
        those. Raises OSError if there are no descriptors left to look with."""
        leading = frozenset(self.leaders())
        running = {int(name) for name in os.listdir("/proc") if name.isdecimal()}  # noqa: PTH208 - names alone
        # Forget ended processes, because a new process may get the same pid.
        self._strangers &= running
        # The newest first: they are the ones that may be gone in a moment.
        entries = {pid: entry for pid in sorted(running - self._strangers, reverse=True) if (entry := _entry(pid))}
        found = set()
        self.may_have_missed_one = False
        for pid, entry in entries.items():
            is_led = pid in leading or entry.session in leading or entry.group in leading
            has_tag = None if is_led else self._has_tag(entry)
            if is_led or has_tag:
                found.add(pid)
            elif has_tag is not None:
                self._strangers.add(pid)
                self.may_have_missed_one = self.may_have_missed_one or (entry.has_ended and entry.parent == self._own)
        children: dict[int, list[int]] = {}
        for entry in entries.values():
            children.setdefault(entry.parent, []).append(entry.pid)
        waiting = list(found)
        while waiting:
            for child in children.get(waiting.pop(), ()):
                if child not in found:
                    found.add(child)
                    waiting.append(child)
        self._strangers -= found
        return {ProcessId(pid, entries[pid].start_time) for pid in found if not entries[pid].has_ended}

    def _has_tag(self, entry: _Entry) -> bool | None:
        """Whether its environment has the tag. None if it shows no environment now.

        If that is because an orphan of ours is in the moment of an exec, it is noted in `may_have_missed_one`.
        """
        if entry.has_ended or entry.flags & _KERNEL_THREAD:
            return False
        try:
            environment = _environment(entry)
        except OSError:
            return None
        if environment:
            return environment.startswith(self._tag) or b"\0" + self._tag in environment
        if entry.parent == self._own and (now := _entry(entry.pid)) is not None:
            is_none = now.environment_start == now.environment_end != 0
            self.may_have_missed_one = self.may_have_missed_one or not is_none
        return None


def tagged(prefix: str) -> dict[int, str]:
    """Every running process whose tag begins with `prefix`, by its pid, with the rest of its tag."""
    wanted = environment_entry(prefix)
    found = {}
    for entry in _entries():
        if entry.has_ended or entry.flags & _KERNEL_THREAD:
            continue
        try:
            environment = b"\0" + _environment(entry)
        except OSError:
            continue
        _, has_tag, rest = environment.partition(b"\0" + wanted)
        if has_tag:
            found[entry.pid] = rest.partition(b"\0")[0].decode("utf-8", "replace")
    return found


def command_line(member: ProcessId) -> str:
    """The pid of a process and its command line, or its name where it shows none."""
    try:
        words = Path(f"/proc/{member.pid}/cmdline").read_bytes().replace(b"\0", b" ").strip()
        text = words or Path(f"/proc/{member.pid}/comm").read_bytes().strip()
    except OSError:
        text = b""
    return f"{member.pid} {text[:200].decode('utf-8', 'replace')}".rstrip()


def send(member: ProcessId, number: int) -> bool:
    """Signal exactly this process. False if it has ended, even if another process has its pid now."""
    try:
        descriptor = os.pidfd_open(member.pid)
    except OSError:
        return False
    try:
        if start_time(member.pid) != member.start_time:
            return False
        signal.pidfd_send_signal(descriptor, number)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def orphan_zombies(own_session: int) -> set[ProcessId]:
    """Zombies that are our children only because we are a subreaper: they are of another session than ours."""
    own = os.getpid()
    return {
        ProcessId(entry.pid, entry.start_time)
        for entry in _entries()
        if entry.parent == own and entry.has_ended and entry.session != own_session
    }


def _entries() -> Iterable[_Entry]:
    for name in os.listdir("/proc"):  # noqa: PTH208 - names alone; a Path each would double the time
        if name.isdecimal():
            entry = _entry(int(name))
            if entry is not None:
                yield entry


def _entry(pid: int) -> _Entry | None:
    try:
        text = _read(f"/proc/{pid}/stat")
    except OSError:
        return None
    # The program name is in parentheses and may itself contain parentheses.
    fields = text[text.rindex(b")") + 2 :].split()
    return _Entry(pid, fields[0].decode(), *(int(fields[index]) for index in _STAT_FIELDS))


def _environment(entry: _Entry) -> bytes:
    folder = f"/proc/{entry.pid}"
    if entry.state != "Z":
        return _read(f"{folder}/environ")
    # Its first thread has ended and has none any more. In the moment in which it is reaped, no thread is listed.
    threads = os.listdir(f"{folder}/task")  # noqa: PTH208 - names alone
    return _read(f"{folder}/task/{max(threads, key=int)}/environ") if threads else b""


def _read(path: str) -> bytes:
    """All of a file. Without a Path: pathlib interns every name, and takes as long again."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return disk.read_up_to(descriptor, _MOST_BYTES, _USUAL_BYTES)
    finally:
        os.close(descriptor)
