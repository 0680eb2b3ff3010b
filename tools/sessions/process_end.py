"""Ends all processes of a command: a signal and a grace, then SIGKILL.

A program may fork, detach itself and exit faster than we look. So what is found is stopped (SIGSTOP) before it is
killed: a stopped process does not fork. The tree has ended when two looks in a row have found nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Container, Iterable
from typing import Protocol

from msgspec import Struct

from tools.sessions.origin import Ending
from tools.sessions.process_tree import ProcessId, command_line, is_alive, send, start_time

_LAST_RESORT_S = 3.0
_EMPTY_LOOKS = 2
# Between two looks at processes that come and go during the grace.
_PAUSE_S = 0.02


class ProcessSet(Protocol):
    """The processes to end: a `process_tree.Tree`."""

    @property
    def leaders(self) -> Callable[[], Iterable[int]]: ...

    @property
    def may_have_missed_one(self) -> bool: ...

    def look(self) -> set[ProcessId]: ...


class OneProcess(Struct, frozen=True):
    """A process without its descendants, as `ProcessSet`."""

    member: ProcessId
    leaders: Callable[[], Iterable[int]] = tuple
    may_have_missed_one: bool = False

    def look(self) -> set[ProcessId]:
        return {self.member} if is_alive(self.member) else set()


async def end(
    processes: ProcessSet, number: int, grace_s: float, kill_group: Callable[[], None] | None = None
) -> Ending:
    """Signal all processes until there are none; after the grace, kill them, first of all by `kill_group`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + (grace_s if number != signal.SIGKILL else 0.0)
    signalled: set[ProcessId] = set()
    looks = empty_looks = 0
    while (left_s := deadline - loop.time()) > 0:
        found, is_empty = await asyncio.to_thread(_signal, processes, number, signalled)
        looks += 1
        empty_looks = empty_looks + 1 if is_empty else 0
        if empty_looks == _EMPTY_LOOKS:
            return Ending()
        await _wait_for_death(found, left_s)
        if looks > _EMPTY_LOOKS + 1:
            await asyncio.sleep(_PAUSE_S)
    killed, left = await asyncio.to_thread(_kill, processes, kill_group)
    lines = tuple(command_line(member) for member in _eldest_first(left))
    return Ending(escalated=bool(killed) and number != signal.SIGKILL, left=lines)


def end_blocking(processes: ProcessSet, grace_s: float) -> int:
    """As `end`, without an event loop. Returns the number of processes."""
    deadline = time.monotonic() + grace_s
    seen: set[ProcessId] = set()
    empty_looks = 0
    while time.monotonic() < deadline:
        _, is_empty = _signal(processes, signal.SIGTERM, seen)
        empty_looks = empty_looks + 1 if is_empty else 0
        if empty_looks == _EMPTY_LOOKS:
            return len(seen)
        if not is_empty:
            time.sleep(_PAUSE_S)
    killed, _ = _kill(processes)
    return len(seen | killed)


def _signal(processes: ProcessSet, number: int, signalled: set[ProcessId]) -> tuple[set[ProcessId], bool]:
    """Signal the processes that are not in `signalled` yet. Gives all of them, and whether there are certainly none."""
    found = _look(processes, number, signalled)
    for member in _eldest_first(found - signalled):
        send(member, number)
        # A stopped process handles the signal only after SIGCONT.
        send(member, signal.SIGCONT)
    signalled |= found
    return found, not found and not processes.may_have_missed_one


def _kill(processes: ProcessSet, kill_group: Callable[[], None] | None = None) -> tuple[set[ProcessId], set[ProcessId]]:
    """Stop all processes, then kill them, until there are none. Gives those that were seen, and those that are left."""
    deadline = time.monotonic() + _LAST_RESORT_S
    seen: set[ProcessId] = set()
    stopped: set[ProcessId] = set()
    found: set[ProcessId] = set()
    empty_looks = 0
    if kill_group is not None:
        seen |= _look(processes, signal.SIGKILL)
        kill_group()
    while empty_looks < _EMPTY_LOOKS and time.monotonic() < deadline:
        found = _look(processes, signal.SIGKILL)
        fresh = found - stopped
        for member in fresh:
            send(member, signal.SIGSTOP)
        seen |= found
        stopped |= found
        empty_looks = 0 if found or processes.may_have_missed_one else empty_looks + 1
        if found and not fresh:
            # None has come while the others were stopped, so none of them forks.
            for member in found:
                send(member, signal.SIGKILL)
            _wait_until_dead(found, 0.2)
    return seen, {member for member in found if is_alive(member)}


def _look(processes: ProcessSet, number: int, signalled: Container[ProcessId] = ()) -> set[ProcessId]:
    """The processes. With no descriptors left to look with, the groups of the leaders are signalled: that frees some.

    Then the start time of a leader cannot be read and is 0: `send` signals nobody by it.
    """
    try:
        return processes.look()
    except OSError:
        leaders = {ProcessId(leader, 0) for leader in processes.leaders()}
        for leader in leaders:
            if leader not in signalled:
                with contextlib.suppress(OSError):
                    os.killpg(leader.pid, number)
        time.sleep(_PAUSE_S)
        return leaders


def _eldest_first(members: Iterable[ProcessId]) -> list[ProcessId]:
    """A shell comes before its children: otherwise it would see them die and exit with their exit code."""
    return sorted(members, key=lambda member: (member.start_time, member.pid))


def _wait_until_dead(members: Iterable[ProcessId], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while any(map(is_alive, members)) and time.monotonic() < deadline:
        time.sleep(0.002)


async def _wait_for_death(members: Iterable[ProcessId], within_s: float) -> None:
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
