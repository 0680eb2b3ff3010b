"""Places that tools may read and must not change: the configuration of the daemon, which says what a caller may do.

Every change that a tool, `mcp-agent undo` or an upload makes passes the journal, and the journal asks here. A place is
known by what it is on the disk and not by how it is written, so another name for it, a link, a bind mount or a folder
that was moved in between makes no difference.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.files.paths import to_wire
from tools.kit.errors import Denied

# A name in a folder: the device and inode of the folder, and the name.
_Entry = tuple[int, int, str]
_MOST_LINKS = 40
_SNAPSHOT_EVERY_S = 1.0


class _Snapshot(NamedTuple):
    """What the protected places were on the disk at one time."""

    # The name of each place, as written and at the end of its links.
    own: set[_Entry]
    # Every name that is looked up on the way to a place, and the place.
    way: dict[_Entry, Path]
    # The devices and inodes of those places that are files.
    files: set[tuple[int, int]]
    names: set[str]
    # The places as text, links resolved: to compare a place whose folder does not exist.
    texts: tuple[str, ...]

    def holds(self, target: Path) -> bool:
        # A hard link is another name of the same file, and some writes are made in the file itself.
        if _inode(target, follow=False) in self.files:
            return True
        if self.names.isdisjoint(target.parts):
            return False
        around = (target, *target.parents)
        return any(Path(text) in around for text in self.texts) or any(
            each.name in self.names and _entry(each) in self.own for each in around
        )


class Protected:
    """Files and folders that stay as they are; of a folder also everything in it. A place need not exist yet."""

    def __init__(self, places: Sequence[Path] = ()) -> None:
        self._places = tuple(dict.fromkeys(places))
        self._taken_at = float("-inf")
        self._last = _Snapshot(set(), {}, set(), set(), ())

    def check_write(self, target: Path) -> None:
        """Raise Denied if `target` is a protected place or is in one. Its own links are resolved by the caller."""
        if self._places and self._snapshot().holds(target) and self._snapshot(at_most_s=0.0).holds(target):
            raise _refusal(target)

    def check_entry(self, target: Path) -> None:
        """Raise Denied if moving, deleting or replacing what has the name `target` would change a protected place.

        That is a protected place, what is in one, a folder that holds one, and a link that leads to one.
        """
        if not self._places:
            return
        self.check_write(target)
        entry = _entry(target)
        if entry in self._snapshot().way and (held := self._snapshot(at_most_s=0.0).way.get(entry)) is not None:
            raise _refusal(target, held)

    def _snapshot(self, at_most_s: float = _SNAPSHOT_EVERY_S) -> _Snapshot:
        """A snapshot that is not older than that: links and folders on the way seldom change.

        What refuses a write takes a new one: a file that was replaced leaves its inode to others.
        """
        now = time.monotonic()
        if now - self._taken_at > at_most_s:
            ways = [(place, list(_way(place))) for place in self._places]
            own = {entry for place in self._places for entry in _own_entries(place)}
            files = {inode for place in self._places if (inode := _inode(place, follow=True)) is not None}
            way = {entry: place for place, entries in reversed(ways) for entry in entries}
            texts = tuple(os.path.realpath(place) for place in self._places)
            names = {name for *_, name in own} | {Path(text).name for text in texts}
            self._last = _Snapshot(own, way, files, names, texts)
            self._taken_at = now
        return self._last


def _own_entries(place: Path) -> Iterator[_Entry]:
    # `Path.is_symlink` raises an error if the folder may not be entered.
    is_link = os.path.islink(place)
    names = (place, Path(os.path.realpath(place))) if is_link else (place,)
    yield from (entry for name in names if (entry := _entry(name)) is not None)


def _refusal(target: Path, held: Path | None = None) -> Denied:
    what = "" if held is None else f" leads to {to_wire(held)}, which"
    return Denied(
        f"{to_wire(target)}{what} belongs to the daemon itself: it can be read here and not changed",
        hint="the owner switches tools with `mcp-agent enable` and `mcp-agent disable`, or edits the file; ask them",
    )


def _entry(path: Path) -> _Entry | None:
    """The name of `path` in its folder; None if there is no such folder."""
    try:
        status = os.stat(path.parent)
    except OSError:
        return None
    return status.st_dev, status.st_ino, path.name


def _inode(path: Path, *, follow: bool) -> tuple[int, int] | None:
    """The device and inode of a file that is no folder; None if there is none."""
    try:
        status = os.stat(path, follow_symlinks=follow)
    except OSError:
        return None
    return None if stat.S_ISDIR(status.st_mode) else (status.st_dev, status.st_ino)


def _way(place: Path) -> Iterator[_Entry]:
    """Every name that is looked up on the way to `place`: its folders, and the links that they and it go through."""
    waiting = list(reversed(place.parts[1:]))
    at = Path(place.anchor)
    links = 0
    while waiting:
        name = waiting.pop()
        if name == "..":
            at = at.parent
            continue
        path = at / name
        entry = _entry(path)
        if entry is None:
            return
        yield entry
        try:
            target = Path(os.readlink(path))
        except OSError:
            at = path
            continue
        links += 1
        if links > _MOST_LINKS:
            return
        if target.is_absolute():
            at = Path(target.anchor)
            waiting.extend(reversed(target.parts[1:]))
        else:
            waiting.extend(reversed(target.parts))
