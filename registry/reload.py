"""Watch tools.json and load it again when it changes. What does not load leaves the last good profiles in force."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from registry.profiles import BadRegistry, Problem, Profiles
from registry.store import RegistryFile

log = logging.getLogger(__name__)

_SETTLE_MS = 60
# How often the watching thread wakes; a change waits for it once, or twice if it comes in parts.
_STEP_MS = 100
_LOOK_EVERY_S = 0.5

Loaded = Callable[[Profiles], None]
Failed = Callable[[tuple[Problem, ...]], None]


async def watch(file: RegistryFile, loaded: Loaded, failed: Failed) -> None:
    """Until cancelled, call `loaded` after each change that loads and `failed` after each that does not.

    `loaded` may refuse too, with BadRegistry. A file that is gone counts as one that does not load: no tool is
    taken away or given until it is back. The first look always loads: the file may have changed since the start.
    """
    seen: tuple[int, ...] | None = (-1,)
    async for _ in _nudges(file.path):
        mark = _mark(file.path)
        if mark == seen:
            continue
        seen = mark
        try:
            loaded(file.load())
        except BadRegistry as error:
            failed(error.problems)
        except Exception:
            # A boundary: whatever is wrong with one state of the file, the next one must still be seen.
            log.exception("registry.reload_failed")


async def _nudges(path: Path) -> AsyncIterator[None]:
    """Something may have changed: at every event in the folder, and every half second in case events do not come.

    The folder is watched and not the file, because editors replace the file and a watch would follow the old one.
    Behind a symbolic link, the folder of the real file is watched too.
    """
    woken = asyncio.Event()
    watcher = asyncio.create_task(_wake_on_events(path, woken))
    try:
        while True:
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
        async for changes in watchfiles.awatch(
            *folders,
            recursive=False,
            debounce=_SETTLE_MS,
            step=_STEP_MS,
            watch_filter=lambda _, at: Path(at).name in names,
        ):
            if changes:
                woken.set()
    except (OSError, RuntimeError) as error:
        log.warning("registry.watch_failed", extra={"data": {"message": str(error)}})


def _mark(path: Path) -> tuple[int, ...] | None:
    """What changes when the file does; None while it is not there."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
