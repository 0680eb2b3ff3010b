"""Opening, reading and replacing whole files in ways that the standard library lacks, and locks between processes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

# Without O_NONBLOCK, opening a pipe waits for a writer that may never come.
READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
NEW_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
WRITE_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
FOLDER_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY
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


def lstat(path: Path) -> os.stat_result | None:
    """None where nothing has that name."""
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


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
