"""How likely each line is to be needed to answer a question.

The judgement is a weighted sum of measures. The weights were fitted on real changes to real files, with the
description of the change as the question and the lines it touched as the answer: for code on commits, for documents on
what releases changed in their manuals, with one entry of their changelogs or with several. Both come out as
likelihoods.
"""

import numpy as np

from tools.pruning.engine.arrays import Floats
from tools.pruning.engine.measures import CODE_MEASURES, PROSE_MEASURES
from tools.pruning.engine.windows import smoothed

_IN_CODE: dict[str, float] = {
    "terms_within_2": 0.52,
    "terms_within_6": 0.13,
    "terms_within_15": 0.40,
    "block_terms": 0.08,
    "block_best": 0.10,
    "rare_name_in_block": 0.80,
    "header": 1.06,
    "outer_header": 0.97,
    "evidence_by_share_found": 1.20,
    "evidence_by_terms_asked": 0.42,
    "evidence_by_best_place": 1.79,
    "evidence_by_names_found": 0.09,
    "evidence_by_length": 0.14,
    "is_header": 0.46,
    "is_comment": -0.32,
    "is_comment_unasked": -0.48,
    "is_import": -0.68,
    "is_outside": -0.29,
    "is_last": 1.40,
    "tokens": 0.19,
    "depth_in_block": 0.23,
    "block_size": 0.03,
}
# What is added to a document goes to the end of a section, before the next heading, or to the end of the text. A
# heading is needed for what stands under it, whatever it says itself.
_IN_PROSE: dict[str, float] = {
    "terms_here_and_above": 1.58,
    "block_terms_by_best_place": 2.84,
    "evidence_by_share_found": 4.26,
    "is_header": 2.32,
    "header_terms": -1.59,
    "is_last": 1.51,
    "is_block_end": 1.40,
    "is_fenced": -0.67,
}
_BLUR = 2

_CODE_WEIGHTS = np.array([_IN_CODE[name] for name in CODE_MEASURES])
_PROSE_WEIGHTS = np.array([_IN_PROSE[name] for name in PROSE_MEASURES])


def worth_in_code(measures: Floats) -> Floats:
    """Give every line its share of what the question needs, by `code_measures`. The shares sum to 1."""
    return _shares(_CODE_WEIGHTS @ measures)


def worth_in_prose(measures: Floats) -> Floats:
    """Give every line its share of what the question needs, by `prose_measures`. The shares sum to 1."""
    return _shares(_PROSE_WEIGHTS @ measures)


def _shares(score: Floats) -> Floats:
    share = smoothed(np.exp(score - score.max()), _BLUR)
    shares: Floats = share / share.sum()
    return shares
