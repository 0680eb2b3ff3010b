"""Blocks that the author of a text has put beyond pruning."""

import numpy as np

from tools.pruning.engine.arrays import Bools
from tools.pruning.engine.layout import Layout

_BEGIN = "⟦NO_PRUNE_BEGIN⟧"
_END = "⟦NO_PRUNE_END⟧"


def protected_lines(text: str, layout: Layout) -> Bools:
    """Mark the lines from each begin directive to its end directive, both included.

    A block that is never closed is protected to the end of the text, and an end with no beginning protects its own
    line: when in doubt, lines stay.
    """
    is_protected = np.zeros(len(layout), dtype=np.bool_)
    if _BEGIN not in text and _END not in text:
        return is_protected
    opened = -1
    for i, line in enumerate(text.split("\n")):
        if _BEGIN in line and opened < 0:
            opened = i
        if _END in line:
            is_protected[opened if opened >= 0 else i : i + 1] = True
            opened = -1
    if opened >= 0:
        is_protected[opened:] = True
    return is_protected
