"""The current content of every file of a project, one after the other in one file: nothing is made for each of them.

A cache. The file has no name, so it is gone with the process, and no other program can open it by a path. When most of
it is out of date, the helper copies what is current into a new one, slice by slice; until then both are read.
"""

from __future__ import annotations

import errno
import os

_FLUSH_BYTES = 1 << 22
_FLUSH_PARTS = 900
# A place is the number of the file and the offset in it.
_GENERATION_BITS = 40
_OFFSET = (1 << _GENERATION_BITS) - 1


class Pack:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files: dict[int, int] = {}
        self._generation = -1
        # How many bytes the current file has, and how many of them belong to nothing that is current.
        self.size = 0
        self.dead_bytes = 0
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self.begin_anew()

    def append(self, data: bytes) -> int:
        """The place of `data`. Raises OSError when the disk is full."""
        at = self.size
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        self.size += len(data)
        if self._waiting_bytes > _FLUSH_BYTES or len(self._waiting) > _FLUSH_PARTS:
            self.flush()
        return self._generation << _GENERATION_BITS | at

    def flush(self) -> None:
        if not self._waiting:
            return
        data, at = memoryview(b"".join(self._waiting)), self.size - self._waiting_bytes
        self._waiting, self._waiting_bytes = [], 0
        while data:
            done = os.pwrite(self._files[self._generation], data, at)
            data, at = data[done:], at + done

    def read(self, place: int, length: int) -> bytes:
        self.flush()
        return os.pread(self._files[place >> _GENERATION_BITS], length, place & _OFFSET)

    def copy_out(self, place: int, length: int, target: int) -> None:
        """Append a content to the open file `target`."""
        self.flush()
        source, at = self._files[place >> _GENERATION_BITS], place & _OFFSET
        try:
            while length > 0 and (done := os.copy_file_range(source, target, length, offset_src=at)):
                at, length = at + done, length - done
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
        while length > 0 and (data := os.pread(source, min(length, _FLUSH_BYTES), at)):
            done = os.write(target, data)
            at, length = at + done, length - done

    def is_current(self, place: int) -> bool:
        """Whether a place is in the newest file."""
        return place >> _GENERATION_BITS == self._generation

    @property
    def total_bytes(self) -> int:
        return sum(os.fstat(each).st_size for each in self._files.values()) + self._waiting_bytes

    def begin_anew(self) -> None:
        """Append to a new file from now on."""
        self.flush()
        path = f"{self._folder}/pack-{os.getpid()}-{os.urandom(4).hex()}"
        self._generation += 1
        self._files[self._generation] = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.unlink(path)
        self.size = self.dead_bytes = 0

    def drop_old(self) -> None:
        """Close all but the newest file: nobody has a place in them any more."""
        for generation in [each for each in self._files if each != self._generation]:
            os.close(self._files.pop(generation))

    def close(self) -> None:
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()
