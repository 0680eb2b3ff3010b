"""What is measured of every line before it is judged: evidence at several distances, and what kind of line it is.

Measures of evidence are shares of the best place in the text, between 0 and 1, so that a long question and a
short one, a long text and a short one, give numbers on the same scale. The judgement itself is elsewhere.
"""

import numpy as np

from tools.pruning.engine.arrays import Bools, Floats
from tools.pruning.engine.evidence import Evidence
from tools.pruning.engine.layout import Layout
from tools.pruning.engine.structure import Structure
from tools.pruning.engine.windows import windowed

_REACHES = (2, 6, 15, 40)
_SPREADS = (3, 10, 20)
# A term said twice on a line counts for more than once and less than twice as much.
_LINE_SATURATION = 0.6
_RARE_LINES = 6.0
_LAST_LINES = 3
_DEEP_LINES = 60

MEASURES = (
    *(f"terms_within_{reach}" for reach in _REACHES[:-1]),
    "block_terms",
    "block_best",
    "rare_name_in_block",
    "header",
    "outer_header",
    "evidence_by_share_found",
    "evidence_by_terms_asked",
    "evidence_by_best_place",
    "evidence_by_names_found",
    "evidence_by_length",
    "is_header",
    "is_comment",
    "is_comment_unasked",
    "is_import",
    "is_outside",
    "is_last",
    "tokens",
    "depth_in_block",
    "block_size",
)


def measures_of(evidence: Evidence, layout: Layout, structure: Structure, *, asks_for_prose: bool) -> Floats:
    """Give one row per name in `MEASURES` and one column per line."""
    total = len(layout)
    scope = structure.scope
    in_scope = scope >= 0
    header_at = np.maximum(scope, 0)
    outer = np.where(in_scope, structure.parent[header_at], -1)
    weight = evidence.weight
    said = _relative(_said(evidence))

    nearby = terms_nearby(evidence, _REACHES)
    terms = [_relative(row) for row in nearby]
    density = [_relative(windowed(windowed(said, spread), spread)) for spread in _SPREADS]
    support = sum(terms + density, np.zeros(total)) / len(terms + density)

    # Block 0 is what lies outside every definition; the others are numbered by their headers.
    block_of_header = np.cumsum(structure.is_header)
    block = np.where(in_scope, block_of_header[header_at], 0)
    blocks = int(block_of_header[-1]) + 1
    stands_in = np.zeros((weight.size, blocks), dtype=np.bool_)
    stands_in[evidence.term, block[evidence.line]] = True
    best = np.zeros(blocks)
    np.maximum.at(best, block, nearby[0])
    rarity = np.exp(-evidence.lines_with / _RARE_LINES) * evidence.is_name
    rows: list[Floats | Bools] = [
        *terms[:-1],
        _relative(weight @ stands_in)[block],
        _relative(best)[block],
        np.minimum(rarity @ stands_in, 1.0)[block],
        np.where(in_scope, said[header_at], 0.0),
        np.where(outer >= 0, said[np.maximum(outer, 0)], 0.0),
        *_qualified(support, evidence, nearby[1]),
    ]

    is_last = np.zeros(total, dtype=np.bool_)
    is_last[np.flatnonzero(~layout.is_blank)[-_LAST_LINES:]] = True
    unasked = structure.is_comment & (not asks_for_prose)
    rows += [structure.is_header, structure.is_comment, unasked, structure.is_import, ~in_scope, is_last]
    rows += [
        np.log1p(layout.tokens),
        np.minimum(np.arange(total) - np.where(in_scope, header_at, 0), _DEEP_LINES) / _DEEP_LINES,
        np.log1p(np.bincount(block, minlength=blocks)[block]),
    ]
    measures = np.empty((len(MEASURES), total))
    for measure, row in zip(measures, rows, strict=True):
        measure[:] = row
    return measures


def terms_nearby(evidence: Evidence, reaches: tuple[int, ...]) -> list[Floats]:
    """Give every line the weight of the distinct terms within each reach of it."""
    total = evidence.total_lines
    line, weight = evidence.line, evidence.weight[evidence.term]
    # The line of the find before, if that is one of the same term.
    previous = np.append(-total, line[:-1])
    previous[np.flatnonzero(np.diff(evidence.term)) + 1] = -total
    reach = np.array(reaches)[:, None]
    # What a find reaches and the one before does not, so that no term counts twice.
    since = np.minimum(np.maximum(np.maximum(line - reach, previous + reach + 1), 0), total)
    until = np.minimum(line + reach + 1, total)
    # One row after the other in one count, each with a place for what begins or ends behind the last line.
    row = np.arange(len(reaches))[:, None] * (total + 1)
    weights = np.concatenate([weight, -weight] * len(reaches))
    steps = np.bincount(np.concatenate((since + row, until + row), axis=1).ravel(), weights, len(reaches) * (total + 1))
    return list(np.cumsum(steps.reshape(len(reaches), total + 1)[:, :-1], axis=1))


def _said(evidence: Evidence) -> Floats:
    """Give every line the weight of what it says."""
    weight = evidence.weight[evidence.term] * evidence.times / (evidence.times + _LINE_SATURATION)
    said = np.bincount(evidence.line, weight, evidence.total_lines)
    return said.astype(np.float64, copy=False)


def _qualified(support: Floats, evidence: Evidence, nearby: Floats) -> list[Floats]:
    """Repeat the support of each line by what makes it believable in this text at all.

    The same support means more where much of the question is found, and found in one place.
    """
    qualities = (
        evidence.found,
        np.log1p(evidence.terms_asked),
        nearby.max() / evidence.weight_asked if evidence.weight_asked else 0.0,
        float(evidence.is_name.any()),
        np.log(support.size),
    )
    return [support * quality for quality in qualities]


def _relative(row: Floats) -> Floats:
    top = row.max(initial=0.0)
    return row / top if top > 0 else row
