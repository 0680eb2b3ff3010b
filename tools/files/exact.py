"""Opening a path that must not lead through a symbolic link.

A path is checked by its name and opened by its name. If somebody puts a link in its place between the two, the name
leads elsewhere (TOCTOU). So what was checked with its links resolved is opened here, where a link anywhere on the way
is an error. Linux does that in one call, `openat2`; where it cannot, each part is opened relative to the one before.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.files.paths import to_wire
from tools.kit.errors import replaced_meanwhile

_OPENAT2 = 437
_AT_FDCWD = -100
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
# Such a descriptor serves only as a place to open other files at.
PLACE_FLAGS = os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY
# To look at a file without reading it: a pipe or a device is not disturbed.
LOOK_FLAGS = os.O_PATH | os.O_CLOEXEC
# Deeper than this, a folder is opened from the base on.
_OPEN_LEVELS = 64
_NO_LINK = os.O_NOFOLLOW | os.O_CLOEXEC


def open_exact(path: str | bytes, flags: int, folder: int | None = None) -> int:
    """A descriptor of an absolute path, or of a path below the open `folder`.

    Raises OSError; with ELOOP if a part of the path is a symbolic link.
    """
    call = _openat2()
    if call is None:
        return _open_by_parts(path, flags, folder)
    return call(path, flags, folder)


@contextlib.contextmanager
def exact_descriptor(path: str | bytes, flags: int, folder: int | None = None) -> Iterator[int]:
    """As `open_exact`, for a `with` block: the descriptor is closed at its end."""
    descriptor = open_exact(path, flags, folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def path_of_open(descriptor: int) -> Path | None:
    """Where an open file or folder is, whatever links led to it; None where the system does not say."""
    try:
        return Path(f"/proc/self/fd/{descriptor}").readlink()
    except OSError:
        return None


def path_through(descriptor: int, path: Path) -> Path:
    """A /proc path of the open folder, which is at `path`; it stays valid after a rename."""
    return Path(f"/proc/self/fd/{descriptor}") if Path("/proc/self/fd").is_dir() else path


@contextlib.contextmanager
def path_in_open_folder(path: Path) -> Iterator[Path]:
    """A path of the same thing that goes through the open folder it is in: so it stays in that folder until the end of
    the block, whatever is put in the folder's place. Raises OSError; IoError if a part of the folder became a link
    after it was checked.
    """
    try:
        folder = open_exact(str(path.parent), PLACE_FLAGS)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise replaced_meanwhile(to_wire(path)) from error
        raise
    try:
        yield path_through(folder, path.parent) / path.name
    finally:
        os.close(folder)


def make_folders(path: Path) -> None:
    """Create a folder and its missing parents, through no link. Raises OSError as `open_exact` and `mkdir` do."""
    missing: list[str] = []
    while True:
        try:
            place = open_exact(str(path), PLACE_FLAGS)
            break
        except FileNotFoundError:
            missing.append(path.name)
            path = path.parent
    try:
        for name in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, dir_fd=place)
            inner = os.open(name, PLACE_FLAGS | os.O_NOFOLLOW, dir_fd=place)
            os.close(place)
            place = inner
    finally:
        os.close(place)


class Descent:
    """The folders on the way from an open folder down to where a walk is. Each is opened in the one above it, and never
    through a link. Few of them stay open, however deep the tree is.
    """

    def __init__(self, base: int) -> None:
        self._base = base
        self._names: list[str] = []
        self._descriptors: list[int | None] = []

    def place(self) -> int:
        """A descriptor of the folder where the walk is, for opening and looking at what is in it. Raises OSError."""
        if not self._names:
            return self._base
        descriptor = self._descriptors[-1]
        if descriptor is None:
            above = self._base if len(self._names) == 1 else self._descriptors[-2]
            if above is None:
                descriptor = open_exact("/".join(self._names), PLACE_FLAGS, self._base)
            else:
                descriptor = os.open(self._names[-1], PLACE_FLAGS | os.O_NOFOLLOW, dir_fd=above)
            self._descriptors[-1] = descriptor
        return descriptor

    def enter(self, name: str) -> None:
        if len(self._names) >= _OPEN_LEVELS:
            self._close(len(self._names) - 1)
        self._names.append(name)
        self._descriptors.append(None)

    def leave(self) -> None:
        self._close(len(self._names) - 1)
        self._names.pop()
        self._descriptors.pop()

    def close(self) -> None:
        for level in range(len(self._names)):
            self._close(level)

    def _close(self, level: int) -> None:
        descriptor, self._descriptors[level] = self._descriptors[level], None
        if descriptor is not None:
            os.close(descriptor)


@functools.cache
def _openat2() -> Callable[[str | bytes, int, int | None], int] | None:
    """The system call; None where there is none, or where a sandbox refuses it. To look takes as long as four opens."""
    import ctypes

    try:
        system_call = ctypes.CDLL(None, use_errno=True).syscall
    except (AttributeError, OSError):
        return None
    system_call.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t)
    system_call.restype = ctypes.c_long

    def openat2(path: str | bytes, flags: int, folder: int | None) -> int:
        # struct open_how: flags, mode, resolve.
        data = struct.pack("QQQ", flags, 0, _RESOLVE_NO_SYMLINKS | (0 if folder is None else _RESOLVE_BENEATH))
        place = _AT_FDCWD if folder is None else folder
        descriptor = system_call(_OPENAT2, place, os.fsencode(path), data, len(data))
        if descriptor < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), os.fsdecode(path))
        return int(descriptor)

    try:
        os.close(openat2("/", PLACE_FLAGS, None))
    except OSError:
        return None
    return openat2


def _open_by_parts(path: str | bytes, flags: int, folder: int | None) -> int:
    *above, last = [part for part in os.fsdecode(path).split("/") if part not in ("", ".")] or ["."]
    if ".." in above or last == "..":
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), os.fsdecode(path))
    place = os.open("/", PLACE_FLAGS) if folder is None else os.dup(folder)
    try:
        for part in above:
            inner = _open_part(part, PLACE_FLAGS, place)
            os.close(place)
            place = inner
        return _open_part(last, flags, place)
    finally:
        os.close(place)


def _open_part(part: str, flags: int, place: int) -> int:
    try:
        return os.open(part, flags | _NO_LINK, dir_fd=place)
    except NotADirectoryError:
        # A link gives the same error where a folder is asked for.
        if stat.S_ISLNK(os.stat(part, dir_fd=place, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), part) from None
        raise
