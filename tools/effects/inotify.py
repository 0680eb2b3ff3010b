"""inotify by ctypes: one watch for each folder. The queue is read when somebody asks, so nothing runs meanwhile."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import NamedTuple

_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x2, 0x4, 0x8, 0x40, 0x80, 0x100, 0x200
_QUEUE_OVERFLOW, _IGNORED = 0x4000, 0x8000
_ONLY_FOLDERS, _NO_LINKS = 0x01000000, 0x02000000
_MASK = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLY_FOLDERS | _NO_LINKS
_EVENT = struct.Struct("iIII")
_READ_BYTES = 1 << 18


class SeenEvents(NamedTuple):
    """What the queue had: names by watch, watches that have ended, and whether events were lost."""

    names: dict[int, set[str]]
    ended: set[int]
    has_lost: bool


class Watches:
    """The watches of one project. Raises OSError where the system has no inotify, or the user no more instances."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        try:
            self.descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        except AttributeError:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None
        if self.descriptor < 0:
            raise _last_error("inotify_init1")

    def add(self, path: str) -> int:
        """The number of the watch; a folder that is watched already has the same one. ENOSPC: there are no more."""
        number: int = self._libc.inotify_add_watch(self.descriptor, os.fsencode(path), _MASK)
        if number < 0:
            raise _last_error(path)
        return number

    def drain(self) -> SeenEvents:
        seen = SeenEvents({}, set(), False)
        while True:
            try:
                data = os.read(self.descriptor, _READ_BYTES)
            except BlockingIOError:
                return seen
            if _add_events(seen, data):
                seen = seen._replace(has_lost=True)

    def close(self) -> None:
        os.close(self.descriptor)


def _add_events(seen: SeenEvents, data: bytes) -> bool:
    """Whether the kernel says that it has dropped events."""
    at, end, has_lost = 0, len(data), False
    names = seen.names
    while at < end:
        watch, mask, _, length = _EVENT.unpack_from(data, at)
        at += _EVENT.size + length
        if mask & _QUEUE_OVERFLOW:
            has_lost = True
        elif mask & _IGNORED:
            seen.ended.add(watch)
        else:
            name = os.fsdecode(data[at - length : at].rstrip(b"\0"))
            if watch in names:
                names[watch].add(name)
            else:
                names[watch] = {name}
    return has_lost


def _last_error(what: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), what)
