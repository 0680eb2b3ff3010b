"""fs_move: rename a file or a folder, or undo a change."""

from __future__ import annotations

import errno
import stat
from pathlib import Path
from typing import Annotated

from tools.context import ToolContext
from tools.files.paths import from_wire, to_wire
from tools.filesystem.changes import ChangeResult, check_not_own, make_parents, resolve_name
from tools.filesystem.previews import preview_move
from tools.journal.journal_records import JournalEntry
from tools.kit.errors import AlreadyExists, InvalidPath, NotFound, from_os_error
from tools.kit.params import Field
from tools.kit.results import short_path
from tools.kit.spec import tool

_UNDO = "undo://"


class Moved(ChangeResult, frozen=True):
    from_: str
    to: str
    moved: bool
    # What an undo has left as it is, because something else is there now.
    left: list[str] | None = None

    def render(self) -> str:
        left = f" · left as they are: {', '.join(self.left)}" if self.left else ""
        return f"{self.from_} moved to {self.to} · {self.undo_note}{left}"

    def summary(self) -> str:
        return f"{short_path(self.from_)} moved to {short_path(self.to)}"


_FROM = ("source", "src", "source_path", "old_path", "from_path")
_TO = ("destination", "dest", "dst", "destination_path", "new_path", "to_path", "target")


@tool(
    "filesystem",
    effect="write",
    title="Move a file or folder",
    destructive=True,
    preview=preview_move,
    known_as=("move_file", "rename_file", "mv", "undo"),
)
def fs_move(
    ctx: ToolContext,
    *,
    from_: Annotated[str, Field.of_path("File or folder; or undo://<undo_id> to take a change back.", _FROM)],
    to: Annotated[str, Field.of_path("Its new path. For undo: the changed path, or where to put the old state.", _TO)],
    overwrite: Annotated[bool, Field(description="Replace a file that is there.")] = False,
    if_rev: Annotated[str | None, Field(description="Only if the file is still at this rev.", audited=True)] = None,
) -> Moved:
    """Move or rename a file or folder, also across disks; missing folders are made. Or undo a change."""
    target = resolve_name(ctx, to)
    if from_.startswith(_UNDO):
        return _undo_change(ctx, from_, to, overwrite)
    origin = resolve_name(ctx, from_)
    shown, shown_to = to_wire(origin), to_wire(target)
    check_not_own(ctx, origin, "moved")
    ctx.paths.check_tree(origin, target)
    try:
        status = origin.lstat()
        if stat.S_ISDIR(status.st_mode) and origin in target.parents:
            raise InvalidPath(f"{shown} cannot be moved into itself")
        if if_rev is not None and stat.S_ISREG(status.st_mode):
            ctx.revs.check_file(if_rev, origin, shown)
        if origin != target and target.is_dir() and not target.is_symlink():
            raise AlreadyExists(
                f"{shown_to} is a folder", hint=f"name the whole new path, such as {shown_to}/{origin.name}"
            )
        ctx.journal.protected.check_entry(target)
        if origin == target:
            raise AlreadyExists(f"{shown} is there already: from and to are the same path")
        make_parents(target, shown_to, create=True)
        receipt = ctx.journal.move(origin, target, overwrite=overwrite)
    except FileNotFoundError as error:
        raise NotFound(f"{shown} does not exist", hint="list its folder with fs_list") from error
    except OSError as error:
        if error.errno == errno.EISDIR:
            raise AlreadyExists(f"{shown_to} is a folder", hint="name the whole new path") from error
        raise from_os_error(error, shown) from error
    return Moved(shown, shown_to, True, **receipt.fields())


def _undo_change(ctx: ToolContext, reference: str, to: str, overwrite: bool) -> Moved:
    # The journal knows a file behind a link by the file's own path.
    target = resolve_name(ctx, to)
    undo_id, _, inner = from_wire(reference.removeprefix(_UNDO)).partition("/")
    entry = ctx.journal.entry(undo_id)
    own = str(ctx.journal.place_of(f"{_UNDO}{undo_id}/{inner}"))
    if str(target) != own and str(ctx.paths.real(target)) == own:
        target = ctx.paths.real(target)
    _check_undo(ctx, entry, inner, target)
    try:
        _, path, receipt = ctx.journal.undo(f"{undo_id}/{inner}" if inner else undo_id, to=target, overwrite=overwrite)
    except OSError as error:
        raise from_os_error(error, to_wire(target)) from error
    left = [to_wire(f"{entry.path}/{each}") for each in receipt.left]
    return Moved(reference, to_wire(path), True, left=left or None, **receipt.fields())


def _check_undo(ctx: ToolContext, entry: JournalEntry, inner: str, target: Path) -> None:
    """Raise Denied if taking the change back, or putting what was there to `target`, touches what is off limits."""
    if entry.action == "command":
        for path in ctx.journal.paths_of(entry, inner):
            ctx.paths.check(path)
        return
    if inner:
        ctx.paths.check_as(ctx.journal.image_of(f"{_UNDO}{entry.id}/{inner}"), target)
        return
    for part in ctx.journal.parts_of(entry):
        own = Path(part.path)
        ctx.paths.check_tree(own, *([Path(part.source)] if part.source is not None else ()))
        if part.image_bytes is not None:
            ctx.paths.check_as(ctx.journal.image_of(f"{_UNDO}{part.id}"), own, *([] if entry.parts else [target]))
