"""File operations that the standard library lacks: flags, syncing, renaming to a free name, copying, comparing."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path

# Without O_NONBLOCK, opening a pipe waits for a writer that may never come.
READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
NEW_FLAGS = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
WRITE_FLAGS = os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK
FOLDER_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1
_COPY_BYTES = 1024 * 1024
_PIPE_BYTES = 1024 * 1024


@contextlib.contextmanager
def open_descriptor(path: Path, flags: int = READ_FLAGS, mode: int = 0o600) -> Iterator[int]:
    """As `os.open`, for a `with` block: the descriptor is closed at its end."""
    descriptor = os.open(path, flags, mode)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def private_folder(folder: Path) -> None:
    """Create a folder and its missing parents with access for their owner only."""
    if folder.is_dir():
        return
    if folder.parent != folder:
        private_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


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
    """Let a pipe hold more, so that its writer goes on while we are busy with what it has written."""
    if sys.platform.startswith("linux"):
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def copy_bytes(source: int, target: int, size: int, start: int = 0) -> int:
    """Copy up to `size` bytes, from `start` on, to where another open file is; how many there were."""
    done = 0
    if hasattr(os, "copy_file_range"):
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
    """A new file `target` with the bytes, mode, owner, times and attributes of `source`."""
    with open_descriptor(source) as reading:
        status = os.fstat(reading)
        with open_descriptor(target, NEW_FLAGS) as writing:
            copy_bytes(reading, writing, status.st_size)
            copy_status(reading, status, writing)
            if sync:
                os.fsync(writing)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def copy_tree(source: Path, target: Path) -> None:
    """A copy of a folder with links as links, modes and times. Raises OSError; what was made then is removed."""
    try:
        shutil.copytree(source, target, symlinks=True, copy_function=_copy_function)
    except shutil.Error as error:
        shutil.rmtree(target, ignore_errors=True)
        raise OSError(errno.EIO, str(error.args[0][0][2])) from error
    except OSError:
        shutil.rmtree(target, ignore_errors=True)
        raise


def _copy_function(source: str, target: str) -> str:
    copy_file(Path(source), Path(target), sync=False)
    return target


def copy_status(reading: int | None, status: os.stat_result, writing: int) -> None:
    """Give an open new file the owner, the extended attributes and the mode of another.

    Raises PermissionError if the owner cannot be kept; attributes are kept as far as the system lets us.
    """
    own = os.fstat(writing)
    if (own.st_uid, own.st_gid) != (status.st_uid, status.st_gid):
        os.fchown(writing, status.st_uid, status.st_gid)
    if reading is not None and hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):
            for name in os.listxattr(reading):
                with contextlib.suppress(OSError):
                    os.setxattr(writing, name, os.getxattr(reading, name))
    os.fchmod(writing, stat.S_IMODE(status.st_mode))


def give_status(source: Path, status: os.stat_result, writing: int) -> bool:
    """Give an open new file the owner, attributes and mode of `source`; False if the system does not let us."""
    try:
        reading = os.open(source, READ_FLAGS)
    except OSError:
        reading = None
    try:
        copy_status(reading, status, writing)
    except PermissionError:
        return False
    finally:
        if reading is not None:
            os.close(reading)
    return True


def remove_tree(path: Path) -> None:
    """Remove a file, a link, or a folder with all that is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


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


def discard(path: Path) -> None:
    if os.path.lexists(path):
        remove_tree(path)


def copy_any(source: Path, target: Path) -> None:
    """A copy of a file, a link or a folder. Raises OSError for pipes and the like."""
    status = source.lstat()
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISDIR(status.st_mode):
        copy_tree(source, target)
    elif stat.S_ISREG(status.st_mode):
        copy_file(source, target)
    else:
        raise OSError(errno.EINVAL, "a pipe, a socket or a device cannot be copied", str(source))


def copy_out(image: Path, descriptor: int) -> None:
    with open_descriptor(image) as reading:
        copy_bytes(reading, descriptor, os.fstat(reading).st_size)


def copy_into(image: Path, target: Path) -> None:
    """Write the bytes of `image` over those of `target`, which stays the file it is."""
    with open_descriptor(image) as reading, open_descriptor(target, WRITE_FLAGS) as writing:
        overwrite(reading, writing)


def overwrite(reading: int, writing: int) -> None:
    """Make what is in one open file the content of another, on disk."""
    size = os.fstat(reading).st_size
    copy_bytes(reading, writing, size)
    os.ftruncate(writing, size)
    os.fsync(writing)


def tree_bytes(path: Path, status: os.stat_result, enough: int) -> int:
    """How much a file or a folder takes, counted no further than a little over `enough`."""
    if not stat.S_ISDIR(status.st_mode):
        return status.st_size
    total, folders = 0, [os.fspath(path)]
    while folders and total <= enough:
        try:
            with os.scandir(folders.pop()) as children:
                for child in children:
                    if child.is_dir(follow_symlinks=False):
                        folders.append(child.path)
                    else:
                        total += child.stat(follow_symlinks=False).st_size
                    total += 64
        except OSError:
            continue
    return total


def digest(path: Path) -> str:
    """What a file or a folder holds, in one value: names, kinds, links and bytes."""
    digest = blake2b(digest_size=16)
    _feed(digest.update, path, "")
    return digest.hexdigest()


def _feed(update: Callable[[bytes], None], path: Path, name: str) -> None:
    status = path.lstat()
    update(f"{stat.S_IFMT(status.st_mode)} {name!r}\n".encode("utf-8", "surrogateescape"))
    if stat.S_ISLNK(status.st_mode):
        update(os.fsencode(os.readlink(path)))
    elif stat.S_ISDIR(status.st_mode):
        for child in sorted(os.listdir(path)):
            _feed(update, path / child, child)
    elif stat.S_ISREG(status.st_mode):
        with open(path, "rb", buffering=0) as file:
            while data := file.read(1 << 20):
                update(data)


@functools.cache
def _renameat2() -> Callable[..., int] | None:
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    try:
        function = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return None
    function.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return function
