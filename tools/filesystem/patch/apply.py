"""The operations of fs_patch on their way through a file: piece by piece, and what came of each of them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import field
from typing import NotRequired, TypedDict

from tools.files.text import Encoding, binary, showable
from tools.filesystem.patch import operations as asked
from tools.filesystem.patch.edits import Edit, Region, applied, diff, joined
from tools.filesystem.patch.nearest import nearest
from tools.filesystem.patch.operations import Operation, needle, viewed
from tools.filesystem.patch.regexes import TIME_LIMIT_S
from tools.kit.context import ToolContext
from tools.kit.errors import CountMismatch, NoMatch, NotEncodable, TooLarge, ToolError
from tools.kit.records import mutable

# Up to here a file is one piece, and a pattern may span lines; a larger one is worked through in pieces of whole lines.
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


@mutable
class _State:
    """What one operation has done so far."""

    count: int = 0
    is_done: bool = False
    lines: list[int] = field(default_factory=list)
    before: str | None = None
    after: str | None = None
    problem: ToolError | None = None


class Patch:
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
        self._needles = [needle(operation, encoding) for operation in operations]
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

    def previews(self) -> list[Preview]:
        """What each operation would do, or why it would not."""
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
        return previews

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
                    is_behind = operation.type == "insert_after"
                    state.before, state.after = _excerpts(text, after, edits[0], is_behind=is_behind)
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
        for operation, wanted, state in zip(self._operations, self._needles, self._states, strict=True):
            if wanted is None:
                return True
            if state.is_done and not operation.takes_all and not operation.is_insert:
                state.count += piece.count(wanted)
            elif wanted in piece:
                found = True
        return found

    def _edits(self, index: int, operation: Operation, state: _State, text: str) -> list[Edit]:
        """What an operation changes in `text`; its state is brought up to date."""
        needle_counted = not self._is_whole and self._needles[index] is not None
        if state.is_done and not operation.takes_all and not operation.is_insert and needle_counted:
            return []
        view = viewed(text, operation.wanted)
        spans = asked.spans(operation, view, by_line=not self._is_whole, deadline=self._deadline)
        state.count += len(spans)
        for start, _, _ in spans[: _LISTED_LINES - len(state.lines)]:
            state.lines.append(self._new_line + view.shown.count("\n", 0, start))
        if not spans:
            if self._is_whole and (self._is_dry or operation.expected_count is None):
                state.problem = self._no_match(index, operation, view.shown)
            return []
        if state.is_done and not operation.takes_all:
            return []
        state.is_done = True
        return asked.edits(operation, view, spans if operation.takes_all else spans[:1])


def _excerpts(before: str, after: str, edit: Edit, *, is_behind: bool) -> tuple[str, str]:
    """The lines of the first change, as they were and as they are; for a line that is put behind one, that one too."""
    first, last = edit.start, edit.end
    if is_behind and before[first - 1 : first] == "\n":
        first = last = first - 1
    start = before.rfind("\n", 0, first) + 1
    end = before.find("\n", last)
    end = len(before) if end == -1 else end
    new_end = end + len(edit.text) - (edit.end - edit.start)
    was, became = before[start:end], after[start:new_end]
    return showable(was.removesuffix("\r")[:_EXCERPT_CHARS]), showable(became.removesuffix("\r")[:_EXCERPT_CHARS])
