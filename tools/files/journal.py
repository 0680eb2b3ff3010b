"""Changes to files that are whole or not made at all, and that can be taken back.

Every change is one entry in the journal's folder, on record before a file is touched (`journal_records.py`).

    write    a new file is filled beside the target, the old one gets a second name in the journal, one rename
    delete   the target is renamed into the journal
    move     one rename; across file systems copy, verify, rename, remove
    append   in the file itself; how long it was is on record and synced first (`journal_tails.py`)
    in place where a rename would break a hard link or change the owner: the image is copied and synced first

When a process dies during a change, `recover` finishes it or takes it back at the next start (`journal_recovery.py`).
A journal without a folder makes the same changes and keeps nothing.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tools.files import disk
from tools.files.journal_records import Action, Entry, Limits, Pending, Receipt, Records, megabytes
from tools.files.journal_recovery import recover
from tools.files.journal_tails import change_tail, previous_content
from tools.files.paths import to_wire
from tools.kit.errors import AlreadyExists, IoError, NotFound, StaleRev

_SCHEME = "undo://"
_LOCKS = 64
# Renaming cannot work there, or would lose what must be kept; writing into the file itself can.
_IN_PLACE_ERRORS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.ENOENT)


class Journal:
    """All changes that the tools of this daemon make to files."""

    def __init__(self, folder: Path | None, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._records = Records(folder, self._limits)
        # Tools run in threads: two changes to one file wait for each other, others do not.
        self._locks = tuple(threading.RLock() for _ in range(_LOCKS))

    def lock(self, target: Path) -> threading.RLock:
        """Hold it from the look at `target` to its change, so that no other call of this daemon changes it."""
        return self._locks[hash(str(target)) % _LOCKS]

    def write(self, target: Path, fill: Callable[[int], None], *, seen: os.stat_result | None) -> Receipt:
        """Make `target` what `fill` writes into the descriptor it is given. `seen` is the file as it was looked at.

        Mode, owner, attributes, hard links and links to it are kept. Raises StaleRev if somebody else has changed
        the file since it was seen, AlreadyExists if it came to be; then, and on any error, nothing is changed.
        """
        with self.lock(target), self._records.pending("create" if seen is None else "write", target) as change:
            if seen is not None and (seen.st_nlink > 1 or not stat.S_ISREG(seen.st_mode)):
                return self._write_in_place(change, target, fill, seen)
            temporary = change.temporary
            try:
                descriptor = os.open(temporary, disk.NEW_FLAGS, 0o600 if seen is not None else 0o666)
            except OSError as error:
                if seen is None or error.errno not in _IN_PLACE_ERRORS:
                    raise
                return self._write_in_place(change, target, fill, seen)
            change.note(new=disk.inode(os.fstat(descriptor)))
            try:
                try:
                    fill(descriptor)
                    if seen is not None and not disk.give_status(target, seen, descriptor):
                        temporary.unlink()
                        return self._write_in_place(change, target, fill, seen)
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                self._check_unchanged(target, seen)
                if seen is not None:
                    self._keep(change, target, seen)
                    os.replace(temporary, target)
                else:
                    disk.rename_new(temporary, target)
            except BaseException as error:
                temporary.unlink(missing_ok=True)
                if isinstance(error, FileExistsError):
                    raise AlreadyExists(f"{to_wire(target)} came to be while it was being written") from error
                raise
            disk.sync_folder(target.parent)
            return self._records.finish(change, target, None if seen is None else seen.st_size)

    def append(self, target: Path, data: bytes, *, seen: os.stat_result) -> Receipt:
        """Put `data` to the end of `target`, which stays the file it is. Raises StaleRev as `write` does."""
        try:
            with self.lock(target), self._records.pending("write", target) as change:
                self._check_unchanged(target, seen)
                return change_tail(
                    self._records,
                    change,
                    target,
                    seen.st_size,
                    len(data),
                    lambda writing: disk.write_all(writing, data),
                )
        except PermissionError:
            # Its folder may let us put another in its place all the same.
            return self.write(target, lambda writing: _copy_and_append(target, data, writing), seen=seen)

    def remove(self, target: Path) -> Receipt:
        """Remove a file, a link or a folder with all that is in it. It is gone at once or not at all."""
        with self.lock(target), self._records.pending("delete", target) as change:
            status = target.lstat()
            image = change.image
            size = disk.tree_bytes(target, status, self._limits.total_bytes)
            if image is not None and size > self._limits.total_bytes:
                change.problem = f"it is larger than the journal, which keeps {megabytes(self._limits.total_bytes)}"
                image = None
            if image is not None:
                try:
                    os.rename(target, image)
                    return self._records.finish(change, None, size)
                except OSError as error:
                    if error.errno != errno.EXDEV:
                        raise
                self._keep_copy(change, target, image, size)
            temporary = change.temporary
            change.note(phase="verified")
            os.rename(target, temporary)
            disk.remove_tree(temporary)
            disk.sync_folder(target.parent)
            return self._records.finish(change, None, size)

    def move(self, source: Path, target: Path, *, overwrite: bool) -> Receipt:
        """Rename `source` to `target`; across file systems copy, verify, then remove. Raises AlreadyExists."""
        with self.lock(target), self._records.pending("move", target, source) as change:
            existing = disk.lstat(target)
            if existing is not None and not overwrite:
                raise AlreadyExists(
                    f"{to_wire(target)} is there already", hint="pass overwrite=true to replace it; it can be undone"
                )
            if existing is not None:
                self._keep(change, target, existing)
            try:
                if existing is None:
                    disk.rename_new(source, target)
                else:
                    os.replace(source, target)
            except FileExistsError as error:
                raise AlreadyExists(f"{to_wire(target)} came to be while {to_wire(source)} was being moved") from error
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                self._move_across(change, source, target, is_new=existing is None)
            disk.sync_folder(target.parent)
            return self._records.finish(change, target)

    def undo(self, undo_id: str, *, to: Path | None = None, overwrite: bool = False) -> tuple[Entry, Path, Receipt]:
        """Take a change back, or put what was there before to another place (`to`).

        Gives the entry, the path that is as it was, and the receipt that undoes the undo. Raises NotFound,
        AlreadyExists, and StaleRev if the file is no longer what the change left.
        """
        entry = self.entry(undo_id)
        own = Path(entry.path)
        if to is not None and to != own and not (entry.action == "move" and str(to) == entry.source):
            image = self.path_of(f"{_SCHEME}{undo_id}")
            if not overwrite and os.path.lexists(to):
                raise AlreadyExists(f"{to_wire(to)} is there already", hint="pass overwrite=true to replace it")
            return entry, to, self._put(image, to)
        if not overwrite:
            self._check_still(entry, own)
        if entry.action == "create":
            receipt = self.remove(own)
            self._records.forget(entry.id)
            return entry, own, receipt
        if entry.action == "move":
            assert entry.source is not None, "a move has a source"
            receipt = self.move(own, Path(entry.source), overwrite=overwrite)
            if entry.image_bytes is not None:
                self._put(self._records.file(entry.id, "image"), own)
            self._records.forget(entry.id)
            return entry, Path(entry.source), receipt
        if entry.prefix_bytes is not None:
            receipt = self._put_tail(entry, own, entry.prefix_bytes)
        else:
            receipt = self._put(self.path_of(f"{_SCHEME}{undo_id}"), own)
        self._records.forget(entry.id)
        return entry, own, receipt

    def entry(self, undo_id: str) -> Entry:
        """Raises NotFound."""
        return self._records.entry(undo_id)

    def entries(self) -> list[Entry]:
        """Everything that can be undone, newest first."""
        return self._records.entries()

    def place_of(self, reference: str) -> Path:
        """The path that the content of `undo://<id>` or `undo://<id>/<path>` had when it was kept. Raises NotFound."""
        undo_id, _, inner = reference.removeprefix(_SCHEME).partition("/")
        return Path(os.path.normpath(f"{self.entry(undo_id).path}/{inner}"))

    def path_of(self, reference: str) -> Path:
        """Where the text behind `undo://<id>` is, or `undo://<id>/<path>` in a deleted folder. Raises NotFound."""
        undo_id, _, inner = reference.removeprefix(_SCHEME).partition("/")
        entry = self.entry(undo_id)
        if entry.prefix_bytes is not None and not inner:
            return previous_content(self._records, entry)
        image = self._records.file(entry.id, "image")
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
        return recover(self._records)

    def _check_unchanged(self, target: Path, seen: os.stat_result | None) -> None:
        now = disk.lstat(target)
        if seen is None:
            if now is not None:
                raise AlreadyExists(f"{to_wire(target)} came to be while it was being written")
        elif now is None or disk.identity(now) != disk.identity(seen):
            raise StaleRev(
                f"{to_wire(target)} was changed by another program while this call was at work; nothing was changed",
                hint="read it again, then repeat the call",
            )

    def _keep(self, change: Pending, target: Path, status: os.stat_result) -> None:
        """Keep what is at `target` as the image, by a second name or a copy. If neither works, say why in `problem`."""
        image = change.image
        if image is None:
            return
        if status.st_size > self._limits.total_bytes:
            change.problem = f"it is larger than the journal, which keeps {megabytes(self._limits.total_bytes)}"
            return
        try:
            os.link(target, image, follow_symlinks=False)
        except OSError:
            self._keep_copy(change, target, image, status.st_size)

    def _keep_copy(self, change: Pending, target: Path, image: Path, size: int) -> None:
        if size > self._limits.copy_bytes:
            change.problem = (
                f"it is on another file system than the journal and larger than {megabytes(self._limits.copy_bytes)}"
            )
            return
        partial = image.with_suffix(".partial")
        try:
            disk.copy_any(target, partial)
            os.rename(partial, image)
        except OSError as error:
            change.problem = f"the journal has no copy: {(error.strerror or str(error)).lower()}"
            with suppress(OSError):
                disk.discard(partial)

    def _write_in_place(
        self, change: Pending, target: Path, fill: Callable[[int], None], seen: os.stat_result
    ) -> Receipt:
        """Write into the file itself. The new content is made whole first, and the old one is safe on disk by then."""
        whole = target.with_name(f".mcp-agent-{change.id}.whole")
        if change.descriptor >= 0:
            whole = self._records.file(change.id, "whole")
        with disk.open_descriptor(whole, disk.NEW_FLAGS) as descriptor:
            whole.unlink()
            fill(descriptor)
            self._check_unchanged(target, seen)
            change.note(in_place=True)
            image = change.image
            if image is not None:
                self._keep_copy(change, target, image, seen.st_size)
                if change.problem is None:
                    change.note(phase="verified")
                    change.sync()
            with disk.open_descriptor(target, disk.WRITE_FLAGS) as writing:
                try:
                    disk.overwrite(descriptor, writing)
                except OSError:
                    if image is not None and image.exists():
                        disk.copy_into(image, target)
                    raise
        return self._records.finish(change, target)

    def _move_across(self, change: Pending, source: Path, target: Path, *, is_new: bool) -> None:
        temporary = change.temporary
        try:
            disk.copy_any(source, temporary)
            if disk.digest(source) != disk.digest(temporary):
                raise IoError(f"{to_wire(source)} changed while it was being copied to another file system")
            change.note(phase="verified")
            if is_new:
                disk.rename_new(temporary, target)
            else:
                os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                disk.discard(temporary)
            raise
        disk.remove_tree(source)

    def _put(self, image: Path, target: Path) -> Receipt:
        """Put a kept file or folder to `target`; what is there now is kept in turn."""
        existing = disk.lstat(target)
        if existing is not None and stat.S_ISREG(existing.st_mode) and existing.st_nlink > 1 and image.is_file():
            return self.write(target, lambda descriptor: disk.copy_out(image, descriptor), seen=existing)
        target.parent.mkdir(parents=True, exist_ok=True)
        action: Action = "create" if existing is None else "write"
        with self.lock(target), self._records.pending(action, target) as change:
            temporary = change.temporary
            try:
                try:
                    os.link(image, temporary, follow_symlinks=False)
                except OSError:
                    disk.copy_any(image, temporary)
                change.note(new=disk.inode(temporary.lstat()))
                if existing is None:
                    disk.rename_new(temporary, target)
                else:
                    self._keep(change, target, existing)
                    os.replace(temporary, target)
                # Two names of one file: the rename was a no-op and has left both.
                temporary.unlink(missing_ok=True)
            except BaseException:
                with suppress(OSError):
                    disk.discard(temporary)
                raise
            disk.sync_folder(target.parent)
            return self._records.finish(change, target)

    def _put_tail(self, entry: Entry, target: Path, prefix_bytes: int) -> Receipt:
        """Put back what stood at the end of a file; what stands there now is kept in turn."""
        image = self._records.file(entry.id, "image")
        with self.lock(target), self._records.pending("write", target) as change:
            return change_tail(
                self._records,
                change,
                target,
                prefix_bytes,
                entry.image_bytes or 0,
                lambda writing: disk.copy_out(image, writing) if entry.image_bytes is not None else None,
            )

    def _check_still(self, entry: Entry, own: Path) -> None:
        now = disk.lstat(own)
        if entry.action == "delete":
            if now is not None:
                raise AlreadyExists(
                    f"{to_wire(own)} is there again since it was deleted", hint="pass overwrite=true to replace it"
                )
        elif now is None or (entry.after is not None and disk.identity(now) != entry.after):
            raise StaleRev(
                f"{to_wire(own)} has changed since {entry.id} {entry.summary}",
                hint="pass overwrite=true (`mcp-agent undo --force`) to put the older state back all the same",
            )


def _copy_and_append(target: Path, data: bytes, writing: int) -> None:
    disk.copy_out(target, writing)
    disk.write_all(writing, data)
