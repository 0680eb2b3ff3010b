"""Watches a file that may change while the daemon runs, and loads tools.json again when it does.

If it cannot be loaded, the last good profiles stay in force.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

from registry.profiles import BadRegistry, Problem, Profiles
from registry.tools_json_file import RegistryFile

log = logging.getLogger(__name__)

_SETTLE_MS = 60
# How often the watching thread wakes. A change waits for one wake-up, or for two if it comes in parts.
_STEP_MS = 100
_LOOK_EVERY_S = 0.5

Mark = tuple[int, ...] | None
OnLoad = Callable[[Profiles], None]
OnFailure = Callable[[tuple[Problem, ...]], None]


async def watch(file: RegistryFile, on_load: OnLoad, on_failure: OnFailure, turn: asyncio.Lock | None = None) -> None:
    """Until cancelled, call `on_load` after each change that loads and `on_failure` after each that does not.

    `on_load` may raise BadRegistry too. A deleted file counts as one that does not load: no switch changes until it
    is back. The first check always loads, because the file may have changed since the start. `turn` is held while the
    file is read and put into force.
    """
    turn = turn or asyncio.Lock()
    async for _ in changes(file.path):
        try:
            async with turn:
                try:
                    # In a thread: a large file takes a while, and calls are served in the meantime.
                    on_load(await asyncio.to_thread(file.load))
                except BadRegistry as error:
                    on_failure(error.problems)
        except Exception:
            # A boundary: whatever is wrong with this state of the file, we must still see the next one.
            log.exception("registry.reload_failed")


async def changes(path: Path) -> AsyncIterator[None]:
    """Yield once at the start, and once after each change of the file, until cancelled.

    We watch the folder and not the file, because editors replace the file and a watch would follow the old inode.
    For a symbolic link we also watch the folder of its target. Network disks may send no events, so we also check
    the file every half second.
    """
    woken, stop = asyncio.Event(), threading.Event()
    wake = partial(asyncio.get_running_loop().call_soon_threadsafe, woken.set)
    threading.Thread(target=_watch_folders, args=(path, stop, wake), name=f"watch-{path.name}").start()
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
        stop.set()


def _watch_folders(path: Path, stop: threading.Event, wake: Callable[[], object]) -> None:
    """Until `stop`, call `wake` after each change of the file. Runs in a thread of its own."""
    # Imported here because it takes 60 ms, and nobody waits for this thread.
    import watchfiles

    folders = {path.parent, path.resolve().parent}
    names = {path.name, path.resolve().name}
    try:
        for changed in watchfiles.watch(
            *folders, recursive=False, watch_filter=None, debounce=_SETTLE_MS, step=_STEP_MS, stop_event=stop
        ):
            for _, at in changed:
                if Path(at).name in names:
                    wake()
    except (OSError, RuntimeError) as error:
        if not stop.is_set():
            log.warning("registry.watch_failed", extra={"data": {"message": str(error)}})


def _mark(path: Path) -> Mark:
    """A value that changes with the file; None if there is no file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
