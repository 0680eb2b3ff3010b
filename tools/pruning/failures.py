"""The failures of `read`, `bash` and `grep`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from tools.context import ToolContext
from tools.kit.errors import Failed
from tools.kit.focus import PruningMetadata, Reason
from tools.pruning.confined_root import ConfinedRoot, NotThere, OutsideRoot


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
    **printed: str,
) -> Failed:
    """A failure of one of these tools. It is never pruned, and its field `pruning` says why."""
    reason: Reason = "no_focus_question"
    if question is not None:
        # A failure has no output that could be pruned.
        reason = "output_empty" if ctx.pruner is not None and ctx.pruner.is_on else "disabled_or_unconfigured"
    pruning = PruningMetadata.of_skip(reason, 0)
    fields: dict[str, Any] = {"tool": tool, **printed, "pruning": pruning.as_object()}
    return Failed(code, message, fields=fields, exit_code=exit_code, timeout_ms=timeout_ms, rule=rule)


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
