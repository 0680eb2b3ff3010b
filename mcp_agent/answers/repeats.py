"""What a conversation was shown is not shown again, where its profile asks for that: only that it is the same, or the
difference.

A model reads a file again to be sure of it, and each time it pays for all of it. What it was shown counts for half an
hour and sixty calls, and only until the same is asked for a second time: the model may have lost it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson
from msgspec import Struct, field

from tools.files.diffs import diff_texts
from tools.kit.results import Result, ResultFacts, ShownText, line_count, quantity
from tools.kit.spec import Tool
from tools.sessions.origin import Origin

AGAIN = "again"
# Its whole purpose is to show lines by their numbers.
_ALWAYS_SHOWN = "fs_read_range"
_TOOLS = ("fs_read", "read", "shell_exec", "bash", _ALWAYS_SHOWN)
_MOST_AGE_S = 1_800.0
_MOST_CALLS = 60
_LEAST_CHARS = 300
# A difference that is not much shorter than the text is harder to read.
_MOST_OF_TEXT = 0.6
_MOST_CHARS = 200_000
# A longer line is cut in a difference.
_MOST_LINE_CHARS = 2_000
_MOST_PIECES = 20
_MOST_THINGS = 100
_MOST_CONVERSATIONS = 100


class Repeated(Result, frozen=True):
    """In the place of a result that the conversation was shown before."""

    header: str
    difference: str = ""
    _facts: ResultFacts = ResultFacts()

    def render(self) -> str:
        return f"{self.header}\n{self.difference}" if self.difference else self.header

    @property
    def facts(self) -> ResultFacts:
        return self._facts


class _Piece(NamedTuple):
    """Something that was shown, and when: by the clock, and by the number of the call."""

    shown: ShownText
    at: float
    call: int


class _Thing(Struct, eq=False):
    """A file or a command: what was shown of it, oldest first, and what the last answer left out of it."""

    pieces: list[_Piece] = field(default_factory=list)
    left_out: ShownText | None = None


class _Memory(Struct, eq=False):
    things: dict[str, _Thing] = field(default_factory=dict)
    calls: int = 0


class Asked(NamedTuple):
    """One call whose result is remembered."""

    memory: _Memory
    # What is asked for, where the result does not name it: a command.
    key: str
    # Whether it may be answered with less than all.
    may_shorten: bool


class ShownTexts:
    """Of the newest conversations. Nothing of one without a name is remembered: others might have the same."""

    def __init__(self) -> None:
        self._memories: dict[str, _Memory] = {}

    def begin(self, origin: Origin, tool: Tool, arguments: Mapping[str, Any], *, again: bool) -> Asked | None:
        """Count a call. None for one whose result is not remembered."""
        name = next(iter(origin.conversations), None)
        if name is None:
            return None
        memory = self._memories[name] = self._memories.pop(name) if name in self._memories else _Memory()
        while len(self._memories) > _MOST_CONVERSATIONS:
            del self._memories[next(iter(self._memories))]
        memory.calls += 1
        if tool.name not in _TOOLS:
            return None
        key = orjson.dumps([tool.name, arguments], option=orjson.OPT_SORT_KEYS, default=str).decode()
        return Asked(memory, key, may_shorten=not again and tool.name != _ALWAYS_SHOWN)

    def shorten(self, asked: Asked, result: Result) -> Result:
        """The result, or what takes its place; `was_shown` is to be told of it when it has gone out."""
        shown = result.body.shown
        thing = None if shown is None else asked.memory.things.get(shown.name or asked.key)
        if shown is None or thing is None or not asked.may_shorten:
            return result
        if thing.left_out is not None and _overlap(thing.left_out, shown):
            return result
        now = time.monotonic()
        fresh = [
            piece
            for piece in thing.pieces
            if now - piece.at <= _MOST_AGE_S and asked.memory.calls - piece.call <= _MOST_CALLS
        ]
        if not fresh or len(shown.text) < _LEAST_CHARS:
            return result
        since = f"{_ago(now - min(piece.at for piece in fresh))}; pass again=true to see it"
        before = _known(fresh, shown)
        if before == shown.text:
            what = "printed the same as" if shown.first_line is None else "unchanged since"
            return Repeated(f"{shown.header} · {_size(shown)} · {what} {since}", _facts=result.facts)
        difference = None if before is None else _difference(before, shown)
        if difference is None:
            return result
        return Repeated(f"{shown.header} · the changes since {since}", difference, result.facts)

    def was_shown(self, asked: Asked, result: Result, answer: Result) -> None:
        """Remember a result that went out whole, or what took its place."""
        shown = result.body.shown
        if shown is None or len(shown.text) > _MOST_CHARS:
            return
        things = asked.memory.things
        key = shown.name or asked.key
        thing = things[key] = things.pop(key) if key in things else _Thing()
        while len(things) > _MOST_THINGS:
            del things[next(iter(things))]
        thing.left_out = None if answer is result else shown
        if isinstance(answer, Repeated) and not answer.difference:
            return
        piece = _Piece(shown, time.monotonic(), asked.memory.calls)
        kept = [] if shown.is_whole else [each for each in thing.pieces if not _covers(shown, each.shown)]
        thing.pieces = [*kept, piece][-_MOST_PIECES:]


def _known(pieces: list[_Piece], shown: ShownText) -> str | None:
    """What was shown last of the same lines, or of the whole; None if that was not all of it."""
    if shown.is_whole or shown.first_line is None:
        newest = pieces[-1].shown
        return newest.text if newest.is_whole or shown.first_line is None else None
    known: dict[int, str] = {}
    for piece in pieces:
        if piece.shown.is_whole:
            known.clear()
        known.update(enumerate(_lines(piece.shown), piece.shown.first_line or 1))
    lines = [known.get(number) for number in range(shown.first_line, shown.first_line + len(_lines(shown)))]
    found = [line for line in lines if line is not None]
    end = "\n" if shown.text.endswith("\n") else ""
    return "\n".join(found) + end if len(found) == len(lines) else None


def _difference(before: str, shown: ShownText) -> str | None:
    """The unified diff of two texts; None for a command, or where it costs as much as the text."""
    if shown.first_line is None or max(map(len, (*before.split("\n"), *_lines(shown)))) > _MOST_LINE_CHARS:
        return None
    difference = diff_texts(before, shown.text, limit_chars=2 * _MOST_CHARS, first_line=shown.first_line)
    return difference if len(difference) <= _MOST_OF_TEXT * len(shown.text) else None


def _overlap(one: ShownText, other: ShownText) -> bool:
    return _span(one)[0] < _span(other)[1] and _span(other)[0] < _span(one)[1]


def _covers(newer: ShownText, older: ShownText) -> bool:
    return _span(newer)[0] <= _span(older)[0] and _span(older)[1] <= _span(newer)[1]


def _span(shown: ShownText) -> tuple[int, int]:
    """The first line, and the one after the last."""
    first = shown.first_line or 1
    return first, first + len(_lines(shown))


def _lines(shown: ShownText) -> list[str]:
    return shown.text.removesuffix("\n").split("\n")


def _size(shown: ShownText) -> str:
    return quantity(line_count(shown.text), "line")


def _ago(seconds: float) -> str:
    return f"{seconds:.0f} s ago" if seconds < 100 else f"{seconds / 60:.0f} min ago"
