"""The deadlines of calls, with one timer for all of them.

A timer for each call, as `asyncio.timeout` has it, takes longer than to admit a call and to parse its arguments.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from math import inf
from typing import TypeVar

from tools.context import ToolContext
from tools.kit.records import mutable

_T = TypeVar("_T")


@mutable
class _Wait:
    task: asyncio.Task[object]
    ends_at: float
    # How often the task was cancelled by others before.
    cancelled: int
    is_late: bool = False


class Deadlines:
    """Ends work that takes too long. Each belongs to one event loop at a time."""

    def __init__(self) -> None:
        self._waits: set[_Wait] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        # When the timer looks at all of them: when the first is late, or earlier.
        self._looks_at = inf

    async def within(self, deadline_s: float, context: ToolContext, work: Awaitable[_T]) -> _T:
        """What the work of a call gives. Raises TimeoutError at its deadline."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None, "a coroutine runs in a task"
        wait = _Wait(task, loop.time() + deadline_s, task.cancelling())
        self._waits.add(wait)
        if wait.ends_at < self._looks_at or loop is not self._loop:
            self._look_at(wait.ends_at, loop)
        try:
            return await work
        except (TimeoutError, asyncio.CancelledError) as error:
            # A thread cannot be cancelled: it looks at this now and then, and stops by itself.
            context.is_cancelled = True
            if wait.is_late and isinstance(error, asyncio.CancelledError) and task.cancelling() - 1 <= wait.cancelled:
                raise TimeoutError from None
            raise
        finally:
            self._waits.discard(wait)
            if wait.is_late:
                task.uncancel()

    def _look_at(self, when: float, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None and loop is self._loop:
            self._timer.cancel()
        self._looks_at, self._loop, self._timer = when, loop, loop.call_at(when, self._look)

    def _look(self) -> None:
        """Cancel what is late, and look again when the next is."""
        assert self._loop is not None, "it has called this"
        # A timer may be early by the resolution of its clock.
        now, self._looks_at, self._timer = max(self._loop.time(), self._looks_at), inf, None
        for wait in self._waits:
            if wait.ends_at <= now and not wait.is_late:
                wait.is_late = True
                wait.task.cancel()
        following = min((wait.ends_at for wait in self._waits if not wait.is_late), default=inf)
        if following < inf:
            self._look_at(following, self._loop)
