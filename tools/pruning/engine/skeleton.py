"""The outline of a text: lines kept for orientation even where the question does not reach.

The outline may cost no more than its allowance. Imports come first, since they stand together; then definitions or
headings, the most promising first, each charged for the marker that sets it apart.
"""

import numpy as np

from tools.pruning.engine.arrays import Bools, Floats, Ints
from tools.pruning.engine.choice import MARKER_TOKENS, runs
from tools.pruning.engine.structure import Structure


def skeleton_of(structure: Structure, tokens: Ints, worth: Floats, *, allowance_tokens: float) -> Bools:
    """Mark as much of the outline as the allowance pays for."""
    starts, lengths = runs(structure.is_import)
    is_import = structure.is_import[starts]
    prices = np.add.reduceat(tokens, starts) + MARKER_TOKENS * (starts > 0)
    is_paid = np.zeros(starts.size, dtype=np.bool_)
    left = allowance_tokens
    for run, price in zip(is_import.nonzero()[0].tolist(), prices[is_import].tolist(), strict=True):
        if price <= left:
            is_paid[run] = True
            left -= price
    outline = np.repeat(is_paid, lengths)
    headers = structure.is_header.nonzero()[0]
    ranked = headers[np.argsort(-worth[headers], kind="stable")]
    spent = np.cumsum(tokens[ranked] + MARKER_TOKENS)
    outline[ranked[spent <= left]] = True
    return outline
