"""What the journal asks about files and does to them: whose they are, what they hold, copies of them."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

from tools.files import disk


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
        disk.remove_tree(path)


def copy(source: Path, target: Path) -> None:
    """A copy of a file, a link or a folder. Raises OSError for pipes and the like."""
    status = source.lstat()
    if stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISDIR(status.st_mode):
        disk.copy_tree(source, target)
    elif stat.S_ISREG(status.st_mode):
        disk.copy_file(source, target)
    else:
        raise OSError(errno.EINVAL, "a pipe, a socket or a device cannot be copied", str(source))


def copy_out(image: Path, descriptor: int) -> None:
    reading = os.open(image, disk.READ_FLAGS)
    try:
        disk.copy_bytes(reading, descriptor, os.fstat(reading).st_size)
    finally:
        os.close(reading)


def copy_into(image: Path, target: Path) -> None:
    """Write the bytes of `image` over those of `target`, which stays the file it is."""
    reading, writing = os.open(image, disk.READ_FLAGS), os.open(target, disk.WRITE_FLAGS)
    try:
        size = os.fstat(reading).st_size
        disk.copy_bytes(reading, writing, size)
        os.ftruncate(writing, size)
        os.fsync(writing)
    finally:
        os.close(reading)
        os.close(writing)


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
