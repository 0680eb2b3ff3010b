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
_SHOWN_LINES = 12
_WORD = re.compile(r"\w{3,}")


def nearest(text: str, wanted: str) -> str | None:
    """The lines most like `wanted`, numbered, and the first difference; None if nothing is alike."""
    asked = wanted.replace("\r\n", "\n").strip("\n").split("\n")
    lines = text.replace("\r\n", "\n").split("\n", _MOST_LINES)[:_MOST_LINES]
    key_at = max(range(len(asked)), key=lambda index: len(asked[index].strip()))
    key = asked[key_at]
    if not key.strip():
        return None
    best = _best_line(lines, key)
    if best is None:
        return None
    start = max(best - key_at, 0)
    shown = lines[start : start + min(len(asked), _SHOWN_LINES)]
    numbered = "".join(f"{start + index + 1}\t{line[:_COMPARED_CHARS]}\n" for index, line in enumerate(shown))
    return f"nearest lines:\n{numbered}{_difference(asked, shown, start)}"


def _best_line(lines: list[str], key: str) -> int | None:
    folded = _fold(key)
    alike = [index for index, line in enumerate(lines) if folded in _fold(line)][:_CANDIDATES]
    if not alike:
        alike = _lines_sharing(lines, set(_WORD.findall(key.lower())), 2, _WORD.findall)
    if not alike:
        alike = _lines_sharing(lines, set(_pairs(key.lower())), 4, _pairs)
    best, best_score = None, 0.5
    for index in alike:
        score = SequenceMatcher(None, key[:_COMPARED_CHARS], lines[index][:_COMPARED_CHARS], autojunk=False).ratio()
        if score > best_score:
            best, best_score = index, score
    return best if best is not None or not alike else alike[0]


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
    for index, want in enumerate(asked[:_SHOWN_LINES]):
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
