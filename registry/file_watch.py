"""Notices every change of a file: a write in place, a replacement, a deletion, a return."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

log = logging.getLogger(__name__)

_SETTLE_MS = 60
# How often the watching thread wakes. A change waits for one wake-up, or for two if it comes in parts.
_STEP_MS = 100
_LOOK_EVERY_S = 0.5

Mark = tuple[int, ...] | None


async def changes(path: Path) -> AsyncIterator[None]:
    """Yield once at the start, and once after each change of the file, until cancelled.

    We watch the folder and not the file, because editors replace the file and a watch would follow the old inode.
    For a symbolic link we also watch the folder of its target. Network disks may send no events, so we also check
    the file every half second.
    """
    woken = asyncio.Event()
    watcher = asyncio.create_task(_wake_on_events(path, woken))
    seen: Mark = (-1,)
    try:
        while True:
            mark = _mark(path)
            if mark != seen:
                seen = mark
                yield
            try:
                async with asyncio.timeout(_LOOK_EVERY_S):
                    await woken.wait()
            except TimeoutError:
                pass
            woken.clear()
    finally:
        watcher.cancel()


async def _wake_on_events(path: Path, woken: asyncio.Event) -> None:
    try:
        # Imported here because it takes 60 ms, and nobody waits for this task.
        watchfiles = await asyncio.to_thread(__import__, "watchfiles")
        folders = {path.parent, path.resolve().parent}
        names = {path.name, path.resolve().name}
        async for changed in watchfiles.awatch(
            *folders,
            recursive=False,
            debounce=_SETTLE_MS,
            step=_STEP_MS,
            watch_filter=lambda _, at: Path(at).name in names,
        ):
            if changed:
                woken.set()
    except (OSError, RuntimeError) as error:
        log.warning("registry.watch_failed", extra={"data": {"message": str(error)}})


def _mark(path: Path) -> Mark:
    """A value that changes with the file; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
