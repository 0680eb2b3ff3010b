"""How much fits: the size of a result on the wire, and the longest beginning of a text that a result has room for."""

from __future__ import annotations

from typing import Any

import orjson

from tools.files import utf8

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
    low, high = 0, min(len(text), max(room, 0))
    while low < high:
        middle = (low + high + 1) // 2
        if _cost(text[:middle]) <= room:
            low = middle
        else:
            high = middle - 1
    return low if low == len(text) else _at_line(text.rfind("\n", low // 2, low), low)


def fitting_bytes(data: bytes, room: int) -> int:
    """As `fitting_chars`, of bytes that are read as UTF-8; never inside a character."""
    low, high = 0, min(len(data), max(room, 0))
    while low < high:
        middle = (low + high + 1) // 2
        if _cost(data[: utf8.boundary(data, middle)].decode("utf-8", "replace")) <= room:
            low = middle
        else:
            high = middle - 1
    end = utf8.boundary(data, low)
    return end if end == len(data) else _at_line(data.rfind(b"\n", end // 2, end), end)


def _at_line(newline: int, otherwise: int) -> int:
    return otherwise if newline == -1 else newline + 1


def _cost(text: str) -> int:
    return len(orjson.dumps(orjson.dumps(text).decode())) - len(r'"\"\""')
