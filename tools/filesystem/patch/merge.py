"""An edit some of whose lines are a little other in the file by now, where that leaves no doubt of what it changes.

It is a merge of what the caller took for the file, what it wants, and what is there. It is made in the one place that
has as many lines, most of them the same and the others alike; what is other in the file stays.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from difflib import SequenceMatcher

from tools.filesystem.patch.lenient import FileLines, Guess, LineEdit, indent_of, line_changes

_LEAST_LINES = 3
_MOST_LINES = 300
_MOST_FILE_LINES = 200_000
# At most one line in so many may be other, and must be so much alike; all lines together must be more so.
_PART_THAT_DIFFERS = 4
_LEAST_LIKENESS = 0.5
_LEAST_LIKENESS_OF_ALL = 0.65
# A line of which the edit changes one word and the file another is still the same line if it is so much alike.
_LEAST_LIKENESS_TO_MERGE = 0.8
# A line that is there more often says nothing of the place.
_MOST_PLACES = 50
_COMPARED_CHARS = 300
# Many long lines that are almost alike take long to compare.
_MOST_SECONDS = 1.0
_NAMED_CHARS = 60
_WORD = re.compile(r"\w+|\s+|.")


def merge(text: str, wanted: str, put: str) -> Guess | None:
    """The edit, made among lines that differ; None where it is about what differs, or may mean another place."""
    if max(wanted.count("\n"), put.count("\n")) >= _MOST_LINES or text.count("\n") > _MOST_FILE_LINES:
        return None
    edit = LineEdit.of_texts(wanted, put)
    asked = [index for index, line in enumerate(edit.old) if line.strip()]
    if len(asked) < _LEAST_LINES or edit.old_ends != edit.new_ends:
        return None
    file = FileLines(text)
    deadline = time.monotonic() + _MOST_SECONDS
    numbers = _place(file.lines, [edit.old[index] for index in asked], deadline)
    if numbers is None:
        return None
    changes = line_changes(edit.old, edit.new)
    old, new = list(edit.old), list(edit.new)
    others: list[int] = []
    first = ""
    for index, number in zip(asked, numbers, strict=True):
        there = file.lines[number]
        if there.strip() == edit.old[index].strip():
            continue
        first = first or there.strip()
        becomes = _counterpart(changes, index) if time.monotonic() < deadline else None
        if becomes is None or (merged := _merged(edit.old[index], edit.new[becomes], there)) is None:
            return None
        if edit.old[index] == edit.new[becomes]:
            others.append(index)
        old[index] = indent_of(old[index]) + there.strip()
        new[becomes] = indent_of(new[becomes]) + merged
    edit = edit._replace(old=old, new=new)
    if any(_is_behind(edit, change, others) for change in changes):
        return None
    place: list[int | None] = [None] * len(old)
    for index, number in zip(asked, numbers, strict=True):
        place[index] = number
    made = file.replace(edit, place)
    return made and made._replace(ignored=f"other words there (first: {first[:_NAMED_CHARS]!r})")


def _place(lines: Sequence[str], asked: Sequence[str], deadline: float) -> list[int] | None:
    """The lines of the file that are alike, one for one; None where there are none, or in two places, or too late."""
    numbers = [number for number, line in enumerate(lines) if line.strip()]
    keys = [lines[number].strip() for number in numbers]
    wanted = [line.strip() for line in asked]
    places: dict[str, list[int]] = {key: [] for key in wanted}
    for at, key in enumerate(keys):
        if key in places:
            places[key].append(at)
    starts = {at - index for index, key in enumerate(wanted) for at in places[key] if len(places[key]) <= _MOST_PLACES}
    found = [start for start in starts if start >= 0 and _is_alike(wanted, keys[start : start + len(wanted)], deadline)]
    if time.monotonic() >= deadline:
        return None
    return numbers[found[0] : found[0] + len(wanted)] if len(found) == 1 else None


def _is_alike(wanted: Sequence[str], there: Sequence[str], deadline: float) -> bool:
    if len(there) < len(wanted) or time.monotonic() >= deadline:
        return False
    others = [(old, new) for old, new in zip(wanted, there, strict=True) if old != new]
    if len(others) > max(len(wanted) // _PART_THAT_DIFFERS, 1):
        return False
    lost = 0.0
    for old, new in others:
        likeness = _likeness(old, new)
        if likeness < _LEAST_LIKENESS or time.monotonic() >= deadline:
            return False
        lost += (1 - likeness) * len(old)
    return lost <= (1 - _LEAST_LIKENESS_OF_ALL) * sum(map(len, wanted))


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one[:_COMPARED_CHARS], other[:_COMPARED_CHARS], autojunk=False).ratio()


def _counterpart(changes: Sequence[tuple[int, int, int, int]], index: int) -> int | None:
    """The new line that an old one is or becomes; None where it is not changed alone."""
    shift = 0
    for a, b, c, d in changes:
        if a <= index < b:
            return c + index - a if b - a == d - c else None
        if b <= index:
            shift = d - b
    return index + shift


def _is_behind(edit: LineEdit, change: tuple[int, int, int, int], others: Sequence[int]) -> bool:
    """Whether a change comes right behind a line that is other in the file; at the beginning, right before one."""
    before = next((index for index in range(change[0] - 1, -1, -1) if edit.old[index].strip()), None)
    behind = next((index for index in range(change[1], len(edit.old)) if edit.old[index].strip()), None)
    return (behind if before is None else before) in others


def _merged(old: str, new: str, there: str) -> str | None:
    """A line with both changes; None where they are about the same words, or words side by side."""
    old, new, there = old.strip(), new.strip(), there.strip()
    if there == new or old == new:
        return there
    if max(map(len, (old, new, there))) > _COMPARED_CHARS or _likeness(old, there) < _LEAST_LIKENESS_TO_MERGE:
        return None
    words = _WORD.findall(old)
    changes: list[tuple[int, int, int, list[str]]] = []
    for side, other in enumerate((_WORD.findall(new), _WORD.findall(there))):
        opcodes = SequenceMatcher(None, words, other, autojunk=False).get_opcodes()
        changes += [(a, b, side, other[c:d]) for tag, a, b, c, d in opcodes if tag != "equal"]
    result: list[str] = []
    at, last_side = 0, -1
    for start, end, side, put in sorted(changes):
        if start <= at and last_side == 1 - side:
            return None
        result += [*words[at:start], *put]
        at, last_side = end, side
    return "".join([*result, *words[at:]])
