"""Changes to files that are whole or not made at all.

Every change is one entry in the journal's folder, on record before a file is touched (`journal_records.py`).

    write    a new file is filled beside the target, the old one gets a second name in the journal, one rename
    delete   the target is renamed into the journal
    move     one rename; across file systems copy, verify, rename, remove
    append   in the file itself; how long it was is on record and synced first
    in place where a rename would break a hard link or change the owner: the image is copied and synced first
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from tools.files import disk
from tools.files.exact import exact_descriptor, path_in_open_folder
from tools.files.paths import to_wire
from tools.journal import copies, trees
from tools.journal.journal_records import JournalLimits, Pending, Receipt, Records, megabytes
from tools.journal.protected import Protected
from tools.kit.errors import AlreadyExists, IoError, NotUndoable, StaleRev

_LOCKS = 64
_MOST_COUNTED = 500_000
# Before an append, a file that is no larger is copied, to be read as undo://. Of a larger one the length is kept.
_SHOWN_BYTES = 64 * 1024
# Renaming cannot work there, or would lose what must be kept; writing into the file itself can.
_IN_PLACE_ERRORS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.ENOENT)


# Writes new content into the open file that it is given. It may be called a second time.
Fill = Callable[[int], None]


class FileChanges:
    """Makes the changes, and keeps what was there before. `Journal` takes them back."""

    def __init__(
        self, folder: Path | None, limits: JournalLimits | None = None, protected: Protected | None = None
    ) -> None:
        self._limits = limits or JournalLimits()
        self.protected = protected or Protected()
        self._records = Records(folder, self._limits)
        # Tools run in threads: two changes to one file wait for each other, others do not.
        self._locks = tuple(threading.RLock() for _ in range(_LOCKS))

    def lock(self, target: Path) -> threading.RLock:
        """Hold it from the look at `target` to its change, so that no other call of this daemon changes it."""
        return self._locks[hash(str(target)) % _LOCKS]

    @contextmanager
    def lock_all(self, targets: Iterable[Path]) -> Iterator[None]:
        """As `lock`, for several files."""
        with ExitStack() as held:
            # Always in the same order: so two calls never wait for each other.
            for index in sorted({hash(str(target)) % _LOCKS for target in targets}):
                held.enter_context(self._locks[index])
            yield

    def write(self, target: Path, content: bytes | Fill, *, seen: os.stat_result | None) -> Receipt:
        """Make `content` that of `target`. `seen` is the file as it was looked at.

        Mode, owner, attributes, hard links and links to it are kept. Raises StaleRev if somebody else has changed
        the file since it was seen, AlreadyExists if it came to be; then, and on any error, nothing is changed.
        """
        fill = partial(_write_bytes, content) if isinstance(content, bytes) else content
        self.protected.check_write(target)
        with self.lock(target), self._records.change("create" if seen is None else "write", target) as (change, at):
            if seen is not None and (seen.st_nlink > 1 or not stat.S_ISREG(seen.st_mode)):
                return self._write_in_place(change, at, fill, seen)
            temporary = change.temporary
            try:
                descriptor = os.open(temporary, disk.NEW_FLAGS, 0o666 if seen is None else 0o600)
            except OSError as error:
                if seen is None or error.errno not in _IN_PLACE_ERRORS:
                    raise
                return self._write_in_place(change, at, fill, seen)
            try:
                try:
                    change.note(new=copies.inode(os.fstat(descriptor)))
                    fill(descriptor)
                    if seen is not None and not copies.give_status(at, seen, descriptor):
                        temporary.unlink()
                        return self._write_in_place(change, at, fill, seen)
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                self._check_unchanged(change, at, seen)
                if seen is not None:
                    self._keep(change, at, seen)
                    os.replace(temporary, at)
                else:
                    copies.rename_new(temporary, at)
            except BaseException as error:
                temporary.unlink(missing_ok=True)
                if isinstance(error, FileExistsError):
                    raise AlreadyExists(f"{to_wire(target)} came to be while it was being written") from error
                raise
            disk.sync_folder(at.parent)
            return self._records.finish(change, at, None if seen is None else seen.st_size)

    def append(self, target: Path, data: bytes, *, seen: os.stat_result) -> Receipt:
        """Put `data` to the end of `target`, which stays the file it is: a program may have it open for its log.

        Its old length is on record first. Raises StaleRev as `write` does.
        """
        self.protected.check_write(target)
        end = seen.st_size + len(data)
        try:
            with (
                self.lock(target),
                self._records.change("write", target) as (change, at),
                disk.open_descriptor(at, disk.WRITE_FLAGS | os.O_APPEND) as writing,
            ):
                self._check_unchanged(change, at, seen)
                if seen.st_size <= _SHOWN_BYTES:
                    self._keep_copy(change, at, seen.st_size)
                change.before = copies.identity(seen)
                change.note(before=change.before, end=end)
                change.sync()
                try:
                    disk.write_all(writing, data)
                    os.fsync(writing)
                except OSError:
                    copies.cut(writing, change.before)
                    raise
                if os.fstat(writing).st_size != end:
                    change.problem = "another program wrote to it at the same time"
                return self._records.finish(change, at)
        except PermissionError:
            # We may still be allowed to replace the file in its folder.
            return self.write(target, lambda writing: _copy_and_append(target, data, writing), seen=seen)

    def _cut(self, target: Path, before: list[int]) -> Receipt:
        """Take back an append: the file itself gets its old length and time. Earlier changes are known by these."""
        self.protected.check_write(target)
        with self.lock(target), self._records.change("write", target) as (change, at):
            return self._change_in_place(change, at, at.lstat(), lambda writing: copies.cut(writing, before))

    def remove(self, target: Path, *, permanent: bool = False) -> Receipt:
        """Remove a file, a link or a folder with all that is in it. It is gone at once or not at all.

        Raises NotUndoable if it cannot be kept, unless it may be `permanent`; then nothing is changed.
        """
        self.protected.check_entry(target)
        with self.lock(target), self._records.change("delete", target) as (change, at):
            status = at.lstat()
            size = trees.tree_bytes(at, status, self._limits.total_bytes)
            if change.problem is None and size > self._limits.total_bytes:
                change.problem = self._too_large()
            # The entry is written first: until the original is gone, the next start drops it.
            receipt = self._records.finish(change, None, size)
            if receipt.undo_id is not None:
                if self._rename_into_journal(change, at):
                    return receipt
                self._keep_copy(change, at, size)
                if change.problem is not None:
                    self._records.forget(change.id)
                    receipt = Receipt(not_undoable=change.problem)
            if receipt.undo_id is None and not permanent:
                raise _not_undoable(target, status, receipt.not_undoable)
            temporary = change.temporary
            change.note(phase="verified")
            try:
                os.rename(at, temporary)
            except OSError:
                self._records.forget(change.id)
                raise
            try:
                trees.remove_tree(temporary)
            except OSError as error:
                # Put the rest back to where the caller looks for it.
                copies.rename_new(temporary, at)
                reason = (error.strerror or str(error)).lower()
                raise IoError(
                    f"only a part of {to_wire(target)} was deleted, the rest is still there: {reason}"
                ) from error
            disk.sync_folder(at.parent)
            return receipt

    def move(self, source: Path, target: Path, *, overwrite: bool) -> Receipt:
        """Rename `source` to `target`; across file systems copy, verify, then remove. Raises AlreadyExists."""
        self.protected.check_entry(source)
        self.protected.check_entry(target)
        with (
            self.lock(target),
            self._records.change("move", target, source) as (change, at),
            path_in_open_folder(source) as source_at,
        ):
            existing = disk.lstat(at)
            is_same_file = existing is not None and copies.is_same(source_at, at)
            if existing is not None and not overwrite:
                if is_same_file:
                    raise AlreadyExists(
                        f"{to_wire(target)} and {to_wire(source)} are two names of one file",
                        hint=f"pass overwrite=true to remove the name {to_wire(source)}",
                    )
                raise AlreadyExists(f"{to_wire(target)} is there already", hint="pass overwrite=true to replace it")
            if existing is not None:
                self._keep(change, at, existing)
            try:
                if existing is None:
                    copies.rename_new(source_at, at)
                elif is_same_file and existing.st_nlink > 1:
                    # A rename of one hard link onto another of the same file leaves both.
                    os.unlink(source_at)
                else:
                    os.replace(source_at, at)
            except FileExistsError as error:
                raise AlreadyExists(f"{to_wire(target)} came to be while {to_wire(source)} was being moved") from error
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                self._move_across(change, source_at, at, is_new=existing is None)
            disk.sync_folder(at.parent)
            return self._records.finish(change, at)

    def make_folder(self, target: Path) -> Receipt:
        """Make an empty folder; the one above must be there. Raises AlreadyExists."""
        self.protected.check_write(target)
        with self.lock(target), self._records.change("create", target) as (change, at):
            try:
                at.mkdir()
            except FileExistsError as error:
                raise AlreadyExists(f"{to_wire(target)} is there already") from error
            disk.sync_folder(at.parent)
            return self._records.finish(change, at, 0)

    def _check_unchanged(self, change: Pending, at: Path, seen: os.stat_result | None) -> None:
        now = disk.lstat(at)
        if seen is None:
            if now is not None:
                raise AlreadyExists(f"{to_wire(change.path)} came to be while it was being written")
        elif now is None or copies.identity(now) != copies.identity(seen):
            raise StaleRev(
                f"{to_wire(change.path)} was changed by another program while this call was at work; "
                "nothing was changed",
                hint="read it again, then repeat the call",
            )

    def _keep(self, change: Pending, target: Path, status: os.stat_result) -> None:
        """Keep what is at `target` as the image, by a second name or a copy. If neither works, say why in `problem`."""
        image = change.image
        if image is None:
            return
        if status.st_size > self._limits.total_bytes:
            change.problem = self._too_large()
            return
        try:
            os.link(target, image, follow_symlinks=False)
        except OSError:
            self._keep_copy(change, target, status.st_size)

    def _rename_into_journal(self, change: Pending, at: Path) -> bool:
        """False if it is still there: the journal is on another file system, or one of the two may not be written."""
        assert change.image is not None, "a change with an entry has a place for its image"
        try:
            os.rename(at, change.image)
        except OSError:
            if disk.lstat(at) is not None:
                return False
            self._records.forget(change.id)
            raise
        return True

    def _keep_copy(self, change: Pending, target: Path, size: int) -> None:
        image = change.image
        if image is None:
            return
        if size > self._limits.copy_bytes:
            change.problem = (
                f"it is on another file system than the journal and larger than {megabytes(self._limits.copy_bytes)}"
            )
            return
        partial = image.with_suffix(".partial")
        try:
            trees.copy_any(target, partial)
            os.rename(partial, image)
        except OSError as error:
            change.problem = f"the journal has no copy: {(error.strerror or str(error)).lower()}"
            with suppress(OSError):
                trees.discard(partial)

    def _too_large(self) -> str:
        return f"it is larger than the journal, which keeps {megabytes(self._limits.total_bytes)}"

    def _write_in_place(self, change: Pending, at: Path, fill: Fill, seen: os.stat_result) -> Receipt:
        """Write into the file itself, once the new content is complete elsewhere."""
        with _unnamed_file(change, at) as whole:
            fill(whole.fileno())
            return self._change_in_place(change, at, seen, partial(copies.overwrite, whole.fileno()))

    def _change_in_place(self, change: Pending, at: Path, seen: os.stat_result, make: Callable[[int], None]) -> Receipt:
        """Let `make` change the open file, once a copy of its content is synced to disk."""
        self._check_unchanged(change, at, seen)
        change.in_place = True
        change.note(in_place=True)
        image = change.image
        if image is not None:
            self._keep_copy(change, at, seen.st_size)
            if change.problem is None:
                change.note(phase="verified")
                change.sync()
        with disk.open_descriptor(at, disk.WRITE_FLAGS) as writing:
            try:
                make(writing)
            except OSError:
                if image is not None and image.exists():
                    copies.restore(image, writing)
                raise
        return self._records.finish(change, at)

    def _move_across(self, change: Pending, source: Path, target: Path, *, is_new: bool) -> None:
        temporary = change.temporary
        try:
            trees.copy_any(source, temporary)
            if trees.digest(source) != trees.digest(temporary):
                raise IoError(
                    f"{to_wire(change.source or source)} changed while it was being copied to another file system"
                )
            change.note(phase="verified")
            if is_new:
                copies.rename_new(temporary, target)
            else:
                os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                trees.discard(temporary)
            raise
        trees.remove_tree(source)


def _write_bytes(content: bytes, writing: int) -> None:
    disk.write_all(writing, content)


def _unnamed_file(change: Pending, at: Path) -> IO[bytes]:
    """A new file that is gone when it is closed: in the journal, or beside the target if that fails."""
    if change.image is not None:
        with suppress(OSError):
            return TemporaryFile(dir=change.image.parent)
    return TemporaryFile(dir=at.parent)


def _not_undoable(target: Path, status: os.stat_result, problem: str | None) -> NotUndoable:
    """The refusal of a deletion, with what would be lost."""
    lost = f"it has {status.st_size} bytes"
    if stat.S_ISDIR(status.st_mode):
        files, size, is_all = trees.tree_contents(target, _MOST_COUNTED)
        lost = f"{'' if is_all else 'more than '}{files} files with {megabytes(size)} would be lost"
    return NotUndoable(
        f"{to_wire(target)} could not be brought back, so nothing was deleted: {problem}; {lost}",
        hint="pass permanent=true to delete it for good",
    )


def _copy_and_append(target: Path, data: bytes, writing: int) -> None:
    with exact_descriptor(str(target), disk.READ_FLAGS) as reading:
        copies.copy_bytes(reading, writing, os.fstat(reading).st_size)
    disk.write_all(writing, data)
