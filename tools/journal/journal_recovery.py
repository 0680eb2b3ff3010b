"""Recovery at the next start: finish a change whose process died half-way, or take it back."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from tools.files import disk
from tools.files.paths import to_wire
from tools.journal import copies, trees
from tools.journal.command_changes import drop_rows, settle_command
from tools.journal.journal_records import Pending, Records


def recover(records: Records) -> list[str]:
    """Finish or take back every unfinished change; one sentence about each.

    What cannot be settled now, because a disk is full or not there, is left for the next start.
    """
    sentences: list[str] = []
    for record, facts in records.leftovers():
        try:
            # Without the first line nothing was done; with the entry all was done but for removing the record. Only
            # of a deletion across two disks the entry comes before the original goes.
            if "path" in facts and "done" not in facts:
                has_entry = records.file(facts["id"], "json").exists()
                if not has_entry or (facts["action"] == "delete" and os.path.lexists(facts["path"])):
                    sentences.append(_finish_or_take_back(records, facts))
                elif facts["action"] == "command":
                    if "undoes" in facts:
                        drop_rows(records, facts["undoes"], facts.get("inner", ""))
                elif facts["action"] == "delete":
                    trees.discard(Pending(facts["id"], "delete", facts["path"]).temporary)
            record.unlink(missing_ok=True)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            what = f"{facts['action']} of {to_wire(facts['path'])}" if "path" in facts else "change"
            sentences.append(f"could not settle an interrupted {what}: {reason}; the next start tries again")
    with suppress(OSError):
        records.prune(is_first=True)
    return sentences


def _finish_or_take_back(records: Records, facts: dict[str, Any]) -> str:
    change = Pending(facts["id"], facts["action"], facts["path"], facts.get("source"), facts.get("before"))
    change.group = facts.get("group")
    target, image = Path(change.path), records.file(change.id, "image")
    is_made = _settle(records, change, facts, target, image)
    if is_made:
        records.write_entry(change, target if os.path.lexists(target) else None, None)
        if change.undoes is not None:
            drop_rows(records, change.undoes, facts.get("inner", ""))
    else:
        records.forget(change.id)
    return f"{'finished' if is_made else 'took back'} an interrupted {change.action} of {to_wire(change.path)}"


def _settle(records: Records, change: Pending, facts: dict[str, Any], target: Path, image: Path) -> bool:
    """Bring the files into the state before the change or after it. True if it is the one after."""
    if change.before is not None:
        return _settle_append(target, change.before, facts["end"])
    if change.action == "command":
        undoes, inner = facts.get("undoes"), facts.get("inner", "")
        return settle_command(records, change, undoes, inner, is_captured=facts.get("phase") == "captured")
    is_verified = facts.get("phase") == "verified"
    if facts.get("in_place"):
        if image.exists() and is_verified:
            with disk.open_descriptor(target, disk.WRITE_FLAGS) as writing:
                copies.restore(image, writing)
        return False
    if change.action == "delete":
        trees.discard(change.temporary)
        return not os.path.lexists(target) and os.path.lexists(image)
    if change.action == "move" and change.source is not None:
        return _settle_move(Path(change.source), target, change.temporary, is_verified)
    now = disk.lstat(target)
    is_made = now is not None and copies.inode(now) == facts.get("new")
    if change.action == "write":
        is_made = is_made and os.path.lexists(image) and not copies.is_same(image, target)
    trees.discard(change.temporary)
    return is_made


def _settle_append(target: Path, before: list[int], end: int) -> bool:
    """Cut off an incomplete append. A file that was replaced since is not touched."""
    now = disk.lstat(target)
    if now is None or copies.inode(now) != before[:2] or now.st_size < before[2]:
        return False
    if now.st_size < end:
        with disk.open_descriptor(target, disk.WRITE_FLAGS) as writing:
            copies.cut(writing, before)
    return now.st_size >= end


def _settle_move(source: Path, target: Path, temporary: Path, is_verified: bool) -> bool:
    """A move within a file system is made or not; across two there is a copy, which replaces the source once it is
    verified."""
    if os.path.lexists(temporary):
        if os.path.lexists(source):
            trees.discard(temporary)
            return False
        os.replace(temporary, target)
        # Two names of one file: the rename was a no-op and has left both.
        temporary.unlink(missing_ok=True)
        return True
    if is_verified and os.path.lexists(target):
        trees.discard(source)
        return True
    return os.path.lexists(target) and not os.path.lexists(source)
