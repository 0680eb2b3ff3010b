"""Opening a path below the root of `bash` and `grep`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tools.context import ToolContext
from tools.files.confined_root import ConfinedRoot, NotThere, OutsideRoot
from tools.kit.errors import Denied, InvalidPath, ToolError


@contextlib.contextmanager
def open_confined(ctx: ToolContext, root: ConfinedRoot, path: str) -> Iterator[tuple[int, os.stat_result]]:
    """Open what `path` leads to inside the root, until the block ends. Raises InvalidPath for any reason."""
    with contextlib.ExitStack() as opened:
        try:
            descriptor, status = opened.enter_context(root.open(path))
            ctx.paths.check(root.absolute(path))
            ctx.paths.check_open(descriptor)
        except Denied as error:
            raise invalid_path(f"{path}: {error.message_with_hint}", error) from error
        except (OutsideRoot, NotThere) as error:
            raise InvalidPath(str(error)) from error
        except OSError as error:
            raise InvalidPath(f"{path}: {(error.strerror or str(error)).lower()}") from error
        yield descriptor, status


def invalid_path(message: str, denied: ToolError) -> InvalidPath:
    """The error for a path that a deny rule closes."""
    error = InvalidPath(message)
    error.rule = denied.rule
    return error
