"""The one place that is meant by a text that is not in a file: alike but for what the caller cannot have meant.

White space, the line numbers that clients print before lines, escapes too many, typographic signs. The lines that the
edit leaves as they are keep the form they have in the file; those that it writes are indented like the file.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate, pairwise
from typing import NamedTuple

from tools.files.diffs import common_ends

_MOST_LINES = 200_000
_MOST_ASKED = 1_000
_MOST_SECONDS = 1.0
_CHECKED_EVERY = 100
# Two blocks with more lines than this product are compared as one change.
_MOST_COMPARED = 60_000
_NUMBERED = re.compile(r"^\s*(\d+)(?:[→:\t]|[│|] ?)(.*)$")
_ESCAPE = re.compile(r"\\([nt\"'`\\])")
_QUOTE = re.compile(r"\\([\"'`])")
_SIGNS = str.maketrans(
    {
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f", '"'),
    }
)

# How a line is compared. An empty key is that of an empty line, which is passed over.
_Key = Callable[[str], str]
# For each line that was asked for, where it is in the file; None for an empty one.
_Place = list[int | None]


class Guess(NamedTuple):
    """What stands from `start` to `end` of the text becomes `put`. `ignored` says in what it differs from the asked."""

    start: int
    end: int
    put: str
    ignored: str


class LineEdit(NamedTuple):
    """An edit by lines: what was asked for, and what shall be there."""

    old: Sequence[str]
    new: Sequence[str]
    # Whether each text ends with the ending of its last line.
    old_ends: bool = True
    new_ends: bool = True

    @classmethod
    def of_texts(cls, old: str, new: str) -> LineEdit:
        old_ends, new_ends = old.endswith("\n"), new.endswith("\n") or not new
        new_lines = new.removesuffix("\n").split("\n") if new else []
        return cls(old.removesuffix("\n").split("\n"), new_lines, old_ends, new_ends)

    @property
    def old_text(self) -> str:
        return "\n".join(self.old) + ("\n" if self.old_ends else "")

    @property
    def new_text(self) -> str:
        return "\n".join(self.new) + ("\n" if self.new_ends and self.new else "")


def guess(text: str, wanted: str, put: str) -> Guess | None:
    """The place that is meant by `wanted`, which is not in `text`; None if there is none, or more than one."""
    if wanted.count("\n") > _MOST_ASKED or put.count("\n") > _MOST_ASKED or text.count("\n") > _MOST_LINES:
        return None
    if _by_signs(wanted) == _by_signs(put):
        # What could be ignored is what the edit is about.
        return None
    file = FileLines(text)
    for edit, what in _readings(wanted, put):
        asked = edit.old_text
        if what and (start := text.find(asked)) != -1:
            is_only = text.find(asked, start + 1) == -1
            return Guess(start, start + len(asked), edit.new_text, what) if is_only else None
        places, difference = file.find_alike(edit.old)
        if len(places) > 1:
            return None
        if places:
            found = file.replace(edit, places[0])
            return found and found._replace(ignored=f"{what} and {difference}" if what else difference)
    return None


def _readings(wanted: str, put: str) -> Iterator[tuple[LineEdit, str]]:
    """The edit as it is, and as it is meant if the caller has put into it what is not in files."""
    edit = LineEdit.of_texts(wanted, put)
    yield edit, ""
    numbers = [found and int(found[1]) for found in map(_NUMBERED.fullmatch, edit.old)]
    if numbers[0] is not None and numbers == list(range(numbers[0], numbers[0] + len(numbers))):
        plain = [_NUMBERED.sub(r"\2", line) for line in edit.old]
        # A new line has no number, or that of the line after which it comes.
        yield edit._replace(old=plain, new=[_NUMBERED.sub(r"\2", line) for line in edit.new]), "line numbers"
    if _QUOTE.search(wanted):
        yield LineEdit.of_texts(_QUOTE.sub(r"\1", wanted), _QUOTE.sub(r"\1", put)), "escapes"
    if _ESCAPE.search(wanted):
        yield LineEdit.of_texts(_ESCAPE.sub(_unescaped, wanted), _ESCAPE.sub(_unescaped, put)), "escapes"


def _unescaped(match: re.Match[str]) -> str:
    return {"n": "\n", "t": "\t"}.get(match[1], match[1])


def _by_end(line: str) -> str:
    return line.rstrip()


def _by_text(line: str) -> str:
    return line.strip()


def _by_letters(line: str) -> str:
    return "".join(line.split())


def _by_signs(line: str) -> str:
    return "".join(line.translate(_SIGNS).split())


_KEYS: tuple[tuple[_Key, str], ...] = (
    (_by_end, "white space at line ends"),
    (_by_text, "indentation"),
    (_by_letters, "white space"),
    (_by_signs, "typographic signs"),
)


class _Index(NamedTuple):
    """The lines of a file that are not empty, by a key: their keys, their numbers, and the places of each key."""

    keys: list[str]
    numbers: list[int]
    places: dict[str, list[int]]


class FileLines:
    """The lines of a file, to be found by what they are like."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.lines = text.split("\n")
        # Where each line begins.
        self.starts = list(accumulate((len(line) + 1 for line in self.lines), initial=0))
        self._indexes: dict[_Key, _Index] = {}
        # Texts of many lines that are almost alike take long to compare.
        self._deadline = time.monotonic() + _MOST_SECONDS

    def find_alike(self, asked: Sequence[str], *, first: int = 0) -> tuple[list[_Place], str]:
        """At most two places, from the line `first` on, where all lines that are not empty follow each other, but for
        what the second value names. It is as little as possible."""
        for key, difference in _KEYS:
            if places := self._find(asked, key, first):
                return places, difference
        return [], ""

    def _find(self, asked: Sequence[str], key: _Key, line: int) -> list[_Place]:
        if key not in self._indexes:
            self._indexes[key] = self._index(key)
        keys, numbers, places = self._indexes[key]
        wanted = [(index, found) for index, each in enumerate(asked) if (found := key(each))]
        if not any(character.isalnum() for _, found in wanted for character in found):
            return []
        sought = [found for _, found in wanted]
        rarest = min(range(len(wanted)), key=lambda each: len(places.get(sought[each], ())))
        result: list[_Place] = []
        for at in places.get(sought[rarest], ()):
            start = at - rarest
            if at % _CHECKED_EVERY == 0 and time.monotonic() > self._deadline:
                return []
            if start >= 0 and keys[start : start + len(sought)] == sought and numbers[start] >= line:
                place: _Place = [None] * len(asked)
                for offset, (index, _) in enumerate(wanted):
                    place[index] = numbers[start + offset]
                result.append(place)
                if len(result) > 1:
                    break
        return result

    def _index(self, key: _Key) -> _Index:
        index = _Index([], [], {})
        for number, line in enumerate(self.lines):
            if found := key(line):
                index.places.setdefault(found, []).append(len(index.keys))
                index.keys.append(found)
                index.numbers.append(number)
        return index

    def replace(self, edit: LineEdit, place: _Place) -> Guess | None:
        """What becomes of the file at a place. What the edit leaves as it is, is copied from there."""
        pairs = [(old, at) for old, at in zip(edit.old, place, strict=True) if at is not None]
        indent = _Indent([(indent_of(old), indent_of(self.lines[at]), at) for old, at in pairs if old.strip()])
        first, end = pairs[0][1], pairs[-1][1] + 1
        put: list[str] = []
        copied = -1
        for a, b, c, d in line_changes(edit.old, edit.new):
            start, stop = self._span(edit.old, place, a, b)
            if start < copied:
                return None
            first, end = min(first, start), max(end, stop)
            put += self.lines[first if copied < 0 else copied : start]
            put += indent.of(edit.new[c:d], start)
            copied = stop
        put += self.lines[first if copied < 0 else copied : end]
        from_, to = self.starts[first], self.starts[end] - 1
        text = "\n".join(put)
        if (edit.old_ends or not put) and end < len(self.lines):
            to += 1
            text += "\n" if edit.new_ends and put else ""
        return Guess(from_, to, text, "") if text != self._text[from_:to] else None

    def _span(self, old: Sequence[str], place: _Place, a: int, b: int) -> tuple[int, int]:
        """Where in the file the asked lines from `a` to `b` are, or would be between their neighbours."""
        ats = [at for at in place[a:b] if at is not None]
        if ats:
            start = ats[0] - self._empty(ats[0] - 1, -1, _count_empty(old[a:b]))
            return start, ats[-1] + 1 + self._empty(ats[-1] + 1, 1, _count_empty(old[a:b][::-1]))
        before = next((index for index in range(a - 1, -1, -1) if place[index] is not None), None)
        if before is not None and (above := place[before]) is not None:
            start = above + 1 + self._empty(above + 1, 1, a - 1 - before)
        else:
            behind, below = next((index, at) for index, at in enumerate(place) if index >= a and at is not None)
            start = below - self._empty(below - 1, -1, behind - a)
        return start, start + self._empty(start, 1, b - a)

    def _empty(self, at: int, step: int, most: int) -> int:
        """How many lines are empty from `at` on; at most `most`."""
        count = 0
        while count < most and 0 <= at < len(self.lines) and not self.lines[at].strip():
            count += 1
            at += step
        return count


