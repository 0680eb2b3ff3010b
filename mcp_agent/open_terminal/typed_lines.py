"""What a person types into a shell, cut into the lines that deny rules are about.

A guard rail and no more: what a line editor brings back from its history, and what a program does by itself, is not
typed. The keys that change a line before it is sent are followed as a shell follows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_MOST_LINE_BYTES = 8_192
# Sequences of a terminal, such as arrow keys and the two marks around a paste.
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.|.)?")
_LAST_WORD = re.compile(rb"\S*\s*$")
_LAST_CHARACTER = re.compile(rb"(?:[\xc0-\xff][\x80-\xbf]*|.)$", re.DOTALL)
_ENTER, _ERASE, _FORGET, _ERASE_WORD = b"\r\n", b"\x7f\x08", b"\x15\x03\x04", b"\x17"


class Typed(NamedTuple):
    """Bytes as they were typed, and the line that they complete; None if they complete none."""

    data: bytes
    line: str | None


class TypedLines:
    """Follows one terminal."""

    def __init__(self) -> None:
        self._line = b""

    def feed(self, data: bytes) -> Iterator[Typed]:
        """The data in pieces: each but the last ends a line."""
        begin = at = 0
        while at < len(data):
            key = data[at : at + 1]
            if key == b"\x1b" and (sequence := _SEQUENCE.match(data, at)) is not None:
                at = sequence.end()
                continue
            at += 1
            if key in _ENTER:
                line, self._line = self._line, b""
                yield Typed(data[begin:at], line.decode("utf-8", "replace"))
                begin = at
            elif key in _ERASE:
                self._line = _LAST_CHARACTER.sub(b"", self._line)
            elif key in _FORGET:
                self._line = b""
            elif key in _ERASE_WORD:
                self._line = _LAST_WORD.sub(b"", self._line, count=1)
            elif key >= b" " or key == b"\t":
                self._line = (self._line + key)[-_MOST_LINE_BYTES:]
        if begin < len(data):
            yield Typed(data[begin:], None)
