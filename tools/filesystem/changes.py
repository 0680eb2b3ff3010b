"""What the four writing tools share: finding the file behind a path, and saying what came of the change."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.files import disk
from tools.files.journal.entries import Receipt
from tools.files.paths import told
from tools.files.sources import refuse
from tools.kit.context import ToolContext
from tools.kit.errors import InvalidPath, NotADirectory, NotFound, from_os_error


def file_behind(ctx: ToolContext, path: str) -> Path:
    """The file that a path leads to, its links followed: a write goes through a link and leaves it in place."""
    return ctx.paths.real(ctx.paths.resolve(path))


def named(ctx: ToolContext, path: str) -> Path:
    """The file, folder or link that has this very name; links on the way to it are followed."""
    target = ctx.paths.resolve(path)
    if not target.name:
        raise InvalidPath(f"{told(target)} is the root of the file system")
    found = ctx.paths.real(target.parent) / target.name
    ctx.paths.check(found)
    return found


@contextmanager
def looked_at(ctx: ToolContext, target: Path, shown: str) -> Iterator[tuple[int, os.stat_result] | None]:
    """The open file and its status, or None if there is none. Raises for folders, pipes and the like."""
    try:
        status = target.stat()
        # Looked at before it is opened: opening a pipe or a device is a deed of its own.
        refuse(status.st_mode, shown)
        descriptor = os.open(target, disk.READ_FLAGS)
    except FileNotFoundError:
        yield None
        return
    except NotADirectoryError as error:
        raise NotADirectory(f"{shown}: a part of this path is a file, not a folder") from error
    except OSError as error:
        raise from_os_error(error, shown) from error
    try:
        ctx.paths.check_open(descriptor)
        yield descriptor, os.fstat(descriptor)
    except OSError as error:
        raise from_os_error(error, shown) from error
    finally:
        os.close(descriptor)


def make_parents(target: Path, shown: str, *, create: bool) -> None:
    """See to it that the folder of `target` is there. Raises NotFound, NotADirectory."""
    parent = target.parent
    if parent.is_dir():
        return
    if not create and not os.path.lexists(parent):
        raise NotFound(f"the folder of {shown} does not exist", hint="pass create_dirs=true to make it")
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except FileExistsError as error:
        raise NotADirectory(f"{told(parent)} is a file, not a folder") from error
    except OSError as error:
        if error.errno == errno.ENOTDIR:
            raise NotADirectory(f"{told(parent)}: a part of this path is a file, not a folder") from error
        raise from_os_error(error, told(parent)) from error


def undo_fields(receipt: Receipt) -> dict[str, str | bool | None]:
    """What a result says of the way back."""
    if receipt.undo_id is not None:
        return {"undo_id": receipt.undo_id}
    return {"undoable": False, "why": receipt.not_undoable}


def undo_note(undo_id: str | None, why: str | None) -> str:
    return f"undo_id {undo_id}" if undo_id is not None else f"cannot be undone: {why}"
