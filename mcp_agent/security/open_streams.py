"""The open streams of all clients, so that none outlives its token or the daemon."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager


class OpenStreams:
    """Every open stream by the name of its token, so that revoking the token and stopping the daemon can end it."""

    def __init__(self) -> None:
        self._ends: dict[str, set[Callable[[], None]]] = {}

    @contextmanager
    def register(self, name: str, end: Callable[[], None]) -> Iterator[None]:
        """Within the block, `end` is called when the streams of `name` must end."""
        ends = self._ends.setdefault(name, set())
        ends.add(end)
        try:
            yield
        finally:
            ends.discard(end)
            if not ends:
                self._ends.pop(name, None)

    def end(self, names: Iterable[str]) -> None:
        for name in names:
            for end in list(self._ends.get(name, ())):
                end()

    def end_all(self) -> None:
        self.end(list(self._ends))
