"""Leaves out of what is shown in Open WebUI the question whether a mode of the terminal is set.

Its xterm.js is minified such that the answer to DECRQM throws, and from then on nothing is shown (xterm.js #5800); vim
asks as it starts. A program that gets no answer takes it that the terminal does not know the mode.
"""

from __future__ import annotations

import re

_MOST_DIGITS = 64
_QUERY = re.compile(rb"\x1b\[\??[0-9;]{0,%d}\$p" % _MOST_DIGITS)
_BEGUN = re.compile(rb"\x1b(?:\[\??[0-9;]{0,%d}\$?)?" % _MOST_DIGITS)
_MOST_BEGUN_BYTES = _MOST_DIGITS + 4


class ModeQueries:
    """Follows one terminal. What may be the beginning of a query is held until more of it comes."""

    def __init__(self) -> None:
        self.held = b""

    def drop(self, data: bytes) -> bytes:
        """What is to be shown of `data` and of what was held before."""
        data = _QUERY.sub(b"", self.held + data)
        begun = data.rfind(b"\x1b", max(len(data) - _MOST_BEGUN_BYTES, 0))
        if begun < 0 or not _BEGUN.fullmatch(data, begun):
            begun = len(data)
        self.held = data[begun:]
        return data[:begun]
