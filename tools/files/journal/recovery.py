"""What the next start does about a change that a dead process left half done: finish it, or take it back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from tools.files import disk
from tools.files.journal.entries import Begun, Records
from tools.files.journal.files import copy_into, discard, inode, is_same, lstat
from tools.files.journal.tails import recovered_tail
from tools.files.paths import told


def recover(records: Records) -> list[str]:
    """Finish or take back all that is unfinished; say what was done, a sentence each."""
    told_: list[str] = []
    for path, facts in records.unfinished():
        sentence = _recovered(records, path, facts)
        if sentence is not None:
            told_.append(sentence)
    records.prune(is_first=True)
    return told_


def _recovered(records: Records, path: Path, facts: dict[str, Any]) -> str | None:
    try:
        begun = Begun(facts["id"], facts["action"], facts["path"], facts.get("source"), facts.get("temporary"))
    except KeyError:
        path.unlink()
        return None
    if records.file(begun.id, "json").exists():
        # All was done but for taking this record away.
        path.unlink()
        return None
    target = Path(begun.path)
    temporary = Path(begun.temporary) if begun.temporary else None
    image = records.file(begun.id, "image")
    has_temporary = temporary is not None and os.path.lexists(temporary)
    is_verified = facts.get("phase") == "verified"
    is_made = False
    if "prefix" in facts:
        begun.prefix_bytes = facts["prefix"]
        is_made = recovered_tail(facts, target, image)
    elif facts.get("in_place"):
        if image.exists() and is_verified:
            copy_into(image, target)
        discard(image)
    elif begun.action == "delete":
        if has_temporary and temporary is not None:
            disk.remove_tree(temporary)
        is_made = not os.path.lexists(target) and os.path.lexists(image)
    elif begun.action == "move" and begun.source is not None:
        source = Path(begun.source)
        if has_temporary and temporary is not None:
            if is_verified and os.path.lexists(source):
                discard(temporary)
            elif not os.path.lexists(source):
                os.replace(temporary, target)
                is_made = True
            else:
                discard(temporary)
        elif is_verified and os.path.lexists(target):
            if os.path.lexists(source):
                disk.remove_tree(source)
            is_made = True
        else:
            is_made = os.path.lexists(target) and not os.path.lexists(source)
    else:
        now = lstat(target)
        is_made = now is not None and inode(now) == facts.get("new")
        if begun.action == "write":
            is_made = is_made and os.path.lexists(image) and not is_same(image, target)
        if temporary is not None and has_temporary:
            discard(temporary)
    if is_made:
        records.write_entry(begun, target if os.path.lexists(target) else None, None)
    else:
        discard(image)
    path.unlink()
    return f"{'finished' if is_made else 'took back'} an interrupted {begun.action} of {told(begun.path)}"
