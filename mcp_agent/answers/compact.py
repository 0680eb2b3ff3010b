"""A short result: a summary, the fields that fit, and how to get the rest.

    {"summary", "success", "count"?, "items"?, "totalCount"?, …the result's own fields…,
     "artifactRef"?, "hasMore"?, "nextCursor"?, "hint"?, "countsAreLowerBounds"?}

It has at most 8,000 bytes and four levels: few elements of a list, short texts, and only both ends of long ones. The
root is level 1, and a text or a number is one level below what holds it. What is deeper is described in a few words.
If that is still too much, all of it is shown at a smaller scale: the largest that fits. The same value is always cut in
the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from msgspec.structs import replace

from mcp_agent.answers.budget import Budget
from mcp_agent.answers.focus import group_runs, rank_lines, write_line
from mcp_agent.answers.pages import (
    ITEMS,
    LIST_BYTES,
    MOST_HANDLE,
    MOST_ITEMS,
    MOST_LINES,
    MOST_STRING,
    MOST_WIRE_BYTES,
    TEXT_BYTES,
    Object,
    Place,
    fitting_chars,
    item_object,
    room_beside,
    shorten,
    total_count,
    wire_bytes,
)
from mcp_agent.answers.reply import ToolReply, largest, parse_json
from tools.kit.errors import ToolError
from tools.kit.results import Block, Result, line_count, quantity

STATUS_BYTES = 1_500
_MOST_SUMMARY = 100
# All fields beside the text, in a result with text that was asked for.
_BESIDE_BYTES = 1_500
_OURS = (
    "summary",
    "success",
    "count",
    "items",
    "totalCount",
    "countsAreLowerBounds",
    "artifactRef",
    "hasMore",
    "nextCursor",
    "hint",
)
# Enough of a text to find it by.
_SEEN_CHARS = 400
MOST_DEPTH = 4
# A text of more lines than a result may have is a log, and shown by its ends, at any scale.
_END_LINES = MOST_LINES // 2
# The scale at which the limits are those of the contract; at 1 there is next to nothing.
FULL_SCALE = 50
_MOST_KEYS = 40
_KEY_CHARS = 100
# A value below the deepest level is written as JSON where that is about as short as a description.
_FLAT_ELEMENTS = 8
_FLAT_CHARS = 120
_HANDLES = ("id", "next", "path", "uri", "url", "ref", "cursor")
_HANDLE_ENDINGS = ("_id", "_path", "Id", "Ref", "Cursor")

# Makes the fields that say how to get the rest, from where the next page begins; None if there is no next page.
Footer = Callable[[Place | None], Object]


class Short:
    """A reply taken apart: what is always said, its list, the text that was asked for, and the other fields."""

    def __init__(self, reply: ToolReply, value: Object, budget: Budget) -> None:
        self._reply, self._body = reply, reply.body
        blocks = reply.blocks()
        self.value = _object_of(blocks) if blocks else value
        self._text = ""
        self._entries: Sequence[Any] = ()
        fields = dict(self.value)
        # An image is of no use in a text, and is not shown whatever its size.
        self._has_data = "content" in fields and any("data" in block for block in blocks)
        if self._has_data:
            fields["content"] = [_without_data(block) for block in fields["content"]]
        if reply.facts.artifact is not None:
            fields.pop("artifactRef", None)
        is_error = isinstance(reply.answer, ToolError)
        brief = shorten_middle if is_error else shorten
        summary = brief(reply.summary(), _MOST_SUMMARY) or "done"
        succeeded = reply.facts.succeeded
        if isinstance(fields.get("success"), bool):
            succeeded = fields.pop("success") and succeeded
        self.head: Object = {"summary": summary, "success": succeeded}
        if self._body.is_asked:
            self._text = fields.pop(self._body.field)
        self.list_field = None
        if not is_error:
            self.list_field = self._body.field if self._body.kind == "list" else _longest_list(fields)
        if self.list_field is not None:
            self._entries = fields.pop(self.list_field)
            self.head["count"] = len(self._entries)
        self._item = Result.item if budget.tool is None or is_error else budget.tool.result_type.item
        # Which elements are shown, the most important first.
        self._ranked: Sequence[int] = range(len(self._entries))
        if budget.question is not None and len(self._entries) > MOST_ITEMS and isinstance(reply.answer, Result):
            self._rank(budget.question, reply.answer)
        self._shown_items = 0
        counts = self._body.line_counts
        self._cutter = Cutter(
            {f"{name}_" if name in _OURS else name: value for name, value in fields.items()}, budget.question, counts
        )
        # Counts are true where the result has everything, or knows how much there is of a text that it cut.
        self._counts_are_true = not reply.facts.rest or bool(counts)
        self._budget = self._most_bytes(budget, is_error=is_error)

    def whole(self) -> bytes | None:
        """The result with all that it says; None if that does not fit.

        A part counts as all if the result says how to get the rest.
        """
        shown, is_cut = self._cut(FULL_SCALE)
        rest = self._reply.facts.rest
        footer = {"hasMore": True, "hint": rest} if rest else {}
        if is_cut:
            return None
        if self._body.is_asked:
            name, text = self._body.field, self._text
            is_all = fitting_chars(text, room_beside({**shown, name: "", **footer})) == len(text)
            return orjson.dumps({**shown, name: text, **footer}) if is_all else None
        encoded = orjson.dumps({**shown, **footer})
        return encoded if len(encoded) <= self._budget else None

    def part(self, place: Place, footer: Footer, whole_text: str) -> bytes:
        """The result with what it has room for. `place` is the beginning of the stored whole, if it is stored."""
        found = largest(lambda scale: self._fit(scale, place, footer, whole_text, self._budget), FULL_SCALE)
        # One element with a long id, say, is more than the budget allows.
        found = found or self._fit(1, place, footer, whole_text, None)
        return found or orjson.dumps({**self.head, **footer(None)})

    def _fit(self, scale: int, place: Place, footer: Footer, whole_text: str, most_bytes: int | None) -> bytes | None:
        """The part at this scale; None if it is too large for the budget, or without one for the wire."""
        shown, _ = self._cut(scale)
        if self._body.is_asked:
            # It takes all the room that the other fields and the footer leave.
            name, text = self._body.field, self._text
            place = replace(place, field=name, fills=True)
            beside = {**shown, name: "", **footer(replace(place, offset=len(text)))}
            if len(orjson.dumps(beside)) > _BESIDE_BYTES:
                return None
            length = fitting_chars(text[:MOST_WIRE_BYTES], room_beside(beside))
            following = replace(place, offset=length) if length < len(text) else None
            return orjson.dumps({**shown, name: text[:length], **footer(following)})
        written = {**shown, **footer(self._following(place, whole_text))}
        encoded = orjson.dumps(written)
        fits = wire_bytes(written) <= MOST_WIRE_BYTES if most_bytes is None else len(encoded) <= most_bytes
        return encoded if fits else None

    def _cut(self, scale: int) -> tuple[Object, bool]:
        """What is shown at this scale, without the way to the rest, and whether something is left out."""
        fields = self._cutter.cut(scale)
        is_cut = self._cutter.is_cut or self._has_data
        if self.list_field is None:
            bounds = {} if self._counts_are_true or not self._cutter.is_cut else {"countsAreLowerBounds": True}
            return {**self.head, **fields, **bounds}, is_cut
        chosen = sorted(self._ranked[: scaled(MOST_ITEMS, scale)])
        items = [item_object(self._item(self._entries[index]), index) for index in chosen]
        self._shown_items = len(items)
        listed: Object = {"items": [item for item, _ in items]}
        if len(items) < len(self._entries) or not self._counts_are_true:
            listed |= total_count(len(self._entries), is_cut=not self._counts_are_true)
            is_cut = is_cut or len(items) < len(self._entries)
        return {**self.head, **listed, **fields}, is_cut or any(is_item_cut for _, is_item_cut in items)

    def _following(self, place: Place, whole_text: str) -> Place | None:
        """Where the next page begins, after the last cut; None if there is none."""
        if self.list_field is None:
            return replace(place, offset=self._bytes_shown(whole_text))
        if self._shown_items >= len(self._entries):
            return None
        # The best of a list are anywhere in it, so its pages begin at its beginning.
        offset = self._shown_items if isinstance(self._ranked, range) else 0
        return replace(place, field=self.list_field, offset=offset)

    def _rank(self, question: str, result: Result) -> None:
        ranked = rank_lines([write_line(self._body, result, entry) for entry in self._entries], question)
        if ranked:
            matched = set(ranked)
            self._ranked = [*ranked, *(index for index in range(len(self._entries)) if index not in matched)]

    def _bytes_shown(self, whole_text: str) -> int:
        """How many bytes of the whole text the reader has seen without a gap: up to the first cut."""
        name = next((name for name in self.value if name in self._cutter.shown), None)
        start = -1 if name is None else whole_text.find(self.value[name][:_SEEN_CHARS])
        if name is None or start == -1:
            return 0
        return len(whole_text[: start + self._cutter.shown[name]].encode("utf-8", "replace"))

    def _most_bytes(self, budget: Budget, *, is_error: bool) -> int:
        if self.list_field is not None:
            return LIST_BYTES
        # The result of a write is a status: it says what was done, and has no content that was asked for.
        is_status = budget.tool is not None and budget.tool.effect == "write" and not is_error
        return STATUS_BYTES if is_status and not self._reply.is_text else TEXT_BYTES


def scaled(most: int, scale: int) -> int:
    """What is left of a limit at this scale: at least one."""
    return -(-most * scale // FULL_SCALE)


def shorten_middle(text: str, most: int) -> str:
    """As `shorten`, but cuts the middle: the reason of an error often stands after a long path."""
    line = " ".join(text[:2_000].split())
    half = (most - 3) // 2
    return line if len(line) <= most else f"{line[:half]}...{line[len(line) - most + 3 + half :]}"


def _longest_list(fields: Mapping[str, Any]) -> str | None:
    """The list that a result is about, where nobody says so: `items`, or the longest that cannot be shown whole."""
    if isinstance(fields.get(ITEMS), list):
        return ITEMS
    lists = {name: len(value) for name, value in fields.items() if isinstance(value, list | tuple)}
    name = max(lists, key=lambda name: lists[name], default=None)
    return name if name is not None and lists[name] > MOST_ITEMS else None


def _object_of(blocks: Sequence[Block]) -> Object:
    """A result of blocks as one object."""
    if len(blocks) == 1 and isinstance(text := blocks[0].get("text"), str):
        # Many servers write their objects as text.
        parsed = parse_json(text)
        return {"text": text} if parsed is None else {ITEMS: parsed} if isinstance(parsed, list) else parsed
    return {"content": list(blocks)}


def _without_data(block: Block) -> Block:
    data = block.get("data")
    if not isinstance(data, str):
        return block
    size = len(data) * 3 // 4 - data[-2:].count("=")
    return {**{name: value for name, value in block.items() if name != "data"}, "bytes": size}


class Cutter:
    """Cuts one value, as often as need be. `is_cut` says whether anything was left out the last time.

    `shown` has, by the name of its field, how many characters are shown from the start of each text that was cut.
    With a `question`, a long text is shown by the lines that match it best. `line_counts` has the real line counts of
    truncated fields.
    """

    def __init__(
        self, fields: Mapping[str, Any], question: str | None = None, line_counts: Mapping[str, int] | None = None
    ) -> None:
        self._fields = fields
        self._question = question
        self._line_counts = line_counts or {}
        self._ends: dict[int, _Ends] = {}
        self._ranked: dict[int, tuple[list[str], list[int]]] = {}
        self._most_chars = self._most_items = self._most_keys = 0
        self.is_cut = False
        self.shown: dict[str, int] = {}

    def cut(self, scale: int) -> dict[str, Any]:
        limits = (MOST_STRING, MOST_ITEMS, _MOST_KEYS)
        self._most_chars, self._most_items, self._most_keys = (scaled(most, scale) for most in limits)
        self.is_cut, self.shown = False, {}
        return self._mapping(self._fields, 1)

    def _value(self, value: Any, level: int, name: str = "", *, is_field: bool = False) -> Any:
        """`name` is the key that the value has, if any; `is_field`: it is a field of the result itself."""
        if isinstance(value, str):
            return self._handle(value) if _is_handle(name) else self._text(value, level, name * is_field)
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
        # The top-level fields stay at any scale: some are for a later call.
        most = _MOST_KEYS if level == 1 else self._most_keys
        for key, value in values.items():
            if len(shown) == most:
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
        most = self._most_items
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
        most = self._most_chars
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
        """The first and the last lines, each cut separately, and the number of lines between them."""
        ends = self._ends.get(id(text))
        if ends is None:
            ends = self._ends[id(text)] = _Ends.of(text)
        total = max(ends.total, self._line_counts.get(name, 0))
        if name and total > MOST_LINES and (best := self._best(text)):
            self.is_cut = True
            self.shown[name] = 0
            shown_lines = sum(len(run) for run in best)
            return {
                "best": [self._run(run) for run in best],
                "omittedLines": total - shown_lines,
                "totalCount": total,
                "hasMore": True,
            }
        head = ends.head
        left = total - len(head)
        tail = ends.tail[-min(_END_LINES, left) :] if left else []
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
        known = self._ranked.get(id(text))
        if known is None:
            lines = text.split("\n")
            known = self._ranked[id(text)] = lines, rank_lines(lines, self._question)
        lines, ranked = known
        return [[lines[index] for index in run] for run in group_runs(ranked, MOST_LINES, self._most_items)]

    def _run(self, lines: list[str]) -> str:
        text = "\n".join(self._line(line)[0] for line in lines)
        most = self._most_chars
        return text if len(text) <= most else f"{text[: most - 3]}..."

    def _line(self, line: str) -> tuple[str, bool]:
        most = self._most_chars
        return (line, False) if len(line) <= most else (f"{line[: most - 3]}...", True)

    def _describe(self, value: Mapping[str, Any] | Sequence[Any]) -> str:
        flat = _flat(value)
        if flat is not None and len(flat) <= self._most_chars:
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


def _is_handle(name: str) -> bool:
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
