"""What is measured of every line before it is judged: evidence at several distances, and what kind of line it is.

Measures of evidence are shares of the best place in the text, between 0 and 1, so that a long question and a
short one, a long text and a short one, give numbers on the same scale. The judgement itself is elsewhere.
"""

import numpy as np

from tools.pruning.engine.evidence import Evidence
from tools.pruning.engine.layout import Floats, Ints, Layout
from tools.pruning.engine.names import users_of
from tools.pruning.engine.structure import Structure
from tools.pruning.engine.windows import windowed
from tools.pruning.engine.words import Words

_REACHES = (2, 6, 15, 40)
_SPREADS = (3, 10, 20)
# A term said twice on a line, or often in a block, counts for more than once and less than twice as much.
_LINE_SATURATION = 0.6
_BLOCK_SATURATION = 0.8
_BLOCK_LENGTH_SHARE = 0.6
_RARE_LINES = 6.0
_PROMISE_SHARPNESS = 2.2
_LAST_LINES = 3
_DEEP_LINES = 60

MEASURES = (
    *(f"terms_within_{reach}" for reach in _REACHES),
    *(f"density_over_{spread}" for spread in _SPREADS),
    "block_density",
    "block_terms",
    "block_best",
    "rare_name_in_block",
    "header",
    "outer_header",
    "outer_block",
    "users",
    "evidence_by_share_found",
    "evidence_by_terms_asked",
    "evidence_by_best_place",
    "evidence_by_names_found",
    "evidence_by_length",
    "is_header",
    "is_comment",
    "is_comment_unasked",
    "is_import",
    "is_closer",
    "is_outside",
    "is_last",
    "tokens",
    "depth_in_block",
    "block_size",
)


def measures_of(
    evidence: Evidence, words: Words, layout: Layout, structure: Structure, tokens: Ints, *, asks_for_prose: bool
) -> Floats:
    """Give one row per name in `MEASURES` and one column per line."""
    total = len(layout)
    scope = structure.scope
    in_scope = scope >= 0
    header_at = np.maximum(scope, 0)
    outer = np.where(in_scope, structure.parent[header_at], -1)
    outer_at = np.maximum(outer, 0)
    weight = evidence.weight
    stands = evidence.count > 0
    line = weight @ (evidence.count / (evidence.count + _LINE_SATURATION))

    nearby = terms_nearby(evidence, _REACHES)
    rows = [_relative(row) for row in nearby]
    rows += [_relative(windowed(windowed(line, spread), spread)) for spread in _SPREADS]

    # Block 0 is what lies outside every definition; the others are numbered by their headers.
    block_of_header = np.cumsum(structure.is_header)
    block = np.where(in_scope, block_of_header[header_at], 0)
    blocks = int(block_of_header[-1]) + 1
    in_block = np.zeros((weight.size, blocks))
    for term, row in enumerate(evidence.count):
        in_block[term] = np.bincount(block, weights=row, minlength=blocks)
    size = np.bincount(block, weights=~layout.is_blank, minlength=blocks)
    usual = size[size > 0].mean() if size.any() else 1.0
    length = 1.0 - _BLOCK_LENGTH_SHARE + _BLOCK_LENGTH_SHARE * size / usual
    density = _relative(weight @ (in_block / (in_block + _BLOCK_SATURATION * length)))
    best = np.zeros(blocks)
    np.maximum.at(best, block, nearby[0])
    rarity = np.exp(-stands.sum(axis=1) / _RARE_LINES) * evidence.is_name
    said = _relative(line)
    rows += [
        density[block],
        _relative(weight @ (in_block > 0))[block],
        _relative(best)[block],
        np.minimum(rarity @ (in_block > 0), 1.0)[block],
        np.where(in_scope, said[header_at], 0.0),
        np.where(outer >= 0, said[outer_at], 0.0),
        np.where(outer >= 0, density[block_of_header[outer_at]], 0.0),
    ]
    promise = np.exp(_PROMISE_SHARPNESS * (rows[1] + 0.5 * rows[2] + rows[4] + rows[7]))
    rows.append(users_of(layout, structure, words, promise / promise.sum()))
    rows += _qualified(np.mean(rows[: len(_REACHES) + len(_SPREADS)], axis=0), evidence, nearby[1])

    is_last = np.zeros(total, dtype=np.bool_)
    is_last[np.flatnonzero(~layout.is_blank)[-_LAST_LINES:]] = True
    closes = np.isin(layout.first, [ord(c) for c in "})]"]) & (tokens <= 3)
    unasked = structure.is_comment & (not asks_for_prose)
    kinds = (structure.is_header, structure.is_comment, unasked, structure.is_import, closes, ~in_scope, is_last)
    rows += [
        *(kind.astype(np.float64) for kind in kinds),
        np.log1p(tokens),
        np.minimum(np.arange(total) - np.where(in_scope, header_at, 0), _DEEP_LINES) / _DEEP_LINES,
        np.log1p(np.bincount(block, minlength=blocks)[block]),
    ]
    return np.stack(rows)


def terms_nearby(evidence: Evidence, reaches: tuple[int, ...]) -> list[Floats]:
    """Give every line the weight of the distinct terms within each reach of it."""
    terms, total = evidence.count.shape
    margin = max(reaches)
    # Running counts with level margins, so that a window at the edge is a slice like any other.
    seen = np.zeros((terms, total + 2 * margin + 1), dtype=np.int32)
    np.cumsum(evidence.count > 0, axis=1, out=seen[:, margin + 1 : margin + 1 + total])
    seen[:, margin + 1 + total :] = seen[:, margin + total : margin + total + 1]
    return [
        evidence.weight @ (seen[:, margin + reach + 1 :][:, :total] > seen[:, margin - reach :][:, :total])
        for reach in reaches
    ]


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
