"""fs_patch: a few focused changes to a text file, all of them or none; every other byte stays as it is."""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Literal, NotRequired, TypedDict

from tools import disk
from tools.context import ToolContext
from tools.errors import (
    CountMismatch,
    InvalidParams,
    NoMatch,
    NotEncodable,
    NotFound,
    TooLarge,
    ToolError,
    from_os_error,
)
from tools.filesystem.changes import file_behind, looked_at, undo_fields, undo_note
from tools.filesystem.edits import Edit, Region, applied, diff, joined
from tools.filesystem.nearest import nearest
from tools.filesystem.regexes import TIME_LIMIT_S, find_all
from tools.params import Field
from tools.paths import told
from tools.results import Result
from tools.revs import HASHED_BYTES, rev_of_status
from tools.spec import tool
from tools.summaries import brief, counted
from tools.text import Encoding, binary, ending_at, recognised, showable, with_endings

# Up to here a file is one piece, and a pattern may span lines; a larger one is worked through in pieces of whole lines.
WHOLE_BYTES = 16 * 1024 * 1024
_PIECE_BYTES = 4 * 1024 * 1024
_MOST_LINE_BYTES = 32 * 1024 * 1024
_HEAD_BYTES = 64 * 1024
_DIFF_CHARS = 8_000
_EXCERPT_CHARS = 500
_LISTED_LINES = 5

