"""The operations of fs_patch, applied to a file piece by piece, and what came of each of them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NotRequired, TypedDict

from msgspec import Struct, field

from tools.context import ToolContext
from tools.files import disk
from tools.files.diffs import Region, diff_regions
from tools.files.text import Encoding, binary, showable
from tools.filesystem.patch.nearest import nearest
from tools.filesystem.patch.operations import (
    Step,
    TextEdit,
    apply_edits,
    find_matches,
    foreign_group,
    make_edits,
    matches_as_regex,
    view_of,
)
from tools.kit.errors import CountMismatch, NoMatch, NotEncodable, TooLarge, ToolError

# Up to here a file is one piece, and a pattern may span lines; a larger one is patched in pieces of whole lines.
WHOLE_BYTES = 16 * 1024 * 1024
_PIECE_BYTES = 4 * 1024 * 1024
_MOST_LINE_BYTES = 32 * 1024 * 1024
_DIFF_CHARS = 8_000
_EXCERPT_CHARS = 500
_LISTED_LINES = 5


class Preview(TypedDict):
    operation: str
    changed: bool
    before_excerpt: NotRequired[str]
    after_excerpt: NotRequired[str]
    error: NotRequired[str]


class _Task(Struct, eq=False):
    """One operation, and what it has done so far.

    `needle` are the bytes without which it has nothing to do in a piece; None if that cannot be told.
    """

    number: int
    step: Step
    needle: bytes | None
    count: int = 0
    is_done: bool = False
    # Whether what it put there is something else than what was there.
    has_changed: bool = False
    lines: list[int] = field(default_factory=list)
    before: str | None = None
    after: str | None = None
    problem: ToolError | None = None

    @property
    def only_counts(self) -> bool:
        """Whether it has done its work, and only the number of further matches is of interest."""
        return self.is_done and not self.step.takes_all and not self.step.is_insert


class Patch(Struct, eq=False):
    """All operations on one file. One that is not whole in memory is patched piece by piece."""

    _ctx: ToolContext
    _shown: str
    _encoding: Encoding
    _steps: list[Step]
    _is_whole: bool
    _is_dry: bool
    _deadline: float
    diff: str = ""
    # The new content, of a file that is one piece.
    whole: bytes | None = None
    _tasks: list[_Task] = field(default_factory=list)
    _old_line: int = 1
    _new_line: int = 1

    def output(self, descriptor: int, size: int) -> Iterator[bytes]:
        """The patched file, piece by piece. Called again, it starts anew: a file that must be written in place is
        filled a second time."""
        self._tasks = []
        for step in self._steps:
            self._tasks.append(_Task(len(self._tasks) + 1, step, None if self._is_whole else self._needle(step)))
        self._old_line = self._new_line = 1
        self.diff = ""
        if self._encoding.bom:
            yield self._encoding.bom
        for piece in self._pieces(descriptor, size):
            patched = self._patch_piece(piece)
            if self._is_whole:
                self.whole = self._encoding.bom + patched
            yield patched

    def write(self, descriptor: int, size: int, writing: int) -> None:
        """Write the patched file. Raises unless every operation has found what it needs."""
        for piece in self.output(descriptor, size):
            disk.write_all(writing, piece)
        for task in self._tasks:
            problem = self._problem(task)
            if problem is not None:
                raise problem

    def notes(self) -> list[str]:
        found = []
        for task in self._tasks:
            if task.count and (group := foreign_group(task.step)) is not None:
                found.append(f"operation {task.number} put {group} in as it is: a group is \\1 or \\g<name> here")
            if task.count > 1 and not task.step.takes_all:
                what = "matching lines" if task.step.is_insert else "matches"
                listed = ", ".join(map(str, task.lines)) + (", …" if task.count > len(task.lines) else "")
                found.append(f"operation {task.number} changed the first of {task.count} {what} (lines {listed})")
            elif task.count > 1:
                found.append(f"operation {task.number} changed {task.count} places")
        return found

    def previews(self) -> list[Preview]:
        """What each operation would do, or why it would not, or not change anything."""
        previews: list[Preview] = []
        for task in self._tasks:
            preview: Preview = {"operation": task.step.type, "changed": task.has_changed}
            problem = self._problem(task)
            if problem is not None:
                preview["changed"] = False
                preview["error"] = problem.render()
            elif task.before is not None and task.after is not None:
                preview["before_excerpt"], preview["after_excerpt"] = task.before, task.after
            previews.append(preview)
        return previews

    def _problem(self, task: _Task) -> ToolError | None:
        if task.problem is not None:
            return task.problem
        expected = task.step.expected_count
        if expected is not None and task.count not in (0, expected):
            listed = f" (lines {', '.join(map(str, task.lines))})" if task.lines else ""
            return CountMismatch(
                f"operation {task.number}: {task.step.wanted[:80]!r} is there {task.count} times{listed}, "
                f"not {expected}; nothing was changed",
                hint="include more of the text around the place you mean",
            )
        return self._no_match(task, None) if task.count == 0 else None

    def _no_match(self, task: _Task, text: str | None) -> NoMatch:
        wanted = task.step.wanted
        near = nearest(showable(text), wanted) if text is not None else None
        kind = "the regex" if task.step.regex else "the text"
        hint = "look at the nearest lines, or search with fs_grep" if near else "search with fs_grep"
        if text is not None and matches_as_regex(task.step, text):
            hint = "it is there as a regular expression: pass regex: true"
        return NoMatch(
            f"operation {task.number}: {kind} {wanted[:80]!r} is not in {self._shown}; nothing was changed",
            hint=hint,
            fields={"nearest": near} if near else None,
        )

    def _needle(self, step: Step) -> bytes | None:
        if step.regex or not self._encoding.is_bytewise:
            return None
        try:
            return self._encoding.encode(step.wanted)
        except UnicodeEncodeError:
            return None

    def _pieces(self, descriptor: int, size: int) -> Iterator[bytes]:
        """The file's bytes behind its mark, in pieces of whole lines."""
        offset, rest = len(self._encoding.bom), b""
        newline, unit = self._encoding.newline, self._encoding.unit_bytes
        while offset < size:
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
            self._ctx.check()
        if rest or not size - len(self._encoding.bom):
            yield rest

    def _patch_piece(self, piece: bytes) -> bytes:
        if not self._is_whole and not self._may_match(piece):
            for task in self._tasks:
                if task.only_counts and task.needle is not None:
                    task.count += piece.count(task.needle)
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
        for task in self._tasks:
            edits = self._edits(task, text)
            if edits:
                after = apply_edits(text, edits)
                task.has_changed |= after != text
                if self._is_dry and task.before is None:
                    is_behind = task.step.type == "insert_after"
                    task.before, task.after = _excerpts(text, after, edits[0], is_behind=is_behind)
                regions = _merge(regions, edits)
                text = after
        if len(self.diff) <= _DIFF_CHARS and regions:
            self.diff += showable(
                diff_regions(
                    old, text, regions, first_old=self._old_line, first_new=self._new_line, limit_chars=_DIFF_CHARS
                )
            )
        self._old_line += old.count("\n")
        self._new_line += text.count("\n")
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
        """Whether any operation has something to do here, or must see the text to count its matches."""
        return any(task.needle is None or (task.needle in piece and not task.only_counts) for task in self._tasks)

    def _edits(self, task: _Task, text: str) -> list[TextEdit]:
        """What an operation changes in `text`; its task is brought up to date."""
        step = task.step
        view = view_of(text, step.wanted)
        matches = find_matches(step, view, by_line=not self._is_whole, deadline=self._deadline)
        task.count += len(matches)
        for match in matches[: _LISTED_LINES - len(task.lines)]:
            task.lines.append(self._new_line + view.shown.count("\n", 0, match.start))
        if not matches:
            if self._is_whole:
                task.problem = self._no_match(task, view.shown)
            return []
        if task.is_done and not step.takes_all:
            return []
        task.is_done = True
        return make_edits(step, view, matches if step.takes_all else matches[:1])


