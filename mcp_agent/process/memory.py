"""Gives memory that is free back to the system, so that a daemon that was busy once does not stay large.

glibc has an arena for each thread that allocates, and keeps what is freed in the middle of it. After days every one of
them has had its peak. Where the C library is another one, nothing is done.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import time

from mcp_agent import USUAL_THRESHOLDS

# Of the C library's malloc.h. One, because the threads share one interpreter lock and seldom allocate at the same time:
# what one of them frees, another can use. Its other bounds stay as they are: with blocks of a megabyte mapped by
# themselves, or less left free at the end of the heap, a command that prints 100 MB takes a third to a half longer.
_ARENA_MAX = -8
_MOST_ARENAS = 1
_LOOK_EVERY_S = 5.0
# Of the time between two looks. A daemon that works less is idle: it looks at its tools.json, and nobody waits for it.
_IDLE_SHARE = 0.02
# After so many looks a daemon that is never idle gives memory back all the same.
_MOST_BUSY_LOOKS = 12
# With less work than this in between there is little to give back, and an idle daemon stays idle.
_LEAST_WORK_S = 0.1


def collect_as_usual() -> None:
    """Set up garbage collection once a program has started: objects of the start are never examined again."""
    gc.freeze()
    gc.set_threshold(*USUAL_THRESHOLDS)


def exact_copy(data: bytes) -> bytes:
    """The same bytes in memory of their own size, for what is kept.

    orjson hands out the buffer that it wrote to, which is up to a dozen times as large as what it wrote.
    """
    return bytes(memoryview(data))


def limit_arenas() -> None:
    """Let the threads to come share one arena. To be called before there is any."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_ARENA_MAX, _MOST_ARENAS)


async def return_free_memory(every_s: float = _LOOK_EVERY_S) -> None:
    """Until cancelled, return free memory to the system: when work is over, and now and then during much work."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", lambda pad: 0)
    worked_s = seen_s = 0.0
    busy_looks = 0
    while True:
        await asyncio.sleep(every_s)
        before_s, seen_s = seen_s, time.process_time()
        is_idle = seen_s - before_s < every_s * _IDLE_SHARE
        busy_looks = 0 if is_idle else busy_looks + 1
        if seen_s - worked_s < _LEAST_WORK_S or 0 < busy_looks < _MOST_BUSY_LOOKS:
            continue
        if is_idle:
            gc.collect()
        # In a thread: other threads go on meanwhile. It takes a few milliseconds.
        await asyncio.to_thread(trim, 0)
        worked_s = seen_s = time.process_time()
        busy_looks = 0
