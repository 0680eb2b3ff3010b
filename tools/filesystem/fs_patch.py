"""fs_patch: a few focused changes to a text file, all of them or none; every other byte stays as it is."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated

from tools.context import ToolContext
from tools.files import disk
from tools.files.paths import to_wire
from tools.files.revisions import HASHED_BYTES, rev_of_status, short_rev
from tools.files.sources import open_existing
from tools.files.text import HEAD_BYTES, detect_encoding
from tools.filesystem.changes import ChangeResult
from tools.filesystem.patch.apply import WHOLE_BYTES, Patch, Preview
from tools.filesystem.patch.changed_places import render_changes
from tools.filesystem.patch.operations import Operation, one_edit, read_operations
from tools.filesystem.patch.regexes import TIME_LIMIT_S
from tools.filesystem.patched_files import PatchedFiles, apply_patch
from tools.filesystem.previews import preview_patch
from tools.filesystem.syntax import new_error
from tools.kit.errors import NotFound, TooLarge, from_os_error
from tools.kit.params import Field
from tools.kit.results import quantity, short_path
from tools.kit.spec import tool


class Patched(ChangeResult, frozen=True):
    path: str
    operations_applied: int
    diff: str | None = None
    notes: list[str] | None = None
    preview: list[Preview] | None = None
    encoding: str | None = None
    rev: str | None = None
    # Where the text was changed, and what differs from what was asked, in a few words for a model.
    _where: str = ""
    _shown: str = ""

    def render(self) -> str:
        what = quantity(self.operations_applied, "operation")
        if self.preview is not None:
            missed = [
                f"{each['operation']}: {each.get('error', 'changes nothing')}"
                for each in self.preview
                if not each["changed"]
            ]
            header = " · ".join([self.path, f"dry run, {what} would apply", *missed, *(self.notes or [])])
            return f"{header}\n{self.diff or ''}"
        rev = [f"rev {short_rev(self.rev)}"] if self.rev else []
        undo = [self.undo_note] if self.undo_id or self.why else []
        encoding = [f"in {self.encoding}"] if self.encoding else []
        header = " · ".join([f"{self.path}: {self._where}", *(self.notes or []), *encoding, *rev, *undo])
        return f"{header}\n{self._shown}" if self._shown else header

    def summary(self) -> str:
        what = quantity(self.operations_applied, "operation")
        if self.preview is not None:
            missed = sum("error" in each for each in self.preview)
            note = f", {missed} would not match" if missed else ""
            return f"dry run: {what} would change {short_path(self.path)}{note}"
        signs = [line[:1] for line in (self.diff or "").splitlines() if not line.startswith(("---", "+++"))]
        return f"{what} applied to {short_path(self.path)}: +{signs.count('+')} -{signs.count('-')} lines"


@tool(
    "filesystem",
    effect="write",
    title="Patch a file",
    destructive=True,
    preview=preview_patch,
    known_as=("edit_file", "edit", "str_replace", "str_replace_editor", "replace", "apply_patch", "patch_file"),
)
def fs_patch(
    ctx: ToolContext,
    *,
    path: Annotated[str, Field.of_path("Text file to change.")._replace(replaced_by="patch")],
    operations: Annotated[
        list[Operation],
        Field(
            description="Applied in order, all or none.",
            min_length=1,
            aliases=("patch", "edits", "changes", "operation"),
            derive=one_edit,
            replaced_by="patch",
        ),
    ],
    dry_run: bool = False,
    diff: Annotated[bool, Field(description="Show it.")] = False,
    if_rev: Annotated[str | None, Field(description="Only if the file is still at this rev.", audited=True)] = None,
    patch: Annotated[str | None, Field(is_hidden=True)] = None,
) -> Patched | PatchedFiles:
    """Replace text or insert lines in a text file. Patterns are literal unless regex is set.
    Undo: fs_move from undo://<undo_id>."""
    if patch is not None:
        # Written from habit, in place of the path and the operations.
        return apply_patch(ctx, patch, path, dry_run=dry_run, if_rev=if_rev, shows_diff=diff)
    steps = read_operations(operations)
    target = ctx.paths.real(ctx.paths.resolve(path))
    shown = to_wire(target)
    with ctx.journal.lock(target), open_existing(ctx.paths, target, shown) as found:
        if found is None:
            raise NotFound(f"{shown} does not exist", hint="make it with fs_write")
        descriptor, status = found
        if if_rev is not None:
            ctx.revs.check(if_rev, descriptor, shown)
        head = disk.read_up_to(descriptor, HEAD_BYTES, status.st_size)
        encoding = detect_encoding(head, name=shown, size=status.st_size, cut=status.st_size > len(head))
        is_whole = status.st_size <= WHOLE_BYTES
        if not is_whole and any("\n" in step.wanted for step in steps):
            raise TooLarge(
                f"{shown} has more than {WHOLE_BYTES} bytes, and there a pattern must be within one line",
                hint="find the place by one line of it",
            )
        deadline = time.monotonic() + TIME_LIMIT_S
        work = Patch(ctx, shown, encoding, steps, is_whole, dry_run, deadline, ctx.is_for_model)
        if dry_run or is_whole:
            for _ in work.output(descriptor, status.st_size):
                pass
        if dry_run:
            previews = work.previews()
            if any("error" in preview for preview in previews):
                # The call itself would change nothing: all operations apply or none.
                return Patched(shown, 0, "", None, previews)
            return Patched(shown, len(operations), work.diff, work.notes() or None, previews)
        if is_whole:
            work.check()
        whole = work.whole
        fill = partial(work.write, descriptor, status.st_size) if whole is None else whole
        receipt = None
        try:
            if work.has_changed or not ctx.is_for_model or not is_whole:
                receipt = ctx.journal.write(target, fill, seen=status)
            now = target.stat()
        except OSError as error:
            raise from_os_error(error, shown) from error
        is_hashed = whole is not None and len(whole) <= HASHED_BYTES
        notes = work.notes()
        if ctx.is_for_model and work.has_own_endings:
            notes.append("CRLF kept")
        if whole is not None and ctx.checks_syntax and (broken := new_error(shown, *work.texts)):
            notes.append(broken)
        return Patched(
            path=shown,
            operations_applied=len(operations),
            diff=work.diff,
            notes=notes or None,
            encoding=None if encoding.name == "utf-8" else encoding.name,
            rev=ctx.revs.of_bytes(whole, shown) if whole is not None and is_hashed else rev_of_status(now),
            _where=render_changes(work.changes) or "nothing changed",
            _shown=work.diff if diff or not ctx.is_for_model else work.brief,
            **(receipt.fields() if receipt is not None else {}),
        )
