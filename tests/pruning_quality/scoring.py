"""Score the engine on tasks: how much of what is needed it keeps, and how many tokens that takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from tests.pruning_quality.tasks import Task
from tools.pruning.engine import Selection, render_text
from tools.pruning.engine.api import select
from tools.pruning.engine.weights import WeightedKind, Weights

KEEP_RATIOS = (0.45, 0.30, 0.20)
_MIN_KEEP_LINES = 20
_PRUNE_ID = "prn_score"
_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Score:
    """What came of one task."""

    recall: float
    has_all: bool
    tokens: float
    violates: bool
    alters: bool
    is_unstable: bool


def score_task(task: Task, keep_ratio: float, weights: dict[WeightedKind, Weights] | None = None) -> Score:
    """Prune a task to a share of its lines and compare the pruned text with what is needed."""

    def prune() -> Selection:
        return select(
            task.text,
            task.query,
            source_type=task.source_type,
            max_prune_ratio=1 - keep_ratio,
            min_keep_lines=_MIN_KEEP_LINES,
            is_over=lambda: False,
            weights=weights,
        )

    selection = prune()
    pruned = render_text(task.text, selection, _PRUNE_ID)
    kept = set(selection.kept())
    lines = task.text.split("\n")
    counted = len(lines) - (lines[-1] == "")
    left = counted - selection.dropped_lines
    return Score(
        recall=len(kept.intersection(task.gold_lines)) / len(task.gold_lines),
        has_all=kept.issuperset(task.changed_lines),
        tokens=_count_tokens(pruned) / max(_count_tokens(task.text), 1),
        violates=selection.dropped_lines > (1 - keep_ratio) * counted + 1e-9 or left < min(_MIN_KEEP_LINES, counted),
        alters=_without_markers(pruned) != [lines[number - 1] for number in sorted(kept)],
        is_unstable=prune() != selection,
    )


def report(
    tasks: Sequence[Task],
    weights: dict[WeightedKind, Weights] | None = None,
    keep_ratios: Sequence[float] = KEEP_RATIOS,
) -> str:
    """A table with one line per kind and keep ratio, and a line for all kinds."""
    rows = [f"{'keep':>5} {'kind':<5} {'tasks':>5} {'recall':>7} {'all':>6} {'tokens':>7}  violations altered unstable"]
    for keep_ratio in keep_ratios:
        scored = [(task.source_type, score_task(task, keep_ratio, weights)) for task in tasks]
        for kind in [*sorted({kind for kind, _ in scored}), "any"]:
            scores = [score for of_kind, score in scored if kind in (of_kind, "any")]
            rows.append(f"{keep_ratio:5.2f} {kind:<5} {_row(scores)}")
    return "\n".join(rows)


def _row(scores: Sequence[Score]) -> str:
    def mean(value: Callable[[Score], float]) -> float:
        return fmean(map(value, scores))

    def count(values: Iterable[bool]) -> int:
        return sum(values)

    figures = f"{mean(lambda s: s.recall):7.3f} {mean(lambda s: s.has_all):6.3f} {mean(lambda s: s.tokens):7.3f}"
    faults = [count(getattr(s, name) for s in scores) for name in ("violates", "alters", "is_unstable")]
    return f"{len(scores):5} {figures}  {faults[0]:10} {faults[1]:7} {faults[2]:8}"


def _without_markers(pruned: str) -> list[str]:
    return [line for line in pruned.split("\n") if not line.startswith(f"⟦PRUNÉ: prune_id={_PRUNE_ID} ")]


def _count_tokens(text: str) -> int:
    return len(_TOKEN.findall(text))
