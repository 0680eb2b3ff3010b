"""Changes to files that are whole or not made at all, and that can be taken back.

Every change is one entry in the journal's folder. Before anything is touched, `<id>.begun` says what is about to
happen and is locked while it does; `<id>.image` is what was there before; `<id>.json` says that the change is made.

    write    a new file is filled beside the target, the old one gets a second name in the journal, one rename
    delete   the target is renamed into the journal
    move     one rename; across file systems copy, verify, rename, remove
    in place where a rename would break a hard link or change the owner: the image is copied and synced first

A process that dies on the way leaves an unlocked `<id>.begun`, and `recover`, called at the next start, finishes the
change or takes it back. A journal without a folder makes the same changes and keeps nothing.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

from tools import disk
from tools.errors import AlreadyExists, IoError, NotFound, StaleRev
from tools.paths import told

Action = Literal["write", "create", "delete", "move"]

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_SCHEME = "undo://"
_LOCKS = 64
# Renaming cannot work there, or would lose what must be kept; writing into the file itself can.
_IN_PLACE_ERRORS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.ENOENT)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much the journal keeps, and for how long. `copy_bytes` bounds an image on another file system."""

    total_bytes: int = 200 * 1024 * 1024
    age_s: float = 7 * 24 * 3600.0
    copy_bytes: int = 50 * 1024 * 1024
    entries: int = 10_000


@dataclass(frozen=True, slots=True)
class Receipt:
    """What came of a change: the id that undoes it, or why there is none."""

    undo_id: str | None = None
    not_undoable: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One change as it is kept. `after` is what the change left, to know whether it is still that."""

    id: str
    action: Action
    path: str
    at: float
    source: str | None = None
    image_bytes: int | None = None
    after: list[int] | None = None

    @property
    def summary(self) -> str:
        what = {"write": "changed", "create": "created", "delete": "deleted", "move": "moved"}[self.action]
        return f"{what} {told(self.source)} to {told(self.path)}" if self.source else f"{what} {told(self.path)}"


@dataclass(slots=True)
class _Begun:
    """A change under way. Its record stays locked, so nobody takes it for a dead process's."""

    id: str
    action: Action
    path: str
    source: str | None = None
    temporary: str | None = None
    in_place: bool = False
    descriptor: int = field(default=-1)
    problem: str | None = field(default=None)


