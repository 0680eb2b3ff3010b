"""A bounded semaphore for heavy work: some calls run at once, a few more wait for their turn, the rest is refused.

Heavy calls run on the threads that all calls share. Without a bound they would hold every thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tools.kit.errors import Busy

_LOOK_S = 0.1


class Places:
    """May be used from any thread. `work` says in the plural what the places are for."""

    def __init__(self, work: str, at_once: int, waiting: int) -> None:
        self._work = work
        self._free = threading.Semaphore(at_once)
        self._admitted = threading.Semaphore(at_once + waiting)

    @contextmanager
    def take(self, check: Callable[[], None]) -> Iterator[None]:
        """A place for the block. `check` is called while it waits, and may raise. Raises Busy."""
        if not self._admitted.acquire(blocking=False):
            raise Busy(f"too many {self._work} are asked for at once", hint="ask again in a moment")
        try:
            while not self._free.acquire(timeout=_LOOK_S):
                check()
            try:
                yield
            finally:
                self._free.release()
        finally:
            self._admitted.release()
