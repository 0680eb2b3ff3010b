"""The open streams of all clients, so that none outlives its token or the daemon."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from mcp_agent.calls.call import Caller

# Says who listens at the other end of a stream; a client may say its name only after it has opened one.
Listener = Callable[[], Caller]


class OpenStreams:
    """Every open stream by the name of its token, so that revoking the token and stopping the daemon can end it."""

    def __init__(self) -> None:
        self._ends: dict[str, dict[Callable[[], None], Listener | None]] = {}
        # How many revocations there were, and for each name the number of its last one.
        self.revocations = 0
        self._last_revocation: dict[str, int] = {}

    @contextmanager
    def register(
        self, name: str, since: int, end: Callable[[], None], listener: Listener | None = None
    ) -> Iterator[bool]:
        """Within the block, `end` is called when the streams of `name` must end. `listener` is for streams of events.

        `since` is the number of revocations when the token was checked. A client can send its body later than its head,
        so the token may have been revoked in between: then False is given, and no stream may be opened.
        """
        ends = self._ends.setdefault(name, {})
        ends[end] = listener
        try:
            yield self._last_revocation.get(name, 0) <= since
        finally:
            ends.pop(end, None)
            if not ends:
                self._ends.pop(name, None)

    @property
    def listeners(self) -> list[Caller]:
        """Who listens to events now."""
        return [listener() for ends in self._ends.values() for listener in ends.values() if listener is not None]

    def end(self, names: Iterable[str]) -> None:
        self.revocations += 1
        for name in names:
            self._last_revocation[name] = self.revocations
            for end in list(self._ends.get(name, ())):
                end()

    def end_all(self) -> None:
        self.end(list(self._ends))
