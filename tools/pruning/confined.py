"""A folder that `read`, `bash` and `grep` cannot leave, by path or link, even if the disk changes meanwhile.

Without a configured root, the root is `/`; special files are still refused.

The links of a path are resolved first, and what they lead to must be inside the root. It is then opened through no link
at all, so the thing that is checked is the thing that is opened, and there is no race between the two (TOCTOU). Pipes
and devices are never opened.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from tools.context import ToolContext
from tools.files import disk
from tools.files.exact import LOOK_FLAGS, exact_descriptor
from tools.files.paths import MOST_CHARS
from tools.kit.errors import Denied, InvalidPath, NotADirectory, PermissionDenied, from_os_error
from tools.kit.params import Issue, invalid_params


class OutsideRoot(Exception):
    """The path leads out of the root. `is_lexical`: the text of the path alone shows it."""

    def __init__(self, path: str, root: str, *, is_lexical: bool) -> None:
        super().__init__(f"{path} is outside the root ({root})")
        self.is_lexical = is_lexical


class NotThere(Exception):
    """The path leads to something that cannot be opened here: a pipe, a device, or the wrong one of file and folder."""


class ConfinedRoot:
    """One root, or none. Relative paths start at `start` if that is inside the root, else at the root."""

    def __init__(self, root: Path | None, start: Path | None = None) -> None:
        self._is_everything = root is None
        # As text, like all that follows: each Path on the way would cost as much as opening the file.
        self._given = os.path.normpath(root or "/")
        self._root = os.path.realpath(self._given)
        begin = self._root if start is None else os.path.realpath(start)
        self._start = begin if _is_inside(begin, self._root) else self._root

    @property
    def path(self) -> Path:
        return Path(self._root)

    def check(self, name: str, path: str, issues: list[Issue]) -> str | None:
        """The absolute path, or an issue more if the text of the argument `name` is no path inside the root.

        Does not look at the disk.
        """
        if len(path) > MOST_CHARS:
            issues.append(Issue(name, "too_big", f"{name} must have at most {MOST_CHARS} characters"))
            return None
        if "\0" in path:
            issues.append(Issue(name, "custom", f"{name} has a NUL character in it, which no path can have"))
            return None
        try:
            return self.absolute(path)
        except OutsideRoot as error:
            issues.append(Issue(name, "custom", f"{error}; {name} must be a path inside that folder"))
            return None

    def absolute(self, path: str) -> str:
        """The absolute path, as results show it. Raises OutsideRoot if its text leads out of the root."""
        whole = self._join(path)
        normal = os.path.normpath(whole)
        # A relative path may not even leave the root and come back.
        if path.startswith("/") or self._is_everything or not _leaves(whole[len(self._root) :]):
            if _is_inside(normal, self._root):
                return normal
            if _is_inside(normal, self._given):
                return os.path.normpath(f"{self._root}/{normal[len(self._given) :]}")
        raise OutsideRoot(path, self._root, is_lexical=True)

    @contextlib.contextmanager
    def open(self, path: str) -> Iterator[tuple[int, os.stat_result]]:
        """A descriptor of the file or folder at `path`, and its status. Raises OSError, OutsideRoot, NotThere."""
        self.absolute(path)
        real = os.path.realpath(self._join(path))
        if not _is_inside(real, self._root):
            raise OutsideRoot(path, self._root, is_lexical=False)
        with exact_descriptor(real, LOOK_FLAGS) as folder:
            status = os.fstat(folder)
            if stat.S_ISDIR(status.st_mode):
                yield folder, status
                return
        if not stat.S_ISREG(status.st_mode):
            raise NotThere(f"{path} is a pipe, a socket or a device, and those are never opened")
        with exact_descriptor(real, disk.READ_FLAGS) as file:
            status = os.fstat(file)
            # It may have been replaced by a pipe since it was looked at. Nothing has been read from it.
            if not stat.S_ISREG(status.st_mode):
                raise NotThere(f"{path} is no regular file any more")
            yield file, status

    def _join(self, path: str) -> str:
        if self._is_everything:
            path = os.path.expanduser(path)  # noqa: PTH111 - Path.expanduser raises where there is no such user
        return os.path.join(self._start, path)  # noqa: PTH118 - its `..` stay, for links in front of them


def confined(ctx: ToolContext, issues: list[Issue], **paths: str | None) -> ConfinedRoot:
    """The root, if `paths` (by the names of their arguments) lie inside. Raises InvalidParams with all `issues`."""
    root = ConfinedRoot(ctx.root, ctx.paths.working_directory)
    for name, path in paths.items():
        if path is not None:
            root.check(name, path, issues)
    if issues:
        raise invalid_params(issues)
    return root


@contextlib.contextmanager
def open_confined(ctx: ToolContext, root: ConfinedRoot, path: str) -> Iterator[tuple[int, os.stat_result]]:
    """Open the file or folder at `path` inside the root, until the block ends. Raises ToolError."""
    with contextlib.ExitStack() as opened:
        try:
            descriptor, status = opened.enter_context(root.open(path))
            ctx.paths.check(root.absolute(path))
            ctx.paths.check_open(descriptor, root.absolute(path))
        except Denied as error:
            # A rule about a command is another refusal.
            denied = PermissionDenied(f"{path}: {error.message_with_hint}")
            denied.rule = error.rule
            raise denied from error
        except (OutsideRoot, NotThere) as error:
            raise InvalidPath(str(error)) from error
        except OSError as error:
            raise from_os_error(error, path) from error
        yield descriptor, status


def check_folder(path: str, status: os.stat_result) -> None:
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectory(f"{path} is a file, not a folder")


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder if folder == "/" else f"{folder}/")


def _leaves(below: str) -> bool:
    """Whether `..` leads out of a folder at any point of a path that begins in it."""
    depth = 0
    for part in below.split("/"):
        depth += -1 if part == ".." else part not in ("", ".")
        if depth < 0:
            return True
    return False
