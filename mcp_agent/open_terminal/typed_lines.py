"""What a person types into a shell, cut into the lines that deny rules are about.

A guard rail and no more: what a line editor brings back from its history, and what a program does by itself, is not
typed. The keys that change a line before it is sent are followed as a shell follows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_MOST_LINE_BYTES = 8_192
_MOST_PIECE_BYTES = 8_192
_MOST_CHARACTER_BYTES = 4
# What is added to a line as it is; everything else is a key.
_TEXT = re.compile(rb"[^\x00-\x08\x0a-\x1f\x7f]+")
# Sequences of a terminal, such as arrow keys and the two marks around a paste.
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O.|.)?")
_ENTER, _ERASE, _FORGET, _ERASE_WORD = b"\r\n", b"\x7f\x08", b"\x15\x03\x04", b"\x17"


class Typed(NamedTuple):
    """Bytes as they were typed, and the line that they complete; None if they complete none."""

    data: bytes
    line: str | None


class TypedLines:
    """Follows one terminal."""

    def __init__(self) -> None:
        self._line = bytearray()

    def feed(self, data: bytes) -> Iterator[Typed]:
        """The data in pieces, each small enough to be followed at once: a piece ends with a line, or within one."""
        begin = at = 0
        while at < len(data):
            if at - begin >= _MOST_PIECE_BYTES:
                yield Typed(data[begin:at], None)
                begin = at
            if text := _TEXT.match(data, at, begin + _MOST_PIECE_BYTES):
                self._line = (self._line + text[0])[-_MOST_LINE_BYTES:]
                at = text.end()
                continue
            key = data[at : at + 1]
            if key == b"\x1b" and (sequence := _SEQUENCE.match(data, at)) is not None:
                at = sequence.end()
                continue
            at += 1
            if key in _ENTER:
                line, self._line = self._line, bytearray()
                yield Typed(data[begin:at], line.decode("utf-8", "replace"))
                begin = at
            elif key in _ERASE:
                self._erase_character()
            elif key in _FORGET:
                self._line.clear()
            elif key in _ERASE_WORD:
                self._line = self._line.rstrip()
                while self._line and not self._line[-1:].isspace():
                    self._line.pop()
        if begin < len(data):
            yield Typed(data[begin:], None)

    def _erase_character(self) -> None:
        """Take off the last byte, or all of a character that has several in UTF-8."""
        before = len(self._line) - 1
        while before > 0 and self._line[before] & 0xC0 == 0x80 and len(self._line) - before < _MOST_CHARACTER_BYTES:
            before -= 1
        is_whole = before >= 0 and self._line[before] >= 0xC0
        del self._line[before if is_whole else -1 :]
