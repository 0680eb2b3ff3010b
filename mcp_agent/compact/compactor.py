"""A result made short: a summary, what there is room for, and the way to all the rest.

    {"summary", "success", "count"?, "items"?, "totalCount"?, …the result's own fields…,
     "artifactRef"?, "hasMore"?, "nextCursor"?, "hint"?, "countsAreLowerBounds"?}

A result that is small enough by itself keeps all its fields and nothing is stored. Of any other the whole is kept as
an artifact first; if it cannot be kept, the result is as short, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from mcp_agent.compact.cursors import Cursors, Origin, Place
from mcp_agent.compact.cutting import MOST_ITEMS, MOST_LINES, MOST_STRING, STEPS, Cutter, Limits
from mcp_agent.compact.fitting import MOST_WIRE_BYTES, fitting_chars, room_beside, wire_bytes
from mcp_agent.compact.pages import LIST_BYTES, TEXT_BYTES, Object, Pages, item_object, total_count, way_on
from mcp_agent.compact.whole import Whole, encode
from mcp_agent.storage.artifact_store import ArtifactStore
from tools.kit.errors import ToolError
from tools.kit.results import Block, Result
from tools.kit.spec import Tool
from tools.kit.summaries import MOST_SUMMARY, shorten, shorten_middle

STATUS_BYTES = 1_500
# Of a result with text that was asked for, all that is beside the text.
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
_NUMBERS = frozenset((int, float, bool))
_MOST_PARSED_CHARS = 4_000_000
# Enough of a text to find it by.
_SEEN_CHARS = 400


class Short(NamedTuple):
    """A short result as JSON, and how many bytes its whole has, where something was left out."""

    encoded: bytes
    whole_bytes: int | None = None


class Compactor:
    """Shortens results, and reads their further pages. May be used from any thread."""

    def __init__(self, artifacts: ArtifactStore, cursors: Cursors) -> None:
        self._artifacts = artifacts
        self._cursors = cursors
        self._pages = Pages(artifacts, cursors)

    def fit_whole(self, answer: Result | ToolError, tool: Tool | None) -> Short | None:
        """The result with all that it says, if it fits like that, else None. Never touches the disk.

        A part of what there is counts as all if the result says how to get the rest.
        """
        if isinstance(answer, Result) and answer.artifact_range is not None:
            return None
        encoded = encode_plain(answer) or _Draft(answer, tool).fit(STEPS[0], None)
        return None if encoded is None else Short(encoded)

    def shorten(
        self,
        answer: Result | ToolError,
        tool: Tool | None,
        origin: Origin,
        domain: str,
        question: str | None = None,
    ) -> Short:
        """The result with what it has room for. If that is not all of it, its whole is kept first.

        With a `question`, that is what matches it best.
        """
        if isinstance(answer, Result) and answer.artifact_range is not None:
            reference, start, end = answer.artifact_range
            page = self._pages.of_bytes(Place(reference, "", start, fills=True), origin, end)
            return Short(orjson.dumps(page), end - start)
        if (encoded := encode_plain(answer)) is not None:
            return Short(encoded)
        draft = _Draft(answer, tool, question)
        if (encoded := draft.fit(STEPS[0], None)) is not None:
            return Short(encoded)
        whole = draft.whole()
        rest = self._keep(draft, whole, origin, domain)
        for limits in STEPS:
            if (encoded := draft.fit(limits, rest)) is not None:
                return Short(encoded, whole.size)
        # One element with a long id, say, is more than the budget allows.
        if (encoded := draft.fit(STEPS[-1], rest, most_bytes=MOST_WIRE_BYTES)) is not None:
            return Short(encoded, whole.size)
        return Short(orjson.dumps({**draft.head, **rest.footer(None)}), whole.size)

    def page(self, cursor: str, tool: Tool, origin: Origin) -> bytes:
        """The page that a cursor leads to. Raises InvalidParams for a bad one, NotFound if its whole is gone."""
        place, continued = self._cursors.read(cursor, origin)
        return orjson.dumps(self._pages.at(place, continued, tool.result_type.item))

    def _keep(self, draft: _Draft, whole: Whole, origin: Origin, domain: str) -> _Rest:
        reference, problem = draft.artifact_reference, ""
        if reference is None:
            media_type = "text/plain" if draft.is_text else "application/json"
            try:
                reference = self._artifacts.of(origin.owner).keep(domain, whole.parts(), media_type=media_type)
            except OSError as error:
                problem = (error.strerror or str(error)).lower()
        return _Rest(reference, problem, whole, self._pages, origin, draft.beyond)


class _Rest(NamedTuple):
    """The way to what was left out: where the whole is kept, or why it could not be kept."""

    reference: str | None
    problem: str
    whole: Whole
    pages: Pages
    origin: Origin
    # How to get what the whole itself does not have; empty if it has everything.
    beyond: str = ""

    def footer(self, following: Place | None) -> Object:
        """What a reader needs to go on at `following`."""
        if self.reference is None:
            why = shorten(self.problem, 120)
            lost = f"The rest is lost, because it could not be kept: {why}. Ask for less at once."
            return {"hasMore": True, "hint": lost}
        ref = self.reference
        what = "All of this answer" if self.beyond else "All of it"
        ways = [way_on(self.origin)] if following is not None else []
        ways.append(f'{what}: artifact_read {{"ref": "{ref}"}}. Search it: fs_grep with base: the same ref.')
        if self.beyond:
            ways.append(
                f"It is a part. {self.beyond}" if following is None else "It is a part; its last page says more."
            )
        place = Place(ref, "", 0, beyond=self.beyond)
        return {**self.pages.footer(place, following, self.origin), "hint": " ".join(ways)}


class _Draft:
    """A result taken apart: what is always said, its list, the text that was asked for, and the other fields."""

    def __init__(self, answer: Result | ToolError, tool: Tool | None, question: str | None = None) -> None:
        self._answer = answer
        self.beyond = answer.beyond if isinstance(answer, Result) else ""
        blocks = answer.blocks() if isinstance(answer, Result) else None
        self._value = answer.as_object() if blocks is None else _object_of(blocks)
        self.is_text = answer.is_text
        self.artifact_reference: str | None = None
        self._asked: str | None = None
        self._text = ""
        self._listed: str | None = None
        self._entries: Sequence[Any] = ()
        fields = dict(self._value)
        # An image is of no use in a text, and is not shown whatever its size.
        self._has_data = blocks is not None and "content" in fields and any("data" in block for block in blocks)
        if self._has_data:
            fields["content"] = [_without_data(block) for block in fields["content"]]
        cut = shorten if isinstance(answer, Result) else shorten_middle
        self.head: Object = {"summary": cut(answer.summary(), MOST_SUMMARY) or "done", "success": False}
        if isinstance(answer, Result):
            self.artifact_reference = answer.artifact_reference
            self.head["success"] = answer.succeeded
            if self.artifact_reference is not None:
                fields.pop("artifactRef", None)
            if answer.text_field is not None:
                self._asked, self._text = answer.text_field, fields.pop(answer.text_field)
                self.is_text = False
            self._listed = answer.list_field or _longest_list(fields)
            if self._listed is not None:
                self._entries = fields.pop(self._listed)
                self.head["count"] = len(self._entries)
        self._item = Result.item if tool is None else tool.result_type.item
        # Which elements are shown, the most important first.
        self._ranked: Sequence[int] = range(len(self._entries))
        self._is_ranked = False
        if question is not None and len(self._entries) > STEPS[0].items:
            self._rank(question, Result.line if tool is None else tool.result_type.line)
        self._shown_items = 0
        line_counts = answer.line_counts if isinstance(answer, Result) else {}
        self._cutter = Cutter(
            {f"{name}_" if name in _OURS else name: value for name, value in fields.items()}, question, line_counts
        )
        # Counts are true where the result has everything, or knows how much there is of a text that it cut.
        self._counts_are_true = not (isinstance(answer, Result) and answer.is_cut) or bool(line_counts)
        self._budget = self._most_bytes(tool)

    def fit(self, limits: Limits, rest: _Rest | None, most_bytes: int | None = None) -> bytes | None:
        """The result within these limits, with the way to the rest; None if that is still too large.

        Without `rest` it is all or nothing: None, too, if something would be left out. `most_bytes` is on the wire,
        instead of the budget that results of this kind have.
        """
        shown, is_cut = self._cut(limits)
        if rest is None and is_cut:
            return None
        if self._asked is None:
            footer = {} if rest is None else rest.footer(self._following(rest))
            if rest is None and self.beyond:
                footer = {"hasMore": True, "hint": self.beyond}
            written = {**shown, **footer}
            encoded = orjson.dumps(written)
            fits = len(encoded) <= self._budget if most_bytes is None else wire_bytes(written) <= most_bytes
            return encoded if fits else None
        # Text that was asked for takes all the room that the other fields and the footer leave.
        name, text = self._asked, self._text
        if rest is None:
            footer = {"hasMore": True, "hint": self.beyond} if self.beyond else {}
            is_all = fitting_chars(text, room_beside({**shown, name: "", **footer})) == len(text)
            return orjson.dumps({**shown, name: text, **footer}) if is_all else None
        place = Place(rest.reference or "", name, len(text), fills=True, beyond=self.beyond)
        beside = {**shown, name: "", **rest.footer(place)}
        if len(orjson.dumps(beside)) > _BESIDE_BYTES:
            return None
        length = fitting_chars(text[: self._budget], room_beside(beside))
        footer = rest.footer(place._replace(offset=length) if length < len(text) else None)
        return orjson.dumps({**shown, name: text[:length], **footer})

    def whole(self) -> Whole:
        """What the result would have been: its text, or its object."""
        if self.is_text and self.artifact_reference is None:
            return Whole.of_text(self._answer.render())
        return Whole.of_object(self._value, self._listed)

    def _cut(self, limits: Limits) -> tuple[Object, bool]:
        """What is shown within these limits, without the way to the rest, and whether something is left out."""
        fields = self._cutter.cut(limits)
        is_cut = self._cutter.is_cut or self._has_data
        if self._listed is None:
            bounds = {} if self._counts_are_true or not self._cutter.is_cut else {"countsAreLowerBounds": True}
            return {**self.head, **fields, **bounds}, is_cut
        chosen = sorted(self._ranked[: limits.items])
        items = [item_object(self._item(self._entries[index]), index) for index in chosen]
        self._shown_items = len(items)
        listed: Object = {"items": [item for item, _ in items]}
        if len(items) < len(self._entries) or not self._counts_are_true:
            listed |= total_count(len(self._entries), is_cut=not self._counts_are_true)
            is_cut = is_cut or len(items) < len(self._entries)
        return {**self.head, **listed, **fields}, is_cut or any(is_item_cut for _, is_item_cut in items)

    def _following(self, rest: _Rest) -> Place | None:
        """Where the next page begins, after the last cut; None if there is none, or nowhere to read it from."""
        if rest.reference is None:
            return None
        if self._listed is not None:
            is_all = self._shown_items >= len(self._entries)
            # The best of a list are anywhere in it, so its pages begin at its beginning.
            offset = 0 if self._is_ranked else self._shown_items
            return None if is_all else Place(rest.reference, self._listed, offset, beyond=self.beyond)
        offset = self._bytes_shown(rest.whole) if self.artifact_reference is None and self.is_text else 0
        return Place(rest.reference, "", offset, beyond=self.beyond)

    def _rank(self, question: str, line: Callable[[Any], str]) -> None:
        from mcp_agent.compact.best_lines import rank_lines

        ranked = rank_lines([line(entry).replace("\n", " ") for entry in self._entries], question)
        if ranked:
            matched = set(ranked)
            self._ranked = [*ranked, *(index for index in range(len(self._entries)) if index not in matched)]
            self._is_ranked = True

    def _bytes_shown(self, whole: Whole) -> int:
        """How many bytes of the whole text the reader has seen without a gap: up to the first cut."""
        name = next((name for name in self._value if name in self._cutter.shown), None)
        if name is None:
            return 0
        start = whole.text.find(self._value[name][:_SEEN_CHARS])
        return 0 if start == -1 else len(encode(whole.text[: start + self._cutter.shown[name]]))

    def _most_bytes(self, tool: Tool | None) -> int:
        if self._asked is not None:
            return MOST_WIRE_BYTES
        if self._listed is not None:
            return LIST_BYTES
        # The result of a write is a status: it says what was done, and has no content that was asked for.
        is_status = tool is not None and tool.effect == "write" and not self.is_text
        return STATUS_BYTES if is_status and isinstance(self._answer, Result) else TEXT_BYTES


def encode_plain(answer: Result | ToolError) -> bytes | None:
    """The result as JSON, if it has a few short fields and nothing to cut, as most small results do; else None.

    A fast path: it takes a tenth of the time of a draft.
    """
    if not isinstance(answer, Result) or answer.artifact_range is not None or answer.blocks() is not None:
        return None
    value = answer.as_object()
    for each in value.values():
        kind = type(each)
        if kind is str:
            if len(each) > MOST_STRING or each.count("\n") >= MOST_LINES:
                return None
        elif kind not in _NUMBERS:
            return None
    if len(value) > STEPS[0].keys or not value.keys().isdisjoint(_OURS):
        return None
    summary = shorten(answer.summary(), MOST_SUMMARY) or "done"
    written = orjson.dumps({"summary": summary, "success": answer.succeeded, **value})
    return written if len(written) <= STATUS_BYTES else None


def _longest_list(fields: Mapping[str, Any]) -> str | None:
    """The list that a result is about, where nobody says so: the longest that cannot be shown whole."""
    lists = {name: len(value) for name, value in fields.items() if isinstance(value, list | tuple)}
    name = max(lists, key=lambda name: lists[name], default=None)
    return name if name is not None and lists[name] > MOST_ITEMS else None


def _object_of(blocks: Sequence[Block]) -> Mapping[str, Any]:
    """A result of blocks as one object."""
    if len(blocks) == 1 and isinstance(text := blocks[0].get("text"), str):
        # Many servers write their objects as text.
        parsed = _parse(text)
        return {"text": text} if parsed is None else parsed
    return {"content": list(blocks)}


def _without_data(block: Block) -> Block:
    data = block.get("data")
    if not isinstance(data, str):
        return block
    size = len(data) * 3 // 4 - data[-2:].count("=")
    return {**{name: value for name, value in block.items() if name != "data"}, "bytes": size}


def _parse(text: str) -> dict[str, Any] | None:
    if not text.startswith("{") or len(text) > _MOST_PARSED_CHARS:
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
