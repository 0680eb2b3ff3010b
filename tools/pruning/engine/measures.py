"""What a question finds at every line, and around it, above it and in its section.

Measures of evidence are shares of the best place in the text, between 0 and 1, so that a long question and a
short one, a long text and a short one, give numbers on the same scale. The judgement itself is elsewhere.
"""

import numpy as np

from tools.kit.records import record
from tools.pruning.engine.arrays import Bools, Floats, Ints, stacked
from tools.pruning.engine.evidence import Evidence
from tools.pruning.engine.structure import Structure
from tools.pruning.engine.windows import windowed

_CODE_REACHES = (2, 15)
_REACHES = (2, 6, 15, 40)
_SPREADS = (3, 10, 20)
# A term said twice on a line counts for more than once and less than twice as much.
_LINE_SATURATION = 0.6

CODE_MEASURES = (
    "said_here",
    "terms_around",
    "support_by_terms_asked",
    "support_by_best_place",
    "said_in_header",
    "said_in_outer_header",
)
PROSE_MEASURES = (
    "terms_here_and_above",
    "header_terms",
    "block_terms_by_best_place",
    "evidence_by_share_found",
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


def code_measures(evidence: Evidence, structure: Structure) -> Floats:
    """Give one row per name in `CODE_MEASURES` and one column per line."""
    said = _said(evidence)
    close, around = terms_nearby(evidence, _CODE_REACHES)
    best_place = close.max() / evidence.weight_asked if evidence.weight_asked else 0.0
    around = _relative(around)
    support = (_relative(close) + around) / 2
    # With one more for what lies outside every definition: a scope of -1.
    said_at = np.append(said, 0.0)
    outer = np.append(structure.parent, -1)[structure.scope]
    return stacked(
        [
            said,
            around,
            support * np.log1p(evidence.terms_asked),
            support * best_place,
            said_at[structure.scope],
            said_at[outer],
        ]
    )


def prose_measures(evidence: Evidence, structure: Structure) -> Floats:
    """Give one row per name in `PROSE_MEASURES` and one column per line."""
    weight = evidence.weight
    support = _support([_relative(row) for row in terms_nearby(evidence, _REACHES)], _said(evidence))
    blocks = _blocks(evidence, structure)
    above = _standing_above(evidence, structure, blocks.of_header)
    here = weight @ (_standing_within(evidence, _REACHES[0]) | above[:, blocks.of_line])
    terms_here = _relative(here)
    # What one place of the text says of the question. Where even the best says little, no section stands out.
    best_place = here.max() / evidence.weight_asked if evidence.weight_asked else 0.0
    return stacked(
        [
            terms_here,
            terms_here * structure.is_header,
            best_place * _relative(weight @ (blocks.stands_in | above))[blocks.of_line],
            support * evidence.found,
        ]
    )


def terms_nearby(evidence: Evidence, reaches: tuple[int, ...]) -> list[Floats]:
    """Give every line the weight of the distinct terms within each reach of it."""
    total = evidence.total_lines
    line, weight = evidence.line, evidence.weight[evidence.term]
    # The line of the find before, if that is one of the same term.
    previous = np.append(-total, line[:-1])
    previous[1:][evidence.term[1:] != evidence.term[:-1]] = -total
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


def _relative(row: Floats) -> Floats:
    top = row.max(initial=0.0)
    return row / top if top > 0 else row
