"""What `read`, `bash` and `grep` share: opening a path below their root, and what is said of output that is raw."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from tools.context import ToolContext
from tools.files.confined_root import ConfinedRoot, NotThere, OutsideRoot
from tools.kit.errors import Denied, InvalidPath, ToolError
from tools.kit.results import Detail, PruningMetadata


def raw_metadata(ctx: ToolContext, question: str | None, raw_bytes: int, detail: Detail) -> PruningMetadata:
    """Why the output of a command that `detail` is said of is not pruned."""
    if question is None:
        return PruningMetadata.of_skip("no_focus_question", raw_bytes)
    if ctx.pruner is None or not ctx.pruner.is_on:
        return PruningMetadata.of_skip("disabled_or_unconfigured", raw_bytes)
    if raw_bytes == 0:
        return PruningMetadata.of_skip("output_empty", 0)
    return PruningMetadata.of_skip("disabled_or_unconfigured", raw_bytes, detail)


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
