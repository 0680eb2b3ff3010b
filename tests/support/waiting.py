"""Waiting for what nobody announces: the one polling loop of the tests, with a deadline and what was seen last."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")

# Long enough for a busy machine, short enough that a hang is noticed.
PATIENCE_S = 20.0
_PAUSE_S = 0.02


@overload
async def eventually(
    look: Callable[[], Awaitable[T]], holds: Callable[[T], object] = bool, *, within_s: float = PATIENCE_S
) -> T: ...
@overload
async def eventually(
    look: Callable[[], T], holds: Callable[[T], object] = bool, *, within_s: float = PATIENCE_S
) -> T: ...
async def eventually(look: Any, holds: Any = bool, *, within_s: float = PATIENCE_S) -> Any:
    """What `look` gives, as soon as `holds` says yes to it; the event loop runs on between two looks."""
    deadline = time.monotonic() + within_s
    while True:
        seen = look()
        if inspect.isawaitable(seen):
            seen = await seen
        if holds(seen):
            return seen
        _give_up_after(deadline, within_s, seen)
        await asyncio.sleep(_PAUSE_S)


def eventually_sync(look: Callable[[], T], holds: Callable[[T], object] = bool, *, within_s: float = PATIENCE_S) -> T:
    """The same for tests without an event loop."""
    deadline = time.monotonic() + within_s
    while not holds(seen := look()):
        _give_up_after(deadline, within_s, seen)
        time.sleep(_PAUSE_S)
    return seen


def _give_up_after(deadline: float, within_s: float, seen: object) -> None:
    if time.monotonic() > deadline:
        raise AssertionError(f"not within {within_s:g} s; last seen: {seen!r}")


@contextlib.asynccontextmanager
async def within(seconds: float = PATIENCE_S) -> AsyncIterator[None]:
    async with asyncio.timeout(seconds):
        yield
