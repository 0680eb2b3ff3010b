"""What a project looks like, kept up to date: by the events of inotify, or by a walk where there are none.

Every difference between what was known and what is there now is a change, and `on_change` is told of it. The first
look is made in slices, so that the process can answer meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence

from tools.effects.contents import KeptContents
from tools.effects.file_records import (
    FACTS,
    NO_PLACE,
    NOT_READ,
    OPAQUE,
    PLACE,
    differ,
    facts_of,
    inode_bytes,
    is_folder,
    is_object,
    join,
    unpack,
)
from tools.effects.inotify import SeenEvents, Watches

HEAVY_FILES = 2_000
MOST_FILES = 300_000
MOST_WALKED_FILES = 20_000
_HEAVY = frozenset(
    "node_modules .venv venv env target build dist .tox .nox .mypy_cache .pytest_cache .cache .next .nuxt .gradle "
    "vendor Pods bower_components __pycache__ site-packages .terraform".split()
)
# The times of files have the grain of a tick of the kernel.
_TICK_NS = 20_000_000
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
OnChange = Callable[[str, bytes | None, bytes | None], None]


class NotFollowed(Exception):
    """This project cannot be followed; the text says why."""


class _Folder:
    __slots__ = ("names", "watch")

    def __init__(self) -> None:
        # None: it is not looked into.
        self.names: dict[str, bytes] | None = {}
        self.watch = -1


class ProjectTree:
    """`on_change(path, before, after)` is told of every change, with None for what is not there."""

    def __init__(
        self,
        root: str,
        contents: KeptContents,
        on_change: OnChange,
        *,
        skipped: Sequence[str] = (),
        has_watches: bool = True,
        at_work: Callable[[], None] = lambda: None,
    ) -> None:
        self.root = root
        self.contents = contents
        self.watches: Watches | None = None
        self.folders: dict[str, _Folder] = {}
        # Folders that are not looked into, and that something has happened in.
        self.opaque_changed: set[str] = set()
        self.count = 0
        self._on_change = on_change
        self._at_work = at_work
        self._by_watch: dict[int, str] = {}
        # Records of what has just gone, by inode: a file that was moved is known by it, and not read again.
        self._gone: dict[int, bytes] = {}
        # The names of files that have several: only the one that was used has an event.
        self._names: dict[int, set[str]] = {}
        self._touched: dict[int, int] = {}
        self._ended: set[str] = set()
        status = os.lstat(root)
        self._device = status.st_dev
        self._skipped = {(each.st_dev, each.st_ino) for path in skipped if (each := _lstat(path)) is not None}
        self.root_record = facts_of(status) + NO_PLACE
        self._unseen = [""]
        if has_watches:
            with contextlib.suppress(OSError):
                self.watches = Watches()
        if self.watches is None:
            self._check_walkable()

    @property
    def is_read(self) -> bool:
        """Whether the first look is complete."""
        return not self._unseen

    @property
    def percent(self) -> int:
        return 100 * len(self.folders) // (len(self.folders) + len(self._unseen))

    def look_on(self, budget_s: float) -> bool:
        """Go on with the first look for so long. Whether it is complete. Raises NotFollowed."""
        until = time.monotonic() + budget_s
        while self._unseen and time.monotonic() < until:
            try:
                self._unseen += self._scan(self._unseen.pop(), is_new=True)
            except _NoWatchLeft:
                self._do_without_watches()
                self.folders.clear()
                self._names.clear()
                self.contents.unread.clear()
                self.contents.unread_objects.clear()
                self.count, self._unseen = 0, [""]
        return not self._unseen

    def settle(self) -> None:
        """Bring what is known up to date. Raises NotFollowed."""
        self._gone.clear()
        self._touched.clear()
        status = _lstat(self.root)
        if status is None or status.st_ino != unpack(self.root_record).inode or status.st_dev != self._device:
            raise NotFollowed("the folder of the project was moved or replaced")
        seen = self.watches.drain() if self.watches else SeenEvents({}, set(), True)
        try:
            if seen.has_lost:
                self._walk()
            elif seen.names or seen.ended:
                self._follow(seen)
        except _NoWatchLeft:
            self._do_without_watches()
            self._walk()

    def read_on(self, budget_s: float) -> bool:
        """Read what was not read yet for so long, objects of git last. Whether nothing is left."""
        until = time.monotonic() + budget_s
        unread, objects = self.contents.unread, self.contents.unread_objects
        while (unread or objects) and time.monotonic() < until:
            path = unread.pop() if unread else objects.pop()
            folder, name = os.path.split(path)
            node = self.folders.get(folder)
            raw = node.names.get(name) if node is not None and node.names is not None else None
            if node is None or node.names is None or raw is None or unpack(raw).at != NOT_READ:
                continue
            place = self.contents.keep(path, raw[: FACTS.size])
            if place is not None:
                node.names[name] = raw[: FACTS.size] + place
        if unread or objects:
            return False
        self.contents.pack.flush()
        return True

    def record(self, path: str) -> bytes | None:
        if not path:
            return self.root_record
        folder, name = os.path.split(path)
        node = self.folders.get(folder)
        return node.names.get(name) if node is not None and node.names else None

    def names_of(self, inode: int) -> set[str]:
        """The names that a file with several has in the project now."""
        return self._names.get(inode, set())

    def copy_contents(self) -> Iterator[None]:
        """Copy what is current into the newest file of the pack, in small steps."""
        for path in list(self.folders):
            node = self.folders.get(path)
            if node is not None and node.names is not None:
                for name, raw in list(node.names.items()):
                    if node.names.get(name) == raw:
                        node.names[name] = self.contents.copy_on(raw)
                yield

    def close(self) -> None:
        if self.watches is not None:
            self.watches.close()
        self.contents.pack.close()

    def _follow(self, seen: SeenEvents) -> None:
        touched: dict[str, set[str]] = {}
        for watch, names in seen.names.items():
            if (folder := self._by_watch.get(watch)) is not None:
                touched.setdefault(folder, set()).update(names)
        # Folders that were removed: one that has the name now may even have the number of the inode.
        self._ended = {path for each in seen.ended if (path := self._by_watch.pop(each, None)) is not None}
        there = []
        # What is gone first, so that what was moved is known by its inode.
        for folder in sorted(touched):
            self._at_work()
            node = self.folders.get(folder)
            if node is not None and node.names is None:
                self.opaque_changed.add(folder)
            elif node is not None:
                for name in touched[folder] - {""}:
                    if self._lstat(join(folder, name)) is not None:
                        there.append((folder, name))
                    elif folder in self.folders:
                        self._look(folder, name, None)
        for folder, name in there:
            if folder in self.folders:
                self._look(folder, name, self._lstat(join(folder, name)))
        self._look_at_other_names()
        for folder in touched:
            if folder in self.folders:
                self._refresh_folder(folder)
        self._ended = set()

    def _walk(self) -> None:
        """Compare everything with what is known of it."""
        self._refresh_folder("")
        for folder in sorted(self.folders):
            if folder in self.folders:
                self._scan(folder)
                if folder:
                    self._refresh_folder(folder)

    def _enter(self, top: str) -> None:
        """Look into a new folder and all below it."""
        unseen = [top]
        while unseen:
            unseen += self._scan(unseen.pop(), is_new=True)

    def _scan(self, path: str, *, is_new: bool = False) -> list[str]:
        """Compare a folder with what is known of it. With `is_new`, give the folders in it. It is watched before it is
        read, so that nothing is missed."""
        self._at_work()
        node = self.folders.get(path)
        if node is None:
            node = self.folders[path] = _Folder()
        new: list[str] = []
        try:
            folder = os.open(self._full(path), _FOLDER_FLAGS)
        except OSError:
            return new
        try:
            if self.watches is not None:
                node.watch = self._watch(folder)
                self._by_watch[node.watch] = path
            if is_new and self._is_opaque(path, os.fstat(folder)):
                node.names = None
            if node.names is None:
                return new
            self._compare(path, node.names, folder, new if is_new else None)
        finally:
            os.close(folder)
        return new

    def _compare(self, path: str, known: dict[str, bytes], folder: int, into: list[str] | None) -> None:
        found = os.listdir(folder)
        racy_from = time.time_ns() - _TICK_NS
        for name in found:
            try:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError:
                continue
            old = known.get(name)
            # The same times mean the same content, unless it was read within the same tick.
            if (
                old is None
                or old[: FACTS.size] != facts_of(status)
                or (status.st_ctime_ns > racy_from and not is_folder(old))
            ):
                self._look(path, name, status, into=into)
        for name in known.keys() - set(found):
            self._look(path, name, None)

    def _look(self, folder: str, name: str, status: os.stat_result | None, into: list[str] | None = None) -> None:
        """Compare one name with what is known of it. A new folder is entered, or added to `into`."""
        self._at_work()
        names = self.folders[folder].names
        if names is None:
            return
        path, old = join(folder, name), names.get(name)
        if old is not None and (status is None or self._is_other(path, old, status)):
            del names[name]
            self._drop(path, old)
            old = None
        if status is None or (status.st_dev, status.st_ino) in self._skipped:
            return
        if old is None:
            self._count_one()
        if stat.S_ISDIR(status.st_mode):
            self._look_at_folder(path, names, name, old, status, into)
        else:
            self._look_at_file(path, names, name, old, status)

    def _is_other(self, path: str, old: bytes, status: os.stat_result) -> bool:
        """Whether something of another kind is there now, or another folder."""
        record = unpack(old)
        if stat.S_IFMT(status.st_mode) != record.kind:
            return True
        return record.is_folder and (status.st_ino != record.inode or path in self._ended)

    def _look_at_folder(
        self,
        path: str,
        names: dict[str, bytes],
        name: str,
        old: bytes | None,
        status: os.stat_result,
        into: list[str] | None,
    ) -> None:
        facts = facts_of(status)
        new = names[name] = facts + (NO_PLACE if old is None else old[FACTS.size :])
        if old is not None:
            if differ(unpack(old), unpack(new)):
                self._on_change(path, old, new)
            return
        if into is not None:
            self._on_change(path, None, new)
            into.append(path)
            return
        self._enter(path)
        # One that is not looked into is known now, and its changes come after its own.
        self._on_change(path, None, names[name])

    def _look_at_file(
        self, path: str, names: dict[str, bytes], name: str, old: bytes | None, status: os.stat_result
    ) -> None:
        facts = facts_of(status)
        if old is not None and unpack(old).inode != status.st_ino:
            self._forget_name(unpack(old).inode, path)
        if status.st_nlink > 1 and not is_object(path):
            self._names.setdefault(status.st_ino, set()).add(path)
            self._touched[status.st_ino] = status.st_nlink
        place = self.contents.place(path, status, facts, old, self._gone.get(status.st_ino))
        new = names[name] = facts + place
        if old is not None and old[FACTS.size :] != place:
            self.contents.forget(old)
        if old is None or differ(unpack(old), unpack(new)):
            self._on_change(path, old, new)

    def _drop(self, path: str, raw: bytes) -> None:
        gone = [(path, raw)]
        while gone:
            path, raw = gone.pop()
            self.count -= 1
            self._on_change(path, raw, None)
            if not is_folder(raw):
                inode = unpack(raw).inode
                self._gone[inode] = raw
                self._forget_name(inode, path)
                self.contents.forget(raw)
            elif (node := self.folders.pop(path, None)) is not None:
                if self._by_watch.get(node.watch) == path:
                    del self._by_watch[node.watch]
                gone += [(join(path, name), child) for name, child in (node.names or {}).items()]

    def _forget_name(self, inode: int, path: str) -> None:
        names = self._names.get(inode)
        if names is not None and path in names:
            names.discard(path)
            if not names:
                del self._names[inode]
            self._touched[inode] = 0

    def _look_at_other_names(self) -> None:
        """A file that has several names was used by one: there is no event for the others, nor for the first of two."""
        incomplete = {inode for inode, links in self._touched.items() if len(self.names_of(inode)) < links}
        missing = {inode.to_bytes(8, "little") for inode in incomplete}
        if missing:
            for folder, node in self.folders.items():
                for name, raw in (node.names or {}).items():
                    if inode_bytes(raw) in missing and not is_folder(raw):
                        self._names.setdefault(unpack(raw).inode, set()).add(join(folder, name))
        for path in [path for inode in self._touched for path in self.names_of(inode)]:
            folder, name = os.path.split(path)
            if folder in self.folders:
                self._look(folder, name, self._lstat(path))

    def _refresh_folder(self, path: str) -> None:
        """Compare mode, owner and times of a folder with what is known of it."""
        status, old = self._lstat(path), self.record(path)
        if status is None or old is None or not stat.S_ISDIR(status.st_mode):
            return
        new = facts_of(status) + old[FACTS.size :]
        if path:
            parent, name = os.path.split(path)
            names = self.folders[parent].names
            if names is None:
                return
            names[name] = new
        else:
            self.root_record = new
        if differ(unpack(old), unpack(new)):
            self._on_change(path, old, new)

    def _is_opaque(self, path: str, status: os.stat_result) -> bool:
        """Whether a folder is not looked into: it is on another disk, or holds what programs have made by thousands."""
        is_opaque = status.st_dev != self._device
        if not is_opaque and path and os.path.basename(path) in _HEAVY:
            is_opaque = _has_more_files(self._full(path), HEAVY_FILES)
        if is_opaque and (raw := self.record(path)) is not None:
            parent, name = os.path.split(path)
            names = self.folders[parent].names
            assert names is not None
            names[name] = raw[: FACTS.size] + PLACE.pack(OPAQUE, 0)
        return is_opaque

    def _watch(self, folder: int) -> int:
        assert self.watches is not None
        try:
            return self.watches.add(f"/proc/self/fd/{folder}/.")
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.ENOMEM):
                raise _NoWatchLeft from error
            if error.errno in (errno.ENOENT, errno.EACCES):
                # Removed meanwhile, or not ours to read: then there is nothing in it to follow.
                return -1
            raise

    def _do_without_watches(self) -> None:
        assert self.watches is not None
        self.watches.close()
        self.watches = None
        self._by_watch.clear()
        self._check_walkable()

    def _check_walkable(self) -> None:
        if _has_more_files(self.root, MOST_WALKED_FILES):
            raise NotFollowed(
                f"there are no inotify watches left for it (fs.inotify.max_user_watches), and it has more than "
                f"{MOST_WALKED_FILES} files"
            )

    def _count_one(self) -> None:
        self.count += 1
        if self.count > MOST_FILES:
            raise NotFollowed(f"the project has more than {MOST_FILES} files")

    def _full(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def _lstat(self, path: str) -> os.stat_result | None:
        return _lstat(self._full(path))


class _NoWatchLeft(Exception):
    pass


def _lstat(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _has_more_files(top: str, most: int) -> bool:
    count, unseen = 0, [top]
    while unseen and count <= most:
        try:
            with os.scandir(unseen.pop()) as found:
                for each in found:
                    count += 1
                    if each.is_dir(follow_symlinks=False):
                        unseen.append(each.path)
        except OSError:
            continue
    return count > most
