"""Finds and ends all processes of a command: by session, process group, descent, and a tag in the environment.

A daemonized process has left its process group (setsid) and its parent (double fork), but it has inherited the tag.
A pid may be reused, so a process is named by pid and start time: to signal it, we open a pidfd, compare the start time,
and only then send the signal through the pidfd. So we never signal a process that is not ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

TAG = "MCP_AGENT_SESSION"
_LAST_RESORT_S = 3.0


class Member(NamedTuple):
    """A process by pid and start time, which together name one process and no other."""

    pid: int
    start_time: int


class _Entry(NamedTuple):
    pid: int
    state: str
    parent: int
    group: int
    session: int
    start_time: int


def start_time(pid: int) -> int | None:
    """The start time of a process, in ticks since the start of the machine; None if there is no such process."""
    entry = _entry(pid)
    return None if entry is None else entry.start_time


def is_alive(member: Member) -> bool:
    """Whether exactly this process still runs; a zombie does not."""
    entry = _entry(member.pid)
    return entry is not None and entry.start_time == member.start_time and entry.state not in "ZX"


def environment_entry(value: str) -> bytes:
    """How the environment of a process looks whose tag begins with `value`."""
    return f"{TAG}={value}".encode()


def find(tag: bytes, leaders: Iterable[int] = ()) -> set[Member]:
    """Every running process that has the tag, is in the session or group of a leader, or descends from one of those.

    The caller must not have reaped the leaders: otherwise another process may have got their pid.
    """
    own = os.getpid()
    leading = frozenset(leaders)
    entries = {entry.pid: entry for entry in _entries() if entry.pid != own}
    found = {
        pid
        for pid, entry in entries.items()
        if pid in leading or entry.session in leading or entry.group in leading or _has_tag(pid, tag)
    }
    children: dict[int, list[int]] = {}
    for entry in entries.values():
        children.setdefault(entry.parent, []).append(entry.pid)
    waiting = list(found)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return {Member(pid, entries[pid].start_time) for pid in found if entries[pid].state not in "ZX"}


def send(member: Member, number: int) -> bool:
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


async def end(members: Callable[[], set[Member]], number: int, grace_s: float) -> bool:
    """Signal all `members` until there are none; after the grace, with SIGKILL. True if that was needed."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + grace_s
    signalled: set[Member] = set()
    escalated = False
    while found := await asyncio.to_thread(members):
        left = deadline - loop.time()
        if left <= 0:
            escalated = escalated or number != signal.SIGKILL
            if left < -_LAST_RESORT_S:
                break
            for member in found:
                send(member, signal.SIGKILL)
            await _wait_for_death(found, 0.5)
            continue
        for member in _eldest_first(found - signalled):
            send(member, number)
            # A stopped process handles the signal only after SIGCONT.
            send(member, signal.SIGCONT)
        signalled |= found
        await _wait_for_death(found, left)
    return escalated


def end_blocking(members: Callable[[], set[Member]], grace_s: float) -> int:
    """As `end`, without an event loop. Returns the number of processes."""
    import time

    deadline = time.monotonic() + grace_s
    seen: set[Member] = set()
    while found := members():
        left = deadline - time.monotonic()
        if left < -_LAST_RESORT_S:
            break
        for member in _eldest_first(found if left <= 0 else found - seen):
            send(member, signal.SIGKILL if left <= 0 else signal.SIGTERM)
            send(member, signal.SIGCONT)
        seen |= found
        time.sleep(0.02)
    return len(seen)


def _eldest_first(members: Iterable[Member]) -> list[Member]:
    """A shell comes before its children: otherwise it would see them die and exit with their exit code."""
    return sorted(members, key=lambda member: (member.start_time, member.pid))


def orphan_zombies(own_session: int) -> set[Member]:
    """Zombies that are our children only because we are a subreaper: they are of another session than ours."""
    own = os.getpid()
    return {
        Member(entry.pid, entry.start_time)
        for entry in _entries()
        if entry.parent == own and entry.state == "Z" and entry.session != own_session
    }


async def _wait_for_death(members: Iterable[Member], within_s: float) -> None:
    """Wait until all of them have ended, at most `within_s`."""
    loop = asyncio.get_running_loop()
    held: list[int] = []
    left: set[int] = set()
    done = loop.create_future()

    def dead(descriptor: int) -> None:
        loop.remove_reader(descriptor)
        left.discard(descriptor)
        if not left and not done.done():
            done.set_result(None)

    try:
        for member in members:
            with contextlib.suppress(OSError):
                descriptor = os.pidfd_open(member.pid)
                held.append(descriptor)
                if start_time(member.pid) == member.start_time:
                    left.add(descriptor)
                    loop.add_reader(descriptor, dead, descriptor)
        if left:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await done
    finally:
        for descriptor in held:
            loop.remove_reader(descriptor)
            os.close(descriptor)


def _entries() -> Iterable[_Entry]:
    for name in os.listdir("/proc"):  # noqa: PTH208 - names alone; a Path each would double the time
        if name.isdecimal():
            entry = _entry(int(name))
            if entry is not None:
                yield entry


def _entry(pid: int) -> _Entry | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The program name is in parentheses and may itself contain parentheses.
    fields = text[text.rindex(b")") + 2 :].split()
    return _Entry(pid, fields[0].decode(), int(fields[1]), int(fields[2]), int(fields[3]), int(fields[19]))


def _has_tag(pid: int, tag: bytes) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    return environment.startswith(tag) or b"\0" + tag in environment
