"""The output of a session on disk: append-only, with a size limit; old output in the middle is freed.

The head (the first megabyte) and the newest part stay. The part between them is freed in place by punching a hole, so
an offset in the file is always the same offset in the output. If the file system cannot punch holes, the output is
split into segment files: the first has the head, each other one is named by the offset of its first byte, and the
oldest of them are deleted. When the disk is full, the spool keeps what it has and accepts no more.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from tools.kit.log_events import event

log = logging.getLogger(__name__)

HEAD_BYTES = 1024 * 1024
# A little more than the head stays, so that the last piece of the head is complete.
_HEAD_KEPT_BYTES = HEAD_BYTES + 128 * 1024
BLOCK_BYTES = 1024 * 1024
# The number of segment files for the newest part.
_SEGMENTS = 8

_KEEP_SIZE = 0x01
_PUNCH_HOLE = 0x02


class _Segment(Struct, eq=False):
    """One file of the spool: the output from `start` on. A sealed spool has no open descriptors."""

    start: int
    path: Path
    descriptor: int | None


class Spool:
    """One file, or several segments. `written` is the end of the output; from the head to `kept_from` it is freed."""

    def __init__(self, path: Path, most_bytes: int, whole_bytes: int = 0, *, frees_in_place: bool = True) -> None:
        """Free nothing up to `whole_bytes`; beyond, keep `most_bytes`. `frees_in_place=False` forces segments."""
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

    @classmethod
    def reopen(cls, path: Path) -> Spool:
        """The spool that an earlier daemon has left, sealed. Raises OSError."""
        spool = cls.__new__(cls)
        spool.path, spool.most_bytes, spool.whole_bytes, spool.is_full = path, 0, 0, False
        starts = [each.name[len(path.name) + 1 :] for each in path.parent.glob(f"{path.name}.*")]
        later = sorted(int(start) for start in starts if start.isascii() and start.isdigit())
        spool._segments = [_Segment(0, path, None)]
        spool._segments += [_Segment(start, path.with_name(f"{path.name}.{start}"), None) for start in later]
        spool._segment_bytes = None
        last = spool._segments[-1]
        spool.written = last.start + last.path.stat().st_size
        head_end, gap_end = _hole(path) if not later else (path.stat().st_size, later[0])
        spool.kept_from = gap_end if head_end < gap_end else _HEAD_KEPT_BYTES
        return spool

    @property
    def gap(self) -> tuple[int, int] | None:
        """The bytes between the head and the rest that are no longer stored, for a spool that was reopened."""
        if self.kept_from == _HEAD_KEPT_BYTES:
            return None
        head_end = _hole(self.path)[0] if len(self._segments) == 1 else self.path.stat().st_size
        return head_end, self.kept_from

    @property
    def kept_bytes(self) -> int:
        """The size of what is still stored."""
        return self.written - (self.kept_from - _HEAD_KEPT_BYTES)

    @property
    def sole_file(self) -> Path | None:
        """The file with every byte of the output; None if some are freed or in another segment."""
        is_whole = len(self._segments) == 1 and self.kept_from == _HEAD_KEPT_BYTES and not self.is_full
        return self.path if is_whole else None

    def append(self, data: bytes) -> bool:
        """Write `data` at the end. False if the spool accepts no more; what it has stays readable."""
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
        """The offset up to which output must be freed to stay within the limit; 0 if there is room."""
        past = self.written - self.kept_from - (self.most_bytes - HEAD_BYTES)
        if past <= 0 or self.is_full:
            return 0
        if self.written <= self.whole_bytes and self.kept_from == _HEAD_KEPT_BYTES:
            return 0
        if self._segment_bytes is None:
            # One block more than needed, so that the next call comes a megabyte later and not at the next read.
            return self.kept_from + (-(-past // BLOCK_BYTES) + 1) * BLOCK_BYTES
        starts = [segment.start for segment in self._segments if segment.start >= self.kept_from + past]
        return starts[0] if starts else 0

    def free(self, to: int) -> None:
        """Free the output between the head and `to`, in whole blocks or whole segments."""
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
        """Bytes of the output; fewer if a file was deleted from outside. The caller asks only for what is stored."""
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
        """The files with the output from `start` to `end`: path, offset in the file, number of bytes."""
        while start < end:
            index = self._segment_index(start)
            segment, stop = self._segments[index], min(end, self._end(index))
            yield segment.path, start - segment.start, stop - start
            start = stop

    def seal(self) -> None:
        """No more output comes: close the descriptors, keep the files."""
        for segment in self._segments:
            if segment.descriptor is not None:
                os.close(segment.descriptor)
                segment.descriptor = None

    def remove(self) -> None:
        """Delete the files. What cannot be deleted now goes with the folder of this start of the daemon."""
        self.seal()
        for segment in self._segments:
            with contextlib.suppress(OSError):
                segment.path.unlink()

    def _append_descriptor(self) -> int:
        """The descriptor to append to; begins a new segment when the last one is full. Raises OSError."""
        last = self._segments[-1]
        if self._segment_bytes is not None and self.written - last.start >= self._segment_bytes:
            path = self.path.with_name(f"{self.path.name}.{self.written}")
            last = _Segment(self.written, path, _create_file(path))
            self._segments.append(last)
        assert last.descriptor is not None, "only an open spool is written to"
        return last.descriptor

    def _drop_segments(self, to: int) -> None:
        """Delete segments that end before `to`. The first segment is cut to the head."""
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
        # The file was deleted from outside, after the session ended.
        return b""
    try:
        return os.pread(descriptor, length, offset - segment.start)
    finally:
        os.close(descriptor)


def _hole(path: Path) -> tuple[int, int]:
    """Where the first hole of a file begins and ends; both are its size if it has none. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        begin = os.lseek(descriptor, 0, os.SEEK_HOLE) if size else 0
        return begin, os.lseek(descriptor, begin, os.SEEK_DATA) if begin < size else size
    finally:
        os.close(descriptor)


def _can_punch(descriptor: int | None) -> bool:
    """Whether the file system can punch holes; tried on a file that is still empty."""
    assert descriptor is not None, "it has just been opened"
    try:
        _punch(descriptor, 0, BLOCK_BYTES)
    except (OSError, AttributeError):
        # The file system cannot, or the C library has no fallocate.
        return False
    return True


def _punch(descriptor: int, offset: int, length: int) -> None:
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    while fallocate(descriptor, _KEEP_SIZE | _PUNCH_HOLE, offset, length) != 0:
        code = ctypes.get_errno()
        if code != errno.EINTR:
            raise OSError(code, os.strerror(code))
