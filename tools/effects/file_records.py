"""What is known of one file, link or folder, in 60 bytes: a project of 100,000 files has to fit into 25 MB."""

from __future__ import annotations

import os
import re
import stat
import struct
from typing import NamedTuple

# Mode, owner, group, number of names; size, time of change, time of status change, inode.
FACTS = struct.Struct("<IIIIqqqq")
# Where its content is in the pack, and how many bytes of attributes follow it.
PLACE = struct.Struct("<qI")
_RECORD = struct.Struct("<IIIIqqqqqI")
_INODE = slice(40, 48)

# Instead of a place in the pack.
NOT_READ, TOO_LARGE, NO_CONTENT, UNREADABLE, OPAQUE, DENIED, CACHE_FULL = -1, -2, -3, -4, -5, -6, -7
NO_PLACE = PLACE.pack(NO_CONTENT, 0)
WHY = {
    NOT_READ: "it had not been read yet",
    TOO_LARGE: "it has more than 16 MB",
    NO_CONTENT: "it is a socket or a device",
    UNREADABLE: "it could not be read",
    OPAQUE: "the folder has too many files to be kept",
    DENIED: "a rule of the owner denies it",
    CACHE_FULL: "the cache of contents is full",
}

_OBJECT = re.compile(r"(?:^|/)\.git/(?:modules/.+/)?objects/(?:[0-9a-f]{2}|pack)(?:/|$)")
_GIT = re.compile(r"(?:^|.*?/)\.git(?=/|$)", re.DOTALL)


class Record(NamedTuple):
    mode: int
    uid: int
    gid: int
    links: int
    size: int
    mtime: int
    ctime: int
    inode: int
    at: int
    attribute_bytes: int

    @property
    def kind(self) -> int:
        return stat.S_IFMT(self.mode)

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def status(self) -> tuple[int, ...]:
        """Mode, owner and group."""
        return self[:3]

    @property
    def content(self) -> tuple[int, ...]:
        """Where its content is kept. Of two records of a path, the same place means the same content."""
        return self[8:]


def unpack(raw: bytes) -> Record:
    return Record._make(_RECORD.unpack(raw))


def facts_of(status: os.stat_result) -> bytes:
    """The first part of a record. Size and number of names of a folder say nothing that its names do not."""
    is_folder = stat.S_ISDIR(status.st_mode)
    return FACTS.pack(
        status.st_mode,
        status.st_uid,
        status.st_gid,
        0 if is_folder else status.st_nlink,
        0 if is_folder else status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
        status.st_ino,
    )


def is_folder(raw: bytes) -> bool:
    return raw[1] & 0xF0 == 0x40


def is_link(raw: bytes) -> bool:
    return raw[1] & 0xF0 == 0xA0


def inode_bytes(raw: bytes) -> bytes:
    return raw[_INODE]


def differ(old: Record, new: Record) -> bool:
    """Whether something is different that an undo would put back."""
    if old.status != new.status or old.mtime != new.mtime or old.content != new.content:
        return True
    if new.is_folder:
        return False
    if old.inode != new.inode and max(old.links, new.links) > 1:
        return True
    # Without the content, all that is known of it has to be the same.
    return new.at < 0 and old[4:8] != new[4:8]


def is_object(path: str) -> bool:
    """Whether it is an object of git, which is written once under a name that says what is in it, or its folder."""
    return "objects/" in path and _OBJECT.search(path) is not None


def git_folder(path: str) -> str | None:
    """The `.git` that a path is or is in; None for any other path."""
    found = _GIT.match(path) if ".git" in path else None
    return None if found is None else found[0]


def join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
