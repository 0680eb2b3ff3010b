"""A folder that `read`, `bash` and `grep` cannot leave, by path or link, even if the disk changes meanwhile.

A path is walked one part at a time with `openat`: each part is opened relative to the folder before it, and never
through a symbolic link; the target of a link is walked in the same way. So the thing that is checked is the thing that
is opened, and there is no race between the two (TOCTOU). Pipes and devices are never opened.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tools.kit.params import Issue

_MOST_LINKS = 40
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a pipe waits for a writer that may never come.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class OutsideRoot(Exception):
    """The path leads out of the root. `is_lexical`: the text of the path alone shows it."""

    def __init__(self, path: str, root: Path, *, is_lexical: bool) -> None:
        super().__init__(f"{path} is outside the root ({root})")
        self.is_lexical = is_lexical


class NotThere(Exception):
    """The path leads to something that cannot be opened here: a pipe, a device, or the wrong one of file and folder."""


class ConfinedRoot:
    """One root. Paths are absolute or relative to the root."""

    def __init__(self, root: Path) -> None:
        self.path = Path(os.path.realpath(root))
        self._given = Path(os.path.normpath(root))

    def parts(self, path: str) -> list[str]:
        """The parts of `path` below the root. Raises OutsideRoot if its text leads out of the root."""
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

    def check(self, name: str, path: str, issues: list[Issue]) -> None:
        """Add an issue if the text of the argument `name` is no path inside the root. Does not look at the disk."""
        if "\0" in path:
            issues.append(Issue(name, "custom", f"{name} has a NUL character in it, which no path can have"))
            return
        try:
            self.parts(path)
        except OutsideRoot as error:
            issues.append(Issue(name, "custom", str(error)))

    def absolute(self, path: str) -> str:
        """The absolute path, as results show it."""
        return os.path.normpath(self.path.joinpath(*self.parts(path)))

    @contextlib.contextmanager
    def open(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        """A descriptor of the file or folder at `path`, and its status. Raises OSError, OutsideRoot, NotThere."""
        folders = [os.open(self.path, _FOLDER & ~os.O_NOFOLLOW)]
        found = -1
        try:
            found = self._walk(path, folders)
            yield found, os.fstat(found)
        finally:
            if found >= 0 and found not in folders:
                os.close(found)
            for descriptor in folders:
                os.close(descriptor)

    def _walk(self, path: str, folders: list[int]) -> int:
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
                folders.append(_open_part(part, _FOLDER, folders[-1], path))
            elif stat.S_ISREG(status.st_mode):
                return self._open_file(part, folders[-1], path)
            else:
                raise NotThere(f"{path} is a pipe, a socket or a device, and those are never opened")
        return folders[-1]

    def _open_file(self, part: str, folder: int, path: str) -> int:
        descriptor = _open_part(part, _FILE, folder, path)
        # The file may have been replaced by a pipe since it was checked. Nothing has been read from it.
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise NotThere(f"{path} is no regular file any more")
        return descriptor

    def _below(self, path: str, root: Path) -> list[str]:
        """The parts of an absolute path below `root`; `..` stays a part."""
        parts = [part for part in path.split("/") if part not in ("", ".")]
        above, below = parts[: len(root.parts) - 1], parts[len(root.parts) - 1 :]
        if above == list(root.parts[1:]) and not _leaves(below):
            return below
        # The path is inside the root only after its `..` are resolved, so the resolved path is walked.
        return list(Path(os.path.normpath(path)).relative_to(root).parts)


def _leaves(parts: list[str]) -> bool:
    """Whether `..` leads above the first of these parts at any point."""
    depth = 0
    for part in parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return True
    return False


def _open_part(part: str, flags: int, folder: int, path: str) -> int:
    try:
        return os.open(part, flags, dir_fd=folder)
    except OSError as error:
        # The part became a link after it was checked: somebody changes the folder meanwhile.
        if error.errno == errno.ELOOP:
            raise NotThere(f"{path} changed while it was being opened") from error
        raise
