"""The deadline of a call's work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from tools.context import ToolContext

_T = TypeVar("_T")


async def within(deadline_s: float, context: ToolContext, work: Awaitable[_T]) -> _T:
    """What `work` gives. Raises TimeoutError."""
    try:
        async with asyncio.timeout(deadline_s):
            return await work
    except (TimeoutError, asyncio.CancelledError):
        # A thread cannot be cancelled: it looks at this now and then, and stops by itself.
        context.is_cancelled = True
        raise
