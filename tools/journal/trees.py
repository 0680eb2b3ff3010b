"""Whole folders: removing, copying, measuring and comparing them. None of it recurses, however deep a folder is."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from tools.files import disk
from tools.files.exact import Descent, path_through
from tools.journal import copies

# What a name in a folder takes besides the content of the file, about.
_ENTRY_BYTES = 64


def remove_tree(path: Path) -> None:
    """Remove a file, a link, or a folder with all that is in it, however deep. Raises OSError.

    Every folder in it is moved to the top before it is emptied: so there is no recursion, one open descriptor, and no
    path that is too long for the system. Folders that we may not write are given the rights, as far as they are ours.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    moved = 0
    with disk.open_descriptor(path, disk.FOLDER_FLAGS | os.O_NOFOLLOW) as top:
        while folders := _remove_files(top):
            for name in folders:
                with _open_folder(name, top) as folder:
                    for inner in _remove_files(folder):
                        moved = _move_up(inner, folder, top, moved)
                os.rmdir(name, dir_fd=top)
    path.rmdir()


def _remove_files(folder: int) -> list[str]:
    """Remove what is no folder, and the empty folders. Gives the names of the others."""
    left = []
    with os.scandir(folder) as found:
        children = [(child.name, child.is_dir(follow_symlinks=False)) for child in found]
    for name, is_folder in children:
        try:
            if is_folder:
                os.rmdir(name, dir_fd=folder)
            else:
                _with_rights(partial(os.unlink, name, dir_fd=folder), folder)
        except OSError as error:
            if not is_folder or error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.EACCES, errno.EPERM):
                raise
            left.append(name)
    return left


@contextmanager
def _open_folder(name: str, parent: int) -> Iterator[int]:
    flags = disk.FOLDER_FLAGS | os.O_NOFOLLOW
    try:
        descriptor = os.open(name, flags, dir_fd=parent)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=parent)
        descriptor = os.open(name, flags, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _move_up(name: str, folder: int, top: int, moved: int) -> int:
    """Rename a folder to a number in `top` that is free, or an empty folder's. Gives the number."""
    while True:
        moved += 1
        try:
            # Its own entry for the folder above it changes, too: so both must be writable.
            rename = partial(os.rename, name, str(moved), src_dir_fd=folder, dst_dir_fd=top)
            _with_rights(rename, folder, name)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        else:
            return moved


def _with_rights(change: Callable[[], None], folder: int, name: str | None = None) -> None:
    """Make a change in a folder; where it is refused, make the folder writable, and the one of that name in it."""
    try:
        change()
    except PermissionError:
        os.fchmod(folder, 0o700)
        if name is not None:
            os.chmod(name, 0o700, dir_fd=folder)
        change()


def discard(path: Path) -> None:
    if os.path.lexists(path):
        remove_tree(path)


def copy_any(source: Path, target: Path) -> None:
    """A copy of a file, a link or a folder. Raises OSError for pipes and the like."""
    status = source.lstat()
    if stat.S_ISLNK(status.st_mode):
        target.symlink_to(source.readlink())
    elif stat.S_ISDIR(status.st_mode):
        copy_tree(source, target)
    elif stat.S_ISREG(status.st_mode):
        copies.copy_file(source, target)
    else:
        raise _not_copyable(source)


def copy_tree(source: Path, target: Path) -> None:
    """A copy of a folder with links as links, modes and times. Raises OSError; what was made then is removed.

    Each folder is opened in the one above it: a link that somebody puts in its place meanwhile is not followed.
    """
    try:
        with disk.open_descriptor(source, disk.FOLDER_FLAGS | os.O_NOFOLLOW) as base, closing(Descent(base)) as descent:
            copy = target
            # For each folder from the top down to where we are, the folders in it that are not copied yet.
            waiting = [_copy_files(path_through(base, source), copy)]
            while waiting:
                if waiting[-1]:
                    name = waiting[-1].pop()
                    descent.enter(name)
                    source, copy = source / name, copy / name
                    waiting.append(_copy_files(path_through(descent.place(), source), copy))
                    continue
                # Last, because what is made in a folder changes its times.
                shutil.copystat(path_through(descent.place(), source), copy)
                waiting.pop()
                if waiting:
                    descent.leave()
                    source, copy = source.parent, copy.parent
    except OSError:
        discard(target)
        raise


def _copy_files(folder: Path, copy: Path) -> list[str]:
    """Make the folder `copy`, with copies of what is no folder. Gives the names of the folders."""
    copy.mkdir(0o700)
    folders = []
    with os.scandir(folder) as children:
        for child in children:
            if child.is_symlink():
                (copy / child.name).symlink_to(Path(child.path).readlink())
            elif child.is_dir(follow_symlinks=False):
                folders.append(child.name)
            elif child.is_file(follow_symlinks=False):
                copies.copy_file(Path(child.path), copy / child.name, sync=False)
            else:
                raise _not_copyable(copy / child.name)
    return folders


def _not_copyable(path: Path) -> OSError:
    return OSError(errno.EINVAL, "a pipe, a socket or a device cannot be copied", str(path))


def tree_bytes(path: Path, status: os.stat_result, enough: int) -> int:
    """How much a file or a folder takes, counted no further than a little over `enough`."""
    if not stat.S_ISDIR(status.st_mode):
        return status.st_size
    total = 0
    for size in _sizes(path):
        total += _ENTRY_BYTES + (size or 0)
        if total > enough:
            break
    return total


def tree_contents(path: Path, most_entries: int) -> tuple[int, int, bool]:
    """How many files there are in a folder, how many bytes, and whether that is all: it counts up to a limit."""
    sizes = list(islice(_sizes(path), most_entries))
    files = [size for size in sizes if size is not None]
    return len(files), sum(files), len(sizes) < most_entries


def _sizes(folder: Path) -> Iterator[int | None]:
    """The size of everything below a folder, as far as it can be read; None for a folder."""
    waiting = [os.fspath(folder)]
    while waiting:
        with suppress(OSError), os.scandir(waiting.pop()) as children:
            for child in children:
                if child.is_dir(follow_symlinks=False):
                    waiting.append(child.path)
                    yield None
                else:
                    yield child.stat(follow_symlinks=False).st_size


def digest(path: Path) -> str:
    """What a file or a folder holds, in one value: names, kinds, links and bytes."""
    digest = blake2b(digest_size=16)
    waiting = [(path, "")]
    while waiting:
        here, name = waiting.pop()
        status = here.lstat()
        digest.update(f"{stat.S_IFMT(status.st_mode)} {name!r}\n".encode("utf-8", "surrogateescape"))
        if stat.S_ISLNK(status.st_mode):
            digest.update(os.fsencode(here.readlink()))
        elif stat.S_ISDIR(status.st_mode):
            waiting += [(child, f"{name}/{child.name}") for child in sorted(here.iterdir())]
        elif stat.S_ISREG(status.st_mode):
            with open(here, "rb", buffering=0) as file:
                while data := file.read(1 << 20):
                    digest.update(data)
    return digest.hexdigest()
