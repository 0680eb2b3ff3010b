"""Where bytes of UTF-8 can be cut without splitting a character."""

from __future__ import annotations

_MOST_CONTINUATIONS = 3


def boundary(data: bytes, end: int) -> int:
    """The last place at or before `end` that is not inside a character."""
    if end >= len(data):
        return len(data)
    place = end
    while _continues(data[place]):
        if place == 0 or end - place == _MOST_CONTINUATIONS:
            # Not UTF-8: it can be cut anywhere.
            return end
        place -= 1
    return place


def incomplete_bytes(data: bytes) -> int:
    """How many bytes at the end of `data` are the beginning of an incomplete character."""
    for back in range(1, min(_MOST_CONTINUATIONS + 1, len(data) + 1)):
        byte = data[-back]
        if _continues(byte):
            continue
        needed = 2 if 0xC2 <= byte <= 0xDF else 3 if 0xE0 <= byte <= 0xEF else 4 if 0xF0 <= byte <= 0xF4 else 1
        return back if needed > back else 0
    return 0


def orphan_bytes(data: bytes) -> int:
    """How many bytes at the start of `data` are the end of a character that began before it."""
    count = 0
    while count < min(_MOST_CONTINUATIONS, len(data)) and _continues(data[count]):
        count += 1
    return count


def _continues(byte: int) -> bool:
    return byte & 0xC0 == 0x80
