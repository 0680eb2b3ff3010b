"""tools.json on disk: read whole, written whole, never in between, and read again when it changes.

A save goes to a new file in the same folder, is synced, and takes the old one's place in one step; the mode, the
owner and a symbolic link in front of it stay. Writers take turns through a lock on the folder, which leaves nothing
behind. While the daemon runs, the file is watched; if it cannot be loaded, the last good profiles stay in force.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import stat
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from registry import jsonc
from registry.catalog import Catalog
from registry.profiles import BadRegistry, Problem, Profiles, UnusableFile, default_document
from registry.tools_json import load_document, read
from tools.files import disk

if TYPE_CHECKING:
    from registry.edits import Edit

log = logging.getLogger(__name__)

_MOST_BYTES = 4 * 1024 * 1024
_SETTLE_MS = 60
# How often the watching thread wakes. A change waits for one wake-up, or for two if it comes in parts.
_STEP_MS = 100
_LOOK_EVERY_S = 0.5

# A value that changes with the file; None if there is no file.
Mark = tuple[int, ...] | None


class RegistryFile:
    """The one tools.json of this daemon."""

    def __init__(self, path: Path, catalog: Catalog) -> None:
        self.path = path
        self._catalog = catalog
        # The bytes of the file when it was last read or written and was good.
        self._last_good: bytes | None = None

    def load(self) -> Profiles:
        """The profiles in the file. Raises BadRegistry, also for a file that cannot be read."""
        data = self._read()
        profiles = read(load_document(data, str(self.path)), self._catalog, str(self.path), _digest(data))
        self._last_good = data
        return profiles

    def load_or_create(self) -> Profiles:
        """As `load`, but if there is no file, write one with every tool on first."""
        with self._os_errors_as_problems("made"):
            if not self.path.exists():
                if self.path.is_symlink():
                    raise self._bad(f"{self.path} is a link to a file that is not there")
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self._lock():
                    if not self.path.exists():
                        self._write(f"{json.dumps(default_document(self._catalog), indent=2)}\n")
        return self.load()

    def document(self) -> dict[str, Any]:
        """The file as it is, with the keys that we do not know. Raises BadRegistry."""
        return load_document(self._read(), str(self.path))

    def try_edit(self, edit: Edit, catalog: Catalog) -> None:
        """Raise what `edit` would raise, and write nothing."""
        document = self.document()
        edit.apply(document, read(document, self._catalog, str(self.path)), catalog)
        read(document, self._catalog, str(self.path))

    def edit(
        self, edit: Edit, catalog: Catalog | None = None, check: Callable[[Profiles], object] = lambda _: None
    ) -> Profiles:
        """Apply `edit` to the current file, and save the result if it is a valid registry.

        `catalog` has the tools that can be named, where those are more than the built-in ones. Raises BadRegistry, and
        whatever `edit` and `check` raise, and writes nothing then. A file that was deleted is written again, as it was
        when it was last read.
        """
        if self._last_good is None:
            self.load_or_create()
        with self._os_errors_as_problems("written"):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock():
                is_deleted = not (self.path.exists() or self.path.is_symlink())
                data = self._last_good if is_deleted and self._last_good is not None else self._read()
                document = load_document(data, str(self.path))
                before = read(document, self._catalog, str(self.path), _digest(data))
                edit.apply(document, before, catalog or self._catalog)
                profiles = read(document, self._catalog, str(self.path))
                check(profiles)
                self._last_good = self._write(jsonc.rewrite(data.decode(), document))
        return replace(profiles, digest=_digest(self._last_good))

    async def reload(
        self,
        on_load: Callable[[Profiles], None],
        on_failure: Callable[[tuple[Problem, ...]], None],
        turn: asyncio.Lock,
    ) -> None:
        """Call `on_load` if the file can be loaded, and `on_failure` if not. Never raises, so that a watch goes on.

        `on_load` may raise BadRegistry too. A deleted file counts as one that does not load: no switch changes until
        it is back. `turn` is held while the file is read and put into force.
        """
        try:
            async with turn:
                try:
                    # In a thread: a large file takes a while, and calls are served in the meantime.
                    on_load(await asyncio.to_thread(self.load))
                except BadRegistry as error:
                    on_failure(error.problems)
        except Exception:
            # A boundary: whatever is wrong with this state of the file, we must still see the next one.
            log.exception("registry.reload_failed")

    def _read(self) -> bytes:
        with self._os_errors_as_problems("read"):
            if not stat.S_ISREG(self.path.stat().st_mode):
                raise self._unusable(f"{self.path} is no regular file")
            with open(disk.open_regular(self.path), "rb") as file:
                size = os.fstat(file.fileno()).st_size
                data = disk.read_up_to(file.fileno(), _MOST_BYTES + 1, size)
        if len(data) > _MOST_BYTES:
            raise self._bad(f"{self.path} is larger than {_MOST_BYTES:,} bytes")
        return data

    def _write(self, text: str) -> bytes:
        target = self.path.resolve()
        data = text.encode()
        before = target.stat() if target.exists() else None
        mode = 0o600 if before is None else before.st_mode & 0o7777
        # One name, because the lock lets one writer in at a time.
        with disk.replacing(target, temporary=target.with_name(f".{target.name}.new")) as descriptor:
            disk.write_all(descriptor, data)
            if before is not None:
                _keep_owner(descriptor, before)
            os.fchmod(descriptor, mode)
        disk.sync_folder(target.parent)
        return data

    def _bad(self, message: str) -> BadRegistry:
        return BadRegistry([Problem("", message)], str(self.path))

    def _unusable(self, message: str) -> UnusableFile:
        return UnusableFile([Problem("", message)], str(self.path))

    @contextmanager
    def _os_errors_as_problems(self, action: str) -> Iterator[None]:
        """Report an OSError as a problem of the file."""
        try:
            yield
        except FileNotFoundError:
            raise self._unusable(f"{self.path} is not there") from None
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise self._unusable(f"{self.path} cannot be {action}: {reason}") from None

    def _lock(self) -> AbstractContextManager[None]:
        if self.path.is_symlink():
            # Raises OSError for a link to itself, of which `resolve` makes a RuntimeError.
            self.path.stat()
        return disk.folder_lock(self.path.resolve().parent)


async def watch(path: Path, on_change: Callable[[], Awaitable[None]]) -> None:
    """Call `on_change` once at the start, and once after each change of the file, until cancelled.

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
            try:
                status = path.stat()
                found: Mark = (status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
            except OSError:
                found = None
            if found != seen:
                seen = found
                await on_change()
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


def _digest(data: bytes) -> str:
    """A short hash of the file, to distinguish its states."""
    return hashlib.sha256(data).hexdigest()[:16]


def _keep_owner(descriptor: int, before: os.stat_result) -> None:
    """Keep the owner of the file if another user saves it, as with sudo. Without that right the user becomes owner."""
    with suppress(OSError):
        os.fchown(descriptor, before.st_uid, before.st_gid)
