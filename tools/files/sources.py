"""What tools open: a file by its path, or an artifact or old version by its reference."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from tools.files import disk
from tools.files.exact import open_exact
from tools.files.paths import OpenPaths, to_wire
from tools.kit.errors import Denied, IsSpecial, NotADirectory, NotAFile, NotFound, from_os_error, replaced_meanwhile
from tools.kit.spelling import nearest

_ARTIFACT = "ax://"
_UNDO = "undo://"
# So a miss costs little, however full the folder is.
_ALIKE_ENTRIES = 500
# A file of another name is seldom meant.
_LIKENESS = 0.8


class Source(Struct, frozen=True):
    """Where to read, and the name of it in results. What the daemon keeps is open although its folder is closed.

    `place` is the path that rules apply to: for an old version, where the file was; for an artifact there is none.
    """

    path: Path
    shown: str
    place: Path | None
    is_kept: bool = False


def is_reference(path: str) -> bool:
    return path.startswith((_ARTIFACT, _UNDO))


def is_artifact(path: str) -> bool:
    return path.startswith(_ARTIFACT)


class OpenFile(NamedTuple):
    """A regular file that is open for reading, and its status at that time."""

    descriptor: int
    status: os.stat_result


@contextlib.contextmanager
def open_source(paths: OpenPaths, origin: Source) -> Iterator[OpenFile]:
    """Open a regular file for reading. Never waits for a pipe. Raises a ToolError, also for an OSError in the block."""
    try:
        descriptor = os.open(origin.path, disk.READ_FLAGS)
    except OSError as error:
        # A socket or a device without a driver cannot be opened at all, and says so in its own words.
        _refuse_special(origin.path, origin.shown)
        alike = (
            _similar_name(paths, origin.path) if isinstance(error, FileNotFoundError) and not origin.is_kept else None
        )
        if alike is not None:
            raise NotFound(f"{origin.shown} does not exist", hint=f"did you mean {to_wire(alike)}?") from error
        raise from_os_error(error, origin.shown) from error
    try:
        if not origin.is_kept:
            paths.check_open(descriptor, origin.path)
        status = os.fstat(descriptor)
        refuse(status.st_mode, origin.shown)
        yield OpenFile(descriptor, status)
    except OSError as error:
        raise from_os_error(error, origin.shown) from error
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def open_existing(paths: OpenPaths, target: Path, shown: str) -> Iterator[OpenFile | None]:
    """The open file and its status, or None if there is none. Raises for folders, pipes and the like."""
    try:
        status = target.stat()
        # Before it is opened: opening a pipe or a device has effects of its own.
        refuse(status.st_mode, shown)
        descriptor = os.open(target, disk.READ_FLAGS)
    except FileNotFoundError:
        yield None
        return
    except NotADirectoryError as error:
        raise NotADirectory(f"{shown}: a part of this path is a file, not a folder") from error
    except OSError as error:
        raise from_os_error(error, shown) from error
    try:
        paths.check_open(descriptor, target)
        yield OpenFile(descriptor, os.fstat(descriptor))
    except OSError as error:
        raise from_os_error(error, shown) from error
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def open_folder(real: Path, shown: str, *, hint: str = "give the folder it is in") -> Iterator[int]:
    """Open a folder by its path without links, as `OpenPaths.real` gives it: so it is the folder that was checked.

    `hint` is for a file. Raises a ToolError, also for an OSError in the block.
    """
    try:
        descriptor = open_exact(str(real), disk.FOLDER_FLAGS)
    except OSError as error:
        try:
            is_folder = stat.S_ISDIR(real.stat().st_mode)
        except OSError as reason:
            raise from_os_error(reason, shown) from reason
        if error.errno in (errno.ENOTDIR, errno.ELOOP) and is_folder:
            raise replaced_meanwhile(shown) from error
        if not is_folder:
            raise NotADirectory(f"{shown} is a file, not a folder", hint=hint) from error
        raise from_os_error(error, shown) from error
    try:
        yield descriptor
    except OSError as error:
        raise from_os_error(error, shown) from error
    finally:
        os.close(descriptor)


def open_files_below(paths: OpenPaths, folder: Path, real: Path) -> Callable[[bytes], bool] | None:
    """A test for paths below `folder` that is False for what is closed or denied; None where nothing is.

    `real` is where the folder was when it was opened.
    """
    why = paths.denial_test(folder, real)
    return None if why is None else lambda path: why(os.fsdecode(path)) is None


def refuse(mode: int, shown: str) -> None:
    """Raise unless `mode` is a regular file's."""
    if stat.S_ISDIR(mode):
        raise NotAFile(f"{shown} is a folder", hint="list it with fs_list")
    if not stat.S_ISREG(mode):
        raise IsSpecial(f"{shown} is a pipe, a socket or a device, and those are never opened")


def _similar_name(paths: OpenPaths, missing: Path) -> Path | None:
    """What is in the same folder under nearly the same name, of its first entries, and open to the caller."""
    try:
        with os.scandir(missing.parent) as found:
            names = [child.name for child in itertools.islice(found, _ALIKE_ENTRIES)]
    except OSError:
        return None
    if (near := nearest(missing.name, names, _LIKENESS)) is not None:
        alike = missing.with_name(near)
        with contextlib.suppress(Denied):
            paths.check(alike)
            return alike
    return None


def _refuse_special(target: Path, shown: str) -> None:
    try:
        mode = os.stat(target).st_mode  # noqa: PTH116 - the same call as open's, without a Path in between
    except OSError:
        return
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        refuse(mode, shown)
