"""prune_text: the lines of a text that a goal needs, with a marker for each gap and an id to get the rest back by."""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from tools.context import Pruner, ToolContext
from tools.params import Field
from tools.pruning.engine import GaveUp, Selection, SourceType, render
from tools.results import Result
from tools.spec import tool
from tools.tokens import estimate

log = logging.getLogger(__name__)

# Beyond this, tokens are estimated from slices: the estimate reads every word and would take longer than pruning.
_ESTIMATED_WHOLE_CHARS = 64_000
_SLICES = 16


@dataclass(frozen=True, slots=True)
class Options:
    max_prune_ratio: Annotated[
        float, Field(description="Largest share of lines to drop, such as 0.55.", minimum=0, maximum=1)
    ]
    min_keep_lines: Annotated[int, Field(description="Fewest lines to keep, such as 40.", minimum=0)]
    timeout_ms: Annotated[int, Field(description="Past this the text comes back whole; such as 1500.", minimum=1)]
    annotate_lines: Annotated[bool, Field(description="Begin each kept line with its number and │.")]
    include_markers: Annotated[bool, Field(description="Put a ⟦PRUNÉ: …⟧ line in place of each gap.")]


@dataclass(frozen=True, slots=True)
class Pruned(Result):
    prune_id: str
    pruned_text: str
    annotations: list[dict[str, Any]]
    stats: dict[str, Any]
    warnings: list[str]

    def render(self) -> str:
        kept = f"{self.stats['kept_lines']} of {self.stats['original_lines']} lines kept"
        return f"[{' · '.join([self.prune_id, kept, *self.warnings])}]\n{self.pruned_text}"


@tool("pruning", effect="read", title="Prune a text", json_rpc_errors=True)
async def prune_text(
    ctx: ToolContext,
    *,
    text: Annotated[str, Field(description="Text to prune; its lines stay as they are.")],
    goal_hint: Annotated[str, Field(description="What you want to know or do.")],
    source_type: SourceType,
    options: Options,
) -> Pruned:
    """Drop the lines of a text that a goal does not need. Get any of them back with recover_text."""
    pruner = pruner_of(ctx)
    began = time.perf_counter()
    prune_id = await pruner.keep(ctx.owner, text)
    selection, warnings = await _selected(pruner, text, goal_hint, source_type, options)
    if selection is None:
        return _pruned(prune_id, text, text, [], _lines(text), 0, began, warnings)
    rendered = render(
        text,
        selection,
        prune_id,
        annotate_lines=options.annotate_lines,
        include_markers=options.include_markers,
    )
    annotations = [asdict(annotation) for annotation in rendered.annotations]
    dropped = selection.dropped_lines
    return _pruned(prune_id, text, rendered.pruned_text, annotations, _lines(text), dropped, began, warnings)


def pruner_of(ctx: ToolContext) -> Pruner:
    assert ctx.pruner is not None, "the daemon hands every call its pruner"
    return ctx.pruner


async def _selected(
    pruner: Pruner, text: str, goal_hint: str, source_type: SourceType, options: Options
) -> tuple[Selection | None, list[str]]:
    """The engine's choice, or None and the reason to let the whole text through."""
    if len(text) > pruner.max_input_chars:
        return None, ["input_too_large"]
    try:
        selection = await pruner.select(
            text,
            goal_hint,
            source_type=source_type,
            max_prune_ratio=options.max_prune_ratio,
            min_keep_lines=options.min_keep_lines,
            timeout_s=options.timeout_ms / 1000,
        )
    except GaveUp:
        return None, ["timeout"]
    except RuntimeError:
        log.warning("pruner.engine_failed", exc_info=True)
        return None, ["internal_error"]
    return (None if selection.warnings else selection), list(selection.warnings)


def _pruned(
    prune_id: str,
    text: str,
    pruned_text: str,
    annotations: list[dict[str, Any]],
    original_lines: int,
    pruned_lines: int,
    began: float,
    warnings: list[str],
) -> Pruned:
    before = _tokens(text)
    stats = {
        "original_lines": original_lines,
        "kept_lines": original_lines - pruned_lines,
        "pruned_lines": pruned_lines,
        "pruned_ratio": round(pruned_lines / original_lines, 4) if original_lines else 0.0,
        "tokens_est_before": before,
        "tokens_est_after": before if pruned_text is text else _tokens(pruned_text),
        "elapsed_ms": round((time.perf_counter() - began) * 1000),
        "used_fallback": bool(warnings),
    }
    return Pruned(prune_id, pruned_text, annotations, stats, warnings)


def _lines(text: str) -> int:
    """How many lines a reader sees: the empty string after a final newline is none."""
    return text.count("\n") + (0 if text.endswith("\n") or not text else 1)


def _tokens(text: str) -> int:
    if len(text) <= _ESTIMATED_WHOLE_CHARS:
        return estimate(text)
    size = _ESTIMATED_WHOLE_CHARS // _SLICES
    step = (len(text) - size) // (_SLICES - 1)
    seen = sum(estimate(text[start : start + size]) for start in range(0, _SLICES * step, step))
    return round(seen * len(text) / (size * _SLICES))
