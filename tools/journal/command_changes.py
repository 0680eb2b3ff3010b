"""What commands did to files, as entries of the journal: one for each command, with all of its paths."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tools.files.paths import from_wire, to_wire
from tools.journal import trees
from tools.journal.command_rows import CommandRow, CommandRows, read_rows, write_rows
from tools.journal.command_undo import Restoring, capture, finished, materialize, stale_paths
from tools.journal.journal_changes import FileChanges
from tools.journal.journal_records import MOST_COMMAND_CHARS, JournalEntry, Pending, Receipt, Records
from tools.journal.written_paths import WrittenPaths
from tools.kit.errors import IoError, NotFound, NotUndoable, StaleRev, ToolError

_MOST_LISTED = 10


class CommandChanges(FileChanges):
    """Keeps what commands did, and takes it back."""

    @property
    def most_bytes(self) -> int:
        """How much one entry may keep."""
        return self._limits.total_bytes

    @property
    def written(self) -> WrittenPaths:
        """What the tools write."""
        return self._records.written

    def keep_command(self, folder: Path, root: str, command: str, counts: Mapping[str, Any]) -> str | None:
        """Make an entry of a folder with rows and contents. The id that undoes it; None where nothing is kept.

        Raises OSError.
        """
        try:
            with self._records.change("command", Path(root)) as (change, _):
                change.command = command[:MOST_COMMAND_CHARS]
                change.counts = [counts["created"], counts["changed"], counts["deleted"]]
                if change.image is not None:
                    os.rename(folder, change.image)
                return self._records.finish(change, None, counts["bytes"]).undo_id
        finally:
            trees.discard(folder)

    def rows_of(self, entry: JournalEntry, inner: str = "") -> list[CommandRow]:
        """What a command did; with `inner`, to this path and what is below it. Raises NotFound."""
        found = self._command_rows(entry).rows
        return _chosen(found, inner) if inner else found

    def paths_of(self, entry: JournalEntry, inner: str = "") -> list[Path]:
        return [Path(os.path.normpath(f"{entry.path}/{row.path}")) for row in self.rows_of(entry, inner)]

    def undo_command(self, entry: JournalEntry, inner: str = "", *, overwrite: bool = False) -> tuple[Path, Receipt]:
        """Take back what a command did, all of it or nothing; with `inner`, what it did to that path.

        Raises NotFound, NotUndoable, and StaleRev if a path is not what the command left.
        """
        found = self._command_rows(entry)
        rows = _chosen(found.rows, inner) if inner else found.rows
        if not rows:
            raise NotFound(f"{entry.id} did nothing to {to_wire(inner)}", hint="mcp-agent undo ID shows what it did")
        chosen = CommandRows(found.root, rows, found.shared & {row.path for row in rows})
        paths = [os.path.normpath(f"{found.root}/{row.path}") for row in rows]
        for path in paths:
            self.protected.check_entry(Path(path))
        if not overwrite and (stale := stale_paths(chosen)):
            raise _stale(entry, stale, chosen.shared)
        with self._records.change("command", Path(found.root)) as (change, _), self.written.writing(paths):
            change.command, change.undoes = entry.command, entry.id
            change.counts = [entry.counts[2], entry.counts[1], entry.counts[0]] if entry.counts else None
            change.note(undoes=entry.id, inner=inner)
            left = self._take_back_command(change, entry, chosen, overwrite=overwrite)
            assert change.image is not None, "a change that is on record has a place for its image"
            size = trees.tree_bytes(change.image, change.image.lstat(), self._limits.total_bytes)
            receipt = self._records.finish(change, None, size)
        drop_rows(self._records, entry.id, inner)
        own = Path(os.path.normpath(f"{found.root}/{inner}"))
        return own, Receipt(receipt.undo_id, receipt.not_undoable, tuple(left))

    def _take_back_command(
        self, change: Pending, entry: JournalEntry, found: CommandRows, *, overwrite: bool
    ) -> list[str]:
        """Gives the paths that stay as they are."""
        image = change.image
        if image is None:
            raise IoError(f"nothing was undone: {change.problem}")
        taken, lost = capture(found, image, self._limits.copy_bytes)
        if lost and not overwrite:
            raise NotUndoable(
                f"nothing was undone: {_listed(lost)} could not be brought back then",
                hint="pass overwrite=true (`mcp-agent undo ID --force`) to undo all the same",
            )
        taken = [row for row in taken if row.path not in set(lost)]
        write_rows(image, CommandRows(found.root, taken))
        change.note(phase="captured")
        change.sync()
        if change.problem is not None:
            raise IoError(f"nothing was undone: {change.problem}")
        staging = _staging(found.root, change.id)
        restoring = Restoring(found, self._records.file(entry.id, "image"), staging, taken)
        try:
            restoring.restore()
        except (OSError, ToolError) as error:
            Restoring(CommandRows(found.root, taken), image, staging, ()).restore()
            reason = error.message if isinstance(error, ToolError) else (error.strerror or str(error)).lower()
            raise IoError(f"nothing was undone: {reason}") from error
        write_rows(image, CommandRows(found.root, finished(taken, found.root)))
        return restoring.left

    def old_content(self, entry: JournalEntry, inner: str) -> Path:
        """The file with what a path held before a command. Raises NotFound."""
        reference = f"undo://{entry.id}/{inner}"
        if not inner:
            raise NotFound(
                f"undo://{entry.id} is what a command did to several paths", hint=f"name one: undo://{entry.id}/<path>"
            )
        found, image = self._command_rows(entry), self._records.file(entry.id, "image")
        path = materialize(found, inner, image) or materialize(found, from_wire(inner), image)
        if path is None:
            raise NotFound(f"{reference[:200]} holds nothing: the command did not change it, or it was not there")
        return path

    def _command_rows(self, entry: JournalEntry) -> CommandRows:
        try:
            return read_rows(self._records.file(entry.id, "image"))
        except (OSError, ValueError) as error:
            raise NotFound(f"what {entry.id} has kept cannot be read: {error}") from error


def settle_command(records: Records, change: Pending, undoes: str | None, inner: str, *, is_captured: bool) -> bool:
    """Finish an undo whose process died. False if it had not begun to change anything: then it is forgotten."""
    image = records.file(change.id, "image")
    staging = _staging(change.path, change.id)
    if undoes is None or not is_captured or (entry := records.find(undoes)) is None:
        trees.discard(staging)
        return False
    kept = records.file(entry.id, "image")
    try:
        found, taken = read_rows(kept), read_rows(image).rows
        rows = _chosen(found.rows, inner) if inner else found.rows
        Restoring(CommandRows(found.root, rows), kept, staging, taken).restore()
    except (ToolError, ValueError) as error:
        raise OSError(str(error)) from error
    write_rows(image, CommandRows(found.root, finished(taken, found.root)))
    change.command, change.undoes = entry.command, entry.id
    change.counts = [entry.counts[2], entry.counts[1], entry.counts[0]] if entry.counts else None
    return True


def drop_rows(records: Records, undo_id: str, inner: str) -> None:
    """These rows of an entry are taken back. Without any, the entry is forgotten."""
    if inner:
        image = records.file(undo_id, "image")
        with suppress(OSError, ValueError):
            found = read_rows(image)
            gone = {row.path for row in _chosen(found.rows, inner)}
            if left := [row for row in found.rows if row.path not in gone]:
                write_rows(image, CommandRows(found.root, left, found.shared - gone))
                return
    records.forget(undo_id)


def _chosen(rows: Sequence[CommandRow], inner: str) -> list[CommandRow]:
    """The rows of a path and what is below it, with what they cannot do without: where a file was moved to, and the
    folders above that are gone."""
    inner = os.path.normpath(inner)
    own = [row for row in rows if row.path == inner or row.path.startswith(f"{inner}/")]
    moved = {row.before.inode for row in own if row.before is not None and not row.has_content}
    above = {parent.as_posix() for row in own for parent in Path(row.path).parents}
    chosen = {row.path for row in own}
    return [
        row
        for row in rows
        if row.path in chosen
        or (own and row.path in above and row.before is not None and row.before.is_folder and row.after is None)
        or (row.before is None and row.after is not None and row.after.is_file and row.after.inode in moved)
    ]


def _stale(entry: JournalEntry, stale: list[str], shared: frozenset[str]) -> StaleRev:
    by_others = "may have been changed by another command or tool, too,"
    why = by_others if shared.issuperset(stale) else "have changed since"
    return StaleRev(
        f"nothing was undone: {_listed(stale)} {why} {entry.id}",
        hint="pass overwrite=true (`mcp-agent undo ID --force`) to put the older state back all the same, or undo one "
        f"path: undo://{entry.id}/<path>",
    )


def _listed(paths: Sequence[str]) -> str:
    more = len(paths) - _MOST_LISTED
    return ", ".join(to_wire(path or ".") for path in paths[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _staging(root: str, undo_id: str) -> Path:
    return Path(root) / f".mcp-agent-{undo_id}.tmp"
