"""Changes to the end of a file, made in the file itself: appending, and undoing that.

So a log of a gigabyte is not copied for one more line, and a program that has it open goes on writing to the same
file. Before the change, the record says how much of the beginning stays, and the image has what follows it: together
they are what was there before.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.files import disk
from tools.journal.journal_records import JournalEntry, Pending, Receipt, Records, megabytes
from tools.kit.errors import NotFound

# At the end of the file, wherever another program has moved that to.
_FLAGS = disk.WRITE_FLAGS | os.O_APPEND


def change_tail(
    records: Records, change: Pending, target: Path, prefix_bytes: int, length: int, fill: Callable[[int], None]
) -> Receipt:
    """Make the file its first `prefix_bytes` and the `length` bytes that `fill` writes, or leave it as it is."""
    with disk.open_descriptor(target, _FLAGS) as writing:
        status = os.fstat(writing)
        _keep(records, change, writing, prefix_bytes, status.st_size)
        change.prefix_bytes = prefix_bytes
        facts = {"prefix": prefix_bytes, "length": length, "size": status.st_size, "modified_ns": status.st_mtime_ns}
        change.note(file=disk.inode(status), **facts)
        change.sync()
        try:
            if status.st_size > prefix_bytes:
                os.ftruncate(writing, prefix_bytes)
            fill(writing)
            os.fsync(writing)
        except OSError:
            _put_back(writing, prefix_bytes, change.image, status.st_mtime_ns)
            raise
        if os.fstat(writing).st_size != prefix_bytes + length:
            change.problem = "another program wrote to it at the same time"
    return records.finish(change, target)


def recover_tail(facts: dict[str, Any], target: Path, image: Path) -> bool:
    """Settle a change that was interrupted: whether it is made. A file that is not the one of then is left alone."""
    status = disk.lstat(target)
    prefix_bytes: int = facts["prefix"]
    end: int = prefix_bytes + facts["length"]
    if status is None or disk.inode(status) != facts["file"] or status.st_size < prefix_bytes:
        return False
    takes_away = facts["size"] > prefix_bytes
    if takes_away and not image.exists():
        # What it takes away was too much to keep. It is only ever cut off, in one step.
        return status.st_size == end
    if not takes_away and status.st_size >= end:
        return True
    with disk.open_descriptor(target, _FLAGS) as writing:
        _put_back(writing, prefix_bytes, image, facts["modified_ns"])
    return False


def previous_content(records: Records, entry: JournalEntry) -> Path:
    """A file with all that was there before the change. Raises NotFound if the file is not what we know any more."""
    assert entry.prefix_bytes is not None, "the entry is of a change to the end of a file"
    view = records.file(entry.id, "view")
    if view.exists():
        return view
    if entry.prefix_bytes > records.limits.total_bytes:
        raise NotFound(
            f"undo://{entry.id} is the first {entry.prefix_bytes} bytes of {entry.path}, too much for a copy",
            hint="read the file itself, or undo the change",
        )
    own = Path(entry.path)
    later = [each for each in records.entries() if each.path == entry.path and each.id >= entry.id]
    status = disk.lstat(own)
    is_known = status is not None and disk.identity(status) == later[0].after
    if not is_known or any((each.prefix_bytes or 0) < entry.prefix_bytes for each in later):
        raise NotFound(f"undo://{entry.id} {entry.summary}, and the file has changed since: its beginning is not kept")
    with disk.replacing(view, temporary=records.file(entry.id, "partial"), sync=False) as writing:
        with disk.open_descriptor(own) as reading:
            disk.copy_bytes(reading, writing, entry.prefix_bytes)
        if entry.image_bytes is not None:
            disk.copy_out(records.file(entry.id, "image"), writing)
    return view


def _keep(records: Records, change: Pending, reading: int, start: int, end: int) -> None:
    """Keep what stands behind `start` as the image; if there is too much of it, say so in `problem`."""
    image = change.image
    if image is None or end <= start:
        return
    if end - start > records.limits.copy_bytes:
        change.problem = f"what it takes away is larger than {megabytes(records.limits.copy_bytes)}"
        return
    with disk.replacing(image, temporary=image.with_suffix(".partial")) as writing:
        disk.copy_bytes(reading, writing, end - start, start)


def _put_back(writing: int, prefix_bytes: int, image: Path | None, modified_ns: int) -> None:
    """Make the file what it was, its time too: earlier changes to it are known by that, and can still be undone."""
    os.ftruncate(writing, prefix_bytes)
    if image is not None and image.exists():
        disk.copy_out(image, writing)
    os.utime(writing, ns=(modified_ns, modified_ns))
    os.fsync(writing)
