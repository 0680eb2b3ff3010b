"""The journal's folder: a record of every pending change and of every finished one, and how much is kept.

`<id>.begun` says what is about to happen, one line of facts after the other, and is locked while it does;
`<id>.image` is what was there before; `<id>.json` says that the change is made. Without a folder nothing is kept.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict

from tools.files import disk
from tools.files.exact import path_in_open_folder
from tools.files.paths import to_wire
from tools.journal import copies, trees
from tools.journal.written_paths import WrittenPaths
from tools.kit.errors import NotFound

Action = Literal["write", "create", "delete", "move", "command"]

# Of a command, so much is kept, and so much is in its summary.
MOST_COMMAND_CHARS = 2_000
_COMMAND_CHARS = 80
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
# With the name of the box behind it, in a fleet.
_ID = re.compile(r"[0-9a-z]+(?:-[a-z0-9][a-z0-9_-]*)?")


class JournalLimits(Struct, frozen=True):
    """How much the journal keeps, and for how long. `copy_bytes` bounds an image on another file system."""

    total_bytes: int = 200 * 1024 * 1024
    age_s: float = 7 * 24 * 3600.0
    copy_bytes: int = 50 * 1024 * 1024
    entries: int = 10_000
    # Behind every id that the journal gives: the name of the box, in a fleet.
    id_suffix: str = ""


class Receipt(Struct, frozen=True):
    """The outcome of a change: the id that undoes it, or why there is none."""

    undo_id: str | None = None
    not_undoable: str | None = None
    # Paths that an undo has left as they are, because something else is there now.
    left: tuple[str, ...] = ()

    def fields(self) -> dict[str, Any]:
        """The fields of a result that say how to undo the change, or why that is not possible."""
        if self.undo_id is not None:
            return {"undo_id": self.undo_id}
        return {"undoable": False, "why": self.not_undoable}


class JournalEntry(Struct, frozen=True):
    """One change as it is kept. `after` is what the change left, to know whether it is still that."""

    id: str
    action: Action
    path: str
    at: float
    source: str | None = None
    image_bytes: int | None = None
    after: list[int] | None = None
    # The identity of a file before an append: undo restores this length and time.
    before: list[int] | None = None
    # Whether the change was written into the file itself; then undo does the same.
    in_place: bool = False
    # The id of the change that this one takes back.
    undoes: str | None = None
    # Of a change that was made together with others: the id of the first one. That one has the ids of all.
    group: str | None = None
    parts: list[str] | None = None
    # Of a command: its line, and how many files it has created, changed and deleted. Its path is the project.
    command: str | None = None
    counts: list[int] | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,) if self.source is None else (self.path, self.source)

    @property
    def summary(self) -> str:
        more = len(self.parts or ()) - 1
        return self._own_summary + (f" and {more} more" if more > 0 else "")

    @property
    def _own_summary(self) -> str:
        if self.action == "command":
            return f"{_counted(self.counts or [0, 0, 0])} in {to_wire(self.path)}: {_brief(self.command or '')}"
        what = {"write": "changed", "create": "created", "delete": "deleted", "move": "moved"}[self.action]
        return (
            f"{what} {to_wire(self.source)} to {to_wire(self.path)}" if self.source else f"{what} {to_wire(self.path)}"
        )


def _counted(counts: list[int]) -> str:
    """Such as "changed 3 files, created 1"."""
    words = zip(("changed", "created", "deleted"), (counts[1], counts[0], counts[2]), strict=True)
    first, *more = [(word, count) for word, count in words if count] or [("changed", 0)]
    parts = [f"{first[0]} {first[1]} file{'' if first[1] == 1 else 's'}", *(f"{word} {count}" for word, count in more)]
    return ", ".join(parts)


def _brief(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= _COMMAND_CHARS else f"{line[: _COMMAND_CHARS - 1]}…"


class Group(Struct, eq=False):
    """Changes that are made together. The id is that of the first one."""

    id: str
    # Those that can be undone, in the order in which they were made.
    parts: list[str] = field(default_factory=list)
    is_begun: bool = False
    # Why one of them cannot be undone.
    problem: str | None = None

    @property
    def receipt(self) -> Receipt:
        if self.problem is not None or not self.parts:
            return Receipt(not_undoable=self.problem or "nothing was changed")
        return Receipt(undo_id=self.id)


class Pending(Struct, eq=False):
    """A change that is being made. Its record stays locked, so that no other process takes its maker for dead."""

    id: str
    action: Action
    path: str
    source: str | None = None
    before: list[int] | None = None
    in_place: bool = False
    # Where what was there before is kept; None if nothing can be.
    image: Path | None = None
    descriptor: int = -1
    # The target through its open folder, while the change is made.
    at: Path | None = None
    # Why the change will not be undoable.
    problem: str | None = None
    # Of a command: what its entry says of it.
    command: str | None = None
    counts: list[int] | None = None
    undoes: str | None = None
    # Whether the change can be undone: its entry is written.
    is_kept: bool = False
    # The first of the changes that are made together with it.
    group: str | None = None

    @property
    def temporary(self) -> Path:
        """Beside the target, and known by the id alone: recovery finds it without a note."""
        return (self.at or Path(self.path)).with_name(f".mcp-agent-{self.id}.tmp")

    def note(self, **facts: Any) -> None:
        """Put further facts on record, for the start that finds this change unfinished.

        If the journal's disk is full, the change is still made on its own disk, and cannot be undone.
        """
        if self.descriptor >= 0 and self.problem is None:
            try:
                disk.write_all(self.descriptor, json.dumps(facts).encode() + b"\n")
            except OSError as error:
                self.problem = _not_writable(error)

    def note_done(self) -> None:
        """Nothing is left to settle: for the next start, which removes a record that cannot be removed now."""
        with suppress(OSError):
            disk.write_all(self.descriptor, b'{"done": true}\n')

    def sync(self) -> None:
        """Make the record and the image survive a power cut."""
        if self.descriptor >= 0 and self.image is not None:
            os.fsync(self.descriptor)
            disk.sync_folder(self.image.parent)


class Records:
    """The records of one journal. Called from the threads that tools run in."""

    def __init__(self, folder: Path | None, limits: JournalLimits) -> None:
        self.limits = limits
        self._folder = folder
        self._kept_bytes: int | None = None
        self._kept_entries = 0
        self._book = threading.Lock()
        self._last_ms = 0
        self.written = WrittenPaths()
        # The group that a thread is in.
        self._here = threading.local()

    @contextmanager
    def change(self, action: Action, target: Path, source: Path | None = None) -> Iterator[tuple[Pending, Path]]:
        """A change that is on record while the block makes it; if the block fails, nothing of it is kept.

        The path is that of the target through its open folder: it is changed there and nowhere else.
        """
        group: Group | None = getattr(self._here, "group", None)
        undo_id = group.id if group is not None and not group.is_begun else self._new_id()
        change = Pending(undo_id, action, str(target), None if source is None else str(source))
        if group is not None:
            group.is_begun, change.group = True, group.id
        record = self._open_record(change)
        try:
            # What a command did is on record after it; of an undo the paths are known to who makes it.
            paths = () if action == "command" else filter(None, (change.path, change.source))
            with path_in_open_folder(target) as change.at, self.written.writing(paths):
                yield change, change.at
        finally:
            if record is not None:
                try:
                    # The record first: with the image alone, the next start does nothing but remove it.
                    record.unlink(missing_ok=True)
                    if not change.is_kept:
                        trees.discard(self.file(change.id, "image"))
                except OSError:
                    change.note_done()
                os.close(change.descriptor)

    def _open_record(self, change: Pending) -> Path | None:
        """Put a change on record; if that fails, its `problem` says why."""
        if self._folder is None:
            change.problem = "no journal is kept"
            return None
        record = self.file(change.id, "begun")
        try:
            disk.private_folder(self._folder)
            change.descriptor = os.open(record, disk.NEW_FLAGS | os.O_APPEND, 0o600)
            disk.lock(change.descriptor)
            facts = {"id": change.id, "action": change.action, "path": change.path}
            facts |= {} if change.group is None else {"group": change.group}
            change.note(**facts if change.source is None else {**facts, "source": change.source})
            if change.problem is not None:
                raise OSError(errno.EIO, change.problem)
        except OSError as error:
            change.problem = change.problem or _not_writable(error)
            if change.descriptor >= 0:
                os.close(change.descriptor)
                change.descriptor = -1
                with suppress(OSError):
                    record.unlink()
            return None
        change.image = self.file(change.id, "image")
        return record

    def file(self, undo_id: str, kind: str) -> Path:
        assert self._folder is not None, "a journal without a folder has no files"
        return self._folder / f"{undo_id}.{kind}"

    def finish(self, change: Pending, target: Path | None, size: int | None = None) -> Receipt:
        """The change is made: from here on it can be undone. `size` is the image's, where it is known."""
        group: Group | None = getattr(self._here, "group", None)
        if change.problem is not None:
            if group is not None:
                group.problem = change.problem
            return Receipt(not_undoable=change.problem)
        try:
            kept = self.write_entry(change, target, size)
        except OSError as error:
            if group is not None:
                group.problem = _not_writable(error)
            return Receipt(not_undoable=_not_writable(error))
        change.is_kept = True
        if group is not None:
            group.parts.append(change.id)
        with self._book:
            if self._kept_bytes is not None:
                self._kept_bytes += kept
            self._kept_entries += 1
            is_full = (
                self._kept_bytes is None
                or self._kept_bytes > self.limits.total_bytes
                or self._kept_entries > self.limits.entries
            )
        if is_full:
            # The change is made. What cannot be dropped now is dropped after the next one.
            with suppress(OSError):
                self.prune(is_first=self._kept_bytes is None)
        return Receipt(undo_id=change.id)

    def write_entry(self, change: Pending, target: Path | None, size: int | None) -> int:
        """Put a finished change on record; how many bytes are kept for it."""
        if size is None:
            image = self.file(change.id, "image")
            status = disk.lstat(image)
            size = None if status is None else trees.tree_bytes(image, status, self.limits.total_bytes)
        after = disk.lstat(target) if target is not None else None
        entry = JournalEntry(
            change.id,
            change.action,
            change.path,
            round(time.time(), 3),
            change.source,
            size,
            copies.identity(after) if after is not None else None,
            change.before,
            change.in_place,
            undoes=change.undoes,
            group=change.group,
            command=change.command,
            counts=change.counts,
        )
        path, temporary = self.file(change.id, "json"), self.file(change.id, "new")
        with disk.replacing(path, temporary=temporary, sync=False) as descriptor:
            disk.write_all(descriptor, json.dumps(asdict(entry)).encode())
        return size or 0

    def entry(self, undo_id: str) -> JournalEntry:
        found = self._read(undo_id)
        if found is None:
            raise NotFound(
                f"there is nothing to undo under the id {undo_id[:40]!r}",
                hint=f"changes are kept for {self.limits.age_s / 86400:g} days; `mcp-agent undo` shows them",
            )
        return found

    def find(self, undo_id: str) -> JournalEntry | None:
        return self._read(undo_id)

    def entries(self) -> list[JournalEntry]:
        """Everything that can be undone, newest first."""
        return [entry for undo_id in self._ids() if (entry := self._read(undo_id)) is not None]

    def _ids(self) -> list[str]:
        """Of everything that can be undone, newest first."""
        if self._folder is None or not _is_folder(self._folder):
            return []
        names: list[str] = []
        with suppress(OSError), os.scandir(self._folder) as files:
            names = [file.name.removesuffix(".json") for file in files if file.name.endswith(".json")]
        return sorted(names, reverse=True)

    @contextmanager
    def together(self) -> Iterator[Group]:
        """What this thread changes in the block is one group. If the process dies in it, `open_groups` has the group.
        Raises OSError if that cannot be noted."""
        group = Group(self._new_id())
        marker = None
        descriptor = -1
        if self._folder is not None:
            with suppress(OSError):
                disk.private_folder(self._folder)
                descriptor = os.open(self.file(group.id, "group"), disk.NEW_FLAGS, 0o600)
                marker = self.file(group.id, "group")
                disk.lock(descriptor)
        try:
            with self._in_group(group):
                yield group
            if len(group.parts) > 1 and (head := self._read(group.id)) is not None:
                content = json.dumps({**asdict(head), "parts": group.parts}).encode()
                disk.replace_file(self.file(group.id, "json"), content, sync=False)
        finally:
            if marker is not None:
                with suppress(OSError):
                    marker.unlink()
                os.close(descriptor)

    @contextmanager
    def _in_group(self, group: Group | None) -> Iterator[None]:
        outer = getattr(self._here, "group", None)
        self._here.group = group
        try:
            yield
        finally:
            self._here.group = outer

    def alone(self) -> AbstractContextManager[None]:
        """What is changed in the block belongs to no group."""
        return self._in_group(None)

    def open_groups(self) -> Iterator[list[JournalEntry]]:
        """The changes that a dead process made of a group that it did not finish, newest first."""
        if self._folder is None or not _is_folder(self._folder):
            return
        for marker in sorted(self._folder.glob("*.group")):
            with suppress(OSError), disk.open_descriptor(marker) as descriptor:
                if disk.lock(descriptor, wait=False):
                    yield [entry for entry in self.entries() if entry.group == marker.stem]
                    marker.unlink()

    def mark_undo(self, undo_id: str | None, undone: str) -> None:
        """Note of the change `undo_id` that it took back `undone`. Without the note it is a change like any other."""
        entry = None if undo_id is None else self._read(undo_id)
        if entry is not None:
            content = json.dumps({**asdict(entry), "undoes": undone}).encode()
            with suppress(OSError):
                disk.replace_file(self.file(entry.id, "json"), content, sync=False)

    def forget(self, undo_id: str) -> None:
        """Remove an entry. Its record goes first: an image without a record is litter, the reverse would be a lie."""
        if self._folder is None:
            return
        with suppress(OSError):
            for kind in ("json", "image"):
                trees.discard(self.file(undo_id, kind))

    def leftovers(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """The records that dead processes left, with their facts. Each is locked while the caller has it.

        One that cannot be read now is left for the next start.
        """
        if self._folder is None or not _is_folder(self._folder):
            return
        for path in sorted(self._folder.glob("*.begun")):
            with suppress(OSError), disk.open_descriptor(path) as descriptor:
                if disk.lock(descriptor, wait=False):
                    yield path, _facts(path)

    def prune(self, *, is_first: bool) -> None:
        """Delete old entries, and the oldest ones until the rest is within the limits."""
        if self._folder is None or not _is_folder(self._folder):
            return
        with self._book, disk.folder_lock(self._folder):
            if is_first:
                self._clear_litter()
            # The id, size and time of each entry, newest first. Whole, ten thousand take 10 MB.
            read = filter(None, map(self._read, self._ids()))
            kept = [(entry.id, entry.image_bytes or 0, entry.at) for entry in read]
            oldest_at = time.time() - self.limits.age_s
            most_bytes, most_entries = self.limits.total_bytes, self.limits.entries
            if len(kept) > most_entries or sum(size for _, size, _ in kept) > most_bytes:
                # More than it must: all entries are read for this, and the next change would be over the limit again.
                most_bytes, most_entries = most_bytes * 9 // 10, most_entries * 9 // 10
            total = count = 0
            for undo_id, size, at in kept:
                # The newest is the change that was just made.
                is_over = count > 0 and (total + size > most_bytes or count >= most_entries)
                if at < oldest_at or is_over:
                    self.forget(undo_id)
                else:
                    total += size
                    count += 1
            self._kept_bytes, self._kept_entries = total, count

    def _clear_litter(self) -> None:
        """Remove images without a record, and unfinished copies."""
        assert self._folder is not None, "only a journal with a folder is pruned"
        for path in list(self._folder.iterdir()):
            undo_id = path.stem
            if path.suffix in (".image", ".partial", ".new") and not (
                self.file(undo_id, "json").exists() or self.file(undo_id, "begun").exists()
            ):
                with suppress(OSError):
                    trees.discard(path)

    def _new_id(self) -> str:
        """Sorts by time. A process makes one a millisecond; two random digits keep it apart from other processes."""
        with self._book:
            number = self._last_ms = max(int(time.time() * 1000), self._last_ms + 1)
        number = number * 36**2 + secrets.randbelow(36**2)
        digits = ""
        while number:
            number, digit = divmod(number, 36)
            digits = _DIGITS[digit] + digits
        return f"{digits}{self.limits.id_suffix}"

    def _read(self, undo_id: str) -> JournalEntry | None:
        if self._folder is None or _ID.fullmatch(undo_id) is None:
            return None
        try:
            # `str`, not `Path`: pathlib interns every name.
            return msgspec.convert(json.loads(disk.read_small_file(f"{self._folder}/{undo_id}.json")), JournalEntry)
        except (OSError, ValueError):
            return None


def _is_folder(path: Path) -> bool:
    """As `Path.is_dir`, which raises an error if the folder above may not be entered."""
    return os.path.isdir(path)


def _not_writable(error: OSError) -> str:
    return f"the journal cannot be written: {_reason(error)}"


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def megabytes(count: int) -> str:
    return f"{count / (1024 * 1024):.4g} MB"


def _facts(record: Path) -> dict[str, Any]:
    """What a record says; nothing if it cannot be read. Its last line may be cut off."""
    facts: dict[str, Any] = {}
    try:
        for line in disk.read_small_file(record).decode("utf-8", "surrogateescape").split("\n")[:-1]:
            facts |= json.loads(line)
    except (FileNotFoundError, ValueError, TypeError):
        return {}
    return facts
