"""Coroutines that begin at once, and get a task only if they have to wait. From Python 3.12 on, asyncio has such tasks.

A message that is answered at once then costs no task and no turn of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, NoReturn


def begin(work: Coroutine[Any, Any, None]) -> Coroutine[Any, Any, None] | None:
    """Run `work` until it waits for something. None if it has come to its end; otherwise the rest, for a task.

    Until then `asyncio.current_task` is the task of the caller. What uses it, as `asyncio.timeout` does, has to be
    behind an `await asyncio.sleep(0)`, which costs nothing here: the task goes on from there.
    """
    try:
        awaited = work.send(None)
    except (StopIteration, asyncio.CancelledError):
        # A cancellation ends a task, and here it must not end the caller.
        return None
    return _Rest(work, awaited)


class _Rest(Coroutine[Any, Any, None]):
    """A coroutine that waits already; a task that runs it waits for the same."""

    __slots__ = ("_awaited", "_work")

    def __init__(self, work: Coroutine[Any, Any, None], awaited: Any) -> None:
        self._work = work
        # None from `asyncio.sleep(0)`, and after the first step of the task.
        self._awaited = awaited

    def send(self, value: Any) -> Any:
        if self._awaited is None:
            return self._work.send(value)
        awaited, self._awaited = self._awaited, None
        return awaited

    def throw(self, *error: Any) -> Any:
        self._awaited = None
        return self._work.throw(*error)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> NoReturn:
        raise TypeError("the rest of a coroutine is for a task")
