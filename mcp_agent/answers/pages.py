"""Pagination: where a short result goes on, and one page of what was kept of it. Each page is a result of its own.

A cursor is opaque to callers and not signed: what it leads to is an artifact, and the store gives that to its owner
alone.
"""

from __future__ import annotations

import base64
import hashlib
import os
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import orjson
from msgspec import Meta, Struct
from msgspec.structs import replace

from mcp_agent.storage.artifact_store import ArtifactStore
from tools.files import disk, utf8
from tools.kit.errors import InvalidParams
from tools.kit.results import Item, line_cut
from tools.kit.spec import CURSOR, Tool

# What a short result may have: bytes on the wire, elements of a list, characters of a text, and lines of one.
MOST_WIRE_BYTES = 8_000
# The name of a list that is no field: all of a result.
ITEMS = "items"
MOST_ITEMS = 10
MOST_STRING = 500
MOST_LINES = 20
LIST_BYTES = 2_000
TEXT_BYTES = 3_000
MOST_LABEL = 50
# The most characters of a value for a later call, such as an id: it is shown whole or not at all.
MOST_HANDLE = 1_500
# The bytes around the text block of a `tools/call` result, with room for a longer version number.
_ENVELOPE_BYTES = 300
# A cursor is a little longer the farther on it leads.
_SLACK_BYTES = 40
_READ_BYTES = 16_384
# The most characters of a line that takes many bytes as JSON, such as one of control characters.
_COSTLY_BYTES = 100
_PREFIX = "c1_"
_MOST_CHARS = 1_000
_DIGEST_CHARS = 12

Object = dict[str, Any]


class Place(Struct, frozen=True, array_like=True):
    """A place in an artifact, and the call that goes on there: its tool, and a short hash of its arguments.

    The place is a byte of the artifact, or an element or a character of one field of the object that it is. `fills` is
    for text that was asked for by name and place: a page of it is as large as a result can be. `rest` says how to get
    what the artifact itself does not have, and is empty if it has everything.
    """

    tool: str
    digest: str
    reference: str = ""
    field: str = ""
    offset: Annotated[int, Meta(ge=0)] = 0
    fills: bool = False
    rest: str = ""


