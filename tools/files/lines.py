"""An index of the lines of a large file, so that it is not read twice.

It has the number of line ends in each block, so a line number leads to one block. When the size or the times of the
file change, its index is dropped.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct, field

from tools.files.text import Encoding

BLOCK_BYTES = 256 * 1024
_KEPT = 64
_PLAIN_BYTES = 8 * 1024 * 1024


class LineIndex(Struct, eq=False):
    """Line ends counted block by block. `counts[i]` is how many there are up to the end of block i."""

    identity: tuple[int, ...]
    counts: list[int] = field(default_factory=list)
    end: int = 0

    @property
    def line_ends(self) -> int:
        return self.counts[-1] if self.counts else 0


class LineIndexes:
    """The indexes of the files that were read last."""

    def __init__(self) -> None:
        self._by_file: OrderedDict[tuple[int, int], LineIndex] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, descriptor: int) -> LineIndex:
        """The index of an open file, as far as it is known. Two readers of one file may both extend it: they agree."""
        status = os.fstat(descriptor)
        key = (status.st_dev, status.st_ino)
        identity = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
        with self._lock:
            index = self._by_file.get(key)
            if index is None or index.identity != identity:
                index = LineIndex(identity)
            self._by_file[key] = index
            self._by_file.move_to_end(key)
            if len(self._by_file) > _KEPT:
                self._by_file.popitem(last=False)
        return index


def extend(
    index: LineIndex, descriptor: int, encoding: Encoding, until_line_ends: int | None, check: Callable[[], None]
) -> None:
    """Count on until the block that has line end number `until_line_ends`, or to the end of the file."""
    if index.counts and until_line_ends is not None and index.line_ends >= until_line_ends:
        return
    size = index.identity[0]
    buffer = bytearray(BLOCK_BYTES)
    view = memoryview(buffer)
    count_in = _counter(buffer, encoding, size - index.end)
    counts, end, total = list(index.counts), index.end, index.line_ends
    while end < size and (until_line_ends is None or total < until_line_ends):
        count = os.preadv(descriptor, [view], end)
        if count <= 0:
            break
        count = min(count, size - end)
        total += count_in(count)
        counts.append(total)
        end += count
        if len(counts) % 64 == 0:
            check()
        if count < BLOCK_BYTES:
            break
    index.counts, index.end = counts, end


def block_of(index: LineIndex, line_ends: int) -> tuple[int, int]:
    """The offset of the block in which line end number `line_ends` is, and how many there are before that block."""
    if line_ends <= 0:
        return 0, 0
    block = bisect_right(index.counts, line_ends - 1)
    return block * BLOCK_BYTES, index.counts[block - 1] if block else 0


def _counter(buffer: bytearray, encoding: Encoding, expected_bytes: int) -> Callable[[int], int]:
    """A function that counts the line ends in the first bytes of `buffer`."""
    if expected_bytes <= _PLAIN_BYTES and encoding.unit_bytes == 1:
        # Loading numpy takes longer than counting this little without it.
        return lambda count: buffer.count(b"\n", 0, count)
    import numpy

    if encoding.unit_bytes == 1:
        narrow = numpy.frombuffer(buffer, numpy.uint8)
        return lambda count: int(numpy.count_nonzero(narrow[:count] == 10))
    order = ">" if encoding.codec.endswith("be") else "<"
    wide = numpy.frombuffer(buffer, f"{order}u{encoding.unit_bytes}")
    return lambda count: int(numpy.count_nonzero(wide[: count // encoding.unit_bytes] == 10))
