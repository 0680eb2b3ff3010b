"""Deadlines of which nearly all are never reached, with one timer for all of them.

A timer for each call, as `asyncio.timeout` has it, takes longer than to admit a call and to parse its arguments.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from typing import TypeVar

from tools.context import ToolContext
from tools.kit.records import mutable

_T = TypeVar("_T")


class SharedTimer:
    """Calls `expire` with the time when the nearest of many deadlines is due. It gives the next one, or infinity.

    The timer may be early, since deadlines that are met are not taken back.
    """

    def __init__(self, expire: Callable[[float], float]) -> None:
        self._expire = expire
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = inf

    def watch(self, deadline: float, loop: asyncio.AbstractEventLoop) -> None:
        """See to it that `expire` is called by then. Each timer belongs to one event loop at a time."""
        if deadline < self._due or loop is not self._loop:
            if loop is self._loop:
                self.cancel()
            self._due, self._loop, self._timer = deadline, loop, loop.call_at(deadline, self._fire, loop)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due, self._timer = inf, None

    def _fire(self, loop: asyncio.AbstractEventLoop) -> None:
        # A timer may be early by the resolution of its clock.
        now, self._due, self._timer = max(loop.time(), self._due), inf, None
        following = self._expire(now)
        if following < inf:
            self.watch(following, loop)


@mutable
class _Wait:
    task: asyncio.Task[object]
    ends_at: float
    # How often the task was cancelled by others before.
    cancelled: int
    is_late: bool = False


class Deadlines:
    """Ends calls that take too long."""

    def __init__(self) -> None:
        self._waits: set[_Wait] = set()
        self._timer = SharedTimer(self._cancel_late)

    async def within(self, deadline_s: float, context: ToolContext, work: Awaitable[_T]) -> _T:
        """What the work of a call gives. Raises TimeoutError at its deadline."""
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None, "a coroutine runs in a task"
        wait = _Wait(task, loop.time() + deadline_s, task.cancelling())
        self._waits.add(wait)
        self._timer.watch(wait.ends_at, loop)
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

    def _cancel_late(self, now: float) -> float:
        for wait in self._waits:
            if wait.ends_at <= now and not wait.is_late:
                wait.is_late = True
                wait.task.cancel()
        return min((wait.ends_at for wait in self._waits if not wait.is_late), default=inf)
