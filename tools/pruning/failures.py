"""The failures of `read`, `bash` and `grep`, and the checks of their paths that a schema cannot do."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from tools.context import ToolContext
from tools.kit.errors import Failed, InvalidParams
from tools.kit.focus import PruningMetadata, Reason
from tools.kit.params import Issue
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


def check_path(root: ConfinedRoot, name: str, path: str, issues: list[Issue]) -> None:
    """Add an issue if the text of a path alone shows that it is invalid. Does not look at the disk."""
    if "\0" in path:
        issues.append(Issue(name, "custom", f"{name} has a NUL character in it, which no path can have"))
        return
    try:
        root.parts(path)
    except OutsideRoot as error:
        issues.append(Issue(name, "custom", str(error)))


def raise_issues(issues: list[Issue]) -> None:
    """Raise InvalidParams with all issues, if there are any."""
    if issues:
        issues.sort(key=lambda issue: (issue.path, issue.code))
        message = "; ".join(issue.advice for issue in issues)
        raise InvalidParams(message, issues=[issue.as_object() for issue in issues])
