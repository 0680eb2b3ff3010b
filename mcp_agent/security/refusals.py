"""Counts the requests that the guard refused, and writes some of them to the audit log, with a rate limit."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Literal

Reason = Literal["host", "origin", "no_token", "wrong_token", "bad_header"]

_WITHIN_S = 3_600.0
_MOST_SOURCES = 1_000
_PATH_CHARS = 200


class Refusals:
    """For each address and reason, `note` is called for refusal 1, 10, 100 … within an hour, so that nobody can fill
    the log.

    The facts never have a token, valid or not.
    """

    def __init__(self, note: Callable[[dict[str, object]], None]) -> None:
        self.counts: dict[Reason, int] = {}
        self._note = note
        self._sources: OrderedDict[tuple[str, Reason], tuple[float, int]] = OrderedDict()

    def add(self, reason: Reason, address: str, path: str) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + 1
        now = time.monotonic()
        since, count = self._sources.pop((address, reason), (now, 0))
        if now - since > _WITHIN_S:
            since, count = now, 0
        count += 1
        self._sources[address, reason] = since, count
        if len(self._sources) > _MOST_SOURCES:
            self._sources.popitem(last=False)
        if set(str(count)[1:]) <= {"0"} and str(count)[0] == "1":
            self._note({"reason": reason, "address": address, "path": path[:_PATH_CHARS], "count": count})
