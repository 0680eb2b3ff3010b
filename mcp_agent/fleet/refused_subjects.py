"""What the server does not allow, as nats-py tells it: in an error for everybody, in lower case, after the fact."""

from __future__ import annotations

import re
import time
from typing import Literal

Kind = Literal["publish", "subscription"]

_REFUSAL = re.compile(r'permissions violation for (publish|subscription) (?:to|with reply of) "([^"]*)"', re.IGNORECASE)
# Permissions can change while a connection lasts.
_BELIEVED_S = 30.0
_MOST = 1_000


class RefusedSubjects:
    """The refusals of one connection."""

    def __init__(self) -> None:
        # Until when each is believed.
        self._until: dict[tuple[str, str], float] = {}

    def note(self, error: Exception) -> tuple[str, str] | None:
        """Kind and subject of the refusal that an error tells of; None if it tells of something else."""
        found = _REFUSAL.search(str(error))
        if found is None:
            return None
        refusal = found[1].lower(), found[2].lower()
        if len(self._until) >= _MOST:
            self._until.pop(next(iter(self._until)))
        self._until[refusal] = time.monotonic() + _BELIEVED_S
        return refusal

    def has(self, kind: Kind, subject: str) -> bool:
        if not self._until:
            return False
        until = self._until.get((kind, subject.lower()))
        return until is not None and time.monotonic() < until

    def forget(self, kind: Kind, subject: str) -> None:
        self._until.pop((kind, subject.lower()), None)

    def clear(self) -> None:
        self._until.clear()
