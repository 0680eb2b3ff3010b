"""The root of `read`, `bash` and `grep`: their paths are checked against it, and opened below it."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

from tools.context import ToolContext
from tools.files.confined_root import ConfinedRoot, NotThere, OutsideRoot
from tools.kit.errors import Denied, InvalidPath, NotADirectory, PermissionDenied, from_os_error
from tools.kit.params import Issue, invalid_params


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
