"""A walk that two processes share when it is long: ours goes on from the front, a helper does the later half.

A walk is Python's work from name to name, and Python does one thing at a time, so a second thread would not help. Most
walks are over, or have what was asked for, before it is time to start a helper.
"""

from __future__ import annotations

import logging
import marshal
import math
import os
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tools.errors import InvalidPattern, IoError
from tools.filesystem.engines import Program
from tools.filesystem.walk import Run, Walk

if TYPE_CHECKING:
    from tools.filesystem.walk import Question

log = logging.getLogger(__name__)

ALONE_S = 0.005
_HAS_PROCESSORS = (os.cpu_count() or 1) > 1
_HELPER = Path(__file__).with_name("later_half.py")


def shared_walk(
    asked: Question, check: Callable[[], None], deadline: float, most: int | None, alone_s: float = ALONE_S
) -> Generator[Run]:
    """What is asked for, in order. No more than `most` names need be found; after `alone_s` the walk is shared."""
    share_at = time.monotonic() + alone_s if _HAS_PROCESSORS else math.inf
    helper: _Helper | None = None
    with ExitStack() as stack:

        def check_and_share() -> None:
            nonlocal helper
            check()
            if helper is None and time.monotonic() > share_at and (start := walk.without_later_half()) is not None:
                helper = stack.enter_context(_Helper(asked, start, most, deadline))

        walk = Walk(asked, check_and_share)
        yield from walk
        if helper is not None:
            yield from helper.found(check)


class _Helper:
    """A process that walks from `start` to the end. Ended at the end of its `with`, if it has not ended by itself."""

    def __init__(self, asked: Question, start: str, most: int | None, deadline: float) -> None:
        self._asked, self._start, self._deadline = asked, start, deadline
        # Isolated from what the environment says, and without site packages; but names are read as we read them.
        command = [sys.executable, "-I", "-S", "-X", f"utf8={sys.flags.utf8_mode}", str(_HELPER)]
        given = marshal.dumps((dict(asked), start, most, max(deadline - time.monotonic(), 0.0)))
        self._program: Program | None = None
        with suppress(IoError):
            self._program = Program(command, None, given)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._program is not None:
            self._program.__exit__()

    def found(self, check: Callable[[], None]) -> Iterator[Run]:
        """All that is there from `start` on. If something is wrong with the process, we walk there ourselves."""
        printed = () if self._program is None else self._program.output(check, self._deadline)
        try:
            runs = marshal.loads(b"".join(printed))
        except (EOFError, ValueError, TypeError, InvalidPattern) as error:
            log.warning("walk.helper_failed: %s", error)
            runs = Walk(self._asked, check, self._start)
        yield from runs
