"""The answers to calls that are over, kept for a gateway that did not get them, and for one that asks twice."""

from __future__ import annotations

from collections import OrderedDict

from mcp_agent.process.memory import exact_copy

# The gateway, and the id that it gave to the call.
CallKey = tuple[str, str]

# An answer is remembered so long.
REMEMBER_S = 600.0
_MOST_ANSWERS = 20_000
_MOST_BYTES = 64 * 1024 * 1024
# Ids whose answer is no longer kept. Without them a late message could run a call again.
_MOST_SEEN = 200_000


class RememberedAnswers:
    """Over their bounds, the oldest answers go first."""

    def __init__(self) -> None:
        # With the time, and by it: plain tuples, which the garbage collector does not have to look at.
        self._answers: OrderedDict[CallKey, tuple[float, bytes]] = OrderedDict()
        self._bytes = 0
        self._seen: OrderedDict[CallKey, None] = OrderedDict()

    def get(self, key: CallKey) -> bytes | None:
        found = self._answers.get(key)
        return None if found is None else found[1]

    def is_seen(self, key: CallKey) -> bool:
        """Whether there was such a call whose answer is not kept."""
        return key in self._seen

    def keep(self, key: CallKey, answer: bytes, now: float) -> None:
        self._answers[key] = now, exact_copy(answer)
        self._bytes += len(answer)
        while self._bytes > _MOST_BYTES or len(self._answers) > _MOST_ANSWERS:
            self._drop_oldest()

    def mark_seen(self, key: CallKey) -> None:
        """The call is not run if it comes, or comes again."""
        self._seen[key] = None
        if len(self._seen) > _MOST_SEEN:
            self._seen.popitem(last=False)

    def expire(self, now: float) -> None:
        while self._answers and now - next(iter(self._answers.values()))[0] > REMEMBER_S:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        key, (_, answer) = self._answers.popitem(last=False)
        self._bytes -= len(answer)
        self.mark_seen(key)
