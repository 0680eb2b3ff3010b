"""Makes the daemon a subreaper, and reaps the orphans that it gets.

When a process that a session started loses its parent, the kernel makes it a child of the nearest subreaper: of us. So
it stays in our process tree, where it can be found and ended. Somebody has to reap it then, or it stays a zombie.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
from collections.abc import Callable

from tools.sessions import process_tree
from tools.sessions.process_tree import ProcessId

_SET_CHILD_SUBREAPER = 36
_SCAN_EVERY_S = 1.0
# A program that forks and exits without end must not fill the process table of the machine.
_MANY = 50
_SCAN_OFTEN_S = 0.1


class Subreaper:
    """Reaps orphans from `start` to `stop`, but none of `own_pids`: their owners reap those. Linux only."""

    def __init__(self, own_pids: Callable[[], set[int]]) -> None:
        self._own_pids = own_pids
        self._seen: set[ProcessId] = set()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._schedule()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        delay_s = _SCAN_OFTEN_S if len(self._seen) > _MANY else _SCAN_EVERY_S
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._scan)

    def _scan(self) -> None:
        """Reap zombies that were seen in the scan before too.

        A child that other code of ours started is reaped by that code between two scans. If we were faster, we would
        steal its exit status.
        """
        zombies: set[ProcessId] = set()
        with contextlib.suppress(ChildProcessError):
            if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                own = self._own_pids()
                zombies = {member for member in process_tree.orphan_zombies(os.getsid(0)) if member.pid not in own}
        for member in zombies & self._seen:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(member.pid, os.WNOHANG)
        self._seen = zombies
        self._schedule()
