"""What kind of line each one is, before anything is asked about the text."""

import numpy as np

from tools.pruning.engine.arrays import Bools, Floats, Ints, stacked
from tools.pruning.engine.layout import Layout
from tools.pruning.engine.structure import Structure

_DEEP_LINES = 60
_LAST_LINES = 3

CODE_TRAITS = ("is_header", "is_comment", "is_import", "is_outside", "depth_in_block", "tokens")
PROSE_TRAITS = ("is_header", "is_last", "is_block_end", "is_fenced")


def code_traits(layout: Layout, structure: Structure) -> Floats:
    """Give one row per name in `CODE_TRAITS` and one column per line."""
    scope = structure.scope
    return stacked(
        [
            structure.is_header,
            structure.is_comment,
            structure.is_import,
            scope < 0,
            np.minimum(np.arange(scope.size) - np.maximum(scope, 0), _DEEP_LINES) / _DEEP_LINES,
            np.log1p(layout.tokens),
        ]
    )


def prose_traits(layout: Layout, structure: Structure, unit: Ints) -> Floats:
    """Give one row per name in `PROSE_TRAITS` and one column per line; a unit of several lines is a code block."""
    solid = (~layout.is_blank).nonzero()[0]
    ends_block = np.zeros(len(layout), dtype=np.bool_)
    ends_block[solid[:-1]] = structure.is_header[solid[1:]]
    ends_block[solid[-1:]] = True
    return stacked(
        [structure.is_header, _marked(solid[-_LAST_LINES:], len(layout)), ends_block, np.bincount(unit)[unit] > 1]
    )


def _marked(lines: Ints, total: int) -> Bools:
    marked = np.zeros(total, dtype=np.bool_)
    marked[lines] = True
    return marked