def _merge(regions: Sequence[Region], edits: Sequence[TextEdit]) -> list[Region]:
    """The regions of earlier edits and of `edits`, which are about the text as it was after those."""
    # Both lists are about the text in the middle: (start, end, how much longer before it, how much longer after it).
    spans: list[tuple[int, int, int, int]] = []
    for region in regions:
        grew_back = (region.old_end - region.old_start) - (region.new_end - region.new_start)
        spans.append((region.new_start, region.new_end, grew_back, 0))
    for edit in edits:
        spans.append((edit.start, edit.end, 0, len(edit.text) - (edit.end - edit.start)))
    spans.sort()
    result: list[Region] = []
    back = ahead = 0
    index = 0
    while index < len(spans):
        start, end, grew_back, grew_ahead = spans[index]
        index += 1
        while index < len(spans) and spans[index][0] <= end:
            end = max(end, spans[index][1])
            grew_back += spans[index][2]
            grew_ahead += spans[index][3]
            index += 1
        result.append(Region(start + back, end + back + grew_back, start + ahead, end + ahead + grew_ahead))
        back += grew_back
        ahead += grew_ahead
    return result


def _excerpts(before: str, after: str, edit: TextEdit, *, is_behind: bool) -> tuple[str, str]:
    """The lines of the first change, before and after it. For an inserted line, the line before it, too."""
    first, last = edit.start, edit.end
    if is_behind and before[first - 1 : first] == "\n":
        first = last = first - 1
    start = before.rfind("\n", 0, first) + 1
    end = before.find("\n", last)
    end = len(before) if end == -1 else end
    new_end = end + len(edit.text) - (edit.end - edit.start)
    was, became = before[start:end], after[start:new_end]
    return showable(was.removesuffix("\r")[:_EXCERPT_CHARS]), showable(became.removesuffix("\r")[:_EXCERPT_CHARS])
