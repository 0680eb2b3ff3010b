"""The pruning engine: text and question in, kept lines out.

Pure functions, deterministic, with no network; what they remember of a text changes no answer. Numpy is loaded by the
first call of `prune`, so that a program which never prunes does not pay for it.
"""

from collections.abc import Callable

from tools.pruning.engine.rendering import Annotation, Rendered, render, written
from tools.pruning.engine.selection import DroppedBlock, GaveUp, Selection, SourceType

__all__ = ["Annotation", "DroppedBlock", "GaveUp", "Rendered", "Selection", "SourceType", "prune", "render", "written"]


def prune(
    text: str,
    question: str,
    *,
    source_type: SourceType | None = None,
    max_prune_ratio: float = 0.55,
    min_keep_lines: int = 40,
    deadline: Callable[[], bool] | None = None,
) -> Selection:
    """Choose the lines of a text that a question needs.

    At most `max_prune_ratio` of the lines are dropped and at least `min_keep_lines` stay; where both cannot hold,
    every line stays and the selection carries the warning `constraints_unmet`. Without `source_type` it is detected.
    `deadline` is asked now and then whether time is up; when it says so, `GaveUp` is raised.
    """
    from tools.pruning.engine.pruner import select  # numpy comes with it

    return select(
        text,
        question,
        source_type=source_type,
        max_prune_ratio=max_prune_ratio,
        min_keep_lines=min_keep_lines,
        is_over=deadline or _never,
    )


def _never() -> bool:
    return False
