"""What an index of git says without the times and inodes in it: `git status` writes those anew, and means nothing."""

from __future__ import annotations

import struct

_HEADER = struct.Struct(">4sII")
# The flags of an entry stand behind 60 bytes: ten numbers of 4, and 20 bytes that name the object.
_FLAGS_AT, _NAME_AT, _EXTENDED = 60, 62, 0x4000


def is_index(path: str) -> bool:
    return path.endswith("/index") and (path.startswith(".git/") or "/.git/" in path)


def index_digest(data: bytes) -> bytes:
    """The same for two indexes that list the same files in the same state; of an unknown form, a digest of all."""
    # Imported at first use: the helper process starts while a command waits for it.
    from hashlib import blake2b

    found = blake2b(digest_size=16)
    try:
        magic, version, count = _HEADER.unpack_from(data)
        if magic != b"DIRC" or version not in (2, 3):
            raise ValueError
        at = _HEADER.size
        for _ in range(count):
            flags = int.from_bytes(data[at + _FLAGS_AT : at + _NAME_AT], "big")
            name_at = at + _NAME_AT + (2 if flags & _EXTENDED else 0)
            end = data.index(b"\0", name_at)
            # Mode, object, flags and name; not the ten numbers of the file.
            found.update(data[at + 24 : at + 28])
            found.update(data[at + 40 : end + 1])
            at += (end - at + 8) & ~7
    except (struct.error, ValueError):
        return blake2b(data, digest_size=16).digest()
    return found.digest()
