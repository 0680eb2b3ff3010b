"""What is measured of every line before it is judged: evidence at several distances, and what kind of line it is.

Measures of evidence are shares of the best place in the text, between 0 and 1, so that a long question and a
short one, a long text and a short one, give numbers on the same scale. The judgement itself is elsewhere.
"""

import numpy as np

from tools.pruning.engine.arrays import Bools, Floats, Ints
from tools.pruning.engine.evidence import Evidence
from tools.pruning.engine.layout import Layout
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
    "block_terms_by_best_place",
    "evidence_by_share_found",
    "is_header",
    "header_terms",
    "is_last",
    "is_block_end",
    "is_fenced",
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
    rarity = np.exp(-evidence.lines_with / _RARE_LINES) * evidence.is_name
    best_place = nearby[1].max() / evidence.weight_asked if evidence.weight_asked else 0.0
    return _stacked(
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
            structure.is_header,
            structure.is_comment,
            structure.is_comment & (not asks_for_prose),
            structure.is_import,
            ~in_scope,
            _last(layout),
            np.log1p(layout.tokens),
            np.minimum(np.arange(total) - np.where(in_scope, header_at, 0), _DEEP_LINES) / _DEEP_LINES,
            np.log1p(np.bincount(block, minlength=best.size)[block]),
        ]
    )


def prose_measures(evidence: Evidence, layout: Layout, structure: Structure, unit: Ints) -> Floats:
    """Give one row per name in `PROSE_MEASURES` and one column per line; a unit of several lines is a code block."""
    weight = evidence.weight
    support = _support([_relative(row) for row in terms_nearby(evidence, _REACHES)], _said(evidence))
    blocks = _blocks(evidence, structure)
    above = _standing_above(evidence, structure, blocks.of_header)
    here = weight @ (_standing_within(evidence, _REACHES[0]) | above[:, blocks.of_line])
    terms_here = _relative(here)
    # What one place of the text says of the question. Where even the best says little, no section stands out.
    best_place = here.max() / evidence.weight_asked if evidence.weight_asked else 0.0
    solid = np.flatnonzero(~layout.is_blank)
    is_block_end = np.zeros(len(layout), dtype=np.bool_)
    is_block_end[solid[:-1]] = structure.is_header[solid[1:]]
    is_block_end[solid[-1:]] = True
    return _stacked(
        [
            terms_here,
            best_place * _relative(weight @ (blocks.stands_in | above))[blocks.of_line],
            support * evidence.found,
            structure.is_header,
            terms_here * structure.is_header,
            _last(layout),
            is_block_end,
            np.bincount(unit, minlength=len(layout))[unit] > 1,
        ]
    )


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


def _standing_within(evidence: Evidence, reach: int) -> Bools:
    """Tell which terms stand within a reach of each line, one row per term and one column per line."""
    # With margins, so that what is near the edge is marked like all the rest.
    stands = np.zeros((evidence.weight.size, evidence.total_lines + 2 * reach), dtype=np.bool_)
    for shift in range(2 * reach + 1):
        stands[evidence.term, evidence.line + shift] = True
    return stands[:, reach : reach + evidence.total_lines]


def _standing_above(evidence: Evidence, structure: Structure, block_of_header: Ints) -> Bools:
    """Tell which terms stand in the headers around each block, its own among them; a row per term."""
    headers = np.flatnonzero(structure.is_header)
    parents = structure.parent[headers]
    stands = np.zeros((evidence.weight.size, headers.size + 1), dtype=np.bool_)
    in_header = np.flatnonzero(structure.is_header[evidence.line])
    stands[evidence.term[in_header], block_of_header[evidence.line[in_header]]] = True
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
    stands_in[evidence.term, of_line[evidence.line]] = True
    return _Blocks(of_line=of_line, of_header=of_header, stands_in=stands_in)


def _said(evidence: Evidence) -> Floats:
    """Give every line the weight of what it says, as a share of the most that one says."""
    weight = evidence.weight[evidence.term] * evidence.times / (evidence.times + _LINE_SATURATION)
    said = np.bincount(evidence.line, weight, evidence.total_lines)
    return _relative(said.astype(np.float64, copy=False))


def _support(terms: list[Floats], said: Floats) -> Floats:
    """Give the mean of all evidence around each line: distinct terms, and how densely they are said."""
    density = [_relative(windowed(windowed(said, spread), spread)) for spread in _SPREADS]
    support: Floats = sum(terms + density, np.zeros(said.size)) / len(terms + density)
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


def _stacked(rows: list[Floats | Bools]) -> Floats:
    measures = np.empty((len(rows), rows[0].size))
    for measure, row in zip(measures, rows, strict=True):
        measure[:] = row
    return measures


def _relative(row: Floats) -> Floats:
    top = row.max(initial=0.0)
    return row / top if top > 0 else row
