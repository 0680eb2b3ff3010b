"""What the text of a patch asks for: changes of files, made of hunks; and where a hunk is in a text.

A hunk is found by its lines. A line number (unified diffs), lines before it (V4A) and the order of the hunks say which
of several places is meant.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal, NamedTuple

from msgspec import Struct, field

from tools.filesystem.patch.lenient import FileLines, LineEdit
from tools.filesystem.patch.nearest import nearest
from tools.filesystem.patch.operations import TextEdit
from tools.kit.errors import CountMismatch, InvalidParams, NoMatch, Timeout

_LISTED = 5
_TELLING_CHARS = 20
_MOST_SECONDS = 5.0
_CHECKED_EVERY = 100

ChangeKind = Literal["add", "update", "delete", "copy"]


class Hunk(Struct, eq=False):
    """Lines that are there, and what they become."""

    old: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    # Lines that come somewhere before it, one after the other, such as that of its class and that of its function.
    anchors: list[str] = field(default_factory=list)
    # Where it begins, from 1, in the text before the patch; of one without old lines, the line after which it comes.
    line: int | None = None
    is_at_end: bool = False
    # Whether the text ends with a line break after it; None: as before.
    ends: bool | None = None


class FileChange(Struct, eq=False):
    """One file of a patch. `to` is its new path; of a copy, the path of the copy."""

    kind: ChangeKind
    path: str
    to: str | None = None
    hunks: list[Hunk] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Placed(NamedTuple):
    """The edits that hunks are, in order, and what is to be said of them."""

    edits: list[TextEdit]
    notes: list[str]
    # Whether a hunk was found that is not literally there.
    is_guess: bool


def malformed(line: int, message: str) -> InvalidParams:
    """A text that is no patch. Lines count from 1."""
    text = f"patch, line {line}: {message}; nothing was changed"
    return InvalidParams(text, issues=[{"path": "arguments.patch", "code": "custom", "message": "custom"}])


def place(hunks: Sequence[Hunk], text: str, shown: str, *, is_lenient: bool) -> Placed:
    """Where the hunks are in a text with plain line feeds. Raises NoMatch, CountMismatch."""
    finder = _Finder(text, shown, is_lenient)
    for number, hunk in enumerate(hunks, 1):
        finder.add(hunk, f"hunk {number}: " if len(hunks) > 1 else "")
    finder.edits.sort(key=lambda edit: (edit.start, edit.end))
    for one, other in zip(finder.edits, finder.edits[1:], strict=False):
        if other.start < one.end:
            raise NoMatch(f"two hunks change the same lines of {shown}; nothing was changed")
    return Placed(finder.edits, finder.notes, finder.is_guess)


class _Finder:
    def __init__(self, text: str, shown: str, is_lenient: bool) -> None:
        self._text = text
        self._shown = shown
        self._is_lenient = is_lenient
        self._file = FileLines(text)
        # What is behind the last line feed is no line.
        self._lines = self._file.lines[:-1] if text.endswith("\n") or not text else self._file.lines
        # Where each line is.
        self._places: dict[str, list[int]] = {}
        for number, line in enumerate(self._lines):
            self._places.setdefault(line, []).append(number)
        self._deadline = time.monotonic() + _MOST_SECONDS
        # Behind the last hunk, and by how much the lines of the text are further down than the patch says.
        self._cursor = 0
        self._drift = 0
        self.edits: list[TextEdit] = []
        self.notes: list[str] = []
        self.is_guess = False

    def add(self, hunk: Hunk, which: str) -> None:
        cursor = self._behind_anchors(hunk)
        if not hunk.old:
            self._insert(hunk, cursor)
            return
        at = self._find(hunk, cursor or self._cursor, is_anchored=cursor is not None, which=which)
        if at is not None:
            self._put(hunk, at, at + len(hunk.old), hunk.new)
            return
        if not self._is_lenient:
            raise self._no_match(hunk, which)
        self._guess(hunk, cursor or self._cursor, which)

    def _find(self, hunk: Hunk, cursor: int, *, is_anchored: bool, which: str) -> int | None:
        """The line at which the hunk is, literally; None if it is not."""
        count, lines, old = len(hunk.old), self._lines, hunk.old
        found: list[int] = []
        rarest = min(range(count), key=lambda index: len(self._places.get(old[index], ())))
        for place in self._places.get(old[rarest], ()):
            at = place - rarest
            if place % _CHECKED_EVERY == 0 and time.monotonic() > self._deadline:
                raise Timeout(f"the hunks take too long to find in {self._shown}; nothing was changed")
            if at >= 0 and lines[at : at + count] == old and not self._is_changed(at, at + count):
                found.append(at)
        if hunk.is_at_end and len(lines) - count in found:
            return len(lines) - count
        if hunk.line is not None and hunk.line - 1 + self._drift in found:
            return hunk.line - 1 + self._drift
        ahead = [at for at in found if at >= cursor]
        if len(ahead) == 1 or not ahead:
            return ahead[0] if ahead else found[0] if len(found) == 1 else None
        listed = ", ".join(str(at + 1) for at in ahead[:_LISTED]) + (", …" if len(ahead) > _LISTED else "")
        if hunk.line is not None:
            raise CountMismatch(
                f"{which}its lines are in {self._shown} {len(ahead)} times (lines {listed}), "
                f"and not at line {hunk.line}; nothing was changed",
                hint="include more of the lines around the place you mean",
            )
        if not is_anchored:
            self.notes.append(f"{which}the first of {len(ahead)} places was changed (lines {listed})")
        return ahead[0]

    def _guess(self, hunk: Hunk, cursor: int, which: str) -> None:
        """Find a hunk that is not literally there; it may be in one place only, or have been applied before."""
        made = "\n".join(hunk.new)
        if len(made.strip()) >= _TELLING_CHARS and hunk.new not in (hunk.old, []) and self._text.count(made) == 1:
            before = self._text.count("\n", 0, self._text.find(made))
            self.notes.append(f"{which}already so from line {before + 1} on")
            self._cursor = before + len(hunk.new)
            return
        places, difference = self._file.find_alike(hunk.old, first=cursor)
        edit = LineEdit(hunk.old, hunk.new)
        found = self._file.replace(edit, places[0]) if len(places) == 1 else None
        if found is None:
            raise self._no_match(hunk, which)
        self.notes.append(f"{which}{difference} ignored")
        self.is_guess = True
        self.edits.append(TextEdit(found.start, found.end, found.put))
        self._cursor = self._text.count("\n", 0, found.end)

    def _insert(self, hunk: Hunk, cursor: int | None) -> None:
        """A hunk of new lines alone: behind its anchor, at its line, or at the end."""
        at = len(self._lines)
        if not hunk.is_at_end and cursor is not None:
            at = cursor
        elif not hunk.is_at_end and hunk.line is not None:
            at = min(max(hunk.line + self._drift, 0), at)
        self._put(hunk, at, at, hunk.new)

    def _put(self, hunk: Hunk, first: int, end: int, new: list[str]) -> None:
        """Lines of the text, from `first` to before `end`, become others."""
        starts = self._file.starts
        start, stop = min(starts[first], len(self._text)), min(starts[end], len(self._text))
        put = "".join(f"{line}\n" for line in new)
        is_last = end == len(self._lines)
        if is_last and not self._text.endswith("\n") and self._text:
            # The last line has no ending.
            put = put.removesuffix("\n") if hunk.ends is not True else put
            if first == end:
                put = f"\n{put}"
            elif not new and start:
                start -= 1
        elif is_last and hunk.ends is False:
            put = put.removesuffix("\n")
        self.edits.append(TextEdit(start, stop, put))
        self._cursor = end
        if hunk.line is not None:
            self._drift = first - (hunk.line - (1 if hunk.old else 0))

    def _behind_anchors(self, hunk: Hunk) -> int | None:
        """The line behind the last anchor; None if there is none, or not each is there."""
        cursor = self._cursor
        for anchor in hunk.anchors:
            found = self._line_of(anchor, cursor)
            if found is None:
                return None
            cursor = found + 1
        return cursor if hunk.anchors else None

    def _line_of(self, anchor: str, cursor: int) -> int | None:
        for key in (str, str.rstrip, str.strip):
            wanted = key(anchor)
            for at in range(cursor, len(self._lines)):
                if key(self._lines[at]) == wanted:
                    return at
        begun = [at for at in range(cursor, len(self._lines)) if self._lines[at].strip().startswith(anchor.strip())]
        return begun[0] if len(begun) == 1 else None

    def _is_changed(self, first: int, end: int) -> bool:
        start, stop = self._file.starts[first], self._file.starts[end]
        return any(edit.start < stop and start < edit.end for edit in self.edits)

    def _no_match(self, hunk: Hunk, which: str) -> NoMatch:
        near = nearest(self._text, "\n".join(hunk.old)) if hunk.old else None
        return NoMatch(
            f"{which}its lines are not in {self._shown}; nothing was changed",
            hint="look at the nearest lines" if near else "read the file again",
            fields={"nearest": near} if near else None,
        )
