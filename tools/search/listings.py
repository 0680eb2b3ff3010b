"""A cache of what folders hold.

A model looks for files in the same project again and again, and reading its folders is nearly all of the work. The
times of a folder change with every name that is added, removed or replaced, so a stat of the folder shows whether
the cache still holds. A folder that was changed a moment ago is not cached: within one tick of the clock it could
change again and look the same. Only folders on the device that the caller names are cached, because not every file
system keeps such times.

It halves the time of a walk through 100,000 files: 0.60 s without, 0.28 s with it, where `rg --files` takes 0.13 s. The
names of `rg --files` with folders from a walk of our own take 1.95 times as long as `rg --files` for the first 200 and
2.96 times for all, before any glob or rule: `rg` gives them without an order, so all must be there before the first.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from msgspec import Struct

from tools.files import disk

_MOST_NAMES = 200_000
_SETTLED_S = 3.0
_IGNORE_FILES = frozenset((".rgignore", ".ignore", ".gitignore", ".git"))


class Listing(Struct, frozen=True):
    """The files and folders in a folder, in order; nothing else is listed. The lists are shared: do not change them."""

    files: list[str]
    folders: list[str]
    has_ignore_file: bool


class Listings:
    """May be used from any thread."""

    def __init__(self, most_names: int = _MOST_NAMES, clock: Callable[[], float] = time.time) -> None:
        self._known: dict[str, tuple[tuple[int, ...], Listing]] = {}
        self._names = 0
        self._most_names = most_names
        self._clock = clock
        self._lock = threading.Lock()

    def of(self, folder: str, name: str, place: int, device: int | None) -> Listing:
        """What `folder` holds: the folder `name` in the open folder `place`. It is cached if it is on `device`.

        Raises OSError, also if it is a symbolic link.
        """
        if device is not None:
            # Before it is read, so that a change during the read is noticed next time.
            status = os.stat(name, dir_fd=place, follow_symlinks=False)
            known = self._known.get(folder)
            if known is not None and known[0] == _identity(status):
                return known[1]
        descriptor = os.open(name, disk.FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=place)
        try:
            status = os.fstat(descriptor)
            listing = _read(descriptor)
        finally:
            os.close(descriptor)
        if status.st_dev == device and self._clock() - max(status.st_mtime, status.st_ctime) > _SETTLED_S:
            self._keep(folder, _identity(status), listing)
        return listing

    def _keep(self, folder: str, identity: tuple[int, ...], listing: Listing) -> None:
        with self._lock:
            self._forget(folder)
            self._known[folder] = identity, listing
            self._names += _size(listing)
            while self._names > self._most_names:
                self._forget(next(iter(self._known)))

    def _forget(self, folder: str) -> None:
        known = self._known.pop(folder, None)
        if known is not None:
            self._names -= _size(known[1])


def _identity(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def _size(listing: Listing) -> int:
    return len(listing.files) + len(listing.folders) + 1


def _read(folder: int) -> Listing:
    names: list[str] = []
    files: list[str] = []
    folders: list[str] = []
    with os.scandir(folder) as found:
        for child in found:
            name = child.name
            names.append(name)
            if child.is_file(follow_symlinks=False):
                files.append(name)
            elif child.is_dir(follow_symlinks=False):
                folders.append(name)
    files.sort()
    folders.sort()
    return Listing(files, folders, not _IGNORE_FILES.isdisjoint(names))
