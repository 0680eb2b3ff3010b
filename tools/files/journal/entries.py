"""The journal's folder: a record of every change under way and of every one that was made, and how much is kept.

`<id>.begun` says what is about to happen, a line of facts at a time, and is locked while it does; `<id>.image` is what
was there before; `<id>.json` says that the change is made. Without a folder nothing is kept.
"""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, Literal

from tools.files import atomic, disk
from tools.files.journal.files import discard, identity, lstat, tree_bytes
from tools.files.paths import told
from tools.kit.errors import NotFound
from tools.kit.records import mutable, record

Action = Literal["write", "create", "delete", "move"]

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


@record
class Limits:
    """How much the journal keeps, and for how long. `copy_bytes` bounds an image on another file system."""

    total_bytes: int = 200 * 1024 * 1024
    age_s: float = 7 * 24 * 3600.0
    copy_bytes: int = 50 * 1024 * 1024
    entries: int = 10_000


@record
class Receipt:
    """What came of a change: the id that undoes it, or why there is none."""

    undo_id: str | None = None
    not_undoable: str | None = None


@record
class Entry:
    """One change as it is kept. `after` is what the change left, to know whether it is still that."""

    id: str
    action: Action
    path: str
    at: float
    source: str | None = None
    image_bytes: int | None = None
    after: list[int] | None = None
    # Of a change to the end of a file: what was there before is so much of its beginning, and the image.
    prefix_bytes: int | None = None

    @property
    def summary(self) -> str:
        what = {"write": "changed", "create": "created", "delete": "deleted", "move": "moved"}[self.action]
        return f"{what} {told(self.source)} to {told(self.path)}" if self.source else f"{what} {told(self.path)}"


@mutable
class Begun:
    """A change under way. Its record stays locked, so nobody takes it for a dead process's."""

    id: str
    action: Action
    path: str
    source: str | None = None
    temporary: str | None = None
    prefix_bytes: int | None = None
    descriptor: int = field(default=-1)
    problem: str | None = field(default=None)


