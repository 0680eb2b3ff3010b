"""Changes to files that can be taken back. How they are made is in `journal_changes.py`.

When a process dies during a change, `recover` finishes it or takes it back at the next start (`journal_recovery.py`).
A journal without a folder makes the same changes and keeps nothing.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tools.files import disk
from tools.files.exact import make_folders
from tools.files.paths import to_wire
from tools.journal import copies, trees
from tools.journal.command_changes import CommandChanges
from tools.journal.journal_records import Action, Group, JournalEntry, Receipt
from tools.journal.journal_recovery import recover
from tools.kit.errors import AlreadyExists, InvalidPath, IoError, NotFound, StaleRev, ToolError

_SCHEME = "undo://"


class Journal(CommandChanges):
    """All changes that the tools of this daemon make to files."""

    def undo(
        self, undo_id: str, *, to: Path | None = None, overwrite: bool = False
    ) -> tuple[JournalEntry, Path, Receipt]:
        """Take a change back, or put what was there before to another place (`to`).

        Behind the id of a command a path of it may stand. Gives the entry, the path that is as it was, and the receipt
        that undoes the undo. Raises NotFound, AlreadyExists, and StaleRev if a file is no longer what the change left.
        """
        undo_id, _, inner = undo_id.partition("/")
        entry = self.entry(undo_id)
        own = Path(entry.path)
        if entry.action == "command" and (to is None or to == self.place_of(f"{_SCHEME}{undo_id}/{inner}")):
            return entry, *self.undo_command(entry, inner, overwrite=overwrite)
        if inner or entry.action == "command":
            return self._put_elsewhere(entry, f"{_SCHEME}{undo_id}/{inner}", to, overwrite=overwrite)
        if entry.parts is not None:
            return self._undo_all(entry, to, overwrite=overwrite)
        if to is not None and str(to) not in entry.paths:
            return self._put_elsewhere(entry, f"{_SCHEME}{undo_id}", to, overwrite=overwrite)
        if not overwrite:
            self._check_still(entry, own)
        return entry, *self._take_back(entry, own, overwrite=overwrite)

    def _put_elsewhere(
        self, entry: JournalEntry, reference: str, to: Path | None, *, overwrite: bool
    ) -> tuple[JournalEntry, Path, Receipt]:
        """Put what was there before a change to another place."""
        image = self.image_of(reference)
        if to is None:
            raise InvalidPath(f"{reference[:200]} is a part of a change; say where it goes")
        if not overwrite and os.path.lexists(to):
            raise AlreadyExists(f"{to_wire(to)} is there already", hint="pass overwrite=true to replace it")
        return entry, to, self._put(image, to)

    def parts_of(self, entry: JournalEntry) -> list[JournalEntry]:
        """The changes that were made together with `entry`, which is the first of them, as far as they are there."""
        parts = filter(None, (self._records.find(undo_id) for undo_id in entry.parts or (entry.id,)))
        return list(parts)

    @contextmanager
    def together(self) -> Iterator[Group]:
        """What this thread changes in the block is one change: one id undoes it. If it fails, what was made is undone.

        A part that cannot be undone is for the caller to take back.
        """
        with self._records.together() as group:
            try:
                yield group
            except BaseException as error:
                parts = [part for part in map(self._records.find, group.parts) if part is not None]
                left = self._take_back_parts(parts)
                if left:
                    listed = ", ".join(f"{to_wire(part.path)} (undo://{part.id})" for part in left)
                    raise IoError(f"{error}; what was made before could not be taken back: {listed}") from error
                raise

    def _take_back_parts(self, parts: list[JournalEntry]) -> list[JournalEntry]:
        """Take changes back for good, the last one first. Gives those for which that is not possible."""
        left: list[JournalEntry] = []
        with self._records.alone():
            for part in reversed(parts):
                try:
                    _, receipt = self._take_back(part, Path(part.path), overwrite=True)
                except (OSError, ToolError):
                    left.append(part)
                else:
                    if receipt.undo_id is not None:
                        self._records.forget(receipt.undo_id)
        return left

    def _undo_all(self, entry: JournalEntry, to: Path | None, *, overwrite: bool) -> tuple[JournalEntry, Path, Receipt]:
        """Undo several changes that were made together, all or none."""
        parts = self.parts_of(entry)
        if to is not None and not any(str(to) in part.paths for part in parts):
            raise InvalidPath(
                f"undo://{entry.id} changed {len(parts)} files, and {to_wire(to)} is none of them",
                hint=f"pass to={to_wire(entry.path)} to undo them all",
            )
        if not overwrite:
            for index, part in enumerate(parts):
                later = {path for each in parts[index + 1 :] for path in each.paths}
                if part.path not in later:
                    self._check_still(part, Path(part.path))
                if part.source is not None and part.source not in later and os.path.lexists(part.source):
                    raise AlreadyExists(f"{to_wire(part.source)} is there again", hint="pass overwrite=true")
        with self.together() as group:
            for part in reversed(parts):
                self._take_back(part, Path(part.path), overwrite=True)
        return entry, to or Path(entry.path), group.receipt

    def _take_back(self, entry: JournalEntry, own: Path, *, overwrite: bool) -> tuple[Path, Receipt]:
        path = own
        if entry.action == "create":
            receipt = self.remove(own, permanent=True)
        elif entry.source is not None:
            path = Path(entry.source)
            receipt = self._move_back(entry, own, path, overwrite=overwrite)
        elif entry.before is not None and copies.identity(own.lstat()) == entry.after:
            receipt = self._cut(own, entry.before)
        else:
            receipt = self._put(self.image_of(f"{_SCHEME}{entry.id}"), own, entry)
        self._records.mark_undo(receipt.undo_id, entry.id)
        self._records.forget(entry.id)
        return path, receipt

    def _move_back(self, entry: JournalEntry, own: Path, source: Path, *, overwrite: bool) -> Receipt:
        """Undo a move, and put back what it had replaced."""
        image = None if entry.image_bytes is None else self.image_of(f"{_SCHEME}{entry.id}")
        receipt = self.move(own, source, overwrite=overwrite)
        if image is not None:
            try:
                overwritten = self._put(image, own)
            except (OSError, IoError) as error:
                raise IoError(
                    f"{to_wire(source)} is back, but not what the move had replaced: {error}",
                    hint=f"it is undo://{entry.id}",
                ) from error
            self._records.mark_undo(overwritten.undo_id, entry.id)
        return receipt

    def entry(self, undo_id: str) -> JournalEntry:
        """Raises NotFound."""
        return self._records.entry(undo_id)

    def entries(self) -> list[JournalEntry]:
        """Everything that can be undone, newest first."""
        return self._records.entries()

    def place_of(self, reference: str) -> Path:
        """The path that the content of `undo://<id>` or `undo://<id>/<path>` had when it was kept. Raises NotFound."""
        undo_id, _, inner = reference.removeprefix(_SCHEME).partition("/")
        return Path(os.path.normpath(f"{self.entry(undo_id).path}/{inner}"))

    def path_of(self, reference: str) -> Path:
        """Where the text behind `undo://<id>` is, or `undo://<id>/<path>` in a deleted folder.

        Raises NotFound, also for a link: what it leads to is not in the journal, and rules may be about it.
        """
        path = self.image_of(reference)
        if path.is_symlink():
            raise NotFound(
                f"{reference[:200]} is a symbolic link to {to_wire(path.readlink())}, and it is not followed",
                hint="read what it leads to by its own path",
            )
        return path

    def image_of(self, reference: str) -> Path:
        """As `path_of`, for putting it back: it may be a link. Raises NotFound."""
        undo_id, _, inner = reference.removeprefix(_SCHEME).partition("/")
        entry = self.entry(undo_id)
        if entry.action == "command":
            return self.old_content(entry, os.path.normpath(inner) if inner else "")
        image = self._records.file(entry.id, "image")
        if entry.before is not None and not os.path.lexists(image):
            raise NotFound(
                f"{reference[:200]} is the first {entry.before[2]} bytes of {to_wire(entry.path)}; no copy was kept",
                hint="read the file itself, or undo the change",
            )
        if not os.path.lexists(image):
            raise NotFound(f"{reference[:200]} {entry.summary}: there was nothing before that to show")
        if not inner:
            return image
        parts = Path(inner).parts
        if any(part in ("..", "/") for part in parts):
            raise NotFound(f"{reference[:200]} leads out of what was deleted")
        path = image.joinpath(*parts)
        if Path(os.path.realpath(path)) != path:
            raise NotFound(f"{reference[:200]} is a symbolic link")
        return path

    def recover(self) -> list[str]:
        """Finish or take back what a dead process left half done; say what was done, a sentence each."""
        sentences = recover(self._records)
        for entries in self._records.open_groups():
            left = {entry.id for entry in self._take_back_parts(entries[::-1])}
            for entry in entries:
                how = "could not take back" if entry.id in left else "took back"
                sentences.append(f"{how} a part of an interrupted change: {entry.summary}")
        return sentences

    def _put(self, image: Path, target: Path, undone: JournalEntry | None = None) -> Receipt:
        """Put a kept file or folder to `target`, and keep what it replaces.

        If that undoes a change, a folder is renamed and not copied: the caller forgets the image anyway.
        """
        self.protected.check_entry(target)
        existing = disk.lstat(target)
        is_file = existing is not None and stat.S_ISREG(existing.st_mode) and image.is_file()
        if existing is not None and is_file and (existing.st_nlink > 1 or (undone is not None and undone.in_place)):
            with self.lock(target), self._records.change("write", target) as (change, at):
                return self._change_in_place(change, at, existing, lambda writing: copies.restore(image, writing))
        make_folders(target.parent)
        action: Action = "create" if existing is None else "write"
        with self.lock(target), self._records.change(action, target) as (change, at):
            if undone is not None and existing is None and image.is_dir() and not image.is_symlink():
                change.note(new=copies.inode(image.lstat()))
                with suppress(OSError):
                    copies.rename_new(image, at)
                    return self._records.finish(change, at)
            temporary = change.temporary
            try:
                try:
                    os.link(image, temporary, follow_symlinks=False)
                except OSError:
                    trees.copy_any(image, temporary)
                change.note(new=copies.inode(temporary.lstat()))
                if existing is None:
                    copies.rename_new(temporary, at)
                else:
                    self._keep(change, at, existing)
                    os.replace(temporary, at)
                # Two names of one file: the rename was a no-op and has left both.
                temporary.unlink(missing_ok=True)
            except BaseException:
                with suppress(OSError):
                    trees.discard(temporary)
                raise
            disk.sync_folder(at.parent)
            return self._records.finish(change, at)

    def _check_still(self, entry: JournalEntry, own: Path) -> None:
        now = disk.lstat(own)
        if entry.action == "delete":
            if now is not None:
                raise AlreadyExists(
                    f"{to_wire(own)} is there again since it was deleted", hint="pass overwrite=true to replace it"
                )
        elif now is None or (entry.after is not None and copies.identity(now) != entry.after):
            raise StaleRev(
                f"{to_wire(own)} has changed since {entry.id} {entry.summary}",
                hint="pass overwrite=true (`mcp-agent undo ID --force`) to put the older state back all the same",
            )
