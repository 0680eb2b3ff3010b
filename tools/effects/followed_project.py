"""What each running command has changed in one project, and the folder of old contents that its undo needs."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tools.effects.contents import KeptContents
from tools.effects.file_records import (
    NO_CONTENT,
    OPAQUE,
    WHY,
    Record,
    git_folder,
    is_folder,
    is_object,
    unpack,
)
from tools.effects.project_tree import ProjectTree
from tools.journal.command_rows import CONTENT, CommandRow, CommandRows, FileState, write_rows
from tools.journal.git_index import index_digest, is_index

MOST_PATHS = 20
_TOO_MUCH = "one undo keeps no more"


class _Running:
    """The changes of one command: for each path the first record and the last one."""

    def __init__(self) -> None:
        self.changes: dict[str, tuple[bytes | None, bytes | None]] = {}
        self.shared: set[str] = set()
        self.opaque: set[str] = set()


class _Change(NamedTuple):
    path: str
    old: Record | None
    new: Record | None
    # "created", "changed", "deleted"; "status": its content is the same; "touched": nothing but its times is different.
    kind: str

    @property
    def counted_as(self) -> str:
        return "changed" if self.kind == "status" else self.kind


class FollowedProject:
    """One project: its tree, and the commands that run in it."""

    def __init__(
        self,
        root: str,
        folder: str,
        *,
        skipped: Sequence[str] = (),
        is_denied: Callable[[str], bool] = lambda path: False,
        has_room: Callable[[int], bool] = lambda size: True,
        has_watches: bool = True,
        at_work: Callable[[], None] = lambda: None,
    ) -> None:
        """`at_work` is called again and again while files are looked at."""
        self.root = root
        self._at_work = at_work
        self._contents = KeptContents(root, folder, is_denied, has_room)
        self.tree = ProjectTree(
            root, self._contents, self._on_change, skipped=skipped, has_watches=has_watches, at_work=at_work
        )
        self._running: dict[str, _Running] = {}
        self._copying: Iterator[None] | None = None

    def settle(self, running: Sequence[str]) -> None:
        """Look at what has happened since the last look: these commands have done it; if there are none, nobody has.

        Raises NotFollowed.
        """
        self._running = {each: self._running.get(each) or _Running() for each in running}
        self.tree.settle()
        for each in self._running.values():
            each.opaque |= self.tree.opaque_changed
        self.tree.opaque_changed.clear()

    def read_on(self, budget_s: float) -> bool:
        """Read contents, and copy the pack when most of it is out of date. Whether nothing is left to do."""
        if not self.tree.read_on(budget_s):
            return False
        pack = self._contents.pack
        if self._copying is None and pack.dead_bytes > max(64 << 20, pack.size // 2):
            pack.begin_anew()
            self._copying = self.tree.copy_contents()
        if self._copying is None:
            return True
        if next(self._copying, pack) is pack and not self._running:
            # No running command has a record of what was before.
            pack.drop_old()
            self._copying = None
        return self._copying is None or bool(self._running)

    def end(self, command: str, folder: str, most_bytes: int) -> dict[str, Any]:
        """What a command did. What its undo needs is put into `folder`, which is made; the answer has no `rows` if
        nothing was worth it."""
        done = self._running.pop(command, None) or _Running()
        changes = [found for path, pair in sorted(done.changes.items()) if (found := self._change(path, *pair))]
        # New objects of git stay where they are: a commit that is taken back can still be had by its id.
        made = {found.path for found in changes if found.kind == "created" and not is_object(found.path)}
        changes = [
            found
            for found in changes
            if found.kind != "created" or not is_object(found.path) or git_folder(found.path) in made
        ]
        answer = self._counts(changes)
        for path in sorted(done.opaque):
            answer["not_undoable"][path] = "something in it was changed, and it has too many files to be kept"
        if not any(answer[kind] for kind in ("created", "changed", "deleted")):
            return answer
        lost, rows, size = self._write(folder, changes, most_bytes)
        answer["not_undoable"].update(lost)
        kept = {row.path for row in rows}
        shared = frozenset(done.shared & kept)
        write_rows(folder, CommandRows(self.root, rows, shared))
        if rows:
            answer |= {"rows": len(rows), "bytes": size}
        if shared:
            answer["shared"] = sorted(shared)[:MOST_PATHS]
        return answer

    @property
    def cached_bytes(self) -> int:
        return self._contents.pack.size

    def close(self) -> None:
        self.tree.close()

    def _on_change(self, path: str, old: bytes | None, new: bytes | None) -> None:
        for run in self._running.values():
            first = run.changes.get(path)
            run.changes[path] = (old if first is None else first[0], new)
            if len(self._running) > 1:
                run.shared.add(path)

    def _change(self, path: str, old: bytes | None, new: bytes | None) -> _Change | None:
        """What is different between the two records; None if nothing is."""
        self._at_work()
        if new is not None and is_folder(new):
            # Whether it is looked into is known only when it was entered.
            new = self.tree.record(path) or new
        before, after = (None if raw is None else unpack(raw) for raw in (old, new))
        if before is None or after is None:
            kind = "deleted" if before is not None else "created" if after is not None else ""
        else:
            kind = self._difference(path, before, after)
        return _Change(path, before, after, kind) if kind else None

    def _difference(self, path: str, before: Record, after: Record) -> str:
        if before.kind != after.kind:
            return "changed"
        if before.is_folder:
            is_changed = False
        elif max(before.links, after.links) > 1 and before.inode != after.inode:
            is_changed = True
        elif before.at >= 0 and after.at >= 0:
            is_changed = not self._contents.is_equal(before, after)
            if is_changed and is_index(path) and self._says_the_same(before, after):
                return ""
        else:
            # Without both contents: the same size and time of the same file mean the same content.
            is_changed = (before.size, before.mtime, before.inode) != (after.size, after.mtime, after.inode)
        if is_changed:
            return "changed"
        if before.status != after.status:
            return "status"
        return "touched" if before.mtime != after.mtime else ""

    def _says_the_same(self, before: Record, after: Record) -> bool:
        return index_digest(self._contents.read(before)[0]) == index_digest(self._contents.read(after)[0])

    def _counts(self, changes: list[_Change]) -> dict[str, Any]:
        """How many paths there are of each kind, and the first of them. All of a repository's own is one path, and a
        folder counts where nothing in it does."""
        shown = [found for found in changes if found.kind != "touched" and not _is_only_a_folder(found)]
        above = {os.path.dirname(found.path) for found in shown}
        by_kind: dict[str, dict[str, None]] = {"changed": {}, "created": {}, "deleted": {}}
        for found in shown:
            kind, path = found.counted_as, found.path
            repository = git_folder(path)
            if repository is not None:
                kind, path = kind if path == repository else "changed", repository
            elif path in above and kind != "changed":
                continue
            if not any(path in each for each in by_kind.values()):
                by_kind[kind][path] = None
        paths = [path for found in by_kind.values() for path in found]
        counts = {kind: len(found) for kind, found in by_kind.items()}
        return {**counts, "paths": paths[:MOST_PATHS], "more": max(0, len(paths) - MOST_PATHS), "not_undoable": {}}

    def _write(
        self, folder: str, changes: list[_Change], most_bytes: int
    ) -> tuple[dict[str, str], list[CommandRow], int]:
        """Copy old contents into `folder`. Gives what is lost and why, the rows, and the bytes."""
        os.mkdir(folder, 0o700)
        there = {_identity(found.new) for found in changes if found.new is not None and found.kind == "created"}
        changed = {found.path for found in changes}
        lost: dict[str, str] = {}
        rows: list[CommandRow] = []
        size = 0
        content = os.open(f"{folder}/{CONTENT}", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            for found in changes:
                self._at_work()
                row = _row(found)
                if found.old is not None and not row.is_same and not found.old.is_folder:
                    needed = found.old.size + found.old.attribute_bytes
                    if found.old.at >= 0:
                        if size + needed > most_bytes or not self._copy_out(found.old, content, size):
                            lost[found.path] = _TOO_MUCH
                            continue
                        row = row._replace(at=size, attribute_bytes=found.old.attribute_bytes)
                        size += needed
                    elif not _is_pipe(found.old) and _identity(found.old) not in there:
                        lost[found.path] = WHY[found.old.at]
                        continue
                elif row.is_opaque and _identity(found.old) not in there:
                    lost[found.path] = WHY[OPAQUE]
                    continue
                if found.new is not None and found.new.at >= 0 and is_index(found.path):
                    row = row._replace(digest=index_digest(self._contents.read(found.new)[0]).hex())
                if inodes := {each.inode for each in (found.old, found.new) if each is not None and each.links > 1}:
                    names = set().union(*map(self.tree.names_of, inodes))
                    row = row._replace(names=sorted(names - changed))
                rows.append(row)
        finally:
            os.close(content)
        return _one_line_each(lost), rows, size

    def _copy_out(self, record: Record, target: int, size: int) -> bool:
        """Append an old content to `target`, which has `size` bytes. False if the disk is full."""
        try:
            self._contents.pack.copy_out(record.at, record.size + record.attribute_bytes, target)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            os.ftruncate(target, size)
            os.lseek(target, size, os.SEEK_SET)
            return False
        return True


def _row(found: _Change) -> CommandRow:
    is_same = found.kind in ("status", "touched")
    is_opaque = any(each is not None and each.at == OPAQUE for each in (found.old, found.new))
    return CommandRow(found.path, _state(found.old), _state(found.new), is_same=is_same, is_opaque=is_opaque)


def _is_only_a_folder(found: _Change) -> bool:
    """A folder that is there before and after, with the same rights: what is in it is what was changed."""
    old, new = found.old, found.new
    return old is not None and new is not None and old.is_folder and new.is_folder and old.status == new.status


def _state(record: Record | None) -> FileState | None:
    if record is None:
        return None
    return FileState(*record[:6], record.inode)


def _identity(record: Record | None) -> tuple[int, ...]:
    """By this a file that was moved is found again."""
    if record is None:
        return ()
    return (record.inode, record.kind) if record.is_folder else (record.inode, record.kind, record.mtime, record.size)


def _is_pipe(record: Record) -> bool:
    return record.at == NO_CONTENT and stat.S_ISFIFO(record.mode)


def _one_line_each(lost: dict[str, str]) -> dict[str, str]:
    """What is lost in a repository is one line, as what was changed there is."""
    found: dict[str, str] = {}
    for path, why in lost.items():
        found.setdefault(git_folder(path) or path, why)
    return found
