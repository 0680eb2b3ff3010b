"""The pruning engine: a text and a question in, the lines to keep out.

Pure and deterministic functions without network; what they cache changes no answer. The first call of `prune` loads
numpy, so that a program that never prunes does not pay for it.
"""

from collections.abc import Callable

from tools.pruning.engine.render import (
    Annotation,
    DroppedBlock,
    GaveUp,
    Language,
    Rendered,
    Selection,
    SelectionRequest,
    SourceType,
    divide,
    render,
    render_text,
)

__all__ = [
    "Annotation",
    "DroppedBlock",
    "GaveUp",
    "Language",
    "Rendered",
    "Selection",
    "SelectionRequest",
    "SourceType",
    "divide",
    "prune",
    "render",
    "render_text",
]


def prune(
    text: str,
    question: str,
    *,
    source_type: SourceType | None = None,
    is_output: bool = False,
    collapses: bool = False,
    max_prune_ratio: float | None = 0.55,
    min_keep_lines: int = 40,
    deadline: Callable[[], bool] | None = None,
) -> Selection:
    """Choose the lines of a text that a question needs.

    At most `max_prune_ratio` of the lines are dropped and at least `min_keep_lines` stay; where both cannot hold,
    every line stays and the selection has the warning `constraints_unmet`. Without `source_type` it is detected;
    without `max_prune_ratio` it depends on the source type. `is_output` tells that the text is the output of a command.
    With `collapses`, of many reports of one kind in a log one is kept whole and the others are counted in the markers.
    `deadline` is called between the steps; once it returns true, `GaveUp` is raised.
    """
    from tools.pruning.engine.api import select  # loads numpy

    return select(
        text,
        question,
        source_type=source_type,
        is_output=is_output,
        collapses=collapses,
        max_prune_ratio=max_prune_ratio,
        min_keep_lines=min_keep_lines,
        is_over=deadline or (lambda: False),
    )