class Journal:
    """All changes that the tools of this daemon make to files."""

    def __init__(self, folder: Path | None, limits: Limits | None = None) -> None:
        self._folder = folder
        self._limits = limits or Limits()
        self._kept_bytes: int | None = None
        self._kept_entries = 0
        # Tools run in threads: two changes to one file wait for each other, others do not.
        self._locks = tuple(threading.RLock() for _ in range(_LOCKS))
        self._book = threading.Lock()
        self._last_ms = 0

    @contextmanager
    def holding(self, target: Path) -> Iterator[None]:
        """Keep other calls of this daemon from changing `target` between a look at it and a write."""
        with self._locks[hash(str(target)) % _LOCKS]:
            yield

    def write(self, target: Path, fill: Callable[[int], None], *, seen: os.stat_result | None) -> Receipt:
        """Make `target` what `fill` writes into the descriptor it is given. `seen` is the file as it was looked at.

        Mode, owner, attributes, hard links and links to it are kept. Raises StaleRev if somebody else has changed
        the file since it was seen, AlreadyExists if it came to be; then, and on any error, nothing is changed.
        """
        with self.holding(target), self._begun("create" if seen is None else "write", target) as begun:
            if seen is not None and (seen.st_nlink > 1 or not stat.S_ISREG(seen.st_mode)):
                return self._write_in_place(begun, target, fill, seen)
            temporary = target.with_name(f".mcp-agent-{begun.id}.tmp")
            self._note(begun, temporary=str(temporary))
            try:
                descriptor = os.open(temporary, disk.NEW_FLAGS, 0o600 if seen is not None else 0o666)
            except OSError as error:
                if seen is None or error.errno not in _IN_PLACE_ERRORS:
                    raise
                return self._write_in_place(begun, target, fill, seen)
            self._note(begun, new=_inode(os.fstat(descriptor)))
            try:
                try:
                    fill(descriptor)
                    if seen is not None and not self._keeps_status(target, seen, descriptor):
                        temporary.unlink()
                        return self._write_in_place(begun, target, fill, seen)
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
                self._check_unchanged(target, seen)
                if seen is not None:
                    self._keep(begun, target, seen)
                    os.replace(temporary, target)
                else:
                    disk.rename_new(temporary, target)
            except BaseException as error:
                temporary.unlink(missing_ok=True)
                if isinstance(error, FileExistsError):
                    raise AlreadyExists(f"{told(target)} came to be while it was being written") from error
                raise
            disk.sync_folder(target.parent)
            return self._finished(begun, target)

    def remove(self, target: Path) -> Receipt:
        """Remove a file, a link or a folder with all that is in it. It is gone at once or not at all."""
        with self.holding(target), self._begun("delete", target) as begun:
            status = target.lstat()
            image = self._image(begun)
            size = _tree_bytes(target, status, self._limits.total_bytes)
            if image is not None and size > self._limits.total_bytes:
                begun.problem = f"it is larger than the journal, which keeps {_megabytes(self._limits.total_bytes)}"
                image = None
            if image is not None:
                try:
                    os.rename(target, image)
                    return self._finished(begun, None, size)
                except OSError as error:
                    if error.errno != errno.EXDEV:
                        raise
                self._keep_copy(begun, target, image, size)
            temporary = target.with_name(f".mcp-agent-{begun.id}.tmp")
            self._note(begun, temporary=str(temporary))
            self._note_phase(begun, "verified")
            os.rename(target, temporary)
            disk.remove_tree(temporary)
            disk.sync_folder(target.parent)
            return self._finished(begun, None, size)

    def move(self, source: Path, target: Path, *, overwrite: bool) -> Receipt:
        """Rename `source` to `target`; across file systems copy, verify, then remove. Raises AlreadyExists."""
        with self.holding(target), self._begun("move", target, source) as begun:
            existing = _lstat(target)
            if existing is not None and not overwrite:
                raise AlreadyExists(
                    f"{told(target)} is there already", hint="pass overwrite=true to replace it; it can be undone"
                )
            if existing is not None:
                self._keep(begun, target, existing)
            try:
                if existing is None:
                    disk.rename_new(source, target)
                else:
                    os.replace(source, target)
            except FileExistsError as error:
                raise AlreadyExists(f"{told(target)} came to be while {told(source)} was being moved") from error
            except OSError as error:
                if error.errno != errno.EXDEV:
                    raise
                self._move_across(begun, source, target, is_new=existing is None)
            disk.sync_folder(target.parent)
            return self._finished(begun, target)

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
                raise AlreadyExists(f"{told(to)} is there already", hint="pass overwrite=true to replace it")
            return entry, to, self._put(image, to)
        if not overwrite:
            self._check_still(entry, own)
        if entry.action == "create":
            receipt = self.remove(own)
            self._forget(entry.id)
            return entry, own, receipt
        if entry.action == "move":
            assert entry.source is not None, "a move has a source"
            receipt = self.move(own, Path(entry.source), overwrite=overwrite)
            if entry.image_bytes is not None:
                self._put(self._file(entry.id, "image"), own)
            self._forget(entry.id)
            return entry, Path(entry.source), receipt
        receipt = self._put(self.path_of(f"{_SCHEME}{undo_id}"), own)
        self._forget(entry.id)
        return entry, own, receipt

    def entry(self, undo_id: str) -> Entry:
        found = self._read(undo_id)
        if found is None:
            raise NotFound(
                f"there is nothing to undo under the id {undo_id[:40]!r}",
                hint=f"changes are kept for {self._limits.age_s / 86400:g} days; `mcp-agent undo --list` shows them",
            )
        return found

    def entries(self) -> list[Entry]:
        """Everything that can be undone, newest first."""
        if self._folder is None or not self._folder.is_dir():
            return []
        names = sorted((path.stem for path in self._folder.glob("*.json")), reverse=True)
        return [entry for name in names if (entry := self._read(name)) is not None]

    def place_of(self, reference: str) -> Path:
        """Where what is behind `undo://<id>` or `undo://<id>/<path>` was when it was kept. Raises NotFound."""
        undo_id, _, inner = reference.removeprefix(_SCHEME).partition("/")
        return Path(os.path.normpath(f"{self.entry(undo_id).path}/{inner}"))

    def path_of(self, reference: str) -> Path:
        """Where the text behind `undo://<id>` is, or `undo://<id>/<path>` in a deleted folder. Raises NotFound."""
        undo_id, _, inner = reference.removeprefix(_SCHEME).partition("/")
        entry = self.entry(undo_id)
        image = self._file(entry.id, "image")
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
        if self._folder is None or not self._folder.is_dir():
            return []
        told_: list[str] = []
        for path in sorted(self._folder.glob("*.begun")):
            with suppress(FileNotFoundError), _exclusively(path) as descriptor:
                if descriptor is None:
                    continue
                sentence = self._recovered(path)
                if sentence is not None:
                    told_.append(sentence)
        self._prune(is_first=True)
        return told_

    def _recovered(self, path: Path) -> str | None:
        lines = path.read_text("utf-8", "surrogateescape").split("\n")
        try:
            facts: dict[str, Any] = {}
            for line in lines[:-1]:
                facts |= json.loads(line)
            begun = _Begun(facts["id"], facts["action"], facts["path"], facts.get("source"), facts.get("temporary"))
        except (ValueError, KeyError, TypeError):
            path.unlink()
            return None
        if self._file(begun.id, "json").exists():
            # All was done but for taking this record away.
            path.unlink()
            return None
        target = Path(begun.path)
        temporary = Path(begun.temporary) if begun.temporary else None
        image = self._file(begun.id, "image")
        has_temporary = temporary is not None and os.path.lexists(temporary)
        is_verified = facts.get("phase") == "verified"
        is_made = False
        if facts.get("in_place"):
            if image.exists() and is_verified:
                self._copy_into(image, target)
            _discard(image)
        elif begun.action == "delete":
            if has_temporary and temporary is not None:
                disk.remove_tree(temporary)
            is_made = not os.path.lexists(target) and os.path.lexists(image)
        elif begun.action == "move" and begun.source is not None:
            source = Path(begun.source)
            if has_temporary and temporary is not None:
                if is_verified and os.path.lexists(source):
                    _discard(temporary)
                elif not os.path.lexists(source):
                    os.replace(temporary, target)
                    is_made = True
                else:
                    _discard(temporary)
            elif is_verified and os.path.lexists(target):
                if os.path.lexists(source):
                    disk.remove_tree(source)
                is_made = True
            else:
                is_made = os.path.lexists(target) and not os.path.lexists(source)
        else:
            now = _lstat(target)
            is_made = now is not None and _inode(now) == facts.get("new")
            if begun.action == "write":
                is_made = is_made and os.path.lexists(image) and not _is_same(image, target)
            if temporary is not None and has_temporary:
                _discard(temporary)
        if is_made:
            self._write_entry(begun, target if os.path.lexists(target) else None, None)
        else:
            _discard(image)
        path.unlink()
        return f"{'finished' if is_made else 'took back'} an interrupted {begun.action} of {told(begun.path)}"

    @contextmanager
    def _begun(self, action: Action, target: Path, source: Path | None = None) -> Iterator[_Begun]:
        """A change under way: on record from here on, and off it again if the block fails."""
        begun = _Begun(self._new_id(), action, str(target), None if source is None else str(source))
        if self._folder is not None:
            try:
                disk.private_folder(self._folder)
                begun.descriptor = os.open(self._file(begun.id, "begun"), disk.NEW_FLAGS | os.O_APPEND, 0o600)
                _lock(begun.descriptor)
                facts = {"id": begun.id, "action": action, "path": begun.path}
                self._append(begun, facts if begun.source is None else {**facts, "source": begun.source})
            except OSError as error:
                begun.problem = f"the journal cannot be written: {(error.strerror or str(error)).lower()}"
                if begun.descriptor >= 0:
                    os.close(begun.descriptor)
                    begun.descriptor = -1
                    with suppress(OSError):
                        self._file(begun.id, "begun").unlink()
        else:
            begun.problem = "no journal is kept"
        try:
            yield begun
        except BaseException:
            if begun.descriptor >= 0:
                with suppress(OSError):
                    _discard(self._file(begun.id, "image"))
            raise
        finally:
            if begun.descriptor >= 0:
                with suppress(OSError):
                    self._file(begun.id, "begun").unlink()
                os.close(begun.descriptor)

    def _new_id(self) -> str:
        """Sorts by time; no two of this process are of one millisecond, and two random digits part it from others."""
        with self._book:
            number = self._last_ms = max(int(time.time() * 1000), self._last_ms + 1)
        digits = ""
        while number:
            number, digit = divmod(number, 36)
            digits = _DIGITS[digit] + digits
        return digits + "".join(secrets.choice(_DIGITS) for _ in range(2))

    def _note(self, begun: _Begun, **facts: Any) -> None:
        begun.temporary = facts.get("temporary", begun.temporary)
        if begun.descriptor >= 0:
            self._append(begun, facts)

    def _note_phase(self, begun: _Begun, phase: str) -> None:
        self._note(begun, phase=phase)

    def _append(self, begun: _Begun, facts: dict[str, Any]) -> None:
        disk.write_all(begun.descriptor, json.dumps(facts).encode() + b"\n")

    def _keeps_status(self, target: Path, seen: os.stat_result, descriptor: int) -> bool:
        """Give the new file the old one's owner, attributes and mode; False if the system does not let us."""
        try:
            reading = os.open(target, disk.READ_FLAGS)
        except OSError:
            reading = None
        try:
            disk.copy_status(reading, seen, descriptor)
        except PermissionError:
            return False
        finally:
            if reading is not None:
                os.close(reading)
        return True

    def _check_unchanged(self, target: Path, seen: os.stat_result | None) -> None:
        now = _lstat(target)
        if seen is None:
            if now is not None:
                raise AlreadyExists(f"{told(target)} came to be while it was being written")
        elif now is None or _identity(now) != _identity(seen):
            raise StaleRev(
                f"{told(target)} was changed by another program while this call was at work; nothing was changed",
                hint="read it again, then repeat the call",
            )

    def _keep(self, begun: _Begun, target: Path, status: os.stat_result) -> None:
        """Keep what is at `target` as the image, by a second name or a copy. If neither works, say why in `problem`."""
        image = self._image(begun)
        if image is None:
            return
        if status.st_size > self._limits.total_bytes:
            begun.problem = f"it is larger than the journal, which keeps {_megabytes(self._limits.total_bytes)}"
            return
        try:
            os.link(target, image, follow_symlinks=False)
        except OSError:
            self._keep_copy(begun, target, image, status.st_size)

    def _keep_copy(self, begun: _Begun, target: Path, image: Path, size: int) -> None:
        if size > self._limits.copy_bytes:
            begun.problem = (
                f"it is on another file system than the journal and larger than {_megabytes(self._limits.copy_bytes)}"
            )
            return
        partial = image.with_suffix(".partial")
        try:
            _copy(target, partial)
            os.rename(partial, image)
        except OSError as error:
            begun.problem = f"the journal has no copy: {(error.strerror or str(error)).lower()}"
            with suppress(OSError):
                _discard(partial)

    def _write_in_place(
        self, begun: _Begun, target: Path, fill: Callable[[int], None], seen: os.stat_result
    ) -> Receipt:
        """Write into the file itself. The new content is made whole first, and the old one is safe on disk by then."""
        whole = target.with_name(f".mcp-agent-{begun.id}.whole")
        if begun.descriptor >= 0:
            whole = self._file(begun.id, "whole")
        descriptor = os.open(whole, disk.NEW_FLAGS, 0o600)
        try:
            whole.unlink()
            fill(descriptor)
            self._check_unchanged(target, seen)
            self._note(begun, in_place=True)
            image = self._image(begun)
            if image is not None:
                self._keep_copy(begun, target, image, seen.st_size)
                if begun.problem is None and begun.descriptor >= 0:
                    disk.sync_folder(image.parent)
                    self._note_phase(begun, "verified")
                    os.fsync(begun.descriptor)
            writing = os.open(target, disk.WRITE_FLAGS)
            try:
                size = os.fstat(descriptor).st_size
                os.lseek(writing, 0, os.SEEK_SET)
                disk.copy_bytes(descriptor, writing, size)
                os.ftruncate(writing, size)
                os.fsync(writing)
            except OSError:
                if image is not None and image.exists():
                    self._copy_into(image, target)
                raise
            finally:
                os.close(writing)
        finally:
            os.close(descriptor)
        return self._finished(begun, target)

    def _copy_into(self, image: Path, target: Path) -> None:
        """Write the bytes of `image` over those of `target`, which stays the file it is."""
        reading, writing = os.open(image, disk.READ_FLAGS), os.open(target, disk.WRITE_FLAGS)
        try:
            size = os.fstat(reading).st_size
            disk.copy_bytes(reading, writing, size)
            os.ftruncate(writing, size)
            os.fsync(writing)
        finally:
            os.close(reading)
            os.close(writing)

    def _move_across(self, begun: _Begun, source: Path, target: Path, *, is_new: bool) -> None:
        temporary = target.with_name(f".mcp-agent-{begun.id}.tmp")
        self._note(begun, temporary=str(temporary))
        try:
            _copy(source, temporary)
            if _digest(source) != _digest(temporary):
                raise IoError(f"{told(source)} changed while it was being copied to another file system")
            self._note_phase(begun, "verified")
            if is_new:
                disk.rename_new(temporary, target)
            else:
                os.replace(temporary, target)
        except BaseException:
            with suppress(OSError):
                _discard(temporary)
            raise
        disk.remove_tree(source)

    def _put(self, image: Path, target: Path) -> Receipt:
        """Put a kept file or folder to `target`; what is there now is kept in turn."""
        existing = _lstat(target)
        if existing is not None and stat.S_ISREG(existing.st_mode) and existing.st_nlink > 1 and image.is_file():
            return self.write(target, lambda descriptor: _copy_out(image, descriptor), seen=existing)
        target.parent.mkdir(parents=True, exist_ok=True)
        action: Action = "create" if existing is None else "write"
        with self.holding(target), self._begun(action, target) as begun:
            temporary = target.with_name(f".mcp-agent-{begun.id}.tmp")
            self._note(begun, temporary=str(temporary))
            try:
                try:
                    os.link(image, temporary, follow_symlinks=False)
                except OSError:
                    _copy(image, temporary)
                self._note(begun, new=_inode(temporary.lstat()))
                if existing is None:
                    disk.rename_new(temporary, target)
                else:
                    self._keep(begun, target, existing)
                    os.replace(temporary, target)
                # Two names of one file: the rename was a no-op and has left both.
                temporary.unlink(missing_ok=True)
            except BaseException:
                with suppress(OSError):
                    _discard(temporary)
                raise
            disk.sync_folder(target.parent)
            return self._finished(begun, target)

    def _check_still(self, entry: Entry, own: Path) -> None:
        now = _lstat(own)
        if entry.action == "delete":
            if now is not None:
                raise AlreadyExists(
                    f"{told(own)} is there again since it was deleted", hint="pass overwrite=true to replace it"
                )
        elif now is None or (entry.after is not None and _identity(now) != entry.after):
            raise StaleRev(
                f"{told(own)} has changed since {entry.id} {entry.summary}",
                hint="pass overwrite=true (`mcp-agent undo --force`) to put the older state back all the same",
            )

    def _image(self, begun: _Begun) -> Path | None:
        return self._file(begun.id, "image") if begun.descriptor >= 0 else None

    def _file(self, undo_id: str, kind: str) -> Path:
        assert self._folder is not None, "a journal without a folder has no files"
        return self._folder / f"{undo_id}.{kind}"

    def _finished(self, begun: _Begun, target: Path | None, size: int | None = None) -> Receipt:
        if begun.descriptor < 0 or begun.problem is not None:
            if begun.descriptor >= 0:
                with suppress(OSError):
                    _discard(self._file(begun.id, "image"))
            return Receipt(not_undoable=begun.problem)
        try:
            kept = self._write_entry(begun, target, size)
        except OSError as error:
            return Receipt(not_undoable=f"the journal cannot be written: {(error.strerror or str(error)).lower()}")
        with self._book:
            if self._kept_bytes is not None:
                self._kept_bytes += kept
            self._kept_entries += 1
            is_full = (
                self._kept_bytes is None
                or self._kept_bytes > self._limits.total_bytes
                or self._kept_entries > self._limits.entries
            )
        if is_full:
            self._prune(is_first=self._kept_bytes is None)
        return Receipt(undo_id=begun.id)

    def _write_entry(self, begun: _Begun, target: Path | None, size: int | None) -> int:
        image = self._file(begun.id, "image")
        if size is None:
            status = _lstat(image)
            size = None if status is None else _tree_bytes(image, status, self._limits.total_bytes)
        after = _lstat(target) if target is not None else None
        entry = Entry(
            begun.id,
            begun.action,
            begun.path,
            round(time.time(), 3),
            begun.source,
            size,
            _identity(after) if after is not None else None,
        )
        new = self._file(begun.id, "new")
        new.unlink(missing_ok=True)
        descriptor = os.open(new, disk.NEW_FLAGS, 0o600)
        try:
            disk.write_all(descriptor, json.dumps(asdict(entry)).encode())
        finally:
            os.close(descriptor)
        os.rename(new, self._file(begun.id, "json"))
        return size or 0

    def _read(self, undo_id: str) -> Entry | None:
        if self._folder is None or not undo_id or any(letter not in _DIGITS for letter in undo_id):
            return None
        try:
            return Entry(**json.loads(self._file(undo_id, "json").read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def _forget(self, undo_id: str) -> None:
        """Take an entry out. Its record goes first: an image without one is litter, the reverse would be a lie."""
        self._file(undo_id, "json").unlink(missing_ok=True)
        _discard(self._file(undo_id, "image"))

    def _prune(self, *, is_first: bool) -> None:
        """Drop what is too old, and the oldest while there is too much."""
        if self._folder is None:
            return
        with self._book, disk.locked(self._folder / "lock"):
            if is_first:
                self._clear_litter()
            total, count, oldest_at = 0, 0, time.time() - self._limits.age_s
            for entry in self.entries():
                total += entry.image_bytes or 0
                count += 1
                if entry.at < oldest_at or total > self._limits.total_bytes or count > self._limits.entries:
                    self._forget(entry.id)
                    total -= entry.image_bytes or 0
                    count -= 1
            self._kept_bytes, self._kept_entries = total, count

    def _clear_litter(self) -> None:
        """Remove images whose record is gone, and copies that were never finished."""
        assert self._folder is not None, "only a journal with a folder is pruned"
        for path in list(self._folder.iterdir()):
            undo_id, _, kind = path.name.partition(".")
            if kind in ("image", "partial", "new", "whole") and not (
                self._file(undo_id, "json").exists() or self._file(undo_id, "begun").exists()
            ):
                with suppress(OSError):
                    _discard(path)


def _identity(status: os.stat_result) -> list[int]:
    # The time of the last status change is left out: a second name for the file changes it and nothing else.
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]


def _inode(status: os.stat_result) -> list[int]:
    return [status.st_dev, status.st_ino]


def _lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_same(first: Path, second: Path) -> bool:
    one, other = _lstat(first), _lstat(second)
    return one is not None and other is not None and (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def _discard(path: Path) -> None:
    if os.path.lexists(path):
        disk.remove_tree(path)


def _copy(source: Path, target: Path) -> None:
    """A copy of a file, a link or a folder. Raises OSError for pipes and the like."""
    status = source.lstat()
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISDIR(status.st_mode):
        disk.copy_tree(source, target)
    elif stat.S_ISREG(status.st_mode):
        disk.copy_file(source, target)
    else:
        raise OSError(errno.EINVAL, "a pipe, a socket or a device cannot be copied", str(source))


def _copy_out(image: Path, descriptor: int) -> None:
    reading = os.open(image, disk.READ_FLAGS)
    try:
        disk.copy_bytes(reading, descriptor, os.fstat(reading).st_size)
    finally:
        os.close(reading)


def _tree_bytes(path: Path, status: os.stat_result, enough: int) -> int:
    """How much a file or a folder takes, counted no further than a little over `enough`."""
    if not stat.S_ISDIR(status.st_mode):
        return status.st_size
    total, folders = 0, [os.fspath(path)]
    while folders and total <= enough:
        try:
            with os.scandir(folders.pop()) as children:
                for child in children:
                    if child.is_dir(follow_symlinks=False):
                        folders.append(child.path)
                    else:
                        total += child.stat(follow_symlinks=False).st_size
                    total += 64
        except OSError:
            continue
    return total


def _digest(path: Path) -> str:
    """What a file or a folder holds, in one value: names, kinds, links and bytes."""
    digest = blake2b(digest_size=16)
    _feed(digest.update, path, "")
    return digest.hexdigest()


def _feed(update: Callable[[bytes], None], path: Path, name: str) -> None:
    status = path.lstat()
    update(f"{stat.S_IFMT(status.st_mode)} {name!r}\n".encode("utf-8", "surrogateescape"))
    if stat.S_ISLNK(status.st_mode):
        update(os.fsencode(os.readlink(path)))
    elif stat.S_ISDIR(status.st_mode):
        for child in sorted(os.listdir(path)):
            _feed(update, path / child, child)
    elif stat.S_ISREG(status.st_mode):
        with open(path, "rb", buffering=0) as file:
            while data := file.read(1 << 20):
                update(data)


def _megabytes(count: int) -> str:
    return f"{count / (1024 * 1024):g} MB"


def _lock(descriptor: int) -> None:
    if not disk.IS_WINDOWS:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX)


@contextmanager
def _exclusively(path: Path) -> Iterator[int | None]:
    """The descriptor of a record that no living process holds; None if one does."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    try:
        if not disk.IS_WINDOWS:
            import fcntl

            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
                return
        yield descriptor
    finally:
        os.close(descriptor)
