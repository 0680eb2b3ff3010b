"""Counts what may come without end, refused requests and calls above all, and reports it at a bounded rate: nobody can
fill a log or a disk.

In each second, the first refusals of a source are reported at once. The rest are counted, and reported when the second
is over, in one line for each source and reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Callable
from typing import Literal

from msgspec import Struct

RefusalReason = Literal["host", "origin", "no_token", "wrong_token", "bad_header"]

_WINDOW_S = 1.0
_LINES_OF_ALL = 20
_SUBJECT_CHARS = 200


class RefusalCount(Struct, frozen=True):
    """Why, whom, and how many refusals this stands for; `subject` is what the last one asked for.

    An empty source stands for several. None of it ever has a token, valid or not.
    """

    reason: str
    source: str
    subject: str
    count: int = 1


class Refusals:
    """`note` reports refusals. The sum of the counts is their number. `add` is called on the event loop."""

    def __init__(self, note: Callable[[RefusalCount], None], lines_of_one: int = 3) -> None:
        self.counts: dict[str, int] = {}
        self._note = note
        self._lines_of_one = lines_of_one
        self._began = 0.0
        self._lines: Counter[str] = Counter()
        self._rest: Counter[tuple[str, str]] = Counter()
        # The subject of the last refusal of each source in `_rest`.
        self._subjects: dict[tuple[str, str], str] = {}

    def add(self, reason: str, source: str, subject: str) -> bool:
        """Count a refusal. True if it is reported at once."""
        is_first = self.is_first(reason, source, subject)
        if is_first:
            self._note(RefusalCount(reason, source, subject[:_SUBJECT_CHARS]))
        return is_first

    def is_first(self, reason: str, source: str, subject: str) -> bool:
        """Count a refusal. True for the first ones, which the caller reports; the rest is reported later."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        if time.monotonic() - self._began >= _WINDOW_S:
            self.flush()
        if self._lines[source] < self._lines_of_one and self._lines.total() < _LINES_OF_ALL:
            self._lines[source] += 1
            return True
        if not self._rest:
            with contextlib.suppress(RuntimeError):
                asyncio.get_running_loop().call_later(_WINDOW_S, self.flush)
        key = source, reason
        if key not in self._rest and len(self._rest) >= _LINES_OF_ALL:
            key = "", reason
        self._rest[key] += 1
        self._subjects[key] = subject[:_SUBJECT_CHARS]
        return False

    def flush(self) -> None:
        """Report what was only counted, and begin a new window."""
        self._began = time.monotonic()
        rest, subjects = self._rest, self._subjects
        self._lines, self._rest, self._subjects = Counter(), Counter(), {}
        for (source, reason), count in rest.items():
            self._note(RefusalCount(reason, source, subjects[source, reason], count))
