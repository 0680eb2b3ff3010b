"""File operations that the standard library lacks: replacing whole files, locks between processes, syncing, renaming to
a free name, copying, comparing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

# Without O_NONBLOCK, opening a pipe waits for a writer that may never come.
READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
NEW_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
WRITE_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
FOLDER_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_COPY_BYTES = 1024 * 1024
_PIPE_BYTES = 1024 * 1024
_SMALL_BYTES = 64 * 1024 * 1024


@contextlib.contextmanager
def open_descriptor(path: Path, flags: int = READ_FLAGS, mode: int = 0o600) -> Iterator[int]:
    """As `os.open`, for a `with` block: the descriptor is closed at its end."""
    descriptor = os.open(path, flags, mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def open_regular(path: Path | str, flags: int = READ_FLAGS, mode: int = 0o600) -> int:
    """As `os.open`, for our own files: never waits, and raises an OSError for a pipe, a socket or a device."""
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, mode)
    except OSError as error:
        # A socket, a device without a driver, or a pipe that nobody reads.
        if error.errno in (errno.ENXIO, errno.ENODEV):
            raise _not_regular(path) from None
        raise
    file_type = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if file_type == stat.S_IFREG:
        return descriptor
    os.close(descriptor)
    if file_type == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise _not_regular(path)


def open_private(path: str, flags: int) -> int:
    """An `opener` of Python's `open`: a file that it makes is its owner's alone."""
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def _not_regular(path: Path | str) -> OSError:
    return OSError(errno.EINVAL, "it is a pipe, a socket or a device, and not a regular file", str(path))


def read_small_file(path: Path | str, most_bytes: int = _SMALL_BYTES) -> bytes:
    """The content of a regular file. Raises OSError, also for a pipe or a device and for a file that is larger."""
    descriptor = open_regular(path)
    try:
        size = os.fstat(descriptor).st_size
        if size > most_bytes:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(path))
        return read_up_to(descriptor, most_bytes, size)
    finally:
        os.close(descriptor)


def read_up_to(descriptor: int, limit: int, expected: int) -> bytes:
    """The first `limit` bytes of a file, of which `expected` are likely there.

    Allocate only what is expected: over-sized reads fragment the heap.
    """
    data = os.pread(descriptor, min(limit, expected + 1), 0)
    if len(data) <= expected or len(data) == limit:
        return data
    # The file has grown, or it is in /proc, where sizes are 0.
    parts, size = [data], len(data)
    while size < limit and (data := os.pread(descriptor, min(limit - size, _COPY_BYTES), size)):
        parts.append(data)
        size += len(data)
    return b"".join(parts)


def private_folder(folder: Path) -> None:
    """Create a folder and its missing parents with access for their owner only."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        private_folder(folder.parent)
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` survive a power cut. Where folders cannot be synced, nothing is done."""
    with contextlib.suppress(OSError), open_descriptor(folder, FOLDER_FLAGS) as descriptor:
        os.fsync(descriptor)


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


def widen_pipe(descriptor: int) -> None:
    """Enlarge a pipe, so that its writer can go on while we handle earlier output."""
    with contextlib.suppress(OSError):
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def replace_file(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Make `data` the content of `path`, readable for its owner only. The folder is created if it is missing.

    A reader sees the old content or the new one, never a mixture of the two.
    """
    private_folder(path.parent)
    with replacing(path, sync=sync) as descriptor:
        write_all(descriptor, data)


@contextlib.contextmanager
def replacing(path: Path, *, temporary: Path | None = None, sync: bool = True) -> Iterator[int]:
    """Give the descriptor of a new file, which takes the name `path` when the block ends without an error.

    `temporary` is its name until then. Name one where only one writer is at work at a time: then the next writer
    removes what a killed one left behind.
    """
    if temporary is None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.new")
    else:
        temporary.unlink(missing_ok=True)
    with open_descriptor(temporary, NEW_FLAGS) as descriptor:
        try:
            yield descriptor
            if sync:
                os.fsync(descriptor)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder against all other processes and threads. It is created if it is missing."""
    private_folder(folder)
    with open_descriptor(folder, FOLDER_FLAGS) as descriptor:
        lock(descriptor)
        yield


def lock(descriptor: int, *, wait: bool = True) -> bool:
    """Lock an open file until it is closed. Without `wait`, return False if another process holds the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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


def lstat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


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
