"""One append-only file of raw output whose old blocks are given back in place, so a place in it never moves.

The first megabyte and the newest part stay; what lies between is freed where it stands, and reads as a hole. An
offset in the file is therefore an offset in the output for as long as the file lives. Where the file cannot be
written any more (a full disk, a file system without holes), the spool says so and keeps what it has.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
from pathlib import Path

from mcp_agent.logs import event

log = logging.getLogger(__name__)

HEAD_BYTES = 1024 * 1024
# A little more than the head stays, so that whoever reads it can read the last piece of it to its end.
_HEAD_KEPT_BYTES = HEAD_BYTES + 128 * 1024
BLOCK_BYTES = 1024 * 1024

_KEEP_SIZE = 0x01
_PUNCH_HOLE = 0x02


class Spool:
    """The file. `written` is where it ends; what lies between the head and `kept_from` is gone."""

    def __init__(self, path: Path, most_bytes: int) -> None:
        self.path = path
        self.most_bytes = max(most_bytes, HEAD_BYTES + 4 * BLOCK_BYTES)
        self.written = 0
        self.kept_from = _HEAD_KEPT_BYTES
        self.is_full = False
        self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def append(self, data: bytes) -> bool:
        """Write `data` at the end. False if the file takes no more: what it has stays readable."""
        if self.is_full or self._descriptor is None:
            return False
        try:
            written = os.write(self._descriptor, data)
            while written < len(data):
                written += os.write(self._descriptor, data[written:])
        except OSError as error:
            self._stop("spool.not_writable", error)
            return False
        self.written += len(data)
        return True

    def excess(self) -> int:
        """The offset up to which blocks must be given back to stay within the limit; 0 if there is room."""
        tail_bytes = self.most_bytes - HEAD_BYTES
        if self.is_full or self.written - self.kept_from <= tail_bytes:
            return 0
        past = self.written - tail_bytes - self.kept_from
        # One block more than needed, so that the next one is due a megabyte later and not at the next read.
        return self.kept_from + (-(-past // BLOCK_BYTES) + 1) * BLOCK_BYTES

    def free(self, to: int) -> None:
        """Give back every block between the head and `to`."""
        if self._descriptor is None or to <= self.kept_from:
            return
        try:
            _punch(self._descriptor, self.kept_from, to - self.kept_from)
        except OSError as error:
            self._stop("spool.holes_not_supported", error)
            return
        self.kept_from = to

    def read(self, offset: int, length: int) -> bytes:
        """Bytes of the file. The caller asks only for what is kept."""
        descriptor = self._descriptor
        if descriptor is not None:
            return os.pread(descriptor, length, offset)
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            # Somebody has deleted the file of a finished session: what it held is gone.
            return b""
        try:
            return os.pread(descriptor, length, offset)
        finally:
            os.close(descriptor)

    def seal(self) -> None:
        """No more will come: keep the file, give up the descriptor."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def remove(self) -> None:
        self.seal()
        self.path.unlink(missing_ok=True)

    def _stop(self, name: str, error: OSError) -> None:
        self.is_full = True
        event(log, logging.WARNING, name, path=str(self.path), message=str(error))


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
