"""Replaces whole files, and locks files and folders between processes.

A reader sees the old content or the new one, never a mixture of the two.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tools.files import disk


def replace_file(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Make `data` the content of `path`, readable for its owner only. The folder is created if it is missing."""
    disk.private_folder(path.parent)
    with replacing(path, sync=sync) as descriptor:
        disk.write_all(descriptor, data)


@contextmanager
def replacing(path: Path, *, temporary: Path | None = None, sync: bool = True) -> Iterator[int]:
    """Give the descriptor of a new file, which takes the name `path` when the block ends without an error.

    `temporary` is its name until then. Name one where only one writer is at work at a time: then the next writer
    removes what a killed one left behind.
    """
    if temporary is None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}.new")
    else:
        temporary.unlink(missing_ok=True)
    with disk.open_descriptor(temporary, disk.NEW_FLAGS) as descriptor:
        try:
            yield descriptor
            if sync:
                os.fsync(descriptor)
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder against all other processes and threads. It is created if it is missing."""
    disk.private_folder(folder)
    with disk.open_descriptor(folder, disk.FOLDER_FLAGS) as descriptor:
        lock(descriptor)
        yield


def lock(descriptor: int, *, wait: bool = True) -> bool:
    """Lock an open file until it is closed. Without `wait`, return False if another process holds the lock."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
