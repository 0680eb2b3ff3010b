"""From a text and a question to a selection: reads the text, judges its lines, chooses among them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tools.pruning.engine.choice import Candidates, choose, runs
from tools.pruning.engine.evidence import Evidence, evidence_of
from tools.pruning.engine.failures import failure_lines, failure_worth, with_context
from tools.pruning.engine.headings import code_blocks, sections_of, units_of
from tools.pruning.engine.layout import Bools, Ints, Layout, layout_of
from tools.pruning.engine.measures import measures_of, terms_nearby
from tools.pruning.engine.protection import protected_lines
from tools.pruning.engine.question import Question, question_of
from tools.pruning.engine.relevance import worth_of
from tools.pruning.engine.selection import DroppedBlock, GaveUp, Selection, SourceType
from tools.pruning.engine.skeleton import skeleton_of
from tools.pruning.engine.source_type import detect
from tools.pruning.engine.structure import Structure, structure_of

# Reasons are one word because every marker is paid for in tokens.
_REASONS: dict[SourceType, str] = {"code": "accessoire", "logs": "routine", "docs": "accessoire"}
# What a share of the text must bring, as a share of the answer, to be kept beyond the quota, when the quota is
# `_PRICED_AT` of the lines. A smaller quota asks for more. A log needs its errors, and those are kept at any price.
_PRICES: dict[SourceType, float] = {"code": 0.815, "logs": 6.0, "docs": 1.3}
_PRICED_AT = 0.30
_SMALLEST_QUOTA = 0.05
# How much of the budget the outline may take. A heading that stands alone costs a marker more than it says.
_OUTLINE_SHARES: dict[SourceType, float] = {"code": 0.15, "docs": 0.05}
_LOG_REACH = 2
_LOG_FLOOR = 0.02


def select(
    text: str,
    question: str,
    *,
    source_type: SourceType | None,
    max_prune_ratio: float,
    min_keep_lines: int,
    is_over: Callable[[], bool],
) -> Selection:
    """Do what `prune` promises. `GaveUp` is raised at the first check after `is_over` says so."""

    def check() -> None:
        if is_over():
            raise GaveUp("the deadline passed while pruning")

    check()
    layout = layout_of(text)
    kind = source_type or detect(layout)
    total = len(layout)
    # The empty string after a final newline is kept and not counted, so that the newline survives every ratio.
    counted = total - 1 if layout.lines[-1] == "" else total
    quota = max(counted - int(max_prune_ratio * counted + 1e-9), min_keep_lines)
    if min_keep_lines > counted:
        return Selection(dropped=(), total_lines=total, source_type=kind, warnings=("constraints_unmet",))
    if quota >= counted:
        return Selection(dropped=(), total_lines=total, source_type=kind)
    check()
    asked = question_of(question)
    evidence = evidence_of(asked, layout)
    check()
    protected = protected_lines(text, layout)
    protected[counted:] = True
    if evidence.found == 0 and kind != "logs":
        # Nothing says where to look, and a line that is needed costs more than many that are not.
        return Selection(dropped=(), total_lines=total, source_type=kind)
    top_price = _PRICES[kind] * _PRICED_AT * counted / max(quota, _SMALLEST_QUOTA * counted)
    reader = _READERS[kind]
    budget_tokens = float(layout.tokens.sum()) * quota / counted
    candidates = reader(_Reading(layout, asked, evidence, protected, budget_tokens))
    check()
    kept = choose(candidates, quota=quota + total - counted, top_price=top_price, check=check)
    return Selection(dropped=_dropped(kept, _REASONS[kind]), total_lines=total, source_type=kind)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What is known of a text before its kind comes into play."""

    layout: Layout
    question: Question
    evidence: Evidence
    protected: Bools
    budget_tokens: float


def _code(reading: _Reading) -> Candidates:
    structure = structure_of(reading.layout)
    return _candidates(reading, structure, np.arange(len(reading.layout)), "code")


def _docs(reading: _Reading) -> Candidates:
    blocks = code_blocks(reading.layout)
    structure = sections_of(reading.layout, blocks)
    return _candidates(reading, structure, units_of(len(reading.layout), blocks), "docs")


def _logs(reading: _Reading) -> Candidates:
    total = len(reading.layout)
    reports = failure_lines(reading.layout)
    (asked,) = terms_nearby(reading.evidence, (_LOG_REACH,))
    worth = _LOG_FLOOR + failure_worth(reading.layout, reports) + asked / max(asked.max(), 1e-9)
    return Candidates(
        worth=worth / worth.sum(),
        tokens=reading.layout.tokens,
        must_keep=reading.protected | with_context(reports),
        unit=np.arange(total),
        header=np.full(total, -1, dtype=np.int64),
    )


_READERS: dict[SourceType, Callable[[_Reading], Candidates]] = {"code": _code, "logs": _logs, "docs": _docs}


def _candidates(reading: _Reading, structure: Structure, unit: Ints, kind: SourceType) -> Candidates:
    measures = measures_of(
        reading.evidence,
        reading.layout,
        structure,
        asks_for_prose=reading.question.asks_for_prose,
    )
    worth = worth_of(measures, is_prose=kind == "docs")
    allowance = _OUTLINE_SHARES[kind] * reading.budget_tokens
    outline = skeleton_of(structure, reading.layout.tokens, worth, allowance_tokens=allowance)
    return Candidates(
        worth=worth,
        tokens=reading.layout.tokens,
        must_keep=reading.protected | outline,
        unit=unit,
        header=np.where(structure.is_header, structure.parent, structure.scope),
    )


def _dropped(kept: Bools, reason: str) -> tuple[DroppedBlock, ...]:
    starts, lengths = runs(kept)
    return tuple(
        DroppedBlock(start=start + 1, end=start + length, reason=reason)
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
        if not kept[start]
    )
