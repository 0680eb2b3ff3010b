"""What is kept of each file of a project, so that a change to it can be taken back."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Callable

from tools.effects.file_records import (
    CACHE_FULL,
    DENIED,
    FACTS,
    NO_PLACE,
    NOT_READ,
    PLACE,
    TOO_LARGE,
    UNREADABLE,
    Record,
    facts_of,
    is_link,
    is_object,
    unpack,
)
from tools.effects.pack import Pack
from tools.journal.git_index import is_index

# The index of git of a project with 100,000 files has 10 MB.
MOST_FILE_BYTES = 16 << 20
_READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY


class KeptContents:
    """`has_room(bytes)` says whether the cache of all projects can hold so much more."""

    def __init__(
        self, root: str, folder: str, is_denied: Callable[[str], bool], has_room: Callable[[int], bool]
    ) -> None:
        self._root = root
        self._is_denied = is_denied
        self._has_room = has_room
        self.pack = Pack(folder)
        # What is to be read when there is time.
        self.unread: list[str] = []
        self.unread_objects: list[str] = []

    def read(self, record: Record) -> tuple[bytes, bytes]:
        """The content and the attributes."""
        data = self.pack.read(record.at, record.size + record.attribute_bytes)
        return data[: record.size], data[record.size :]

    def is_equal(self, one: Record, other: Record) -> bool:
        return one.at >= 0 and other.at >= 0 and (one.content == other.content or self.read(one) == self.read(other))

    def place(self, path: str, status: os.stat_result, facts: bytes, old: bytes | None, moved: bytes | None) -> bytes:
        """Where the content of a file is kept. What is new is read later; what may be the same is compared.

        `old` is the record that the path had, `moved` one that the inode had under another name.
        """
        is_symlink = stat.S_ISLNK(status.st_mode)
        if not is_symlink and not stat.S_ISREG(status.st_mode):
            return NO_PLACE
        if self._is_denied(path):
            return PLACE.pack(DENIED, 0)
        if status.st_size > MOST_FILE_BYTES:
            return PLACE.pack(TOO_LARGE, 0)
        if old is None and moved is not None:
            if unpack(moved).at >= 0 and unpack(moved)[4:8] == FACTS.unpack(facts)[4:8]:
                # Nothing happened to it, only to a folder above it.
                return moved[FACTS.size :]
            old = moved
        before = None if old is None else unpack(old)
        if before is not None and (before.at < 0 or before.size != status.st_size):
            before = None
        if before is None and not is_symlink and not is_index(path):
            (self.unread_objects if is_object(path) else self.unread).append(path)
            return PLACE.pack(NOT_READ, 0)
        found = self._load(path, facts)
        if found is None:
            return PLACE.pack(UNREADABLE, 0)
        if before is not None and self.read(before) == found:
            assert old is not None
            return old[FACTS.size :]
        return self._append(*found)

    def keep(self, path: str, facts: bytes) -> bytes | None:
        """Keep what was not read yet; None if it is not the file of `facts` any more."""
        found = self._load(path, facts)
        return None if found is None else self._append(*found)

    def forget(self, raw: bytes) -> None:
        """The content of this record is not current any more."""
        record = unpack(raw)
        if record.at >= 0 and self.pack.is_current(record.at):
            self.pack.dead_bytes += record.size + record.attribute_bytes

    def copy_on(self, raw: bytes) -> bytes:
        """The record with its content in the newest file of the pack."""
        record = unpack(raw)
        if record.at < 0 or self.pack.is_current(record.at):
            return raw
        at = self.pack.append(self.pack.read(record.at, record.size + record.attribute_bytes))
        return raw[: FACTS.size] + PLACE.pack(at, record.attribute_bytes)

    def _append(self, data: bytes, attributes: bytes) -> bytes:
        if not self._has_room(len(data) + len(attributes)):
            return PLACE.pack(CACHE_FULL, 0)
        try:
            return PLACE.pack(self.pack.append(data + attributes), len(attributes))
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            return PLACE.pack(CACHE_FULL, 0)

    def _load(self, path: str, facts: bytes) -> tuple[bytes, bytes] | None:
        full = f"{self._root}/{path}"
        try:
            if is_link(facts):
                return os.fsencode(os.readlink(full)), b""
            descriptor = os.open(full, _READ_FLAGS)
        except OSError:
            return None
        try:
            size = FACTS.unpack(facts)[4]
            data = os.read(descriptor, size + 1)
            while len(data) < size and (more := os.read(descriptor, size + 1 - len(data))):
                data += more
            attributes = _attributes(descriptor)
            return (data, attributes) if facts_of(os.fstat(descriptor)) == facts and len(data) == size else None
        except OSError:
            return None
        finally:
            os.close(descriptor)


def _attributes(descriptor: int) -> bytes:
    """The extended attributes of an open file as JSON; nothing if it has none."""
    try:
        names = os.listxattr(descriptor)
    except OSError:
        return b""
    return json.dumps({name: os.getxattr(descriptor, name).hex() for name in names}).encode() if names else b""
