"""What the writing tools would change, for the owner to see before. Nothing is changed here.

Each function takes the arguments of its tool, and raises the error with which the call would fail.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tools.context import ToolContext
from tools.files import disk
from tools.files.diffs import diff_texts
from tools.files.exact import exact_descriptor
from tools.files.paths import to_wire
from tools.files.revisions import rev_of_open
from tools.files.text import decode, showable
from tools.filesystem.changes import check_not_own, resolve_name
from tools.kit.errors import NoMatch, NotEmpty, NotFound, StaleRev, ToolError, from_os_error
from tools.kit.spec import ChangePreview

# More than that is said in words.
_MOST_BYTES = 4 * 1024 * 1024
_MOST_NAMES = 1_000
_UNDO = "undo://"
NO_CHANGE = ChangePreview("", "")


def preview_write(
    ctx: ToolContext, *, path: str, content: str, mode: str = "overwrite", if_rev: str | None = None, **_: Any
) -> ChangePreview:
    target = ctx.paths.real(ctx.paths.resolve(path))
    ctx.journal.protected.check_write(target)
    before = _State(target)
    if before.is_there and mode == "create_if_missing":
        return NO_CHANGE
    before.check_rev(ctx, if_rev)
    if mode == "append" and before.text is None:
        return before.preview(f"append {len(content):,} characters to {before.shown}, which is not shown\n")
    after = (before.text or "") + content if mode == "append" else content
    return before.preview(_diff(ctx, before, after))


def preview_patch(ctx: ToolContext, *, dry_run: bool = False, diff: bool = False, **arguments: Any) -> ChangePreview:
    # It imports this module.
    from tools.filesystem.fs_patch import Patched, fs_patch

    if dry_run:
        return NO_CHANGE
    result = fs_patch.function(ctx, dry_run=True, diff=True, **arguments)
    if isinstance(result, Patched):
        problems = [each["error"] for each in result.preview or () if "error" in each]
        if problems:
            raise NoMatch(f"{result.path}: {problems[0]}; nothing was changed", hint="read the file again")
        state = _State(Path(result.path))
        return state.preview(f"--- {result.path}\n+++ {result.path}\n{result.diff or ''}")
    parts: list[str] = []
    places: dict[str, None] = {}
    for file in result.files:
        to = file.get("to", file["path"])
        places |= dict.fromkeys((file["path"], to))
        parts.append(f"{file['change']}\n--- {file['path']}\n+++ {to}\n{file.get('diff', '')}")
    return ChangePreview("".join(parts), _seen(_State(Path(place)) for place in places))


def preview_delete(
    ctx: ToolContext, *, path: str, recursive: bool = False, if_rev: str | None = None, **_: Any
) -> ChangePreview:
    target = resolve_name(ctx, path)
    check_not_own(ctx, target, "deleted")
    ctx.paths.check_tree(target)
    before = _State(target)
    if not before.is_there:
        raise NotFound(f"{before.shown} does not exist", hint="list its folder with fs_list")
    if not before.is_folder:
        before.check_rev(ctx, if_rev)
        return before.preview(_diff(ctx, before, None))
    names = before.names
    if names and not recursive:
        raise NotEmpty(
            f"{before.shown} is a folder with something in it", hint="pass recursive=true to delete all of it"
        )
    more = " and more" if len(names) >= _MOST_NAMES else ""
    return before.preview(f"delete the folder {before.shown} with {len(names)} entries{more}\n" + "".join(names))


def preview_move(
    ctx: ToolContext, *, from_: str, to: str, overwrite: bool = False, if_rev: str | None = None, **_: Any
) -> ChangePreview:
    target = _State(resolve_name(ctx, to))
    if from_.startswith(_UNDO):
        entry = ctx.journal.entry(from_.removeprefix(_UNDO))
        return target.preview(f"undo the change {entry.id} of {entry.path}, into {target.shown}\n")
    origin = _State(resolve_name(ctx, from_))
    check_not_own(ctx, origin.path, "moved")
    ctx.paths.check_tree(origin.path, target.path)
    if not origin.is_there:
        raise NotFound(f"{origin.shown} does not exist", hint="list its folder with fs_list")
    if not origin.is_folder:
        origin.check_rev(ctx, if_rev)
    replaced = _diff(ctx, target, None) if overwrite and target.is_there and not target.is_folder else ""
    text = f"rename from {origin.shown}\nrename to {target.shown}\n{replaced}"
    return ChangePreview(text, _seen((origin, target)))


class _State:
    """What is at a path now. A link is what it is, and not what it leads to."""

    def __init__(self, path: Path) -> None:
        self.path, self.shown = path, to_wire(path)
        self.text: str | None = ""
        self.is_there = self.is_folder = False
        self.rev = "nothing"
        self.size = 0
        try:
            status = path.lstat()
        except FileNotFoundError:
            return
        except OSError as error:
            raise from_os_error(error, self.shown) from error
        self.is_there, self.is_folder = True, stat.S_ISDIR(status.st_mode)
        self.text, self.size = None, status.st_size
        if stat.S_ISREG(status.st_mode):
            self._read()
        else:
            facts = self.names if self.is_folder else [path.readlink()] if path.is_symlink() else []
            self.rev = hashlib.sha256(repr((status.st_mode, facts)).encode("utf-8", "replace")).hexdigest()

    def _read(self) -> None:
        try:
            with exact_descriptor(str(self.path), disk.READ_FLAGS) as descriptor:
                self.rev, data = rev_of_open(descriptor)
                if data is None and self.size <= _MOST_BYTES:
                    data = disk.read_up_to(descriptor, _MOST_BYTES, self.size)
        except OSError as error:
            raise from_os_error(error, self.shown) from error
        if data is not None:
            try:
                self.text = decode(data, name=self.shown, size=len(data), cut=False).text
            except ToolError:
                self.text = None

    @property
    def names(self) -> list[str]:
        """What is in a folder, as far as it is shown."""
        found: list[str] = []
        for place in self.path.rglob("*"):
            found.append(f"-{to_wire(place)}\n")
            if len(found) >= _MOST_NAMES:
                break
        return sorted(found)

    def check_rev(self, ctx: ToolContext, if_rev: str | None) -> None:
        if if_rev is None:
            return
        if not self.is_there:
            raise StaleRev(f"{self.shown} does not exist, so it is not at rev {if_rev[:40]}")
        ctx.revs.check_file(if_rev, self.path, self.shown)

    def preview(self, text: str) -> ChangePreview:
        return ChangePreview(text, _seen((self,)))


def _seen(states: Iterable[_State]) -> str:
    return " ".join(f"{each.shown}@{each.rev}" for each in states)


def _diff(ctx: ToolContext, before: _State, after: str | None) -> str:
    """The change of a file as a unified diff; `after` None: it is deleted."""
    old = before.shown if before.is_there else "/dev/null"
    head = f"--- {old}\n+++ {'/dev/null' if after is None else before.shown}\n"
    if before.text is None:
        what = "it is deleted" if after is None else f"{len(after):,} characters take its place"
        return f"{head}{before.size:,} bytes that are no text, or too many to show; {what}\n" + (
            "" if after is None else "".join(f"+{line}\n" for line in showable(after).split("\n"))
        )
    return head + showable(diff_texts(before.text, after or "", limit_chars=ctx.diff_chars))
