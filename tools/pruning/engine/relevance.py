"""How likely each line is to be needed to answer a question.

The judgement is a weighted sum: of what kind of line it is, which is known before anything is asked, and of what the
question finds there. The weights were fitted on real changes to real files, with the description of the change as the
question and the lines it touched as the answer: for code on commits, for documents on what releases changed in their
manuals, with one entry of their changelogs or with several. Both come out as likelihoods.
"""

import numpy as np

from tools.pruning.engine.arrays import Floats
from tools.pruning.engine.measures import CODE_MEASURES, PROSE_MEASURES
from tools.pruning.engine.structure import Structure
from tools.pruning.engine.traits import CODE_TRAITS, PROSE_TRAITS
from tools.pruning.engine.windows import smoothed

_IN_CODE: dict[str, float] = {
    "said_here": 0.86,
    "terms_around": 0.68,
    "support_by_terms_asked": 0.76,
    "support_by_best_place": 3.75,
    "said_in_header": 1.32,
    "said_in_outer_header": 1.06,
}
_OF_CODE: dict[str, float] = {
    "is_header": 0.30,
    "is_comment": -0.68,
    "is_import": -0.65,
    "is_outside": -0.27,
    "depth_in_block": 0.32,
    "tokens": 0.10,
}
_IN_PROSE: dict[str, float] = {
    "terms_here_and_above": 1.58,
    "header_terms": -1.59,
    "block_terms_by_best_place": 2.84,
    "evidence_by_share_found": 4.26,
}
# What is added to a document goes to the end of a section, before the next heading, or to the end of the text. A
# heading is needed for what stands under it, whatever it says itself.
_OF_PROSE: dict[str, float] = {
    "is_header": 2.32,
    "is_last": 1.51,
    "is_block_end": 1.40,
    "is_fenced": -0.67,
}
_BLUR = 2

_CODE_WEIGHTS = np.array([_IN_CODE[name] for name in CODE_MEASURES])
_CODE_PRIOR = np.array([_OF_CODE[name] for name in CODE_TRAITS])
_PROSE_WEIGHTS = np.array([_IN_PROSE[name] for name in PROSE_MEASURES])
_PROSE_PRIOR = np.array([_OF_PROSE[name] for name in PROSE_TRAITS])


def prior_in_code(traits: Floats) -> Floats:
    """Give what every line has before anything is asked, by `code_traits`; comments are supposed not to be wanted."""
    prior: Floats = _CODE_PRIOR @ traits
    return prior


def prior_in_prose(traits: Floats) -> Floats:
    """Give what every line has before anything is asked, by `prose_traits`."""
    prior: Floats = _PROSE_PRIOR @ traits
    return prior


def with_comments(prior: Floats, structure: Structure) -> Floats:
    """Give the prior of a question that is about comments."""
    wanted: Floats = prior - _OF_CODE["is_comment"] * structure.is_comment
    return wanted


def worth_in_code(prior: Floats, measures: Floats) -> Floats:
    """Give every line its share of what the question needs, by `code_measures`. The shares sum to 1."""
    return _shares(prior + _CODE_WEIGHTS @ measures)


def worth_in_prose(prior: Floats, measures: Floats) -> Floats:
    """Give every line its share of what the question needs, by `prose_measures`. The shares sum to 1."""
    return _shares(prior + _PROSE_WEIGHTS @ measures)


def _shares(score: Floats) -> Floats:
    share = smoothed(np.exp(score - score.max()), _BLUR)
    shares: Floats = share / share.sum()
    return shares
