"""Copies of a file with all that belongs to it, renaming to a free name, and how a file is known again."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from tools.files.disk import NEW_FLAGS, READ_FLAGS, lstat, open_descriptor, write_all

_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_COPY_BYTES = 1024 * 1024


def rename_new(source: Path, target: Path) -> None:
    """Rename to a name that must be free. Raises FileExistsError, atomically where the system can."""
    rename = _renameat2()
    if rename is not None:
        import ctypes

        if rename(_AT_FDCWD, os.fsencode(source), _AT_FDCWD, os.fsencode(target), _RENAME_NOREPLACE) == 0:
            return
        code = ctypes.get_errno()
        if code not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
            raise OSError(code, os.strerror(code), str(source), None, str(target))
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    os.rename(source, target)


def copy_bytes(source: int, target: int, size: int, start: int = 0) -> int:
    """Copy up to `size` bytes, from `start` on, to where another open file is; how many there were."""
    done = 0
    try:
        while done < size and (
            count := os.copy_file_range(source, target, min(size - done, 1 << 30), offset_src=start + done)
        ):
            done += count
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF):
            raise
    while done < size and (data := os.pread(source, min(size - done, _COPY_BYTES), start + done)):
        write_all(target, data)
        done += len(data)
    return done


def copy_file(source: Path, target: Path, *, sync: bool = True) -> None:
    """A new file `target` with the bytes, mode, owner, times and attributes of `source`, which must not be a link."""
    with open_descriptor(source, READ_FLAGS | os.O_NOFOLLOW) as reading:
        status = os.fstat(reading)
        with open_descriptor(target, NEW_FLAGS) as writing:
            copy_bytes(reading, writing, status.st_size)
            _copy_status(source, status, writing)
            if sync:
                os.fsync(writing)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _copy_status(source: Path, status: os.stat_result, writing: int) -> None:
    """Raises PermissionError if the owner cannot be kept; attributes are kept as far as the system lets us."""
    own = os.fstat(writing)
    if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
        os.fchown(writing, status.st_uid, status.st_gid)
    with contextlib.suppress(OSError):
        for name in os.listxattr(source, follow_symlinks=False):
            with contextlib.suppress(OSError):
                os.setxattr(writing, name, os.getxattr(source, name, follow_symlinks=False))
    os.fchmod(writing, stat.S_IMODE(status.st_mode))


def give_status(source: Path, status: os.stat_result, writing: int) -> bool:
    """Give an open new file the owner, attributes and mode of `source`; False if the system does not let us."""
    try:
        _copy_status(source, status, writing)
    except PermissionError:
        return False
    return True


def identity(status: os.stat_result) -> list[int]:
    # The time of the last status change is left out: a second name for the file changes it and nothing else.
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns]


def inode(status: os.stat_result) -> list[int]:
    return [status.st_dev, status.st_ino]


def is_same(first: Path, second: Path) -> bool:
    one, other = lstat(first), lstat(second)
    return one is not None and other is not None and (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def copy_out(image: Path, descriptor: int) -> None:
    with open_descriptor(image) as reading:
        copy_bytes(reading, descriptor, os.fstat(reading).st_size)


def restore(image: Path, writing: int) -> None:
    """Write the bytes of `image` over those of an open file, and give it the time of `image`."""
    with open_descriptor(image) as reading:
        overwrite(reading, writing)
        status = os.fstat(reading)
        os.utime(writing, ns=(status.st_atime_ns, status.st_mtime_ns))


def cut(writing: int, before: list[int]) -> None:
    """Restore the length and the time of an open file from its earlier `identity`."""
    os.ftruncate(writing, before[2])
    os.utime(writing, ns=(before[3], before[3]))
    os.fsync(writing)


def overwrite(reading: int, writing: int) -> None:
    """Make what is in one open file the content of another, on disk."""
    size = os.fstat(reading).st_size
    os.lseek(writing, 0, os.SEEK_SET)
    copy_bytes(reading, writing, size)
    os.ftruncate(writing, size)
    os.fsync(writing)


def _renameat2() -> Callable[..., int] | None:
    import ctypes

    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return function
