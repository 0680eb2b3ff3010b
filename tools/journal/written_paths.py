"""Which paths the tools of this daemon have written, so that nobody else's command is taken for who did it."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_MOST_KEPT = 2_000


class WrittenPaths:
    """The last of them, and those that are being written. Used from the threads that tools run in."""

    def __init__(self) -> None:
        self._book = threading.Lock()
        self._numbers = itertools.count(1)
        self._last = 0
        self._written: deque[tuple[int, str]] = deque(maxlen=_MOST_KEPT)
        self._under_way: dict[int, tuple[str, ...]] = {}

    @contextmanager
    def writing(self, paths: Iterable[str]) -> Iterator[None]:
        """These paths are written while the block runs."""
        own = tuple(paths)
        with self._book:
            key = next(self._numbers)
            self._under_way[key] = own
        try:
            yield
        finally:
            with self._book:
                del self._under_way[key]
                for path in own:
                    self._last += 1
                    self._written.append((self._last, path))

    @property
    def mark(self) -> int:
        """What `since` takes."""
        return self._last

    def since(self, mark: int) -> set[str] | None:
        """What was written since then, in part or whole; None if that is more than is kept."""
        with self._book:
            if self._last - mark > len(self._written):
                return None
            found = {path for number, path in self._written if number > mark}
            return found.union(*self._under_way.values())
