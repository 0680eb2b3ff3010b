"""The open streams and the calls under way of all clients: none outlives its token, and no stream the daemon."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from mcp_agent.calls.call import Caller

# Says who listens at the other end of a stream; a client may say its name only after it has opened one.
Listener = Callable[[], Caller]


class OpenStreams:
    """Every open stream by the name of its token, so that revoking the token and stopping the daemon can end it."""

    def __init__(self) -> None:
        self._ends: dict[str, dict[Callable[[], None], Listener | None]] = {}
        # What cancels each call. The daemon lets calls finish when it stops; a revocation does not.
        self._calls: dict[str, set[Callable[[], None]]] = {}
        # Done when no call is under way any more, while somebody waits for that.
        self._answered: asyncio.Future[None] | None = None
        # How many revocations there were, and for each name the number of its last one.
        self.revocations = 0
        self._last_revocation: dict[str, int] = {}

    @contextmanager
    def register(
        self, name: str, since: int, end: Callable[[], None], listener: Listener | None = None
    ) -> Iterator[bool]:
        """Within the block, `end` is called when the streams of `name` must end. `listener` is for streams of events,
        and for the shell of a person: who is there is told who loses something by a switch.

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

    @contextmanager
    def register_call(self, name: str, since: int, cancel: Callable[[], None]) -> Iterator[bool]:
        """The same for a call that is under way: `cancel` is called when the token is revoked."""
        calls = self._calls.setdefault(name, set())
        calls.add(cancel)
        try:
            yield self._last_revocation.get(name, 0) <= since
        finally:
            calls.discard(cancel)
            if not calls:
                self._calls.pop(name, None)
                if self._answered is not None and not self._calls and not self._answered.done():
                    self._answered.set_result(None)

    @property
    def listeners(self) -> list[Caller]:
        """Who listens to events now, or has a shell open."""
        return [listener() for ends in self._ends.values() for listener in ends.values() if listener is not None]

    def end(self, names: Iterable[str]) -> None:
        """End the streams of tokens that were revoked, and what their calls do."""
        names = tuple(names)
        self._end_streams(names)
        for cancel in [cancel for name in names for cancel in self._calls.get(name, ())]:
            cancel()

    async def wait_for_answers(self, within_s: float) -> None:
        """Wait until every call under way has its answer, but no longer than so."""
        if self._calls:
            self._answered = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._answered], timeout=within_s)

    def end_all(self) -> None:
        """End every stream: the daemon stops."""
        self._end_streams(tuple(self._ends))

    def _end_streams(self, names: Iterable[str]) -> None:
        self.revocations += 1
        for name in names:
            self._last_revocation[name] = self.revocations
            for end in list(self._ends.get(name, ())):
                end()
