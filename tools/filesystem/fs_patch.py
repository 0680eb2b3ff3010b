"""fs_patch: a few focused changes to a text file, all of them or none; every other byte stays as it is."""

from __future__ import annotations

import os
from typing import Annotated

from tools.context import ToolContext
from tools.files import disk
from tools.files.paths import to_wire
from tools.files.revisions import HASHED_BYTES, rev_of_status
from tools.files.sources import open_existing
from tools.files.text import HEAD_BYTES, detect_encoding
from tools.filesystem.changes import undo_note
from tools.filesystem.patch.apply import WHOLE_BYTES, Patch, Preview
from tools.filesystem.patch.operations import Operation, read_operations
from tools.kit.errors import NotFound, from_os_error
from tools.kit.params import Field
from tools.kit.records import record
from tools.kit.results import Result
from tools.kit.spec import tool
from tools.kit.summaries import quantity, short_path


@record
class Patched(Result):
    path: str
    operations_applied: int
    diff: str | None = None
    notes: list[str] | None = None
    preview: list[Preview] | None = None
    encoding: str | None = None
    rev: str | None = None
    undo_id: str | None = None
    undoable: bool | None = None
    why: str | None = None

    def render(self) -> str:
        what = f"{self.operations_applied} operation{'' if self.operations_applied == 1 else 's'}"
        if self.preview is not None:
            missed = [
                f"{each['operation']}: {each.get('error', 'no match')}" for each in self.preview if not each["changed"]
            ]
            header = " · ".join([self.path, f"dry run, {what} would apply", *missed, *(self.notes or [])])
        else:
            rev = [f"rev {self.rev}"] if self.rev else []
            undo = undo_note(self.undo_id, self.why)
            header = " · ".join([self.path, f"{what} applied", *(self.notes or []), *rev, undo])
        return f"{header}\n{self.diff or ''}"

    def summary(self) -> str:
        what = quantity(self.operations_applied, "operation")
        if self.preview is not None:
            missed = sum(not each["changed"] for each in self.preview)
            note = f", {missed} would not" if missed else ""
            return f"dry run: {what} would change {short_path(self.path)}{note}"
        signs = [line[:1] for line in (self.diff or "").splitlines() if not line.startswith(("---", "+++"))]
        return f"{what} applied to {short_path(self.path)}: +{signs.count('+')} -{signs.count('-')} lines"


@tool("filesystem", effect="write", title="Patch a file", destructive=True)
def fs_patch(
    ctx: ToolContext,
    *,
    path: Annotated[str, Field(description="Text file to change.", audited=True)],
    operations: Annotated[list[Operation], Field(description="Applied in order, all or none.", min_length=1)],
    dry_run: Annotated[bool, Field(description="Show what would change.")] = False,
    if_rev: Annotated[
        str | None, Field(description="Patch only if the file is still at this rev.", audited=True)
    ] = None,
) -> Patched:
    """Replace text or insert lines in a text file. Patterns are literal unless regex is set."""
    steps = read_operations(operations)
    target = ctx.paths.real(ctx.paths.resolve(path))
    shown = to_wire(target)
    with ctx.journal.lock(target), open_existing(ctx.paths, target, shown) as found:
        if found is None:
            raise NotFound(f"{shown} does not exist", hint="make it with fs_write")
        descriptor, status = found
        if if_rev is not None:
            ctx.revs.check(if_rev, descriptor, shown)
        head = os.pread(descriptor, HEAD_BYTES, 0)
        encoding = detect_encoding(head, name=shown, size=status.st_size, cut=status.st_size > len(head))
        patch = Patch(ctx, shown, encoding, steps, is_whole=status.st_size <= WHOLE_BYTES, is_dry=dry_run)
        if dry_run:
            for _ in patch.output(descriptor, status.st_size):
                pass
            previews = patch.previews()
            applying = sum(preview["changed"] for preview in previews)
            return Patched(shown, applying, patch.diff, patch.notes() or None, previews)

        def fill(writing: int) -> None:
            for piece in patch.output(descriptor, status.st_size):
                disk.write_all(writing, piece)
            patch.check()

        try:
            receipt = ctx.journal.write(target, fill, seen=status)
            now = target.stat()
        except OSError as error:
            raise from_os_error(error, shown) from error
        whole = patch.whole
        is_hashed = whole is not None and len(whole) <= HASHED_BYTES
        return Patched(
            path=shown,
            operations_applied=len(operations),
            diff=patch.diff,
            notes=patch.notes() or None,
            encoding=None if encoding.name == "utf-8" else encoding.name,
            rev=ctx.revs.of_bytes(whole) if whole is not None and is_hashed else rev_of_status(now),
            **receipt.fields(),
        )
