"""How much fits: the size of a result on the wire, and the longest beginning of a text that a result has room for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import orjson

from tools.files import utf8
from tools.kit.summaries import line_cut

# A result of `tools/call` as it is written, with all that MCP puts around the one text block.
MOST_WIRE_BYTES = 8_000
# What both eras put around it, and some room for a longer version number.
_ENVELOPE_BYTES = 300
# A cursor is a little longer the farther on it leads.
SLACK_BYTES = 40


def wire_bytes(value: Any) -> int:
    """How long an object is as JSON in a text block: its quotes and backslashes are escaped once more."""
    return _ENVELOPE_BYTES + len(orjson.dumps(orjson.dumps(value).decode()))


def room_beside(value: Any) -> int:
    """How many bytes of the wire are left for a text in `value`, which has it empty."""
    return MOST_WIRE_BYTES - wire_bytes(value) - SLACK_BYTES


def fitting_chars(text: str, room: int) -> int:
    """How many characters from the start of `text` take no more than `room`: whole lines, where that is enough."""
    sizes = range(1, min(len(text), max(room, 0)) + 1)
    size = bisect_right(sizes, room, key=lambda size: _cost(text[:size]))
    return line_cut(text, size)


def fitting_bytes(data: bytes, room: int) -> int:
    """As `fitting_chars`, of bytes that are read as UTF-8; never inside a character."""
    sizes = range(1, min(len(data), max(room, 0)) + 1)
    size = bisect_right(
        sizes, room, key=lambda size: _cost(data[: utf8.boundary(data, size)].decode("utf-8", "replace"))
    )
    return line_cut(data, utf8.boundary(data, size))


def fitting_elements(values: Sequence[Any], room: int) -> int:
    """How many elements from the start of a list take no more than `room` as JSON."""
    for index, value in enumerate(values):
        room -= len(orjson.dumps(value)) + 1
        if room < 0:
            return index
    return len(values)


def _cost(text: str) -> int:
    return len(orjson.dumps(orjson.dumps(text).decode())) - len(r'"\"\""')
