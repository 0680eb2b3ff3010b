"""Counts the requests that the guard refused, and reports them at a bounded rate: nobody can fill a log or a disk.

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

RefusalReason = Literal["host", "origin", "no_token", "wrong_token", "bad_header"]

_WINDOW_S = 1.0
_LINES_OF_ONE = 3
_LINES_OF_ALL = 20
_PATH_CHARS = 200


class Refusals:
    """`note` gets the facts of a line: the reason, the address, the path, and how many refusals the line stands for.

    The sum of these counts is the number of refusals. An empty address stands for several sources. The facts never have
    a token, valid or not. `add` is called on the event loop.
    """

    def __init__(self, note: Callable[[dict[str, object]], None]) -> None:
        self.counts: dict[RefusalReason, int] = {}
        self._note = note
        self._began = 0.0
        self._lines: Counter[str] = Counter()
        self._rest: Counter[tuple[str, RefusalReason]] = Counter()
        # The path of the last refusal of each source in `_rest`.
        self._paths: dict[tuple[str, RefusalReason], str] = {}

    def add(self, reason: RefusalReason, address: str, path: str) -> bool:
        """Count a refusal. True if it is reported at once."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        if time.monotonic() - self._began >= _WINDOW_S:
            self.flush()
        if self._lines[address] < _LINES_OF_ONE and self._lines.total() < _LINES_OF_ALL:
            self._lines[address] += 1
            self._note({"reason": reason, "address": address, "path": path[:_PATH_CHARS], "count": 1})
            return True
        if not self._rest:
            with contextlib.suppress(RuntimeError):
                asyncio.get_running_loop().call_later(_WINDOW_S, self.flush)
        source = address, reason
        if source not in self._rest and len(self._rest) >= _LINES_OF_ALL:
            source = "", reason
        self._rest[source] += 1
        self._paths[source] = path[:_PATH_CHARS]
        return False

    def flush(self) -> None:
        """Report what was only counted, and begin a new window."""
        self._began = time.monotonic()
        rest, paths = self._rest, self._paths
        self._lines, self._rest, self._paths = Counter(), Counter(), {}
        for (address, reason), count in rest.items():
            facts = {"reason": reason, "address": address, "path": paths[address, reason], "count": count}
            self._note(facts)
