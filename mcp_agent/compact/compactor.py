"""A result made short: a summary, what there is room for, and the way to all the rest.

    {"summary", "success", "count"?, "items"?, "totalCount"?, …the result's own fields…,
     "artifactRef"?, "hasMore"?, "nextCursor"?, "hint"?}

A result that is small enough by itself keeps all its fields and nothing is stored. Of any other the whole is kept as
an artifact first; if it cannot be kept, the result is as short, and says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from mcp_agent.compact.cursors import Cursors, Origin, Place
from mcp_agent.compact.cutting import MOST_ITEMS, MOST_LINES, MOST_STRING, STEPS, Cutter, Limits
from mcp_agent.compact.fitting import MOST_WIRE_BYTES, fitting_chars, room_beside
from mcp_agent.compact.pages import LIST_BYTES, TEXT_BYTES, Object, Pages, shown_item, way_on
from mcp_agent.compact.whole import Whole, encoded
from mcp_agent.storage.artifact_store import ArtifactStore
from tools.kit.errors import ToolError
from tools.kit.results import Block, Result
from tools.kit.spec import Tool
from tools.kit.summaries import MOST_SUMMARY, ends, shortened

STATUS_BYTES = 1_500
# Of a result with text that was asked for, all that is beside the text.
_BESIDE_BYTES = 1_500
# Categories of our own tools; any other is a mounted server's.
_STATUS_CATEGORIES = frozenset(("filesystem", "pruning", "artifacts"))
_OURS = ("summary", "success", "count", "items", "totalCount", "artifactRef", "hasMore", "nextCursor", "hint")
_NUMBERS = frozenset((int, float, bool))
_MOST_PARSED_CHARS = 4_000_000
# Enough of a text to find it by.
_SEEN_CHARS = 400


class Short(NamedTuple):
    """A short result as JSON, and how many bytes its whole has, where something was left out."""

    encoded: bytes
    whole_bytes: int | None = None


class Compactor:
    """Makes results short and goes on with them. May be used from any thread."""

    def __init__(self, artifacts: ArtifactStore, cursors: Cursors) -> None:
        self._artifacts = artifacts
        self._cursors = cursors
        self._pages = Pages(artifacts, cursors)

    def untouched(self, answer: Result | ToolError, tool: Tool | None) -> Short | None:
        """The result if nothing of it must be left out, else None. Never touches the disk."""
        if isinstance(answer, Result) and answer.stretch is not None:
            return None
        return plain(answer) or _Draft(answer, tool).untouched()

    def shortened(self, answer: Result | ToolError, tool: Tool | None, origin: Origin, domain: str) -> Short:
        """The result with what it has room for, after its whole was kept."""
        if isinstance(answer, Result) and answer.stretch is not None:
            reference, start, end = answer.stretch
            page = self._pages.of_bytes(Place(reference, "", start, fills=True), origin, end)
            return Short(orjson.dumps(page), end - start)
        draft = _Draft(answer, tool)
        untouched = draft.untouched()
        if untouched is not None:
            return untouched
        whole = draft.whole()
        kept = self._kept(draft, whole, origin.owner, domain)
        for limits in STEPS:
            fitted = self._fitted(draft, limits, whole, kept, origin)
            if fitted is not None:
                return Short(fitted, whole.size)
        return Short(orjson.dumps({**draft.head, **self._footer(kept, None, origin)}), whole.size)

    def continued(self, cursor: str, tool: Tool, origin: Origin) -> Short:
        """The page that a cursor leads to. Raises InvalidParams for a bad one, NotFound if its whole is gone."""
        place, continued = self._cursors.read(cursor, origin)
        return Short(orjson.dumps(self._pages.at(place, continued, tool.result_type.item)))

    def _kept(self, draft: _Draft, whole: Whole, owner: str, domain: str) -> _Kept:
        if draft.kept_as is not None:
            return _Kept(draft.kept_as)
        media_type = "text/plain" if draft.is_text else "application/json"
        try:
            return _Kept(self._artifacts.of(owner).keep(domain, whole.parts(), media_type=media_type))
        except OSError as error:
            return _Kept(None, (error.strerror or str(error)).lower())

    def _fitted(self, draft: _Draft, limits: Limits, whole: Whole, kept: _Kept, origin: Origin) -> bytes | None:
        """The result with these limits, or None if that is still too large."""
        shown = draft.cut(limits)
        if draft.asked is None:
            following = draft.following(kept.reference, whole)
            encoded = orjson.dumps({**shown, **self._footer(kept, following, origin)})
            return encoded if len(encoded) <= draft.budget else None
        # Text that was asked for takes all the room that the rest leaves.
        text, name = draft.text, draft.asked
        place = Place(kept.reference or "", name, len(text), fills=True)
        beside = {**shown, name: "", **self._footer(kept, place, origin)}
        if len(orjson.dumps(beside)) > _BESIDE_BYTES:
            return None
        length = fitting_chars(text[: draft.budget], room_beside(beside))
        footer = self._footer(kept, place._replace(offset=length) if length < len(text) else None, origin)
        return orjson.dumps({**shown, name: text[:length], **footer})

    def _footer(self, kept: _Kept, following: Place | None, origin: Origin) -> Object:
        if kept.reference is None:
            lost = (
                f"The rest is lost, because it could not be kept: {shortened(kept.problem, 120)}. Ask for less at once."
            )
            return {"hasMore": True, "hint": lost}
        way = f"{way_on(origin)} " if following is not None else ""
        ref = kept.reference
        hint = f'{way}All of it: artifact_read {{"ref": "{ref}"}}. Search it: fs_grep with base: the same ref.'
        return {**self._pages.footer(kept.reference, following, origin), "hint": hint}


class _Kept(NamedTuple):
    """Where the whole is, or why it is nowhere."""

    reference: str | None
    problem: str = ""


class _Draft:
    """A result taken apart: what is always said, its list, the text that was asked for, and the rest."""

    def __init__(self, answer: Result | ToolError, tool: Tool | None) -> None:
        self._answer = answer
        blocks = answer.blocks() if isinstance(answer, Result) else None
        self._value = answer.as_object() if blocks is None else _object_of(blocks)
        self.is_text = answer.is_text
        self.kept_as: str | None = None
        self.asked: str | None = None
        self.text = ""
        self._listed: str | None = None
        self._entries: Sequence[Any] = ()
        fields = dict(self._value)
        # An image is of no use in a text, and is not shown whatever its size.
        self._has_data = blocks is not None and "content" in fields and any("data" in block for block in blocks)
        if self._has_data:
            fields["content"] = [_without_data(block) for block in fields["content"]]
        cut = shortened if isinstance(answer, Result) else ends
        self.head: Object = {"summary": cut(answer.summary(), MOST_SUMMARY) or "done", "success": False}
        if isinstance(answer, Result):
            self.kept_as = answer.kept_as
            self.head["success"] = answer.succeeded
            if self.kept_as is not None:
                fields.pop("artifactRef", None)
            if answer.asked_text is not None:
                self.asked, self.text = answer.asked_text, fields.pop(answer.asked_text)
                self.is_text = False
            self._listed = answer.listed or _longest_list(fields)
            if self._listed is not None:
                self._entries = fields.pop(self._listed)
                self.head["count"] = len(self._entries)
        item = Result.item if tool is None else tool.result_type.item
        self._items = [item(entry) for entry in self._entries[: STEPS[0].items]]
        self._shown_items = 0
        self._cutter = Cutter({f"{name}_" if name in _OURS else name: value for name, value in fields.items()})
        self.budget = self._budget(tool)

    def untouched(self) -> Short | None:
        """The result with all that it says, if it fits like that."""
        shown = self.cut(STEPS[0])
        if self.is_cut:
            return None
        if self.asked is not None:
            beside = {**shown, self.asked: ""}
            if fitting_chars(self.text, room_beside(beside)) < len(self.text):
                return None
            return Short(orjson.dumps({**shown, self.asked: self.text}))
        encoded = orjson.dumps(shown)
        return Short(encoded) if len(encoded) <= self.budget else None

    def cut(self, limits: Limits) -> Object:
        """What is shown within these limits, without the way to the rest. `is_cut` says if something is left out."""
        fields = self._cutter.cut(limits)
        self.is_cut = self._cutter.is_cut or self._has_data
        if self._listed is None:
            return {**self.head, **fields}
        shown = [shown_item(item, index, limits.string) for index, item in enumerate(self._items[: limits.items])]
        self._shown_items = len(shown)
        listed: Object = {"items": [item for item, _ in shown]}
        self.is_cut = self.is_cut or any(is_cut for _, is_cut in shown)
        if len(shown) < len(self._entries):
            listed["totalCount"] = len(self._entries)
            self.is_cut = True
        return {**self.head, **listed, **fields}

    def following(self, reference: str | None, whole: Whole) -> Place | None:
        """Where the next page begins, after the last cut; None if there is none, or nowhere to read it from."""
        if reference is None:
            return None
        if self._listed is not None:
            is_all = self._shown_items >= len(self._entries)
            return None if is_all else Place(reference, self._listed, self._shown_items)
        return Place(reference, "", self._shown_bytes(whole) if self.kept_as is None and self.is_text else 0)

    def whole(self) -> Whole:
        """What the result would have been: its text, or its object."""
        if self.is_text and self.kept_as is None:
            return Whole.of_text(self._answer.render())
        return Whole.of_object(self._value, self._listed)

    def _shown_bytes(self, whole: Whole) -> int:
        """How far into the whole text a reader has seen all of it: to where the first text of the result is cut."""
        name = next((name for name in self._value if name in self._cutter.shown), None)
        if name is None:
            return 0
        start = whole.text.find(self._value[name][:_SEEN_CHARS])
        return 0 if start == -1 else len(encoded(whole.text[: start + self._cutter.shown[name]]))

    def _budget(self, tool: Tool | None) -> int:
        if self.asked is not None:
            return MOST_WIRE_BYTES
        if self._listed is not None:
            return LIST_BYTES
        is_status = tool is not None and tool.category in _STATUS_CATEGORIES and not self.is_text
        return STATUS_BYTES if is_status and isinstance(self._answer, Result) else TEXT_BYTES


def plain(answer: Result | ToolError) -> Short | None:
    """A few short fields and nothing in them to cut, as most small files and most changes are answered; else None."""
    if not isinstance(answer, Result) or answer.stretch is not None or answer.blocks() is not None:
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
    summary = shortened(answer.summary(), MOST_SUMMARY) or "done"
    encoded = orjson.dumps({"summary": summary, "success": answer.succeeded, **value})
    return Short(encoded) if len(encoded) <= STATUS_BYTES else None


def _longest_list(fields: Mapping[str, Any]) -> str | None:
    """The list that a result is about, where nobody says so: the longest that cannot be shown whole."""
    lists = {name: len(value) for name, value in fields.items() if isinstance(value, list | tuple)}
    name = max(lists, key=lambda name: lists[name], default=None)
    return name if name is not None and lists[name] > MOST_ITEMS else None


def _object_of(blocks: Sequence[Block]) -> Mapping[str, Any]:
    """A result of blocks as one object."""
    if len(blocks) == 1 and isinstance(text := blocks[0].get("text"), str):
        # Many servers write their objects as text.
        parsed = _parsed(text)
        return {"text": text} if parsed is None else parsed
    return {"content": list(blocks)}


def _without_data(block: Block) -> Block:
    data = block.get("data")
    if not isinstance(data, str):
        return block
    size = len(data) * 3 // 4 - data[-2:].count("=")
    return {**{name: value for name, value in block.items() if name != "data"}, "bytes": size}


def _parsed(text: str) -> dict[str, Any] | None:
    if not text.startswith("{") or len(text) > _MOST_PARSED_CHARS:
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
