"""The lines of a file that are most like a text that is not in it, and what differs, for the caller's next try."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from difflib import SequenceMatcher

_MOST_LINES = 200_000
_MOST_SECONDS = 0.5
_COMPARED_CHARS = 300
_CANDIDATES = 20
_LIKENESS = 0.5
_LOOKED_BACK = 20_000
_NAMED_CHARS = 80
# So many lines of the file are shown at most; of an asked text that is longer, those around the first difference.
_SHOWN_LINES = 40
_WINDOWS = 3
# Other places are shown that have so much of what the best one has.
_RIVAL = 0.8
# So many lines around the best place, less what was asked for.
_AROUND = 7
# A line that is there more often says nothing of the place.
_MOST_PLACES = 50
_LEAST_LINE_CHARS = 4
_WORD = re.compile(r"\w{3,}")
_DEFINITION = re.compile(
    r"\s*(?:@?\w[\w<>()\[\].,:*& ]*\s)??(?:def|class|func|fn|fun|function|impl|struct|enum|trait|interface|type|module"
    r"|namespace|object|sub|proc|describe|it|test)\b|\s*[\w.\"'-]+:\s*$"
)
_SECTION = re.compile(r"#{1,6} \S|\[+[\w.\"' -]+\]+\s*$")


def enclosing(text: str, at: int, number: int) -> str:
    """The line at a place, with its number, the line before it, and the definition that it is in."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[start : len(text) if end == -1 else end]
    above = text[max(start - _LOOKED_BACK, 0) : start].split("\n")[:-1]
    indent = _indent(line) if line.strip() else len(line)
    inside = ""
    for each in reversed(above):
        if not each.strip() or (indent and _indent(each) >= indent):
            continue
        # What is not indented is in a section, if it is in anything.
        kind = _DEFINITION if indent else _SECTION
        indent = min(indent, _indent(each))
        if kind.match(each[:_COMPARED_CHARS]):
            inside = f"  (in {each.strip()[:_NAMED_CHARS]})"
            break
    before = f"{number - 1}\t{above[-1][:_COMPARED_CHARS]}\n" if above and above[-1].strip() else ""
    return f"{before}{number}\t{line[:_COMPARED_CHARS]}{inside}\n"


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def nearest(text: str, wanted: str) -> str | None:
    """The lines most like `wanted`, numbered, and the first difference; None if nothing is alike."""
    asked = wanted.replace("\r\n", "\n").strip("\n").split("\n")
    lines = text.replace("\r\n", "\n").split("\n", _MOST_LINES)[:_MOST_LINES]
    key_at = max(range(len(asked)), key=lambda index: len(asked[index].strip()))
    if not asked[key_at].strip():
        return None
    starts = _starts(lines, asked) or [best - key_at for best in _best_lines(lines, asked[key_at])]
    if not starts:
        return None
    parts: list[str] = []
    shown: set[int] = set()
    room = _SHOWN_LINES
    for start in starts[:_WINDOWS]:
        if start in shown:
            continue
        first, end = _window(lines, asked, start, room, 1 if parts else max(_AROUND - len(asked) // 2, 1))
        room -= end - first
        shown.update(range(first, end))
        parts.append(
            "".join(f"{first + index + 1}\t{line[:_COMPARED_CHARS]}\n" for index, line in enumerate(lines[first:end]))
        )
        if room < len(asked):
            break
    first = max(starts[0], 0)
    listed = "…\n".join(parts)
    return f"nearest lines:\n{listed}{_difference(asked, lines[first : first + len(asked)], first)}"


def _starts(lines: list[str], asked: list[str]) -> list[int]:
    """Where most of what was asked for would be, judged by the lines that are there; best first."""
    places: dict[str, list[int]] = {}
    sought = {folded for line in asked if len(folded := _fold(line)) >= _LEAST_LINE_CHARS}
    for number, line in enumerate(lines):
        if (folded := _fold(line)) in sought:
            places.setdefault(folded, []).append(number)
    votes: dict[int, int] = {}
    deadline = time.monotonic() + _MOST_SECONDS
    for index, line in enumerate(asked):
        if index % 1_000 == 0 and time.monotonic() > deadline:
            break
        found = places.get(_fold(line), ())
        for number in found if len(found) <= _MOST_PLACES else ():
            votes[number - index] = votes.get(number - index, 0) + len(line.strip())
    ranked = sorted(votes, key=lambda start: -votes[start])
    far: list[int] = []
    for start in ranked:
        if all(abs(start - other) > len(asked) for other in far) and votes[start] >= _RIVAL * votes[ranked[0]]:
            far.append(start)
        if len(far) == _WINDOWS:
            break
    return far


def _window(lines: list[str], asked: list[str], start: int, room: int, around: int) -> tuple[int, int]:
    """The lines to show of a place: those around it, too, and what was put in between."""
    last = {_fold(line) for line in asked[-2:] if line.strip()}
    end = start + len(asked)
    for more in range(end, min(end + len(asked) // 2 + 2, len(lines))):
        if _fold(lines[more]) in last:
            end = more + 1
    first, end = max(start - around, 0), min(end + around, len(lines))
    if end - first > room:
        for index, line in enumerate(asked):
            at = start + index
            if not 0 <= at < len(lines) or _fold(lines[at]) != _fold(line):
                first = max(min(at - room // 2, end - room), first)
                break
        end = min(first + room, end)
    return first, end


def _best_lines(lines: list[str], key: str) -> list[int]:
    folded = _fold(key)
    alike = [index for index, line in enumerate(lines) if folded in _fold(line)][:_CANDIDATES]
    if not alike:
        alike = _lines_sharing(lines, set(_WORD.findall(key.lower())), 2, _WORD.findall)
    if not alike:
        alike = _lines_sharing(lines, set(_pairs(key.lower())), 4, _pairs)
    key = key.strip()[:_COMPARED_CHARS]
    scores = {
        index: SequenceMatcher(None, key, lines[index].strip()[:_COMPARED_CHARS], autojunk=False).ratio()
        for index in alike
    }
    ranked = sorted(alike, key=lambda index: -scores[index])
    return [index for place, index in enumerate(ranked) if not place or scores[index] > _LIKENESS][:_WINDOWS]


def _lines_sharing(lines: list[str], wanted: set[str], least: int, parts: Callable[[str], Iterable[str]]) -> list[int]:
    """The lines that share the most of `wanted`, and at least one in `least` of it."""
    deadline = time.monotonic() + _MOST_SECONDS
    scored: list[tuple[int, int]] = []
    for index, line in enumerate(lines):
        if index % 1_000 == 0 and time.monotonic() > deadline:
            break
        shared = len(wanted.intersection(parts(line[:_COMPARED_CHARS].lower())))
        if shared and shared * least >= len(wanted):
            scored.append((-shared, index))
    return [index for _, index in sorted(scored)[:_CANDIDATES]]


def _pairs(line: str) -> list[str]:
    line = "".join(line.split())
    return [line[at : at + 2] for at in range(len(line) - 1)]


def _fold(line: str) -> str:
    return "".join(line.split()).lower()


def _difference(asked: list[str], shown: list[str], start: int) -> str:
    for index, want in enumerate(asked):
        have = shown[index] if index < len(shown) else None
        if have is None:
            return f"the file ends before line {start + index + 1}, where {want[:80]!r} was expected\n"
        if want == have or (len(asked) == 1 and want in have):
            continue
        number = start + index + 1
        if "".join(want.split()) == "".join(have.split()):
            what = "white space differs"
        elif _fold(want) == _fold(have):
            what = "upper and lower case differ"
        else:
            at = next(
                (n for n, (a, b) in enumerate(zip(want, have, strict=False)) if a != b), min(len(want), len(have))
            )
            what = f"differs from character {at + 1} on"
        return f"line {number}: {what}\n  asked {want[:_COMPARED_CHARS]!r}\n  found {have[:_COMPARED_CHARS]!r}\n"
    return ""
