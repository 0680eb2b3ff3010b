"""The features by which the lines of code and documents are scored.

Line features tell what kind of line it is; they do not depend on the question. Question features tell how well a line
and what is around it match the question. They are relative to the best place of the text, so that long and short
texts and questions give values on the same scale. The weights of the features are in `weights.json`.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from tools.pruning.engine.evidence import Evidence
from tools.pruning.engine.structure import Structure
from tools.pruning.engine.text_arrays import Bools, Floats, Ints, LineArray, mark

CODE_LINE_FEATURES = ("is_header", "is_comment", "is_import", "is_top_level", "depth_in_definition", "log_tokens")
CODE_QUESTION_FEATURES = (
    "matches_on_line",
    "matches_above",
    "terms_around",
    "terms_near_by_question_length",
    "terms_near_by_best_window",
    "matches_in_header",
    "matches_in_outer_header",
)
DOCS_LINE_FEATURES = ("is_heading", "is_end_of_text", "is_end_of_section", "is_code_block")
DOCS_QUESTION_FEATURES = (
    "terms_near_and_in_headings",
    "heading_terms",
    "section_terms_by_best_window",
    "density_by_share_found",
)

_NEAR, _AROUND, _ABOVE = 2, 15, 5
_DOCS_REACHES = (2, 6, 15, 40)
_DENSITY_REACHES = (3, 10, 20)
_DEEP_LINES = 60
_END_LINES = 3
# As in BM25: a second match of a term on a line adds less than the first.
_SATURATION = 0.6


class _Sections(Struct, frozen=True):
    """Section 0 is what lies outside all sections; the others are numbered by their headings.

    `of_heading` holds the number of each heading's section, at the line of the heading. `has_term[t, s]` tells whether
    term t occurs in section s.
    """

    of_line: Ints
    of_heading: Ints
    has_term: Bools


def code_line_features(lines: LineArray, structure: Structure) -> Floats:
    """One row per name in `CODE_LINE_FEATURES` and one column per line."""
    scope = structure.scope
    return _stack(
        [
            structure.is_header,
            structure.is_comment,
            structure.is_import,
            scope < 0,
            np.minimum(np.arange(scope.size) - np.maximum(scope, 0), _DEEP_LINES) / _DEEP_LINES,
            np.log1p(lines.tokens),
        ]
    )


def docs_line_features(lines: LineArray, structure: Structure, unit: Ints) -> Floats:
    """One row per name in `DOCS_LINE_FEATURES` and one column per line; a unit of several lines is a code block."""
    solid = np.flatnonzero(~lines.is_blank)
    ends_section = np.zeros(len(lines), dtype=np.bool_)
    ends_section[solid[:-1]] = structure.is_header[solid[1:]]
    ends_section[solid[-1:]] = True
    ends_text = mark(solid[-_END_LINES:], len(lines))
    return _stack([structure.is_header, ends_text, ends_section, np.bincount(unit)[unit] > 1])


def code_question_features(evidence: Evidence, structure: Structure) -> Floats:
    """One row per name in `CODE_QUESTION_FEATURES` and one column per line."""
    matches = _matches(evidence)
    near, around = window_terms(evidence, (_NEAR, _AROUND))
    best_window = near.max() / evidence.weight_asked if evidence.weight_asked else 0.0
    around = _relative(around)
    support = (_relative(near) + around) / 2
    # With one more entry for lines outside every definition: their scope is -1.
    matches_at = np.append(matches, 0.0)
    outer = np.append(structure.parent, -1)[structure.scope]
    return _stack(
        [
            matches,
            _mean_above(matches, _ABOVE),
            around,
            support * np.log1p(evidence.terms_asked),
            support * best_window,
            matches_at[structure.scope],
            matches_at[outer],
        ]
    )


def docs_question_features(evidence: Evidence, structure: Structure) -> Floats:
    """One row per name in `DOCS_QUESTION_FEATURES` and one column per line."""
    sections = _sections(evidence, structure)
    in_headings = _terms_in_headings(evidence, structure, sections.of_heading)
    terms_here = evidence.weight @ (_terms_within(evidence, _NEAR) | in_headings[:, sections.of_line])
    terms_in_section = evidence.weight @ (sections.has_term | in_headings)
    # Where even the best window matches little of the question, no section stands out.
    best_window = terms_here.max() / evidence.weight_asked if evidence.weight_asked else 0.0
    return _stack(
        [
            _relative(terms_here),
            _relative(terms_here) * structure.is_header,
            best_window * _relative(terms_in_section)[sections.of_line],
            _density(evidence) * evidence.share_found,
        ]
    )


def window_terms(evidence: Evidence, reaches: tuple[int, ...]) -> list[Floats]:
    """For each reach, give every line the weight of the distinct terms from `reach` lines before it to as many after.

    Every match adds its weight where its window begins and takes it off where the window ends; a prefix sum over the
    lines gives the rest. A window begins where that of the term's match before it ends, so that no term counts twice.
    """
    total = evidence.total_lines
    line, weight = evidence.line, evidence.weight[evidence.term]
    previous = np.full(line.size, -total)
    previous[1:] = np.where(evidence.term[1:] == evidence.term[:-1], line[:-1], -total)
    rows: list[Floats] = []
    for reach in reaches:
        begin = np.minimum(np.maximum(np.maximum(line - reach, previous + reach + 1), 0), total)
        end = np.minimum(line + reach + 1, total)
        # Both in one count, so that what is added and what is taken off come in the same order of matches.
        steps = np.bincount(np.concatenate((begin, end)), np.concatenate((weight, -weight)), total + 1)
        rows.append(np.cumsum(steps[:-1]))
    return rows


def window_sum(row: Floats, reach: int) -> Floats:
    """Sum over the lines from `reach` before to `reach` after each line, as far as they exist, by a prefix sum."""
    total = row.size
    sums = np.zeros(total + 2 * reach + 1)
    np.cumsum(row, out=sums[reach + 1 : reach + 1 + total])
    sums[reach + 1 + total :] = sums[reach + total]
    return sums[2 * reach + 1 :] - sums[:total]


def window_mean(row: Floats, reach: int) -> Floats:
    """The mean over the same lines."""
    mean: Floats = window_sum(row, reach) / window_sum(np.ones(row.size), reach)
    return mean


def _mean_above(row: Floats, reach: int) -> Floats:
    """The mean over `reach` lines directly above each line; missing ones count as 0."""
    sums = np.zeros(row.size + reach)
    np.cumsum(row[:-1], out=sums[reach + 1 :])
    mean: Floats = (sums[reach:] - sums[: row.size]) / reach
    return mean


def _terms_within(evidence: Evidence, reach: int) -> Bools:
    """Tell which terms occur within `reach` lines of each line, one row per term and one column per line."""
    # With margins, so that matches near the edges need no special case.
    occurs = np.zeros((evidence.weight.size, evidence.total_lines + 2 * reach), dtype=np.bool_)
    for shift in range(2 * reach + 1):
        occurs[evidence.term, evidence.line + shift] = True
    return occurs[:, reach : reach + evidence.total_lines]


def _terms_in_headings(evidence: Evidence, structure: Structure, section_of_heading: Ints) -> Bools:
    """Tell which terms occur in the headings above each section, its own included; one row per term."""
    headings = np.flatnonzero(structure.is_header)
    parents = structure.parent[headings]
    occurs = np.zeros((evidence.weight.size, headings.size + 1), dtype=np.bool_)
    in_heading = np.flatnonzero(structure.is_header[evidence.line])
    occurs[evidence.term[in_heading], section_of_heading[evidence.line[in_heading]]] = True
    outer = np.zeros(headings.size + 1, dtype=np.int64)
    outer[1:] = np.where(parents >= 0, section_of_heading[parents], 0)
    # Each round reaches twice as far out as the one before.
    while outer.any():
        occurs |= occurs[:, outer]
        outer = outer[outer]
    return occurs


def _sections(evidence: Evidence, structure: Structure) -> _Sections:
    of_heading: Ints = np.cumsum(structure.is_header, dtype=np.int64)
    of_line: Ints = np.where(structure.scope >= 0, of_heading[structure.scope], 0)
    has_term = np.zeros((evidence.weight.size, int(of_heading[-1]) + 1), dtype=np.bool_)
    has_term[evidence.term, of_line[evidence.line]] = True
    return _Sections(of_line=of_line, of_heading=of_heading, has_term=has_term)


def _matches(evidence: Evidence) -> Floats:
    """The weight of the matches on each line, relative to the best line."""
    weight = evidence.weight[evidence.term] * evidence.times / (evidence.times + _SATURATION)
    on_line = np.bincount(evidence.line, weight, evidence.total_lines)
    return _relative(on_line.astype(np.float64, copy=False))


def _density(evidence: Evidence) -> Floats:
    """The mean of windows of several sizes: of the distinct terms in them, and of the matches in them."""
    matches = _matches(evidence)
    rows = window_terms(evidence, _DOCS_REACHES)
    rows += [window_sum(window_sum(matches, reach), reach) for reach in _DENSITY_REACHES]
    density: Floats = sum(map(_relative, rows), np.zeros(matches.size)) / len(rows)
    return density


def _relative(row: Floats) -> Floats:
    top = row.max(initial=0.0)
    return row / top if top > 0 else row


def _stack(rows: Sequence[Floats | Bools]) -> Floats:
    table = np.empty((len(rows), rows[0].size))
    for number, row in enumerate(rows):
        table[number] = row
    return table
