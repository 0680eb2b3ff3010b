"""What a search program prints, collected file by file, and rechecked: each line must be in the file that was checked.

The program opens files by their names. If somebody puts a link in the place of a folder meanwhile, it reads files
elsewhere, our own closed ones too, and their lines come with the names of what was there before. So each file that has
matches is opened again, from the open folder of the search and through no link, and the lines are compared with it.
This is a few system calls for a file with matches: 2,000 matches in 230 files take as long with it as without it. So it
is not bound to a rule or a root: the daemon has closed folders of its own, and every search could be led into them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tools.files import disk
from tools.files.exact import exact_descriptor
from tools.search.engine import Bounds, Hit, SearchQuery, share_context

_UTF_8_BOM = b"\xef\xbb\xbf"
_UTF_16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_READ_BYTES = 64 * 1024
_MOST_UTF_16_BYTES = 64 * 1024 * 1024


class PrintedLine(NamedTuple):
    """A line as it was printed, and its place in the file."""

    offset: int
    data: bytes


class HitCollector:
    """Collects matches, and the lines around them, until there are as many as are wanted."""

    def __init__(
        self, query: SearchQuery, bounds: Bounds, search_again: Callable[[SearchQuery, Bounds], list[Hit]]
    ) -> None:
        """`search_again` is asked for the hits in one open file, if the lines of a file are not in it."""
        self._query, self._bounds, self._search_again = query, bounds, search_again
        self.hits: list[Hit] = []
        self._line_bytes = 0
        # Of the file that is being read: its hits, the texts around them by number, and all that was printed.
        self._file: list[Hit] = []
        self._around: dict[int, str] = {}
        self._printed: list[PrintedLine] = []

    @property
    def is_full(self) -> bool:
        limit_bytes = self._bounds.line_bytes
        count = len(self.hits) + len(self._file)
        return count >= self._bounds.hits or (limit_bytes is not None and self._line_bytes >= limit_bytes)

    def add_match(self, hit: Hit, offset: int, data: bytes) -> None:
        self._file.append(hit)
        self.add_beside(hit.line, hit.text, offset, data)
        if self._bounds.line_bytes is not None:
            self._line_bytes += len(hit.text.encode("utf-8", "replace"))

    def add_beside(self, number: int, text: str, offset: int, data: bytes) -> None:
        """A line around one that matches."""
        if self._query.has_context:
            self._around[number] = text
        if self._query.folder is not None:
            self._printed.append(PrintedLine(offset, data))

    def end_file(self) -> None:
        """Take over the hits of the current file, at its end."""
        if self._query.has_context:
            share_context(self._file, self._around, self._query.before, self._query.after)
        self.hits += self._recheck() if self._file and self._query.folder is not None else self._file
        self._file, self._around, self._printed = [], {}, []

    def _recheck(self) -> Sequence[Hit]:
        """The hits of the file, if all that was printed is in it.

        Otherwise the file has changed, or it was another one: then it is searched again, by its descriptor.
        """
        path = self._file[0].path
        try:
            with exact_descriptor(path, disk.READ_FLAGS, self._query.folder) as descriptor:
                if _holds(descriptor, self._printed):
                    return self._file
                found = self._search_again(replace(self._query, folder=None, file=descriptor), self._bounds)
        except OSError:
            return []
        for hit in found:
            hit.path = path
        return found


def _holds(descriptor: int, lines: Sequence[PrintedLine]) -> bool:
    if _holds_from(descriptor, lines, 0):
        return True
    # The program leaves out a byte order mark, and counts from behind it.
    head = os.pread(descriptor, len(_UTF_8_BOM), 0)
    if head.startswith(_UTF_16_BOMS):
        return _holds_decoded(descriptor, lines)
    return head == _UTF_8_BOM and _holds_from(descriptor, lines, len(_UTF_8_BOM))


def _holds_from(descriptor: int, lines: Sequence[PrintedLine], skipped: int) -> bool:
    data, start = b"", 0
    for offset, line in lines:
        line = line.rstrip(b"\r\n")
        if not start <= offset <= offset + len(line) <= start + len(data):
            # Read the following lines with it: there may be many.
            size = len(line) if len(lines) == 1 else max(len(line), _READ_BYTES)
            data, start = os.pread(descriptor, size, skipped + offset), offset
        if not data.startswith(line, offset - start):
            return False
    return True


def _holds_decoded(descriptor: int, lines: Sequence[PrintedLine]) -> bool:
    data = os.pread(descriptor, _MOST_UTF_16_BYTES, 0).decode("utf-16", "replace").encode("utf-8", "replace")
    return all(data.startswith(line.rstrip(b"\r\n"), offset) for offset, line in lines)
