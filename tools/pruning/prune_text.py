"""prune_text: the lines of a text that a goal needs, with a marker for each gap and an id to get the rest back by."""

from __future__ import annotations

import asyncio
import logging
import time
from functools import partial
from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import asdict

from tools.context import Pruner, ToolContext
from tools.kit.llm_tokens import estimate_roughly
from tools.kit.params import Field
from tools.kit.results import Body, Result, quantity
from tools.kit.spec import tool
from tools.pruning.engine import GaveUp, Language, Selection, SelectionRequest, SourceType, render

log = logging.getLogger(__name__)

# A longer text is put together in a thread: on the event loop it would hold up other calls.
SMALL_CHARS = 32_000
_NOT_KEPT = "prn_not_kept"
_MOST_LINES = 1_000_000_000
_MOST_TIMEOUT_MS = 60_000
# In so little time no text is read: who sets it wants the text as it is.
_NO_TIME_MS = 1


class Options(Struct, frozen=True):
    max_prune_ratio: Annotated[
        float, Field(description="Largest share of lines to drop, such as 0.55.", minimum=0, maximum=1)
    ]
    min_keep_lines: Annotated[int, Field(description="Fewest lines to keep, such as 40.", minimum=0)]
    timeout_ms: Annotated[int, Field(description="Past this the text comes back whole; such as 1500.", minimum=1)]
    annotate_lines: Annotated[bool, Field(description="Number the kept lines.")]
    include_markers: Annotated[bool, Field(description="Mark each gap by a line.")]


class Pruned(Result, frozen=True):
    prune_id: str
    pruned_text: str
    annotations: list[dict[str, Any]]
    stats: dict[str, Any]
    warnings: list[str]

    def render(self) -> str:
        kept = f"{self.stats['kept_lines']} of {self.stats['original_lines']} lines kept"
        return f"[{' · '.join([self.prune_id, kept, *self.warnings])}]\n{self.pruned_text}"

    def summary(self) -> str:
        total, kept = self.stats["original_lines"], self.stats["kept_lines"]
        if self.warnings:
            return f"not pruned ({', '.join(self.warnings)}): all {quantity(total, 'line')}"
        return f"{kept:,} of {quantity(total, 'line')} kept; recover_text brings any other back"

    @property
    def body(self) -> Body:
        return Body("pruned_text", is_asked=True)


@tool("pruning", effect="read", title="Prune a text")
async def prune_text(
    ctx: ToolContext,
    *,
    text: Annotated[str, Field(description="Text to prune.")],
    goal_hint: Annotated[str, Field(description="What you want to know or do.")],
    source_type: SourceType,
    options: Options,
) -> Pruned:
    """Drop the lines of a text that a goal does not need. Get any of them back with recover_text."""
    assert ctx.pruner is not None, "every host has a pruner"
    began = time.perf_counter()
    try:
        # Store the text while the engine works, because nearly every text loses some lines.
        prune_id, (selection, warnings) = await asyncio.gather(
            ctx.pruner.keep(ctx.owner, text), _selection(ctx.pruner, text, goal_hint, source_type, options)
        )
    except OSError:
        # Drop no line that could not be recovered.
        log.warning("pruner.recovery_unavailable", exc_info=True)
        prune_id, selection, warnings = _NOT_KEPT, None, ["recovery_unavailable"]
    write = partial(_result, prune_id, text, selection, options, warnings, began, ctx.pruner.language)
    return write() if len(text) < SMALL_CHARS else await asyncio.to_thread(write)


async def _selection(
    pruner: Pruner, text: str, goal_hint: str, source_type: SourceType, options: Options
) -> tuple[Selection | None, list[str]]:
    """The engine's choice, or None and the reason to let the whole text through."""
    if len(text) > pruner.max_input_chars:
        return None, ["input_too_large"]
    if options.timeout_ms <= _NO_TIME_MS:
        return None, ["timeout"]
    try:
        request = SelectionRequest(
            question=goal_hint,
            source_type=source_type,
            max_prune_ratio=options.max_prune_ratio,
            # No text has more lines than this, and nobody waits longer: numbers beyond are taken for these.
            min_keep_lines=min(options.min_keep_lines, _MOST_LINES),
            timeout_s=min(options.timeout_ms, _MOST_TIMEOUT_MS) / 1000,
        )
        selection = await pruner.select(text, request)
    except GaveUp:
        return None, ["timeout"]
    except RuntimeError:
        log.warning("pruner.engine_failed", exc_info=True)
        return None, ["internal_error"]
    return (None if selection.warnings else selection), list(selection.warnings)


def _result(
    prune_id: str,
    text: str,
    selection: Selection | None,
    options: Options,
    warnings: list[str],
    began: float,
    language: Language,
) -> Pruned:
    pruned_text, annotations, dropped = text, [], 0
    if selection is not None:
        rendered = render(
            text,
            selection,
            prune_id,
            annotate_lines=options.annotate_lines,
            include_markers=options.include_markers,
            language=language,
        )
        pruned_text, dropped = rendered.pruned_text, selection.dropped_lines
        annotations = [asdict(annotation) for annotation in rendered.annotations]
    total = _lines(text)
    before = estimate_roughly(text)
    stats = {
        "original_lines": total,
        "kept_lines": total - dropped,
        "pruned_lines": dropped,
        "pruned_ratio": round(dropped / total, 4) if total else 0.0,
        "tokens_est_before": before,
        "tokens_est_after": before if pruned_text is text else estimate_roughly(pruned_text),
        "elapsed_ms": round((time.perf_counter() - began) * 1000),
        "used_fallback": bool(warnings),
    }
    return Pruned(prune_id, pruned_text, annotations, stats, warnings)


def _lines(text: str) -> int:
    """How many lines a reader sees: the empty string after a final newline is none."""
    return text.count("\n") + (0 if text.endswith("\n") or not text else 1)
