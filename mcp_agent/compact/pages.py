"""Pagination: reads one page of a kept list, text or artifact. Each page is a result of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import orjson

from mcp_agent.compact.cursors import Cursors, Origin, Place
from mcp_agent.compact.cutting import MOST_HANDLE, MOST_ITEMS, MOST_LINES, MOST_STRING
from mcp_agent.compact.fitting import (
    MOST_WIRE_BYTES,
    SLACK_BYTES,
    fitting_bytes,
    fitting_chars,
    room_beside,
    wire_bytes,
)
from mcp_agent.storage.artifact_store import ArtifactStore
from tools.files import disk, utf8
from tools.kit.errors import NotFound
from tools.kit.summaries import MOST_LABEL, Item, shorten

LIST_BYTES = 2_000
TEXT_BYTES = 3_000
_READ_BYTES = 16_384
# So much of a line is shown where it is costly to write, such as one of control characters.
_COSTLY_BYTES = 100

Object = dict[str, Any]


class Pages:
    """Reads pages for callers, of what is theirs. May be used from any thread."""

    def __init__(self, artifacts: ArtifactStore, cursors: Cursors) -> None:
        self._artifacts = artifacts
        self._cursors = cursors

    def at(self, place: Place, origin: Origin, item: Callable[[Any], Item]) -> Object:
        """The page that begins there. Raises NotFound if what it is of is not kept any more."""
        if not place.field:
            return self.of_bytes(place, origin)
        whole = self._object(place, origin.owner)
        value = whole[place.field]
        if isinstance(value, str):
            return self._of_text(value, place, origin)
        page = self._of_list(value, place, origin, item)
        # Where the tool itself goes on; with the last page it is needed.
        going_on = whole.get("next")
        return page if "nextCursor" in page or not isinstance(going_on, str) else {**page, "next": going_on}

    def of_bytes(self, place: Place, origin: Origin, end: int | None = None) -> Object:
        """Text of an artifact from a byte on, up to `end`: as much as a result holds, or as a short one has lines."""
        descriptor = os.open(self._artifacts.of(origin.owner).path_of(place.reference), disk.READ_FLAGS)
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
            stop = start + length
            total = f"the first {size:,}" if place.beyond else f"{size:,}"
            summary = f"bytes {start:,} to {stop:,} of {total} of {place.reference}"
            following = place._replace(offset=stop) if stop < size else None
            rest = {"content" if place.fills else "text": shown, "offset": start, "size": size}
            return {**_head(summary), **rest, **self.footer(place, following, origin)}

        if place.fills:
            length = fitting_bytes(data, room_beside(page("", 0)))
            return page(data[:length].decode("utf-8", "replace"), length)
        lines, length = _pieces(
            data, is_all=is_all, room=TEXT_BYTES - SLACK_BYTES - len(orjson.dumps(page(_log([]), 0)))
        )
        return page(_log(lines), length)

    def footer(self, place: Place, following: Place | None, origin: Origin) -> Object:
        """What a reader needs to go on: the whole, and if there is a next page the cursor and how to use it.

        After the last page of a part, it is how to get the rest.
        """
        found: Object = {"artifactRef": place.reference}
        if following is not None:
            cursor = self._cursors.write(following, origin)
            return {**found, "hasMore": True, "nextCursor": cursor, "hint": way_on(origin)}
        return {**found, "hasMore": True, "hint": place.beyond} if place.beyond else found

    def _of_text(self, text: str, place: Place, origin: Origin) -> Object:
        start = min(place.offset, len(text))

        def page(length: int) -> Object:
            stop = start + length
            total = f"the first {len(text):,}" if place.beyond else f"{len(text):,}"
            summary = f"characters {start:,} to {stop:,} of {total} of {place.field}"
            following = place._replace(offset=stop) if stop < len(text) else None
            shown = {place.field: text[start:stop]}
            return {**_head(summary), **shown, **self.footer(place, following, origin)}

        return page(fitting_chars(text[start : start + _READ_BYTES], room_beside(page(0))))

    def _of_list(self, entries: Sequence[Any], place: Place, origin: Origin, item: Callable[[Any], Item]) -> Object:
        start = min(place.offset, len(entries))
        shown = [
            item_object(item(entry), start + index)[0]
            for index, entry in enumerate(entries[start : start + MOST_ITEMS])
        ]

        def page() -> Object:
            stop = start + len(shown)
            following = place._replace(offset=stop) if stop < len(entries) else None
            total = f"the first {len(entries):,}" if place.beyond else f"{len(entries):,}"
            summary = f"{place.field} {start + 1:,} to {stop:,} of {total}"
            facts = {"count": len(entries), "items": shown, **total_count(len(entries), is_cut=bool(place.beyond))}
            return {**_head(summary), **facts, **self.footer(place, following, origin)}

        while len(shown) > 1 and len(orjson.dumps(page())) > LIST_BYTES:
            shown.pop()
        if shown and wire_bytes(page()) > MOST_WIRE_BYTES:
            shown = [{**shown[0], "id": f"#{start + 1}"}]
        return page()

    def _object(self, place: Place, owner: str) -> Object:
        value = orjson.loads(disk.read_small_file(self._artifacts.of(owner).path_of(place.reference)))
        if not isinstance(value, dict) or not isinstance(value.get(place.field), str | list):
            raise NotFound(f"{place.reference} has no {place.field} to go on with")
        return value


def way_on(origin: Origin) -> str:
    """The call that gives the next page, in words."""
    return f"Go on: {origin.tool} with cursor: nextCursor."


def item_object(item: Item, index: int) -> tuple[Object, bool]:
    """An element of a list within its limits, and whether something of it is left out. Its id is whole or a number."""
    is_shown = 0 < len(item.id) <= MOST_HANDLE
    is_cut = len(item.id) > MOST_HANDLE or len(item.label) > MOST_LABEL or not item.is_whole
    return {"id": item.id if is_shown else f"#{index + 1}", "label": shorten(item.label, MOST_LABEL)}, is_cut


def total_count(count: int, *, is_cut: bool) -> Object:
    """How many there are, or at least are."""
    return {"totalCount": count, "countsAreLowerBounds": True} if is_cut else {"totalCount": count}


def _head(summary: str) -> Object:
    return {"summary": summary, "success": True}


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
