"""The open streams of all clients, so that none outlives its token or the daemon."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager


class OpenStreams:
    """Every open stream by the name of its token, so that revoking the token and stopping the daemon can end it."""

    def __init__(self) -> None:
        self._ends: dict[str, set[Callable[[], None]]] = {}
        # How many revocations there were, and for each name the number of its last one.
        self.revocations = 0
        self._last_revocation: dict[str, int] = {}

    @contextmanager
    def register(self, name: str, since: int, end: Callable[[], None]) -> Iterator[bool]:
        """Within the block, `end` is called when the streams of `name` must end.

        `since` is the number of revocations when the token was checked. A client can send its body later than its head,
        so the token may have been revoked in between: then False is given, and no stream may be opened.
        """
        ends = self._ends.setdefault(name, set())
        ends.add(end)
        try:
            yield self._last_revocation.get(name, 0) <= since
        finally:
            ends.discard(end)
            if not ends:
                self._ends.pop(name, None)

    def end(self, names: Iterable[str]) -> None:
        self.revocations += 1
        for name in names:
            self._last_revocation[name] = self.revocations
            for end in list(self._ends.get(name, ())):
                end()

    def end_all(self) -> None:
        self.end(list(self._ends))
