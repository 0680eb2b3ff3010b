"""fs_delete: remove a file or a folder, and keep it in the journal."""

from __future__ import annotations

import stat
from typing import Annotated

from tools.context import ToolContext
from tools.files.paths import to_wire
from tools.filesystem.changes import ChangeResult, check_not_own, resolve_name
from tools.filesystem.previews import preview_delete
from tools.kit.errors import NotEmpty, NotFound, from_os_error
from tools.kit.params import Field
from tools.kit.results import short_path
from tools.kit.spec import tool


class Deleted(ChangeResult, frozen=True):
    path: str
    deleted: bool

    def render(self) -> str:
        return f"{self.path} deleted · {self.undo_note}"

    def summary(self) -> str:
        return f"{short_path(self.path)} deleted; {self.undo_note}"


@tool(
    "filesystem",
    effect="write",
    title="Delete a file or folder",
    destructive=True,
    preview=preview_delete,
    known_as=("delete_file", "remove_file", "rm"),
)
def fs_delete(
    ctx: ToolContext,
    *,
    path: Annotated[str, Field.of_path("File or folder; a symbolic link itself, not its target.")],
    recursive: Annotated[bool, Field(description="Delete a folder with all that is in it.")] = False,
    if_rev: Annotated[str | None, Field(description="Only if the file is still at this rev.", audited=True)] = None,
    permanent: Annotated[bool, Field(description="Delete also what is too large to be kept.")] = False,
) -> Deleted:
    """Delete a file or folder. It is kept for undo: the result has an undo_id. What is too large is refused."""
    target = resolve_name(ctx, path)
    shown = to_wire(target)
    check_not_own(ctx, target, "deleted")
    ctx.paths.check_tree(target)
    try:
        with ctx.journal.lock(target):
            mode = target.lstat().st_mode
            if stat.S_ISDIR(mode):
                if not recursive and any(target.iterdir()):
                    raise NotEmpty(
                        f"{shown} is a folder with something in it", hint="pass recursive=true to delete all of it"
                    )
            elif if_rev is not None and stat.S_ISREG(mode):
                ctx.revs.check_file(if_rev, target, shown)
            receipt = ctx.journal.remove(target, permanent=permanent)
    except FileNotFoundError as error:
        raise NotFound(f"{shown} does not exist", hint="list its folder with fs_list") from error
    except OSError as error:
        raise from_os_error(error, shown) from error
    return Deleted(path=shown, deleted=True, **receipt.fields())
