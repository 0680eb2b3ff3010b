"""From a text and a question to a selection: reads the text, judges its lines, chooses among them."""

from collections.abc import Callable

import numpy as np

from tools.pruning.engine.arrays import Bools, Floats
from tools.pruning.engine.choice import Candidates, choose, runs
from tools.pruning.engine.evidence import Evidence, evidence_of
from tools.pruning.engine.layout import Layout
from tools.pruning.engine.measures import code_measures, prose_measures, terms_nearby
from tools.pruning.engine.question import Question, question_of
from tools.pruning.engine.relevance import with_comments, worth_in_code, worth_in_prose
from tools.pruning.engine.selection import DroppedBlock, GaveUp, Selection, SourceType
from tools.pruning.engine.shape import Shape, shape_of
from tools.pruning.engine.skeleton import skeleton_of

# Reasons are one word because every marker is paid for in tokens.
_REASONS: dict[SourceType, str] = {"code": "accessoire", "logs": "routine", "docs": "accessoire"}
# What a share of the text must bring, as a share of the answer, to be kept beyond the quota, when the quota is
# `_PRICED_AT` of the lines. A smaller quota asks for more. A log needs its errors, and those are kept at any price.
# Chosen by what is left: of the lines that real questions need, four in five of code and six in seven of documents.
_PRICES: dict[SourceType, float] = {"code": 0.93, "logs": 6.0, "docs": 0.75}
_PRICED_AT = 0.30
_SMALLEST_QUOTA = 0.05
# What a cut costs, in markers. A piece of code is of little use without the lines around it; a paragraph stands alone.
_MARKER_DEARNESS: dict[SourceType, float] = {"code": 2.65, "logs": 2.65, "docs": 1.0}
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
    shape = shape_of(text, source_type)
    layout, kind = shape.layout, shape.kind
    total = len(layout)
    # The empty string after a final newline is kept and not counted, so that the newline survives every ratio.
    counted = total - 1 if layout.ends_in_newline else total
    quota = max(counted - int(max_prune_ratio * counted + 1e-9), min_keep_lines)
    if min_keep_lines > counted:
        return Selection(dropped=(), total_lines=total, source_type=kind, warnings=("constraints_unmet",))
    if quota >= counted:
        return Selection(dropped=(), total_lines=total, source_type=kind)
    check()
    asked = question_of(question)
    evidence = evidence_of(asked, layout, shape.words)
    if evidence.found == 0 and kind != "logs":
        # Nothing says where to look, and a line that is needed costs more than many that are not.
        return Selection(dropped=(), total_lines=total, source_type=kind)
    check()
    worth = _worth(shape, asked, evidence)
    must_keep = shape.protected.copy()
    must_keep[counted:] = True
    if kind in _OUTLINE_SHARES:
        allowance_tokens = _OUTLINE_SHARES[kind] * float(layout.tokens.sum()) * quota / counted
        must_keep |= skeleton_of(shape.structure, layout.tokens, worth, allowance_tokens=allowance_tokens)
    candidates = Candidates(
        worth=worth, tokens=layout.tokens, must_keep=must_keep, unit=shape.unit, header=shape.header
    )
    check()
    top_price = _PRICES[kind] * _PRICED_AT * counted / max(quota, _SMALLEST_QUOTA * counted)
    kept = choose(
        candidates,
        quota=quota + total - counted,
        top_price=top_price,
        marker_dearness=_MARKER_DEARNESS[kind],
        check=check,
    )
    return Selection(dropped=_dropped(kept, _REASONS[kind], layout), total_lines=total, source_type=kind)


def _log_worth(shape: Shape, evidence: Evidence) -> Floats:
    (asked,) = terms_nearby(evidence, (_LOG_REACH,))
    worth = _LOG_FLOOR + shape.prior + asked / max(asked.max(), 1e-9)
    shares: Floats = worth / worth.sum()
    return shares


def _worth(shape: Shape, question: Question, evidence: Evidence) -> Floats:
    if shape.kind == "logs":
        return _log_worth(shape, evidence)
    if shape.kind == "docs":
        return worth_in_prose(shape.prior, prose_measures(evidence, shape.structure))
    prior = with_comments(shape.prior, shape.structure) if question.asks_for_prose else shape.prior
    return worth_in_code(prior, code_measures(evidence, shape.structure))


def _dropped(kept: Bools, reason: str, layout: Layout) -> tuple[DroppedBlock, ...]:
    starts, lengths = runs(kept)
    is_dropped = ~kept[starts]
    first = starts[is_dropped]
    last = first + lengths[is_dropped] - 1
    places = layout.start[first].tolist(), np.minimum(layout.end[last] + 1, len(layout.text)).tolist()
    return tuple(
        DroppedBlock(start + 1, end + 1, reason, start_char, end_char)
        for start, end, start_char, end_char in zip(first.tolist(), last.tolist(), *places, strict=True)
    )
