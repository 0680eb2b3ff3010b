"""The operations of fs_patch, applied to a file piece by piece, and what came of each of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import NotRequired, TypedDict

from msgspec import Struct, field

from tools.context import ToolContext
from tools.files import disk
from tools.files.diffs import Region, diff_regions
from tools.files.text import Encoding, binary, showable
from tools.filesystem.patch.changed_places import LineChange, changed_places, merge_regions
from tools.filesystem.patch.lenient import guess
from tools.filesystem.patch.merge import merge
from tools.filesystem.patch.nearest import enclosing, nearest
from tools.filesystem.patch.operations import (
    Step,
    TextEdit,
    View,
    apply_edits,
    find_matches,
    foreign_group,
    make_edits,
    matches_as_regex,
    place_edits,
    view_of,
    with_endings,
)
from tools.kit.errors import CountMismatch, NoMatch, TooLarge, ToolError

# Up to here a file is one piece, and a pattern may span lines; a larger one is patched in pieces of whole lines.
WHOLE_BYTES = 16 * 1024 * 1024
_PIECE_BYTES = 4 * 1024 * 1024
_MOST_LINE_BYTES = 32 * 1024 * 1024
_BRIEF_CHARS = 250
_EXCERPT_CHARS = 500
_LISTED_LINES = 5
# So many characters that are there once are taken for those that were to be put there.
_TELLING_CHARS = 20


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
    # Of each listed line, the definition that it is in.
    around: list[str] = field(default_factory=list)
    # In what the text that was changed differs from the one that was asked for.
    ignored: str = ""
    # The line from which on the text is already what the operation makes of it.
    made_at: int | None = None
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
    # Whether an operation may mean a text that differs in what does not matter, if it can mean only one place.
    _is_lenient: bool = False
    diff: str = ""
    # The diff as far as it says what the caller does not know.
    brief: str = ""
    changes: list[LineChange] = field(default_factory=list)
    # Whether the text has changed, and its line endings were given to what was put there.
    has_changed: bool = False
    has_own_endings: bool = False
    # Of a file that is one piece, the new content; and its text, before and after.
    whole: bytes | None = None
    texts: tuple[str, str] = ("", "")
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
        self.diff = self.brief = ""
        self.changes = []
        self.has_changed = False
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
        self.check()

    def check(self) -> None:
        """Raise the error of the first operation that has not found what it needs."""
        for task in self._tasks:
            problem = self._problem(task)
            if problem is not None:
                raise problem

    @property
    def shows_more(self) -> bool:
        """Whether the diff says what the caller does not know: several operations or places, or not what was asked."""
        return len(self._tasks) > 1 or any(
            task.ignored or task.step.regex or (task.count > 1 and task.step.takes_all) for task in self._tasks
        )

    def notes(self) -> list[str]:
        found = []
        for task in self._tasks:
            which = f"operation {task.number}: " if len(self._tasks) > 1 else ""
            if task.ignored:
                found.append(f"{which}{task.ignored} ignored")
            if task.made_at is not None:
                found.append(f"{which}already so from line {task.made_at} on")
            if task.count and (group := foreign_group(task.step)) is not None:
                found.append(f"operation {task.number} put {group} in as it is: a group is \\1 or \\g<name> here")
            if task.count > 1 and not task.step.takes_all:
                what = "matching lines" if task.step.is_insert else "matches"
                listed = ", ".join(map(str, task.lines)) + (", …" if task.count > len(task.lines) else "")
                found.append(f"operation {task.number} changed the first of {task.count} {what} (lines {listed})")
            elif task.count > 1 and self._is_lenient and not which:
                found.append(f"{task.count} places")
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
                fields={"places": "".join(task.around)} if any(task.around) else None,
            )
        return self._no_match(task, None) if task.count == 0 else None

    def _no_match(self, task: _Task, text: str | None) -> NoMatch:
        wanted = task.step.wanted
        near = nearest(showable(text), wanted) if text is not None else None
        kind = "the regex" if task.step.regex else "the text"
        hint = "look at the nearest lines, or search with fs_grep" if near else "search with fs_grep"
        if text is not None and matches_as_regex(task.step, text):
            hint = "it is there as a regular expression: pass regex: true"
        if text is not None and self._is_lenient and not task.step.regex:
            near = "".join(filter(None, (self._ctx.revs.changed_since(self._shown, wanted, text), near)))
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
                self.has_own_endings |= any("\r\n" in edit.text for edit in edits) and "\r\n" not in task.step.put
                if self._is_dry and task.before is None:
                    is_behind = task.step.type == "insert_after"
                    task.before, task.after = _excerpts(text, after, edits[0], is_behind=is_behind)
                regions = merge_regions(regions, edits)
                text = after
        if regions:
            compare = partial(diff_regions, old, text, regions, first_old=self._old_line, first_new=self._new_line)
            if len(self.diff) <= self._ctx.diff_chars:
                self.diff += showable(compare(limit_chars=self._ctx.diff_chars))
            if self._is_lenient and self.shows_more and len(self.brief) <= _BRIEF_CHARS:
                self.brief += showable(compare(limit_chars=_BRIEF_CHARS, context=0))
        self.changes += changed_places(old, text, regions, self._new_line)
        self._old_line += old.count("\n")
        self._new_line += text.count("\n")
        self.has_changed |= text != old
        self.texts = (old, text)
        if text == old:
            return piece
        return self._encoding.encode_for(text, self._shown)

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
            task.around.append(enclosing(view.shown, match.start, task.lines[-1]))
        if not matches:
            if not self._is_whole:
                return []
            if self._is_lenient and not step.regex and (step.expected_count or 1) == 1:
                return self._guessed(task, view)
            task.problem = self._no_match(task, view.shown)
            return []
        if task.is_done and not step.takes_all:
            return []
        task.is_done = True
        chosen = matches if step.takes_all else matches[:1]
        if self._is_lenient and step.takes_ending:
            chosen = with_endings(view.shown, chosen)
        return make_edits(step, view, chosen)

    def _guessed(self, task: _Task, view: View) -> list[TextEdit]:
        """What an operation changes whose text is not there: in the one place that can be meant."""
        step, text = task.step, view.shown
        put = step.put
        if step.is_insert:
            line = put.removesuffix("\n")
            wanted = step.wanted.removesuffix("\n")
            put = f"{wanted}\n{line}" if step.type == "insert_after" else f"{line}\n{wanted}"
            put += "\n" * step.wanted.endswith("\n")
        elif _is_made(text, step):
            task.count, task.is_done = 1, True
            task.made_at = 1 + text.count("\n", 0, text.find(put))
            return []
        found = guess(text, step.wanted, put) or merge(text, step.wanted, put)
        if found is None:
            task.problem = self._no_match(task, text)
            return []
        task.count, task.is_done, task.ignored = 1, True, found.ignored
        task.lines.append(1 + text.count("\n", 0, found.start))
        return place_edits(view, [TextEdit(found.start, found.end, found.put)])


def _is_made(text: str, step: Step) -> bool:
    """Whether a replacement that finds nothing to replace has been made before: what it puts there is there once."""
    put = step.put.strip()
    is_telling = len(put) >= _TELLING_CHARS and put not in step.wanted
    return is_telling and text.count(step.put) == 1


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