class _Indent:
    """How the lines of an edit are indented in the file, by those that are in both: as asked, as found, and where."""

    def __init__(self, pairs: Sequence[tuple[str, str, int]]) -> None:
        self._pairs = pairs
        self._is_same = all(old == found for old, found, _ in pairs)

    def of(self, lines: Sequence[str], near: int) -> list[str]:
        """The lines as they would be indented near the line `near` of the file."""
        if self._is_same:
            return list(lines)
        order = sorted(self._pairs, key=lambda pair: abs(pair[2] - near))
        return [self._indented(line, order) if line.strip() else line for line in lines]

    def _indented(self, line: str, order: Sequence[tuple[str, str, int]]) -> str:
        own = indent_of(line)
        text = line[len(own) :]
        for old, found, _ in order:
            if own == old:
                return found + text
        old, found, _ = order[0]
        if own.startswith(old):
            return found + self._converted(own[len(old) :]) + text
        if found.endswith(old):
            return found[: len(found) - len(old)] + line
        if old.endswith(found):
            return line.removeprefix(old[: len(old) - len(found)])
        return self._converted(own) + text

    def _converted(self, indent: str) -> str:
        """Tabs for spaces or spaces for tabs, if that is how the two differ."""
        for old, found in self._steps():
            if old[0] != found[0] and len({*old}) == len({*found}) == 1 and {*indent} == {*old}:
                count, rest = divmod(len(indent) * len(found), len(old))
                if not rest:
                    return found[0] * count
        return indent

    def _steps(self) -> Iterator[tuple[str, str]]:
        """By how much a line is indented more than another: as asked, and as found."""
        known = sorted({(old, found) for old, found, _ in self._pairs}, key=lambda pair: len(pair[0]))
        if not known or known[0][0]:
            known.insert(0, ("", ""))
        for (old, found), (next_old, next_found) in pairwise(known):
            if next_old != old and next_found != found and next_old.startswith(old) and next_found.startswith(found):
                yield next_old[len(old) :], next_found[len(found) :]


def line_changes(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int, int, int]]:
    """Which lines of `old` become which of `new`."""
    head, tail = common_ends(old, new)
    before, after = old[head : len(old) - tail], new[head : len(new) - tail]
    if len(before) * len(after) > _MOST_COMPARED:
        return [(head, len(old) - tail, head, len(new) - tail)]
    opcodes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [(head + a, head + b, head + c, head + d) for tag, a, b, c, d in opcodes if tag != "equal"]


def indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _count_empty(lines: Sequence[str]) -> int:
    """How many empty lines it begins with."""
    return next((index for index, line in enumerate(lines) if line.strip()), len(lines))
