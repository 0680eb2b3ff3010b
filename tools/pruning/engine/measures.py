"""What is measured of every line before it is judged: evidence at several distances, and what kind of line it is.

Measures of evidence are shares of the best place in the text, between 0 and 1, so that a long question and a
short one, a long text and a short one, give numbers on the same scale. The judgement itself is elsewhere.
"""

import numpy as np

from tools.pruning.engine.evidence import Evidence
from tools.pruning.engine.layout import Bools, Floats, Ints, Layout
from tools.pruning.engine.structure import Structure
from tools.pruning.engine.windows import windowed
from tools.records import record

_REACHES = (2, 6, 15, 40)
_SPREADS = (3, 10, 20)
# A term said twice on a line counts for more than once and less than twice as much.
_LINE_SATURATION = 0.6
_RARE_LINES = 6.0
_LAST_LINES = 3
_DEEP_LINES = 60

CODE_MEASURES = (
    *(f"terms_within_{reach}" for reach in _REACHES[:-1]),
    "block_terms",
    "block_best",
    "rare_name_in_block",
    "header",
    "outer_header",
    "evidence_by_share_found",
    "evidence_by_terms_asked",
    "evidence_by_length",
    "evidence_by_best_place",
    "evidence_by_names_found",
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
PROSE_MEASURES = (
    "terms_here_and_above",
    "block_terms_and_above",
    "evidence_by_share_found",
    "evidence_by_terms_asked",
    "evidence_by_length",
    "is_header",
    "is_last",
    "is_block_end",
)


@record
class _Blocks:
    """Block 0 is what lies outside every definition or section; the others are numbered by their headers.

    `of_line` gives the block of each line, and `of_header` that of each header, at its line. `stands_in[t, b]` tells
    whether term t stands in block b.
    """

    of_line: Ints
    of_header: Ints
    stands_in: Bools


def code_measures(evidence: Evidence, layout: Layout, structure: Structure, *, asks_for_prose: bool) -> Floats:
    """Give one row per name in `CODE_MEASURES` and one column per line."""
    total = len(layout)
    scope = structure.scope
    in_scope = scope >= 0
    header_at = np.maximum(scope, 0)
    outer = np.where(in_scope, structure.parent[header_at], -1)
    weight = evidence.weight
    said = _said(evidence)
    nearby = terms_nearby(evidence, _REACHES)
    terms = [_relative(row) for row in nearby]
    support = _support(terms, said)

    blocks = _blocks(evidence, structure)
    block, stands_in = blocks.of_line, blocks.stands_in
    best = np.zeros(stands_in.shape[1])
    np.maximum.at(best, block, nearby[0])
    rarity = np.exp(-np.count_nonzero(evidence.count, axis=1) / _RARE_LINES) * evidence.is_name
    best_place = nearby[1].max() / evidence.weight_asked if evidence.weight_asked else 0.0
    unasked = structure.is_comment & (not asks_for_prose)
    is_last = _last(layout)
    kinds = (structure.is_header, structure.is_comment, unasked, structure.is_import, ~in_scope, is_last)
    return np.stack(
        [
            *terms[:-1],
            _relative(weight @ stands_in)[block],
            _relative(best)[block],
            np.minimum(rarity @ stands_in, 1.0)[block],
            np.where(in_scope, said[header_at], 0.0),
            np.where(outer >= 0, said[np.maximum(outer, 0)], 0.0),
            *_qualified(support, evidence),
            support * best_place,
            support * float(evidence.is_name.any()),
            *(kind.astype(np.float64) for kind in kinds),
            np.log1p(layout.tokens),
            np.minimum(np.arange(total) - np.where(in_scope, header_at, 0), _DEEP_LINES) / _DEEP_LINES,
            np.log1p(np.bincount(block, minlength=best.size)[block]),
        ]
    )


def prose_measures(evidence: Evidence, layout: Layout, structure: Structure) -> Floats:
    """Give one row per name in `PROSE_MEASURES` and one column per line."""
    weight = evidence.weight
    within = _standing_within(evidence, _REACHES)
    support = _support([_relative(weight @ stands) for stands in within], _said(evidence))
    blocks = _blocks(evidence, structure)
    above = _standing_above(evidence, structure, blocks.of_header)
    solid = np.flatnonzero(~layout.is_blank)
    is_block_end = np.zeros(len(layout), dtype=np.bool_)
    is_block_end[solid[:-1]] = structure.is_header[solid[1:]]
    is_block_end[solid[-1:]] = True
    kinds = (structure.is_header, _last(layout), is_block_end)
    return np.stack(
        [
            _relative(weight @ (within[0] | above[:, blocks.of_line])),
            _relative(weight @ (blocks.stands_in | above))[blocks.of_line],
            *_qualified(support, evidence),
            *(kind.astype(np.float64) for kind in kinds),
        ]
    )


def terms_nearby(evidence: Evidence, reaches: tuple[int, ...]) -> list[Floats]:
    """Give every line the weight of the distinct terms within each reach of it."""
    return [evidence.weight @ stands for stands in _standing_within(evidence, reaches)]


def _standing_within(evidence: Evidence, reaches: tuple[int, ...]) -> list[Bools]:
    """Tell for each reach which terms stand within it, one row per term and one column per line."""
    terms, total = evidence.count.shape
    margin = max(reaches)
    # Running counts with level margins, so that a window at the edge is a slice like any other.
    seen = np.zeros((terms, total + 2 * margin + 1), dtype=np.int32)
    np.cumsum(evidence.count > 0, axis=1, out=seen[:, margin + 1 : margin + 1 + total])
    seen[:, margin + 1 + total :] = seen[:, margin + total : margin + total + 1]
    return [seen[:, margin + reach + 1 :][:, :total] > seen[:, margin - reach :][:, :total] for reach in reaches]


def _standing_above(evidence: Evidence, structure: Structure, block_of_header: Ints) -> Bools:
    """Tell which terms stand in the headers around each block, its own among them; a row per term."""
    headers = np.flatnonzero(structure.is_header)
    parents = structure.parent[headers]
    stands = np.zeros((evidence.weight.size, headers.size + 1), dtype=np.bool_)
    stands[:, 1:] = evidence.count[:, headers] > 0
    outer = np.zeros(headers.size + 1, dtype=np.int64)
    outer[1:] = np.where(parents >= 0, block_of_header[parents], 0)
    # Each round reaches twice as far out as the one before.
    while outer.any():
        stands |= stands[:, outer]
        outer = outer[outer]
    return stands


def _blocks(evidence: Evidence, structure: Structure) -> _Blocks:
    of_header: Ints = np.cumsum(structure.is_header, dtype=np.int64)
    of_line: Ints = np.where(structure.scope >= 0, of_header[structure.scope], 0)
    stands_in = np.zeros((evidence.weight.size, int(of_header[-1]) + 1), dtype=np.bool_)
    term, line = np.nonzero(evidence.count)
    stands_in[term, of_line[line]] = True
    return _Blocks(of_line=of_line, of_header=of_header, stands_in=stands_in)


def _said(evidence: Evidence) -> Floats:
    return _relative(evidence.weight @ (evidence.count / (evidence.count + _LINE_SATURATION)))


def _support(terms: list[Floats], said: Floats) -> Floats:
    """Give the mean of all evidence around each line: distinct terms, and how densely they are said."""
    density = [_relative(windowed(windowed(said, spread), spread)) for spread in _SPREADS]
    support: Floats = np.mean(terms + density, axis=0)
    return support


def _qualified(support: Floats, evidence: Evidence) -> list[Floats]:
    """Repeat the support of each line by what makes it believable in this text at all.

    The same support means more where much of the question is found.
    """
    return [support * evidence.found, support * np.log1p(evidence.terms_asked), support * np.log(support.size)]


def _last(layout: Layout) -> Bools:
    is_last = np.zeros(len(layout), dtype=np.bool_)
    is_last[np.flatnonzero(~layout.is_blank)[-_LAST_LINES:]] = True
    return is_last


def _relative(row: Floats) -> Floats:
    top = row.max(initial=0.0)
    return row / top if top > 0 else row
