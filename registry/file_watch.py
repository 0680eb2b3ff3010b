"""Notice that a file changed, however it was changed: in place, replaced, deleted, restored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

log = logging.getLogger(__name__)

_SETTLE_MS = 60
# How often the watching thread wakes; a change waits for it once, or twice if it comes in parts.
_STEP_MS = 100
_LOOK_EVERY_S = 0.5

Mark = tuple[int, ...] | None


async def changes(path: Path) -> AsyncIterator[None]:
    """One item at once, and one after each change of the file, until cancelled.

    The folder is watched and not the file, because editors replace the file and a watch would follow the old one.
    Behind a symbolic link, the folder of the real file is watched too. And every half second the file is looked at
    anyway, in case events do not come, as on network disks.
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
        # At first use: it takes 60 ms to load and nobody waits for it here.
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
    """What is different when the file is; None while it is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
