"""Raw output on disk, append-only, whose old part is given back while the rest stays where it is.

The first megabyte and the newest part stay. What lies between is freed in place and reads as a hole, so an offset in
the file is an offset in the output for as long as the file lives. On a file system that cannot free a part of a file
the output is cut into several: the first has the beginning, each further one is named by the offset of its first
byte, and the oldest of those go. Where nothing can be written any more, the spool says so and keeps what it has.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from mcp_agent.logs import event
from tools.kit.records import mutable

log = logging.getLogger(__name__)

HEAD_BYTES = 1024 * 1024
# A little more than the head stays, so that whoever reads it can read the last piece of it to its end.
_HEAD_KEPT_BYTES = HEAD_BYTES + 128 * 1024
BLOCK_BYTES = 1024 * 1024
# Of a spool in several files, how many make up its newest part.
_SEGMENTS = 8

_KEEP_SIZE = 0x01
_PUNCH_HOLE = 0x02


@mutable
class _Segment:
    """One file of the spool: the output from `start` on. No descriptor once the spool is sealed."""

    start: int
    path: Path
    descriptor: int | None


class Spool:
    """The file, or the files. `written` is where the output ends; what lies from the head to `kept_from` is gone."""

    def __init__(self, path: Path, most_bytes: int, whole_bytes: int = 0, *, frees_in_place: bool = True) -> None:
        """Up to `whole_bytes` nothing goes; beyond, `most_bytes` stay. `frees_in_place` only where that is possible."""
        self.path = path
        self.most_bytes = max(most_bytes, HEAD_BYTES + 4 * BLOCK_BYTES)
        self.whole_bytes = whole_bytes
        self.written = 0
        self.kept_from = _HEAD_KEPT_BYTES
        self.is_full = False
        first = _Segment(0, path, _create_file(path))
        self._segments = [first]
        self._segment_bytes: int | None = None
        if not (frees_in_place and _can_punch(first.descriptor)):
            self._segment_bytes = max(2 * BLOCK_BYTES, (self.most_bytes - HEAD_BYTES) // _SEGMENTS)

    @property
    def kept_bytes(self) -> int:
        """How much of the output there still is."""
        return self.written - (self.kept_from - _HEAD_KEPT_BYTES)

    @property
    def sole_file(self) -> Path | None:
        """The file with every byte of the output; None if some are gone, or in another."""
        is_whole = len(self._segments) == 1 and self.kept_from == _HEAD_KEPT_BYTES and not self.is_full
        return self.path if is_whole else None

    def append(self, data: bytes) -> bool:
        """Write `data` at the end. False if the file takes no more: what it has stays readable."""
        if self.is_full or self._segments[-1].descriptor is None:
            return False
        try:
            descriptor = self._append_descriptor()
            written = os.write(descriptor, data)
            while written < len(data):
                written += os.write(descriptor, data[written:])
        except OSError as error:
            self._mark_full("spool.not_writable", error)
            return False
        self.written += len(data)
        return True

    def excess(self) -> int:
        """The offset up to which output must go to stay within the limit; 0 if there is room."""
        past = self.written - self.kept_from - (self.most_bytes - HEAD_BYTES)
        if past <= 0 or self.is_full:
            return 0
        if self.written <= self.whole_bytes and self.kept_from == _HEAD_KEPT_BYTES:
            return 0
        if self._segment_bytes is None:
            # One block more than needed, so that the next one is due a megabyte later and not at the next read.
            return self.kept_from + (-(-past // BLOCK_BYTES) + 1) * BLOCK_BYTES
        starts = [segment.start for segment in self._segments if segment.start >= self.kept_from + past]
        return starts[0] if starts else 0

    def free(self, to: int) -> None:
        """Give back what lies between the head and `to`, as far as it is whole blocks or whole files."""
        if self._segment_bytes is not None:
            self._drop_segments(to)
            return
        to = to // BLOCK_BYTES * BLOCK_BYTES
        descriptor = self._segments[0].descriptor
        if descriptor is None or to <= self.kept_from:
            return
        try:
            _punch(descriptor, self.kept_from, to - self.kept_from)
        except OSError as error:
            self._mark_full("spool.not_freed", error)
            return
        self.kept_from = to

    def read(self, offset: int, length: int) -> bytes:
        """Bytes of the output, fewer if somebody has deleted a file. The caller asks only for what is kept."""
        parts = []
        while length > 0 and offset < self.written:
            index = self._segment_index(offset)
            part = _read(self._segments[index], offset, min(length, self._end(index) - offset))
            if not part:
                break
            parts.append(part)
            offset += len(part)
            length -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def stretches(self, start: int, end: int) -> Iterator[tuple[Path, int, int]]:
        """Where the output from `start` to `end` is: files, the offset in each, and how many bytes of it."""
        while start < end:
            index = self._segment_index(start)
            segment, stop = self._segments[index], min(end, self._end(index))
            yield segment.path, start - segment.start, stop - start
            start = stop

    def seal(self) -> None:
        """No more will come: keep the files, give up the descriptors."""
        for segment in self._segments:
            if segment.descriptor is not None:
                os.close(segment.descriptor)
                segment.descriptor = None

    def remove(self) -> None:
        self.seal()
        for segment in self._segments:
            segment.path.unlink(missing_ok=True)

    def _append_descriptor(self) -> int:
        """The descriptor of the file that takes the next bytes. Raises OSError."""
        last = self._segments[-1]
        if self._segment_bytes is not None and self.written - last.start >= self._segment_bytes:
            path = self.path.with_name(f"{self.path.name}.{self.written}")
            last = _Segment(self.written, path, _create_file(path))
            self._segments.append(last)
        assert last.descriptor is not None, "only an open spool is written to"
        return last.descriptor

    def _drop_segments(self, to: int) -> None:
        """Files that end before `to` go; of the first one the head stays."""
        while len(self._segments) > 1:
            oldest = 0 if self.kept_from == _HEAD_KEPT_BYTES else 1
            if oldest + 1 >= len(self._segments) or self._segments[oldest + 1].start > to:
                return
            self.kept_from = self._segments[oldest + 1].start
            going = self._segments[oldest]
            assert going.descriptor is not None, "only an open spool is over its limit"
            try:
                if oldest == 0:
                    os.ftruncate(going.descriptor, _HEAD_KEPT_BYTES)
                else:
                    del self._segments[oldest]
                    os.close(going.descriptor)
                    going.path.unlink(missing_ok=True)
            except OSError as error:
                self._mark_full("spool.not_freed", error)
                return

    def _segment_index(self, offset: int) -> int:
        return bisect_right(self._segments, offset, key=lambda segment: segment.start) - 1

    def _end(self, index: int) -> int:
        following = index + 1
        return self._segments[following].start if following < len(self._segments) else self.written

    def _mark_full(self, name: str, error: OSError) -> None:
        self.is_full = True
        event(log, logging.WARNING, name, path=str(self.path), message=str(error))


def _create_file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)


def _read(segment: _Segment, offset: int, length: int) -> bytes:
    if segment.descriptor is not None:
        return os.pread(segment.descriptor, length, offset - segment.start)
    try:
        descriptor = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        # Somebody has deleted the file of a finished session: what it held is gone.
        return b""
    try:
        return os.pread(descriptor, length, offset - segment.start)
    finally:
        os.close(descriptor)


def _can_punch(descriptor: int | None) -> bool:
    """Whether a part of an open file, still empty, could be given back."""
    assert descriptor is not None, "it has just been opened"
    try:
        _punch(descriptor, 0, BLOCK_BYTES)
    except (OSError, AttributeError):
        # The file system cannot, or the system has no such call.
        return False
    return True


def _punch(descriptor: int, offset: int, length: int) -> None:
    fallocate = _libc().fallocate
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    while fallocate(descriptor, _KEEP_SIZE | _PUNCH_HOLE, offset, length) != 0:
        code = ctypes.get_errno()
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code))


_LIBC: list[ctypes.CDLL] = []


def _libc() -> ctypes.CDLL:
    if not _LIBC:
        _LIBC.append(ctypes.CDLL(None, use_errno=True))
    return _LIBC[0]