Type = Literal["replace_first", "replace_all", "insert_after", "insert_before"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One change, as the caller asks for it."""

    type: Type
    pattern: Annotated[str | None, Field(description="replace: text to find.")] = None
    replacement: Annotated[str | None, Field(description="replace: new text; \\1 is a group.")] = None
    match: Annotated[str | None, Field(description="insert: text in the line to insert at.")] = None
    insert: Annotated[str | None, Field(description="insert: new line or lines.")] = None
    regex: Annotated[bool, Field(description="The text to find is a regex.")] = False
    every: Annotated[bool, Field(description="insert: at every matching line, not the first.")] = False
    expected_count: Annotated[int | None, Field(description="Fail unless there are this many matches.")] = None

    @property
    def is_insert(self) -> bool:
        return self.type.startswith("insert")

    @property
    def wanted(self) -> str:
        return (self.match if self.is_insert and self.match is not None else self.pattern) or ""

    @property
    def put(self) -> str:
        return (self.insert if self.is_insert else self.replacement) or ""

    @property
    def takes_all(self) -> bool:
        return self.every if self.is_insert else self.type == "replace_all"


class Preview(TypedDict):
    operation: str
    changed: bool
    before_excerpt: NotRequired[str]
    after_excerpt: NotRequired[str]
    error: NotRequired[str]


@dataclass(frozen=True, slots=True)
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
        what = counted(self.operations_applied, "operation")
        if self.preview is not None:
            missed = sum(not each["changed"] for each in self.preview)
            note = f", {missed} would not" if missed else ""
            return f"dry run: {what} would change {brief(self.path)}{note}"
        signs = [line[:1] for line in (self.diff or "").splitlines() if not line.startswith(("---", "+++"))]
        return f"{what} applied to {brief(self.path)}: +{signs.count('+')} -{signs.count('-')} lines"


@tool("filesystem", effect="write", title="Patch a file", destructive=True)
def fs_patch(
    ctx: ToolContext,
    *,
    path: Annotated[str, Field(description="Text file to change.")],
    operations: Annotated[list[Operation], Field(description="Applied in order, all or none.", min_length=1)],
    dry_run: Annotated[bool, Field(description="Show what would change.")] = False,
    if_rev: Annotated[str | None, Field(description="Patch only if the file is still at this rev.")] = None,
) -> Patched:
    """Replace text or insert lines in a text file. Patterns are literal unless regex is set."""
    _check(operations)
    target = file_behind(ctx, path)
    shown = told(target)
    with ctx.journal.holding(target), looked_at(ctx, target, shown) as found:
        if found is None:
            raise NotFound(f"{shown} does not exist", hint="make it with fs_write")
        descriptor, status = found
        ctx.revs.check(if_rev, descriptor, shown)
        head = os.pread(descriptor, _HEAD_BYTES, 0)
        encoding = recognised(head, name=shown, size=status.st_size, cut=status.st_size > len(head))
        patch = _Patch(ctx, shown, encoding, operations, is_whole=status.st_size <= WHOLE_BYTES, is_dry=dry_run)
        if dry_run:
            for _ in patch.output(descriptor, status.st_size):
                pass
            return patch.preview()

        def fill(writing: int) -> None:
            patch.begin()
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
            **undo_fields(receipt),  # type: ignore[arg-type]  # the names are those of the fields
        )


def _check(operations: list[Operation]) -> None:
    """Raise InvalidParams with every operation that lacks what its type needs."""
    problems: list[tuple[str, str]] = []
    for index, operation in enumerate(operations):
        where = f"operations.{index}"
        name, value = ("match", operation.wanted) if operation.is_insert else ("pattern", operation.wanted)
        if not value:
            problems.append((f"{where}.{name}", f"{where}: {operation.type} needs {name}, which must not be empty"))
        put = operation.insert if operation.is_insert else operation.replacement
        if put is None:
            name = "insert" if operation.is_insert else "replacement"
            problems.append((f"{where}.{name}", f"{where}: {operation.type} needs {name}"))
    if problems:
        issues = [
            {"path": f"arguments.{path}", "code": "invalid_type", "message": "invalid_type"} for path, _ in problems
        ]
        raise InvalidParams("; ".join(message for _, message in problems), issues=issues)


@dataclass(slots=True)
class _State:
    """What one operation has done so far."""

    count: int = 0
    is_done: bool = False
    lines: list[int] = field(default_factory=list)
    before: str | None = None
    after: str | None = None
    problem: ToolError | None = None


class _Patch:
    """The operations on their way through a file."""

    def __init__(
        self,
        ctx: ToolContext,
        shown: str,
        encoding: Encoding,
        operations: list[Operation],
        *,
        is_whole: bool,
        is_dry: bool,
    ) -> None:
        self._ctx, self._shown, self._encoding = ctx, shown, encoding
        self._operations, self._is_whole, self._is_dry = operations, is_whole, is_dry
        self._deadline = time.monotonic() + TIME_LIMIT_S
        self._needles = [_needle(operation, encoding) for operation in operations]
        if not is_whole:
            for operation in operations:
                if "\n" in operation.wanted:
                    raise TooLarge(
                        f"{shown} has more than {WHOLE_BYTES} bytes, and there a pattern must be within one line",
                        hint="find the place by one line of it",
                    )
        self.begin()

    def begin(self) -> None:
        """From the start: a file that must be written in place is filled a second time."""
        self._states = [_State() for _ in self._operations]
        self._old_line = self._new_line = 1
        self._diffs: list[str] = []
        self._diff_chars = 0
        self.whole: bytes | None = None

    @property
    def diff(self) -> str:
        return showable("".join(self._diffs))

    def output(self, descriptor: int, size: int) -> Iterator[bytes]:
        """The patched file, piece by piece."""
        if self._encoding.bom:
            yield self._encoding.bom
        for piece in self._pieces(descriptor, size):
            patched = self._patched(piece)
            if self._is_whole:
                self.whole = self._encoding.bom + patched
            yield patched

    def check(self) -> None:
        """Raise unless every operation has found what it needs."""
        for index, (operation, state) in enumerate(zip(self._operations, self._states, strict=True)):
            problem = self._problem(index, operation, state)
            if problem is not None:
                raise problem

    def notes(self) -> list[str]:
        found = []
        for index, (operation, state) in enumerate(zip(self._operations, self._states, strict=True)):
            if state.count > 1 and not operation.takes_all:
                what = "matching lines" if operation.is_insert else "matches"
                listed = ", ".join(map(str, state.lines)) + (", …" if state.count > len(state.lines) else "")
                found.append(f"operation {index + 1} changed the first of {state.count} {what} (lines {listed})")
            elif state.count > 1:
                found.append(f"operation {index + 1} changed {state.count} places")
        return found

    def preview(self) -> Patched:
        previews: list[Preview] = []
        for index, (operation, state) in enumerate(zip(self._operations, self._states, strict=True)):
            preview: Preview = {"operation": operation.type, "changed": state.is_done}
            problem = self._problem(index, operation, state)
            if problem is not None:
                preview["changed"] = False
                preview["error"] = problem.render()
            elif state.before is not None and state.after is not None:
                preview["before_excerpt"], preview["after_excerpt"] = state.before, state.after
            previews.append(preview)
        applying = sum(preview["changed"] for preview in previews)
        return Patched(self._shown, applying, self.diff, self.notes() or None, previews)

    def _problem(self, index: int, operation: Operation, state: _State) -> ToolError | None:
        if state.problem is not None:
            return state.problem
        expected = operation.expected_count
        if expected is not None and state.count != expected:
            listed = f" (lines {', '.join(map(str, state.lines))})" if state.lines else ""
            return CountMismatch(
                f"operation {index + 1}: {operation.wanted[:80]!r} is there {state.count} times{listed}, "
                f"not {expected}; nothing was changed",
                hint="include more of the text around the place you mean",
            )
        if state.count == 0:
            return self._no_match(index, operation, None)
        return None

    def _no_match(self, index: int, operation: Operation, text: str | None) -> NoMatch:
        near = nearest(showable(text), operation.wanted) if text is not None else None
        kind = "the regex" if operation.regex else "the text"
        return NoMatch(
            f"operation {index + 1}: {kind} {operation.wanted[:80]!r} is not in {self._shown}; nothing was changed",
            hint="look at the nearest lines, or search with fs_grep" if near else "search with fs_grep",
            fields={"nearest": near} if near else None,
        )

    def _pieces(self, descriptor: int, size: int) -> Iterator[bytes]:
        """The file's bytes behind its mark, in pieces of whole lines."""
        offset, rest = len(self._encoding.bom), b""
        newline, unit = self._encoding.newline, self._encoding.unit_bytes
        while offset < size:
            self._ctx.check()
            data = os.pread(descriptor, min(WHOLE_BYTES if self._is_whole else _PIECE_BYTES, size - offset), offset)
            if not data:
                break
            offset += len(data)
            if unit == 1 and b"\0" in data:
                raise binary(os.pread(descriptor, 16, 0), self._shown, size)
            if self._is_whole or offset >= size:
                rest += data
                continue
            cut = data.rfind(newline)
            while cut != -1 and (len(rest) + cut) % unit:
                cut = data.rfind(newline, 0, cut + unit - 1)
            if cut == -1:
                rest += data
                if len(rest) > _MOST_LINE_BYTES:
                    raise TooLarge(f"a line of {self._shown} is longer than {_MOST_LINE_BYTES} bytes")
                continue
            yield rest + data[: cut + unit] if rest else data[: cut + unit]
            rest = data[cut + unit :]
        if rest or not size - len(self._encoding.bom):
            yield rest

    def _patched(self, piece: bytes) -> bytes:
        if not self._is_whole and not self._may_match(piece):
            lines = piece.count(b"\n")
            self._old_line += lines
            self._new_line += lines
            return piece
        try:
            old = self._encoding.decode(piece)
        except UnicodeDecodeError:
            raise binary(piece, self._shown, len(piece), f"no text in {self._encoding.name}") from None
        text = old
        regions: list[Region] = []
        for index, (operation, state) in enumerate(zip(self._operations, self._states, strict=True)):
            edits = self._edits(index, operation, state, text)
            if edits:
                after = applied(text, edits)
                if state.before is None:
                    state.before, state.after = _excerpts(text, after, edits[0])
                regions = joined(regions, edits)
                text = after
        if self._diff_chars <= _DIFF_CHARS and regions:
            shown = diff(
                old, text, regions, first_old=self._old_line, first_new=self._new_line, limit_chars=_DIFF_CHARS
            )
            self._diffs.append(shown)
            self._diff_chars += len(shown)
        self._old_line += old.count("\n")
        self._new_line += text.count("\n")
        return self._encoded(text, old, piece)

    def _encoded(self, text: str, old: str, piece: bytes) -> bytes:
        if text == old:
            return piece
        try:
            return self._encoding.encode(text)
        except UnicodeEncodeError as error:
            letter = text[error.start : error.start + 1]
            raise NotEncodable(
                f"{self._shown} is in {self._encoding.name}, which cannot hold {letter!r}",
                hint="leave that character out, or replace the whole file with fs_write, which then becomes UTF-8",
            ) from error

    def _may_match(self, piece: bytes) -> bool:
        """Whether any operation has something to do here. Those that are done only count on."""
        found = False
        for operation, needle, state in zip(self._operations, self._needles, self._states, strict=True):
            if needle is None:
                return True
            if state.is_done and not operation.takes_all and not operation.is_insert:
                state.count += piece.count(needle)
            elif needle in piece:
                found = True
        return found

    def _edits(self, index: int, operation: Operation, state: _State, text: str) -> list[Edit]:
        """What an operation changes in `text`; its state is brought up to date."""
        needle_counted = not self._is_whole and self._needles[index] is not None
        if state.is_done and not operation.takes_all and not operation.is_insert and needle_counted:
            return []
        view, returns = _view(text, operation.wanted)
        if operation.regex:
            matches = find_all(
                view,
                operation.wanted,
                None if operation.is_insert else operation.put,
                expand_all=operation.takes_all,
                by_line=not self._is_whole,
                deadline=self._deadline,
            )
            spans = [(match.start, match.end, match.replacement) for match in matches]
        else:
            spans = [(start, start + len(operation.wanted), operation.put) for start in _places(view, operation.wanted)]
        if operation.is_insert:
            spans = _line_spans(view, spans)
        state.count += len(spans)
        for start, _, _ in spans[: _LISTED_LINES - len(state.lines)]:
            state.lines.append(self._new_line + view.count("\n", 0, start))
        if not spans:
            if self._is_whole and (self._is_dry or operation.expected_count is None):
                state.problem = self._no_match(index, operation, view)
            return []
        if state.is_done and not operation.takes_all:
            return []
        state.is_done = True
        chosen = spans if operation.takes_all else spans[:1]
        keeps_endings = "\r" in operation.wanted or (operation.regex and r"\r" in operation.wanted)
        edits: list[Edit] = []
        for start, end, put in chosen:
            first, last = start + bisect_left(returns, start), end + bisect_left(returns, end)
            if operation.is_insert:
                edits.append(_insertion(operation, text, first, last))
            else:
                ending = ending_at(text, first)
                edits.append(Edit(first, last, put if keeps_endings else with_endings(put, ending)))
        return edits


def _needle(operation: Operation, encoding: Encoding) -> bytes | None:
    """The bytes without which an operation has nothing to do in a piece; None if that cannot be told."""
    if operation.regex or not encoding.is_bytewise:
        return None
    try:
        return encoding.encode(operation.wanted)
    except UnicodeEncodeError:
        return None


def _view(text: str, wanted: str) -> tuple[str, list[int]]:
    """The text as patterns see it: with plain line feeds, unless the pattern itself speaks of carriage returns.

    The list has the place in the view of every line feed that lost one, to find the way back.
    """
    if "\r\n" not in text or "\r" in wanted or r"\r" in wanted:
        return text, []
    returns: list[int] = []
    at = text.find("\r\n")
    while at != -1:
        returns.append(at - len(returns))
        at = text.find("\r\n", at + 2)
    return text.replace("\r\n", "\n"), returns


def _places(text: str, wanted: str) -> list[int]:
    places: list[int] = []
    at = text.find(wanted)
    while at != -1:
        places.append(at)
        at = text.find(wanted, at + len(wanted))
    return places


def _line_spans(text: str, spans: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """The lines in which matches begin, each once, with their endings."""
    lines: list[tuple[int, int, str]] = []
    for start, _, _ in spans:
        if lines and start < lines[-1][1]:
            continue
        begin = text.rfind("\n", 0, start) + 1
        end = text.find("\n", start)
        lines.append((begin, len(text) if end == -1 else end + 1, ""))
    return lines


def _insertion(operation: Operation, text: str, start: int, end: int) -> Edit:
    """A line of its own before or after the line from `start` to `end`."""
    ending = ending_at(text, start)
    line = with_endings(operation.put, ending)
    line = line if line.endswith(ending) else line + ending
    if operation.type == "insert_before":
        return Edit(start, start, line)
    if end > start and text[end - 1] == "\n":
        return Edit(end, end, line)
    # The last line has no ending, and the file shall go on having none.
    return Edit(end, end, ending + line.removesuffix(ending))


def _excerpts(before: str, after: str, edit: Edit) -> tuple[str, str]:
    """The lines of the first change, as they were and as they are."""
    start = before.rfind("\n", 0, edit.start) + 1
    end = before.find("\n", edit.end)
    end = len(before) if end == -1 else end
    new_end = end + len(edit.text) - (edit.end - edit.start)
    was, became = before[start:end], after[start:new_end]
    return showable(was.removesuffix("\r")[:_EXCERPT_CHARS]), showable(became.removesuffix("\r")[:_EXCERPT_CHARS])