class Records:
    """The records of one journal. Called from the threads that tools run in."""

    def __init__(self, folder: Path | None, limits: Limits) -> None:
        self.limits = limits
        self._folder = folder
        self._kept_bytes: int | None = None
        self._kept_entries = 0
        self._book = threading.Lock()
        self._last_ms = 0

    @contextmanager
    def begun(self, action: Action, target: Path, source: Path | None = None) -> Iterator[Begun]:
        """A change under way: on record from here on, and off it again if the block fails."""
        begun = Begun(self._new_id(), action, str(target), None if source is None else str(source))
        if self._folder is not None:
            try:
                disk.private_folder(self._folder)
                begun.descriptor = os.open(self.file(begun.id, "begun"), disk.NEW_FLAGS | os.O_APPEND, 0o600)
                atomic.lock(begun.descriptor)
                facts = {"id": begun.id, "action": action, "path": begun.path}
                self._append(begun, facts if begun.source is None else {**facts, "source": begun.source})
            except OSError as error:
                begun.problem = f"the journal cannot be written: {(error.strerror or str(error)).lower()}"
                if begun.descriptor >= 0:
                    os.close(begun.descriptor)
                    begun.descriptor = -1
                    with suppress(OSError):
                        self.file(begun.id, "begun").unlink()
        else:
            begun.problem = "no journal is kept"
        try:
            yield begun
        except BaseException:
            if begun.descriptor >= 0:
                with suppress(OSError):
                    discard(self.file(begun.id, "image"))
            raise
        finally:
            if begun.descriptor >= 0:
                with suppress(OSError):
                    self.file(begun.id, "begun").unlink()
                os.close(begun.descriptor)

    def note(self, begun: Begun, **facts: Any) -> None:
        """Put further facts on record, for the start that finds this change unfinished."""
        begun.temporary = facts.get("temporary", begun.temporary)
        if begun.descriptor >= 0:
            self._append(begun, facts)

    def sync(self, begun: Begun) -> None:
        """Make what is on record of a change, and its image, survive a power cut."""
        if begun.descriptor >= 0:
            os.fsync(begun.descriptor)
            disk.sync_folder(self.file(begun.id, "begun").parent)

    def image(self, begun: Begun) -> Path | None:
        """Where what was there before is kept; None if nothing can be."""
        return self.file(begun.id, "image") if begun.descriptor >= 0 else None

    def file(self, undo_id: str, kind: str) -> Path:
        assert self._folder is not None, "a journal without a folder has no files"
        return self._folder / f"{undo_id}.{kind}"

    def finished(self, begun: Begun, target: Path | None, size: int | None = None) -> Receipt:
        """The change is made: from here on it can be undone."""
        if begun.descriptor < 0 or begun.problem is not None:
            if begun.descriptor >= 0:
                with suppress(OSError):
                    discard(self.file(begun.id, "image"))
            return Receipt(not_undoable=begun.problem)
        try:
            kept = self.write_entry(begun, target, size)
        except OSError as error:
            return Receipt(not_undoable=f"the journal cannot be written: {(error.strerror or str(error)).lower()}")
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
            self.prune(is_first=self._kept_bytes is None)
        return Receipt(undo_id=begun.id)

    def write_entry(self, begun: Begun, target: Path | None, size: int | None) -> int:
        image = self.file(begun.id, "image")
        if size is None:
            status = lstat(image)
            size = None if status is None else tree_bytes(image, status, self.limits.total_bytes)
        after = lstat(target) if target is not None else None
        entry = Entry(
            begun.id,
            begun.action,
            begun.path,
            round(time.time(), 3),
            begun.source,
            size,
            identity(after) if after is not None else None,
            begun.prefix_bytes,
        )
        path, temporary = self.file(begun.id, "json"), self.file(begun.id, "new")
        with atomic.replacing(path, temporary=temporary, sync=False) as descriptor:
            disk.write_all(descriptor, json.dumps(asdict(entry)).encode())
        return size or 0

    def entry(self, undo_id: str) -> Entry:
        found = self._read(undo_id)
        if found is None:
            raise NotFound(
                f"there is nothing to undo under the id {undo_id[:40]!r}",
                hint=f"changes are kept for {self.limits.age_s / 86400:g} days; `mcp-agent undo --list` shows them",
            )
        return found

    def entries(self) -> list[Entry]:
        """Everything that can be undone, newest first."""
        if self._folder is None or not self._folder.is_dir():
            return []
        names = sorted((path.stem for path in self._folder.glob("*.json")), reverse=True)
        return [entry for name in names if (entry := self._read(name)) is not None]

    def forget(self, undo_id: str) -> None:
        """Take an entry out. Its record goes first: an image without one is litter, the reverse would be a lie."""
        self.file(undo_id, "json").unlink(missing_ok=True)
        discard(self.file(undo_id, "image"))
        discard(self.file(undo_id, "view"))

    def unfinished(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """The records that dead processes left, with their facts, each locked while it is looked at."""
        if self._folder is None or not self._folder.is_dir():
            return
        for path in sorted(self._folder.glob("*.begun")):
            with suppress(FileNotFoundError), _exclusively(path) as descriptor:
                if descriptor is None:
                    continue
                facts: dict[str, Any] = {}
                try:
                    for line in path.read_text("utf-8", "surrogateescape").split("\n")[:-1]:
                        facts |= json.loads(line)
                except (ValueError, TypeError):
                    facts = {}
                yield path, facts

    def prune(self, *, is_first: bool) -> None:
        """Drop what is too old, and the oldest while there is too much."""
        if self._folder is None or not self._folder.is_dir():
            return
        with self._book, atomic.locked(self._folder):
            if is_first:
                self._clear_litter()
            total, count, oldest_at = 0, 0, time.time() - self.limits.age_s
            for entry in self.entries():
                total += entry.image_bytes or 0
                count += 1
                if entry.at < oldest_at or total > self.limits.total_bytes or count > self.limits.entries:
                    self.forget(entry.id)
                    total -= entry.image_bytes or 0
                    count -= 1
            self._kept_bytes, self._kept_entries = total, count

    def _clear_litter(self) -> None:
        """Remove images whose record is gone, and copies that were never finished."""
        assert self._folder is not None, "only a journal with a folder is pruned"
        for path in list(self._folder.iterdir()):
            undo_id, _, kind = path.name.partition(".")
            if kind in ("image", "partial", "new", "whole", "view") and not (
                self.file(undo_id, "json").exists() or self.file(undo_id, "begun").exists()
            ):
                with suppress(OSError):
                    discard(path)

    def _new_id(self) -> str:
        """Sorts by time; no two of this process are of one millisecond, and two random digits part it from others."""
        with self._book:
            number = self._last_ms = max(int(time.time() * 1000), self._last_ms + 1)
        digits = ""
        while number:
            number, digit = divmod(number, 36)
            digits = _DIGITS[digit] + digits
        return digits + "".join(secrets.choice(_DIGITS) for _ in range(2))

    def _append(self, begun: Begun, facts: dict[str, Any]) -> None:
        disk.write_all(begun.descriptor, json.dumps(facts).encode() + b"\n")

    def _read(self, undo_id: str) -> Entry | None:
        if self._folder is None or not undo_id or any(letter not in _DIGITS for letter in undo_id):
            return None
        try:
            return Entry(**json.loads(self.file(undo_id, "json").read_text("utf-8")))
        except (OSError, ValueError, TypeError):
            return None


def megabytes(count: int) -> str:
    return f"{count / (1024 * 1024):g} MB"


@contextmanager
def _exclusively(path: Path) -> Iterator[int | None]:
    """The descriptor of a record that no living process holds; None if one does."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield descriptor if atomic.lock(descriptor, wait=False) else None
    finally:
        os.close(descriptor)
