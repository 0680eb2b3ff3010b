"""How likely each line is to be needed to answer a question.

The judgement is a weighted sum of measures. The weights were fitted on real changes to real files, with the
description of the change as the question and the lines it touched as the answer.
"""

import numpy as np

from tools.pruning.engine.arrays import Floats
from tools.pruning.engine.measures import MEASURES
from tools.pruning.engine.windows import smoothed

_WEIGHTS: dict[str, float] = {
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
_BLUR = 2
# Fitted on code. In prose the same evidence says less, and the shape of a line says nothing.
_PROSE_SHARE = 0.7
_SHAPES = (
    "is_header",
    "is_comment",
    "is_comment_unasked",
    "is_import",
    "is_outside",
    "tokens",
    "depth_in_block",
    "block_size",
)

_IN_CODE = np.array([_WEIGHTS[name] for name in MEASURES])
_IN_PROSE = np.array([0.0 if name in _SHAPES else _PROSE_SHARE * _WEIGHTS[name] for name in MEASURES])


def worth_of(measures: Floats, *, is_prose: bool) -> Floats:
    """Give every line its share of what the question needs. The shares sum to 1."""
    score = (_IN_PROSE if is_prose else _IN_CODE) @ measures
    share = smoothed(np.exp(score - score.max()), _BLUR)
    shares: Floats = share / share.sum()
    return shares
