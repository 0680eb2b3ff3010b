"""How `read`, `bash` and `grep` say that they failed, and how their arguments are checked where a schema cannot."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from tools.kit.context import ToolContext
from tools.kit.errors import Failed, InvalidParams
from tools.kit.focus import PruningMetadata, Reason
from tools.kit.params import Issue
from tools.pruning.confined import ConfinedRoot, NotThere, OutsideRoot


def failed(
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
    """The failure as its contract has it. Nothing of it is pruned, and its `pruning` says why."""
    reason: Reason = "no_focus_question"
    if question is not None:
        # A failure has no output that could be pruned.
        reason = "output_empty" if ctx.pruner is not None and ctx.pruner.is_on else "disabled_or_unconfigured"
    pruning = PruningMetadata.skipped(reason, 0)
    fields: dict[str, Any] = {"tool": tool, **printed, "pruning": pruning.as_object()}
    return Failed(code, message, fields=fields, exit_code=exit_code, timeout_ms=timeout_ms, rule=rule)


@contextlib.contextmanager
def located(root: ConfinedRoot, path: str, problem: Callable[[str], Failed]) -> Iterator[tuple[int, os.stat_result]]:
    """What `path` leads to inside the root, open while the block lasts. Raises `problem` if there is none such."""
    with contextlib.ExitStack() as opened:
        try:
            found = opened.enter_context(root.opened(path))
        except (OutsideRoot, NotThere) as error:
            raise problem(str(error)) from error
        except OSError as error:
            raise problem(f"{path}: {(error.strerror or str(error)).lower()}") from error
        yield found


def check_path(root: ConfinedRoot, name: str, path: str, issues: list[Issue]) -> None:
    """What the letters of a path decide, without a look at the disk."""
    if "\0" in path:
        issues.append(Issue(name, "custom", f"{name} has a NUL character in it, which no path can have"))
        return
    try:
        root.parts(path)
    except OutsideRoot as error:
        issues.append(Issue(name, "custom", str(error)))


def refuse(issues: list[Issue]) -> None:
    """Raise InvalidParams if there are any."""
    if issues:
        issues.sort(key=lambda issue: (issue.path, issue.code))
        told = "; ".join(issue.advice for issue in issues)
        raise InvalidParams(told, issues=[issue.as_object() for issue in issues])