def digest_of(arguments: Mapping[str, Any]) -> str:
    """The same however the arguments are ordered, and "" if there are none but a cursor."""
    given = {key: value for key, value in arguments.items() if key != CURSOR and value is not None}
    written = orjson.dumps(given, option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(written).hexdigest()[:_DIGEST_CHARS] if given else ""


def is_cursor(text: str) -> bool:
    """Whether a text looks like one of ours, good or not."""
    return text.startswith(_PREFIX) and len(text) <= _MOST_CHARS


class Pages:
    """Reads pages for callers, of what is theirs. May be used from any thread.

    `box` is the name of this machine in a fleet: it ends every cursor, so that a call with one finds it.
    """

    def __init__(self, store: ArtifactStore, box: str = "") -> None:
        self._store = store
        self._ending = f".{box}" if box else ""

    def write_cursor(self, place: Place) -> str:
        """The same place of the same call has the same cursor."""
        return _PREFIX + base64.urlsafe_b64encode(msgspec.json.encode(place)).decode().rstrip("=") + self._ending

    def read_cursor(self, cursor: str, tool: Tool, arguments: Mapping[str, Any]) -> Place:
        """The place in a cursor. Raises InvalidParams if it is none of ours, or continues another call.

        The call may repeat the arguments of the call that it continues, or have none but the cursor.
        """
        encoded = cursor.removeprefix(_PREFIX).removesuffix(self._ending)
        try:
            data = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
            place = msgspec.json.decode(data, type=Place) if is_cursor(cursor) else None
        except ValueError:
            place = None
        if place is None or place.tool != tool.name:
            raise _unknown_cursor(cursor, tool.name)
        if digest_of(arguments) not in ("", place.digest):
            raise _invalid_cursor(
                "cursor goes on with a call that had other arguments: repeat those, or pass cursor alone"
            )
        return place

    def at(self, cursor: str, tool: Tool, arguments: Mapping[str, Any], owner: str) -> Object:
        """The page that a cursor leads to. Raises InvalidParams for a bad one, NotFound if its whole is gone."""
        place = self.read_cursor(cursor, tool, arguments)
        path = self._store.of(owner).path_of(place.reference)
        if not place.field:
            return self.of_bytes(place, owner)
        try:
            whole = orjson.loads(disk.read_small_file(path))
            value = whole if isinstance(whole, list) and place.field == ITEMS else whole[place.field]
            if isinstance(value, str):
                return self._of_text(value, place)
            page = self._of_list(value, place, tool.result_type.item)
        except (ValueError, LookupError, TypeError, AttributeError):
            # Not what a cursor of ours leads to.
            raise _unknown_cursor(cursor, tool.name) from None
        # How the tool itself goes on: the last page says so.
        following = whole.get("next") if isinstance(whole, dict) else None
        return page if "nextCursor" in page or not isinstance(following, str) else {**page, "next": following}

    def of_bytes(self, place: Place, owner: str, end: int | None = None) -> Object:
        """Text of an artifact from a byte on, up to `end`: as much as a result holds, or as a short one has lines."""
        descriptor = os.open(self._store.of(owner).path_of(place.reference), disk.READ_FLAGS)
        try:
            size = os.fstat(descriptor).st_size
            start = min(place.offset, size)
            data = os.pread(
                descriptor, min(_READ_BYTES, max((size if end is None else min(end, size)) - start, 0)), start
            )
        finally:
            os.close(descriptor)
        is_all = start + len(data) >= size

        def page(shown: Any, length: int) -> Object:
            rest = {"content" if place.fills else "text": shown, "offset": start, "size": size}
            where = f"bytes {start:,} to {start + length:,} of {_total(size, place)} of {place.reference}"
            return self._page(where, rest, place, start + length, size)

        if place.fills:
            length = fitting_bytes(data, room_beside(page("", 0)))
            return page(data[:length].decode("utf-8", "replace"), length)
        room = TEXT_BYTES - _SLACK_BYTES - len(orjson.dumps(page(_log([]), 0)))
        lines, length = _pieces(data, is_all=is_all, room=room)
        return page(_log(lines), length)

    def footer(self, place: Place, following: Place | None) -> Object:
        """What a reader needs to go on: the whole, and if there is a next page the cursor and how to use it.

        After the last page of a part, it is how to get the rest.
        """
        found: Object = {"artifactRef": place.reference}
        if following is not None:
            return {
                **found,
                "hasMore": True,
                "nextCursor": self.write_cursor(following),
                "hint": next_page_hint(place.tool),
            }
        return {**found, "hasMore": True, "hint": place.rest} if place.rest else found

    def _of_text(self, text: str, place: Place) -> Object:
        start = min(place.offset, len(text))

        def page(length: int) -> Object:
            stop = start + length
            where = f"characters {start:,} to {stop:,} of {_total(len(text), place)} of {place.field}"
            return self._page(where, {place.field: text[start:stop]}, place, stop, len(text))

        return page(fitting_chars(text[start : start + _READ_BYTES], room_beside(page(0))))

    def _of_list(self, entries: Sequence[Any], place: Place, item: Callable[[Any], Item]) -> Object:
        start, count = min(place.offset, len(entries)), len(entries)
        shown = [
            item_object(item(entry), start + at)[0] for at, entry in enumerate(entries[start : start + MOST_ITEMS])
        ]

        def page() -> Object:
            stop = start + len(shown)
            facts = {"count": count, "items": shown, **total_count(count, is_cut=bool(place.rest))}
            where = f"{place.field} {start + 1:,} to {stop:,} of {_total(count, place)}"
            return self._page(where, facts, place, stop, count)

        while len(shown) > 1 and len(orjson.dumps(page())) > LIST_BYTES:
            shown.pop()
        if shown and wire_bytes(page()) > MOST_WIRE_BYTES:
            shown = [{**shown[0], "id": f"#{start + 1}"}]
        return page()

    def _page(self, summary: str, shown: Object, place: Place, stop: int, end: int) -> Object:
        following = replace(place, offset=stop) if stop < end else None
        return {"summary": summary, "success": True, **shown, **self.footer(place, following)}


def next_page_hint(tool: str) -> str:
    """The call that gives the next page, in words."""
    return f"Go on: {tool} with cursor: nextCursor."


def item_object(item: Item, index: int) -> tuple[Object, bool]:
    """An element of a list within its limits, and whether something of it is left out. Its id is whole or a number."""
    is_shown = 0 < len(item.id) <= MOST_HANDLE
    is_cut = len(item.id) > MOST_HANDLE or len(item.label) > MOST_LABEL or not item.is_whole
    shown = {"id": item.id if is_shown else f"#{index + 1}", "label": shorten(item.label, MOST_LABEL)}
    return {**shown, "severity": item.severity} if item.severity else shown, is_cut


def total_count(count: int, *, is_cut: bool) -> Object:
    """How many there are, or at least are."""
    return {"totalCount": count, "countsAreLowerBounds": True} if is_cut else {"totalCount": count}


def shorten(text: str, most: int) -> str:
    """`text` on one line and within `most` characters, with dots where it was cut."""
    line = " ".join(text[: most * 4].split())
    return line if len(line) <= most and len(text) <= most * 4 else f"{line[: most - 3]}..."


def wire_bytes(value: Any) -> int:
    """How long an object is as JSON in a text block: its quotes and backslashes are escaped once more."""
    return _ENVELOPE_BYTES + len(orjson.dumps(orjson.dumps(value).decode()))


def room_beside(value: Any) -> int:
    """How many bytes of the wire are left for a text in `value`, which has it empty."""
    return MOST_WIRE_BYTES - wire_bytes(value) - _SLACK_BYTES


def fitting_chars(text: str, room: int) -> int:
    """How many characters from the start of `text` take no more than `room`: whole lines, where that is enough."""
    sizes = range(1, min(len(text), max(room, 0)) + 1)
    return line_cut(text, bisect_right(sizes, room, key=lambda size: _cost(text[:size])))


def fitting_bytes(data: bytes, room: int) -> int:
    """As `fitting_chars`, of bytes that are read as UTF-8; never inside a character."""
    sizes = range(1, min(len(data), max(room, 0)) + 1)
    size = bisect_right(
        sizes, room, key=lambda size: _cost(data[: utf8.boundary(data, size)].decode("utf-8", "replace"))
    )
    return line_cut(data, utf8.boundary(data, size))


def _cost(text: str) -> int:
    return len(orjson.dumps(orjson.dumps(text).decode())) - len(r'"\"\""')


def _total(count: int, place: Place) -> str:
    return f"the first {count:,}" if place.rest else f"{count:,}"


def _pieces(data: bytes, *, is_all: bool, room: int) -> tuple[list[str], int]:
    """The next lines of a text and how many bytes they take; a line that is too long comes in pieces."""
    lines: list[str] = []
    at = 0
    while at < len(data) and len(lines) < MOST_LINES:
        for most in (MOST_STRING, _COSTLY_BYTES):
            newline = data.find(b"\n", at, at + most)
            end = newline if newline != -1 else at + utf8.boundary(data[at : at + most + 1], most)
            line = data[at:end].decode("utf-8", "replace")
            size = len(orjson.dumps(line)) + 1
            if size <= room:
                break
        if lines and (size > room or (end == len(data) and newline == -1 and not is_all)):
            break
        room -= size
        lines.append(line)
        at = end if newline == -1 else end + 1
    return lines, at


def _log(lines: list[str]) -> Object:
    half = MOST_LINES // 2
    return {"head": lines[:half], "omittedLines": 0, "tail": lines[half:], "totalCount": len(lines)}


def _unknown_cursor(cursor: str, tool: str) -> InvalidParams:
    return _invalid_cursor(
        f"cursor {cursor[:40]!r} is not one that {tool} gave you: pass the nextCursor of an earlier answer as it was, "
        "or leave it out to begin again"
    )


def _invalid_cursor(message: str) -> InvalidParams:
    return InvalidParams(message, issues=[{"path": "arguments.cursor", "code": "custom", "message": "custom"}])
