"""The failures of `read`, `bash` and `grep`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from tools.context import ToolContext
from tools.files.confined_root import ConfinedRoot, NotThere, OutsideRoot
from tools.kit.errors import Failed
from tools.kit.results import Detail, PruningMetadata


def failure(
    ctx: ToolContext,
    tool: str,
    code: str,
    message: str,
    question: str | None,
    *,
    exit_code: int | None = None,
    timeout_ms: int | None = None,
    rule: str | None = None,
    pruning: PruningMetadata | None = None,
    printed: Mapping[str, str] = MappingProxyType({}),
) -> Failed:
    """A failure of one of these tools. `pruning` is for one with output; any other has nothing that could be pruned."""
    pruning = pruning or failure_metadata(ctx, question, 0)
    fields: dict[str, Any] = {"tool": tool, **printed, "pruning": pruning.as_object()}
    return Failed(code, message, fields=fields, exit_code=exit_code, timeout_ms=timeout_ms, rule=rule)


def failure_metadata(
    ctx: ToolContext, question: str | None, raw_bytes: int, detail: Detail = "command_failed"
) -> PruningMetadata:
    """Why the output of a command that failed, or that `detail` is said of, is not pruned."""
    if question is None:
        return PruningMetadata.of_skip("no_focus_question", raw_bytes)
    if ctx.pruner is None or not ctx.pruner.is_on:
        return PruningMetadata.of_skip("disabled_or_unconfigured", raw_bytes)
    if raw_bytes == 0:
        return PruningMetadata.of_skip("output_empty", 0)
    return PruningMetadata.of_skip("disabled_or_unconfigured", raw_bytes, detail)


@contextlib.contextmanager
def open_confined(
    root: ConfinedRoot, path: str, problem: Callable[[str], Failed]
) -> Iterator[tuple[int, os.stat_result]]:
    """Open what `path` leads to inside the root, until the block ends. Raises what `problem` makes of an error."""
    with contextlib.ExitStack() as opened:
        try:
            found = opened.enter_context(root.open(path))
        except (OutsideRoot, NotThere) as error:
            raise problem(str(error)) from error
        except OSError as error:
            raise problem(f"{path}: {(error.strerror or str(error)).lower()}") from error
        yield found
