"""A patch of several files: all of it is made or none, and one id undoes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Literal, NamedTuple, NotRequired, TypedDict

from msgspec import Struct, field

from tools.context import ToolContext
from tools.files import disk
from tools.files.diffs import diff_regions
from tools.files.paths import to_wire
from tools.files.revisions import HASHED_BYTES, rev_of_status, short_rev
from tools.files.sources import OpenFile, open_existing
from tools.files.text import HEAD_BYTES, UTF_8, Encoding, binary, detect_encoding, showable
from tools.filesystem.changes import ChangeResult, make_parents, resolve_name
from tools.filesystem.patch.apply import WHOLE_BYTES
from tools.filesystem.patch.changed_places import LineChange, changed_places, merge_regions, render_changes
from tools.filesystem.patch.hunks import FileChange, malformed, place
from tools.filesystem.patch.operations import apply_edits, place_edits, view_of
from tools.filesystem.patch.unified import parse_unified
from tools.filesystem.patch.v4a import is_v4a, parse_hunks, parse_v4a
from tools.filesystem.syntax import new_error
from tools.journal.journal_records import Receipt
from tools.kit.errors import InvalidParams, NoMatch, NotFound, TooLarge, ToolError, from_os_error
from tools.kit.results import quantity, short_path

_HERE_DOCUMENT = re.compile(r"(?:.*\bapply_patch\s+)?<<-?\s*(['\"]?)(\w+)\1\s*")
_FENCE = re.compile(r"`{3,}\w*\s*")
_MOST_FILES = 200
_BRIEF_CHARS = 400


class FileDone(TypedDict):
    path: str
    change: str
    to: NotRequired[str]
    diff: NotRequired[str]
    notes: NotRequired[list[str]]
    rev: NotRequired[str]


class PatchedFiles(ChangeResult, frozen=True):
    """What a patch did, file by file."""

    files: list[FileDone]
    dry_run: bool | None = None
    _lines: str = ""

    def render(self) -> str:
        if self.dry_run:
            undo = "dry run: nothing was written"
        else:
            undo = self.undo_note if self.undo_id or self.why else "nothing was written"
        head, _, rest = self._lines.partition("\n")
        if len(self.files) == 1:
            return f"{head} · {undo}" + (f"\n{rest}" if rest else "")
        return f"{quantity(len(self.files), 'file')} · {undo}\n{self._lines}"

    def summary(self) -> str:
        what = "would change" if self.dry_run else "changed"
        shown = short_path(self.files[0]["path"])
        return f"{quantity(len(self.files), 'file')} {what}" if len(self.files) > 1 else f"{what}: {shown}"


class _File(Struct, eq=False):
    """A file as it was, and as it shall be. None: it is not there."""

    path: Path
    shown: str
    found: OpenFile | None
    encoding: Encoding = UTF_8
    # The text, once it was needed.
    text: str | None = None
    is_there: bool = True
    moved_from: _File | None = None
    # What it held before, and whether it was read.
    before: str | None = None


class _Step(NamedTuple):
    """One change of the disk."""

    file: _File
    action: Literal["remove", "move", "write"]
    data: bytes = b""


class _Done(Struct, eq=False):
    """One file of the patch, for the result."""

    file: _File
    kind: str
    origin: str = ""
    diff: str = ""
    brief: str = ""
    changes: list[LineChange] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def parse(text: str, path: str | None) -> list[FileChange]:
    """The files that a patch is about; `path` is that of one that names none. Raises InvalidParams."""
    lines = text.replace("\r\n", "\n").strip("\n").split("\n")
    while len(lines) > 1 and not lines[0].strip():
        del lines[0]
    last = max((index for index, line in enumerate(lines) if line.strip()), default=0)
    begun = _HERE_DOCUMENT.fullmatch(lines[0])
    is_document = begun is not None and lines[last].strip() == begun[2]
    if last and (is_document or (_FENCE.fullmatch(lines[0]) and _FENCE.fullmatch(lines[last]))):
        lines = lines[1:last]
    plain = "\n".join(lines)
    if is_v4a(plain):
        changes = parse_v4a(plain)
    elif lines[0].startswith("@@") and not lines[0].startswith("@@ -"):
        if path is None:
            raise malformed(1, "it names no file")
        changes = [FileChange("update", path)]
        parse_hunks(lines, 0, len(lines), changes[0])
    else:
        changes = parse_unified(f"{plain}\n", path)
    if len(changes) > _MOST_FILES:
        raise malformed(len(lines), f"it changes more than {_MOST_FILES} files")
    if path is not None and len(changes) == 1 and changes[0].to is None:
        # Both name it; the patch may do so from another folder.
        changes[0].path = path
    return changes


def apply_patch(
    ctx: ToolContext, text: str, path: str | None, *, dry_run: bool, if_rev: str | None, shows_diff: bool
) -> PatchedFiles:
    """Make all changes of a patch, or none."""
    changes = parse(text, path)
    work = _Work(ctx)
    targets = [work.target(change) for change in changes]
    with ExitStack() as held:
        held.enter_context(ctx.journal.lock_all({place for pair in targets for place in pair if place is not None}))
        files = {place: held.enter_context(work.open(place)) for pair in targets for place in pair if place is not None}
        existing = [file for file in files.values() if file.found is not None]
        if if_rev is not None:
            if len(existing) != 1:
                raise InvalidParams(
                    f"if_rev is the rev of one file, and the patch is about {len(files)}; nothing was changed",
                    issues=[{"path": "arguments.if_rev", "code": "custom", "message": "custom"}],
                )
            found = existing[0].found
            assert found is not None, "an existing file is open"
            ctx.revs.check(if_rev, found.descriptor, existing[0].shown)
        done = [
            work.change(change, files[place], None if to is None else files[to])
            for change, (place, to) in zip(changes, targets, strict=True)
        ]
        receipt = Receipt() if dry_run else work.write(list(files.values()))
        for file in files.values():
            file.found = None
    return _result(ctx, done, receipt, dry_run=dry_run, shows_diff=shows_diff)


class _Work:
    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        # What was moved away.
        self._moved: list[_File] = []

    def target(self, change: FileChange) -> tuple[Path, Path | None]:
        """The file that a change is about, and the one that it becomes. Raises Denied."""
        ctx = self._ctx
        name = ctx.paths.resolve(change.path)
        # Links are followed to what is changed, not to what is removed or moved.
        stays = change.kind in ("add", "update") and change.to is None
        target = ctx.paths.real(name) if stays or change.kind == "copy" else resolve_name(ctx, change.path)
        return target, None if change.to is None else ctx.paths.real(ctx.paths.resolve(change.to))

    @contextmanager
    def open(self, path: Path) -> Iterator[_File]:
        shown = to_wire(path)
        with open_existing(self._ctx.paths, path, shown) as found:
            yield _File(path, shown, found, is_there=found is not None)

    def change(self, change: FileChange, file: _File, to: _File | None) -> _Done:
        """What becomes of a file, and of its new path. Nothing is written."""
        if change.kind == "add":
            return self._add(change, file)
        if not file.is_there:
            raise NotFound(f"{file.shown} does not exist; nothing was changed", hint="*** Add File makes a new one")
        if change.kind == "delete":
            self._check_removed(change, file)
            file.is_there = False
            return _Done(file, "deleted")
        done = _Done(file, "changed", notes=list(change.notes))
        old = new = ""
        if change.hunks:
            old = self._text(file)
            new = self._patched(change, file, old, done)
        if to is None:
            if change.hunks:
                file.text = new
            return done
        if to.path == file.path or file.moved_from is not None or to in self._moved:
            raise malformed(1, f"{file.shown} is moved to itself, or moved twice")
        if to.is_there:
            done.notes.append("what was there was replaced")
        if change.kind == "copy" and not change.hunks:
            new = self._text(file)
        to.text = new if change.hunks or change.kind == "copy" else file.text
        to.encoding, to.is_there = file.encoding, True
        kind = "copied" if change.kind == "copy" else "moved"
        if kind == "moved":
            to.moved_from, file.is_there = file, False
            self._moved.append(file)
        return _Done(to, kind, file.shown, done.diff, done.brief, done.changes, done.notes)

    def _add(self, change: FileChange, file: _File) -> _Done:
        lines = [line for hunk in change.hunks for line in hunk.new]
        if any(hunk.old for hunk in change.hunks):
            raise malformed(1, f"{file.shown} is new, and a hunk has old lines of it")
        ends = not (change.hunks and change.hunks[-1].ends is False)
        notes = [*change.notes, *(["what was there was replaced"] if file.is_there else [])]
        file.text = "\n".join(lines) + ("\n" if lines and ends else "")
        file.encoding, file.is_there = UTF_8, True
        shown = f"@@ -0,0 +1,{len(lines)} @@\n" + "".join(f"+{line}\n" for line in lines)
        return _Done(
            file,
            "added",
            diff=showable(shown[: self._ctx.diff_chars]),
            changes=[LineChange(1, 0, len(lines))],
            notes=notes,
        )

    def _check_removed(self, change: FileChange, file: _File) -> None:
        """Raise NoMatch if a diff that removes a file shows another content of it."""
        old = [line for hunk in change.hunks for line in hunk.old]
        if old and self._text(file).replace("\r\n", "\n").removesuffix("\n").split("\n") != old:
            raise NoMatch(f"{file.shown} is not what the patch removes; nothing was changed", hint="read it again")

    def _text(self, file: _File) -> str:
        if file.text is not None:
            return file.text
        origin = file.moved_from or file
        assert origin.found is not None, "a file that is there is open or has a text"
        descriptor, status = origin.found
        if status.st_size > WHOLE_BYTES:
            raise TooLarge(f"{origin.shown} has more than {WHOLE_BYTES} bytes", hint="patch it with operations")
        data = disk.read_up_to(descriptor, WHOLE_BYTES, status.st_size)
        file.encoding = detect_encoding(
            data[:HEAD_BYTES], name=origin.shown, size=len(data), cut=len(data) > HEAD_BYTES
        )
        try:
            file.text = file.encoding.decode(data[len(file.encoding.bom) :])
        except UnicodeDecodeError:
            raise binary(data, origin.shown, len(data), f"no text in {file.encoding.name}") from None
        file.before = file.text
        return file.text

    def _patched(self, change: FileChange, file: _File, old: str, done: _Done) -> str:
        view = view_of(old, "")
        try:
            placed = place(change.hunks, view.shown, file.shown, is_lenient=self._ctx.is_for_model)
        except NoMatch as error:
            wanted = next((hunk.old for hunk in change.hunks if hunk.old), [])
            since = self._ctx.revs.changed_since(file.shown, "\n".join(wanted), view.shown)
            raise NoMatch(
                error.message, hint=error.hint, fields={**error.fields, **({"since": since} if since else {})}
            ) from None
        edits = place_edits(view, placed.edits)
        new = apply_edits(old, edits)
        regions = merge_regions((), edits)
        done.changes += changed_places(old, new, regions)
        done.diff = showable(
            diff_regions(old, new, regions, first_old=1, first_new=1, limit_chars=self._ctx.diff_chars)
        )
        if placed.is_guess:
            brief = diff_regions(old, new, regions, first_old=1, first_new=1, limit_chars=_BRIEF_CHARS, context=0)
            done.brief = showable(brief)
        done.notes += placed.notes
        return new

    def write(self, files: list[_File]) -> Receipt:
        """Make the files what they shall be."""
        journal = self._ctx.journal
        steps = [step for file in files for step in self._steps(file, files)]
        for step in steps:
            if step.action == "remove":
                journal.protected.check_entry(step.file.path)
            else:
                journal.protected.check_write(step.file.path)
        made: list[tuple[_Step, Receipt]] = []
        folders: list[Path] = []
        try:
            with journal.together() as group:
                for step in steps:
                    folders += _missing_parents(step.file.path)
                    made.append((step, self._make(step)))
        except BaseException as error:
            for step, receipt in reversed(made):
                if receipt.undo_id is None:
                    self._put_back(step)
            for folder in sorted(folders, reverse=True):
                with suppress(OSError):
                    folder.rmdir()
            if isinstance(error, OSError):
                raise from_os_error(error, steps[len(made)].file.shown) from error
            raise
        return group.receipt if steps else Receipt()

    def _steps(self, file: _File, files: list[_File]) -> Iterator[_Step]:
        """What is to be done to a file."""
        if not file.is_there:
            is_moved = any(other.moved_from is file and other.is_there for other in files)
            if file.found is not None and not is_moved:
                yield _Step(file, "remove")
            return
        origin = file.moved_from
        if origin is not None and origin.is_there:
            # Another file takes its old place: it is written anew.
            self._text(file)
            origin = None
        if origin is not None and origin.found is not None:
            yield _Step(file, "move")
        before = file.before if origin is None else origin.before
        if file.text is None or (file.text == before and (origin is not None or file.moved_from is None)):
            return
        yield _Step(file, "write", file.encoding.bom + file.encoding.encode_for(file.text, file.shown))

    def _make(self, step: _Step) -> Receipt:
        journal, file = self._ctx.journal, step.file
        if step.action == "remove":
            return journal.remove(file.path, permanent=True)
        make_parents(file.path, file.shown, create=True)
        if step.action == "move":
            assert file.moved_from is not None, "a file that is moved comes from somewhere"
            return journal.move(file.moved_from.path, file.path, overwrite=file.found is not None)
        is_moved = file.moved_from is not None and not file.moved_from.is_there
        was = None if file.found is None else file.found.status
        seen = file.path.stat() if is_moved else was
        return journal.write(file.path, step.data, seen=seen)

    def _put_back(self, step: _Step) -> None:
        """Without a journal: what was there is written again from memory."""
        journal, file = self._ctx.journal, step.file
        with suppress(OSError, ToolError):
            if step.action == "move" and file.moved_from is not None:
                journal.move(file.path, file.moved_from.path, overwrite=False)
            if file.found is None:
                if step.action == "write" and file.moved_from is None:
                    journal.remove(file.path, permanent=True)
                return
            size = file.found.status.st_size
            data = disk.read_up_to(file.found.descriptor, size, size)
            now = disk.lstat(file.path)
            journal.write(file.path, data, seen=now)


def _missing_parents(path: Path) -> list[Path]:
    missing: list[Path] = []
    for folder in path.parents:
        if folder.exists():
            break
        missing.append(folder)
    return missing


def _result(ctx: ToolContext, done: list[_Done], receipt: Receipt, *, dry_run: bool, shows_diff: bool) -> PatchedFiles:
    files: list[FileDone] = []
    lines: list[str] = []
    for each in done:
        file = each.file
        entry: FileDone = {"path": each.origin or file.shown, "change": each.kind}
        if each.origin:
            entry["to"] = file.shown
        if each.diff:
            entry["diff"] = each.diff
        if ctx.checks_syntax and file.is_there and file.text is not None:
            before = file.before if file.moved_from is None else file.moved_from.before
            error = new_error(file.shown, before, file.text)
            each.notes += [error] if error else []
        rev = None if dry_run or not file.is_there else _rev(ctx, file)
        if rev is not None:
            entry["rev"] = rev
        if each.notes:
            entry["notes"] = each.notes
        files.append(entry)
        where = render_changes(each.changes)
        if each.kind == "changed":
            what = f"{file.shown}: {where or 'nothing changed'}"
        elif each.kind == "added":
            what = f"{file.shown}: added, {quantity(each.changes[0].new_count, 'line')}"
        elif each.origin:
            what = f"{each.origin}: {each.kind} to {file.shown}" + (f", {where}" if where else "")
        else:
            what = f"{file.shown}: {each.kind}"
        encoding = [f"in {file.encoding.name}"] if file.encoding.name != UTF_8.name else []
        lines.append(" · ".join([what, *each.notes, *encoding, *([f"rev {short_rev(rev)}"] if rev else [])]))
        diff = each.diff if shows_diff or not ctx.is_for_model else each.brief
        if diff:
            lines.append(diff.rstrip("\n"))
    undo = {} if receipt.undo_id is None and receipt.not_undoable is None else receipt.fields()
    return PatchedFiles(files, True if dry_run else None, "\n".join(lines), **undo)


def _rev(ctx: ToolContext, file: _File) -> str | None:
    if file.text is not None and len(data := file.encoding.bom + file.encoding.encode(file.text)) <= HASHED_BYTES:
        return ctx.revs.of_bytes(data, file.shown)
    with suppress(OSError):
        return rev_of_status(file.path.stat())
    return None
