"""Match a regular expression that may never end, within a limit of this thread's own processor time.

`regex` has a time limit, which `re` has not, but it counts the processor time of the whole process: where other threads
are busy and this one has to wait, the limit passes although the match takes microseconds.
"""

from __future__ import annotations

import time
from typing import Protocol, TypeVar

Found = TypeVar("Found", covariant=True)


class TimedMatch(Protocol[Found]):
    """`match` or `search` of a pattern of `regex`."""

    def __call__(self, text: str, /, *, timeout: float) -> Found: ...


def match_within(limit_s: float, match: TimedMatch[Found], text: str) -> Found:
    """What `match` finds in `text`. Raises TimeoutError once this thread itself has been at it for `limit_s`."""
    try:
        return match(text, timeout=limit_s)
    except TimeoutError:
        # Other threads may have used the time: retry, counting this thread's CPU time only.
        spent_s, timeout_s = 0.0, limit_s
    while spent_s < limit_s:
        began = time.thread_time()
        try:
            return match(text, timeout=timeout_s)
        except TimeoutError:
            spent_s += time.thread_time() - began
            timeout_s *= 2
    raise TimeoutError
