"""Cuts a JSON value: at most four levels deep, few elements, short texts, and only both ends of long texts.

The root is level 1, and a text or a number is one level below what holds it. What is deeper is described in a
few words. The same value is always cut in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from tools.kit.summaries import line_count, quantity

MOST_DEPTH = 4
MOST_ITEMS = 10
MOST_STRING = 500
# A text of more lines than this is a log, and shown by its ends.
MOST_LINES = 20
_END_LINES = MOST_LINES // 2
_KEY_CHARS = 100
# What is deeper than it may be is written as its own JSON where that is about as short as words for it.
_FLAT_ELEMENTS = 8
_FLAT_CHARS = 120


# What is passed on to a later call is shown whole or not at all, up to so many characters.
MOST_HANDLE = 1_500
_HANDLES = ("id", "next", "path", "uri", "url", "ref", "cursor")
_HANDLE_ENDINGS = ("_id", "_path", "Id", "Ref", "Cursor")


class Limits(NamedTuple):
    """How much is shown of a text, of a line of a log, of each end of a log, of a list, and of an object."""

    string: int
    line: int
    lines: int
    items: int
    keys: int


# From what the contract allows to next to nothing: the first with which a result fits is taken.
STEPS = (
    Limits(MOST_STRING, MOST_STRING, _END_LINES, MOST_ITEMS, 40),
    Limits(MOST_STRING, 240, _END_LINES, MOST_ITEMS, 40),
    Limits(300, 160, _END_LINES, MOST_ITEMS, 40),
    Limits(300, 110, _END_LINES, 8, 30),
    Limits(200, 80, _END_LINES, 5, 30),
    Limits(120, 60, 5, 3, 20),
    Limits(80, 50, 3, 2, 12),
    Limits(50, 40, 1, 1, 8),
)


class Cutter:
    """Cuts one value, as often as need be. `is_cut` says whether anything was left out the last time.

    `shown` has, by the name of its field, how many characters are shown from the start of each text that was cut.
    With a `question`, a long text is shown by the lines that match it best. `line_counts` has how many lines a field
    has in truth, where that is more than its text has.
    """

    def __init__(
        self, fields: Mapping[str, Any], question: str | None = None, line_counts: Mapping[str, int] | None = None
    ) -> None:
        self._fields = fields
        self._question = question
        self._line_counts = line_counts or {}
        self._ends: dict[int, _Ends] = {}
        self._ranked: dict[int, tuple[list[str], list[int]]] = {}
        self._limits = STEPS[0]
        self.is_cut = False
        self.shown: dict[str, int] = {}

    def cut(self, limits: Limits) -> dict[str, Any]:
        self._limits, self.is_cut, self.shown = limits, False, {}
        return self._mapping(self._fields, 1)

    def _value(self, value: Any, level: int, name: str = "", *, is_field: bool = False) -> Any:
        """`name` is the key that the value has, if any; `is_field`: it is a field of the result itself."""
        if isinstance(value, str):
            return self._handle(value) if is_handle(name) else self._text(value, level, name * is_field)
        if isinstance(value, Mapping):
            return self._mapping(value, level) if level < MOST_DEPTH or not value else self._describe(value)
        if isinstance(value, Sequence) and not isinstance(value, bytes):
            return self._list(value, level)
        return value

    def _handle(self, text: str) -> str:
        if len(text) <= MOST_HANDLE:
            return text
        self.is_cut = True
        return f"[{quantity(len(text), 'character')}, too long to be shown]"

    def _mapping(self, values: Mapping[str, Any], level: int) -> dict[str, Any]:
        shown: dict[str, Any] = {}
        for key, value in values.items():
            if len(shown) == self._limits.keys:
                self.is_cut = True
                shown["..."] = f"{len(values) - len(shown)} more keys"
                break
            name = key
            if len(key) > _KEY_CHARS:
                self.is_cut = True
                # Numbered, since two long keys may differ at their ends only.
                name = f"{key[: _KEY_CHARS - 10]}... {len(shown)}"
            shown[name] = self._value(value, level + 1, key, is_field=level == 1)
        return shown

    def _list(self, values: Sequence[Any], level: int) -> Any:
        most = self._limits.items
        if not values:
            return []
        if len(values) <= most and level < MOST_DEPTH:
            return [self._value(each, level + 1) for each in values]
        if len(values) > most and level + 2 <= MOST_DEPTH:
            self.is_cut = True
            items = [self._value(each, level + 2) for each in values[:most]]
            return {"items": items, "totalCount": len(values), "hasMore": True}
        return self._describe(values)

    def _text(self, text: str, level: int, name: str) -> Any:
        most = self._limits.string
        if len(text) <= most and text.count("\n") < MOST_LINES:
            return text
        if level + 2 <= MOST_DEPTH and "\n" in text:
            return self._log(text, name)
        self.is_cut = True
        # A text without lines can still be a log in a deep place.
        head = "\n".join(text[: most - 3].split("\n", MOST_LINES)[:MOST_LINES])
        self.shown[name] = len(head)
        return f"{head}..."

    def _log(self, text: str, name: str) -> dict[str, Any]:
        """The first and the last lines, each cut by itself, and how many there are between them."""
        ends = self._ends.get(id(text))
        if ends is None:
            ends = self._ends[id(text)] = _Ends.of(text)
        count = self._limits.lines
        total = max(ends.total, self._line_counts.get(name, 0))
        if name and total > 2 * count and (best := self._best(text)):
            self.is_cut = True
            self.shown[name] = 0
            shown_lines = sum(len(run) for run in best)
            return {
                "best": [self._run(run) for run in best],
                "omittedLines": total - shown_lines,
                "totalCount": total,
                "hasMore": True,
            }
        head = ends.head[:count]
        left = total - len(head)
        tail = ends.tail[-min(count, left) :] if left else []
        omitted = left - len(tail)
        lines = [self._line(line) for line in (*head, *tail)]
        has_more = omitted > 0 or any(is_cut for _, is_cut in lines)
        if has_more:
            self.is_cut = True
            whole = next((index for index, (_, is_cut) in enumerate(lines[: len(head)]) if is_cut), len(head))
            self.shown[name] = sum(len(line) + 1 for line in head[:whole])
        shown = {
            "head": [line for line, _ in lines[: len(head)]],
            "omittedLines": omitted,
            "tail": [line for line, _ in lines[len(head) :]],
            "totalCount": total,
        }
        return {**shown, "hasMore": True} if has_more else shown

    def _best(self, text: str) -> list[list[str]]:
        """The lines that match the question best, those that follow each other in one run; none if no line does."""
        if self._question is None:
            return []
        from mcp_agent.compact.best_lines import group_runs, rank_lines

        known = self._ranked.get(id(text))
        if known is None:
            lines = text.split("\n")
            known = self._ranked[id(text)] = lines, rank_lines(lines, self._question)
        lines, ranked = known
        return [
            [lines[index] for index in run] for run in group_runs(ranked, 2 * self._limits.lines, self._limits.items)
        ]

    def _run(self, lines: list[str]) -> str:
        text = "\n".join(self._line(line)[0] for line in lines)
        most = self._limits.string
        return text if len(text) <= most else f"{text[: most - 3]}..."

    def _line(self, line: str) -> tuple[str, bool]:
        most = self._limits.line
        return (line, False) if len(line) <= most else (f"{line[: most - 3]}...", True)

    def _describe(self, value: Mapping[str, Any] | Sequence[Any]) -> str:
        flat = _flat(value)
        if flat is not None and len(flat) <= self._limits.string:
            return flat
        self.is_cut = True
        if not isinstance(value, Mapping):
            return f"[{quantity(len(value), 'item')}]"
        names = ", ".join(key[:20] for key in list(value)[:4])
        return f"{{{len(value)} keys: {names}{', ...' if len(value) > 4 else ''}}}"


class _Ends(NamedTuple):
    """The lines at both ends of a text, so that a long one is looked through once. They may be the same lines."""

    head: list[str]
    tail: list[str]
    total: int

    @classmethod
    def of(cls, text: str) -> _Ends:
        end = len(text) - text.endswith("\n")
        first = 0
        for _ in range(_END_LINES):
            following = text.find("\n", first, end)
            if following == -1:
                first = end + 1
                break
            first = following + 1
        last = end
        for _ in range(_END_LINES):
            last = text.rfind("\n", 0, last)
            if last == -1:
                break
        return cls(text[: first - 1].split("\n"), text[last + 1 : end].split("\n"), line_count(text))


def is_handle(name: str) -> bool:
    """Whether a field of that name is there to be passed on: a part of it would be of no use."""
    return name in _HANDLES or name.endswith(_HANDLE_ENDINGS)


def _flat(value: Mapping[str, Any] | Sequence[Any]) -> str | None:
    """The value as its own JSON, if that is short."""
    below = list(value.values()) if isinstance(value, Mapping) else value
    if len(below) > _FLAT_ELEMENTS:
        return None
    for each in below:
        if isinstance(each, Mapping | list | tuple) or (isinstance(each, str) and len(each) > _FLAT_CHARS):
            return None
    text = orjson.dumps(value).decode()
    return text if len(text) <= _FLAT_CHARS else None
