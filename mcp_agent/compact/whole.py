"""The whole result as the bytes that are stored of it, written in pieces, because it may be large."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

_TEXT_CHARS = 256 * 1024
# A list is written with line breaks between its elements, so that it can be searched by lines: up to so many.
_MOST_LINES = 1_000
_LINES_AT_ONCE = 50


class Whole:
    """A text, or an object. `text` is the text; `size` is its length in bytes."""

    def __init__(self, text: str, value: Mapping[str, Any], listed: str | None) -> None:
        self.text = text
        self._value = value
        self._listed = listed
        self._size = -1

    @classmethod
    def of_text(cls, text: str) -> Whole:
        return cls(text, {}, None)

    @classmethod
    def of_object(cls, value: Mapping[str, Any], listed: str | None) -> Whole:
        """`listed` is the field whose elements are to stand on lines of their own."""
        return cls("", value, listed)

    @property
    def size(self) -> int:
        """Known once all of it has been written."""
        return sum(map(len, self.parts())) if self._size < 0 else self._size

    def parts(self) -> Iterator[bytes]:
        size = 0
        for part in self._texts() if not self._value else self._objects():
            size += len(part)
            yield part
        self._size = size

    def _texts(self) -> Iterator[bytes]:
        for start in range(0, len(self.text), _TEXT_CHARS):
            yield encode(self.text[start : start + _TEXT_CHARS])

    def _objects(self) -> Iterator[bytes]:
        if self._listed is None:
            yield orjson.dumps(self._value)
            return
        entries: Sequence[Any] = self._value[self._listed]
        others = orjson.dumps({key: value for key, value in self._value.items() if key != self._listed})
        yield others[:-1] + (b"," if len(others) > 2 else b"") + orjson.dumps(self._listed) + b":[\n"
        count = 1 + len(entries) // _MOST_LINES
        lines: list[memoryview | bytes] = []
        for start in range(0, len(entries), count):
            # Without its brackets, and without another copy of it.
            lines.append(memoryview(orjson.dumps(entries[start : start + count]))[1:-1])
            if len(lines) == _LINES_AT_ONCE and start + count < len(entries):
                yield b",\n".join((*lines, b""))
                lines = []
        yield b",\n".join(lines) + b"\n]}"


def encode(text: str) -> bytes:
    return text.encode("utf-8", "replace")
