"""A folder that `read` and `grep` cannot leave, whatever the path says and whatever changes while it is looked at.

A path is walked one part at a time, each opened relative to the folder that was opened before it and never through a
symbolic link; a link is read and walked in turn. So what is checked is what is opened: there is no moment between
the two in which a folder can be exchanged for a link. Only files and folders are opened, never a pipe or a device.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

_MOST_LINKS = 40
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a pipe waits for a writer that may never come.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class OutsideRoot(Exception):
    """The path leads out of the root. `is_lexical` if the path alone says so, without a look at the disk."""

    def __init__(self, path: str, root: Path, *, is_lexical: bool) -> None:
        super().__init__(f"{path} is outside the root ({root})")
        self.is_lexical = is_lexical


class NotThere(Exception):
    """What is there is neither a file nor a folder, or the other of the two."""


class ConfinedRoot:
    """One root. Paths are absolute, or relative to it."""

    def __init__(self, root: Path) -> None:
        self.path = Path(os.path.realpath(root))
        self._given = Path(os.path.normpath(root))

    def parts(self, path: str) -> list[str]:
        """The parts of `path` below the root. Raises OutsideRoot for one that leaves it by its letters alone."""
        if path.startswith("/"):
            normal = Path(os.path.normpath(path))
            for root in (self.path, self._given):
                if normal.is_relative_to(root):
                    return [part for part in self._below(path, root) if part]
            raise OutsideRoot(path, self.path, is_lexical=True)
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if _leaves(parts):
            raise OutsideRoot(path, self.path, is_lexical=True)
        return parts

    def shown(self, path: str) -> str:
        """The path as results give it: absolute."""
        return os.path.normpath(self.path.joinpath(*self.parts(path)))

    @contextlib.contextmanager
    def opened(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        """A descriptor of the file or folder at `path`, and what it is. Raises OSError, OutsideRoot, NotThere."""
        folders = [os.open(self.path, _FOLDER & ~os.O_NOFOLLOW)]
        found = -1
        try:
            found = self._walked(path, folders)
            yield found, os.fstat(found)
        finally:
            if found >= 0 and found not in folders:
                os.close(found)
            for descriptor in folders:
                os.close(descriptor)

    def _walked(self, path: str, folders: list[int]) -> int:
        waiting = self.parts(path)[::-1]
        links = 0
        while waiting:
            part = waiting.pop()
            if part == "..":
                if len(folders) == 1:
                    raise OutsideRoot(path, self.path, is_lexical=False)
                os.close(folders.pop())
                continue
            status = os.stat(part, dir_fd=folders[-1], follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                target = os.readlink(part, dir_fd=folders[-1])
                if target.startswith("/"):
                    if not Path(os.path.normpath(target)).is_relative_to(self.path):
                        raise OutsideRoot(path, self.path, is_lexical=False)
                    while len(folders) > 1:
                        os.close(folders.pop())
                    waiting += self._below(target, self.path)[::-1]
                else:
                    waiting += [each for each in target.split("/") if each not in ("", ".")][::-1]
            elif waiting or stat.S_ISDIR(status.st_mode):
                folders.append(_opened(part, _FOLDER, folders[-1], path))
            elif stat.S_ISREG(status.st_mode):
                return self._file(part, folders[-1], path)
            else:
                raise NotThere(f"{path} is a pipe, a socket or a device, and those are never opened")
        return folders[-1]

    def _file(self, part: str, folder: int, path: str) -> int:
        descriptor = _opened(part, _FILE, folder, path)
        # What was a file a moment ago may be a pipe now; it has been opened without waiting, and nothing was read.
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise NotThere(f"{path} is no regular file any more")
        return descriptor

    def _below(self, path: str, root: Path) -> list[str]:
        """The parts of an absolute path inside `root`, one after the other, `..` taken as it stands."""
        parts = [part for part in path.split("/") if part not in ("", ".")]
        above, below = parts[: len(root.parts) - 1], parts[len(root.parts) - 1 :]
        if above == list(root.parts[1:]) and not _leaves(below):
            return below
        # A path that only comes to lie inside once its `..` are taken out is walked as what it comes to.
        return list(Path(os.path.normpath(path)).relative_to(root).parts)


def _leaves(parts: list[str]) -> bool:
    """Whether `..` leads above where these parts begin, if only for a moment."""
    depth = 0
    for part in parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False


def _opened(part: str, flags: int, folder: int, path: str) -> int:
    try:
        return os.open(part, flags, dir_fd=folder)
    except OSError as error:
        # A link where there was none a moment ago: somebody is exchanging things under us.
        if error.errno == errno.ELOOP:
            raise NotThere(f"{path} changed while it was being opened") from error
        raise
