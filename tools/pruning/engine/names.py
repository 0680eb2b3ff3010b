"""Which definitions the promising lines make use of."""

import re

import numpy as np

from tools.pruning.engine.layout import Floats, Layout
from tools.pruning.engine.structure import Structure
from tools.pruning.engine.words import Words

_DEFINED = re.compile(
    r"\b(?:def|class|func|fn|fun|function|struct|enum|trait|interface|type|impl)\s+(?:\([^)]*\)\s*)?(\w{3,})"
    r"|(\w{3,})\s*(?:=\s*(?:async\s+)?function\b|\()"
)
_COMMON = 12


def users_of(layout: Layout, structure: Structure, words: Words, promise: Floats) -> Floats:
    """Give every line the promise of the lines elsewhere that use the name its definition defines, as a share.

    A name that stands on many lines says little about any of them and is not followed.
    """
    total = len(layout)
    header_of_word = np.full(len(words.vocabulary), -1, dtype=np.int64)
    for header in reversed(np.flatnonzero(structure.is_header).tolist()):
        defined = _DEFINED.search(layout.lines[header])
        if defined:
            header_of_word[words.vocabulary[defined[1] or defined[2]]] = header
    defined_at = header_of_word[words.word]
    is_use = (defined_at >= 0) & (structure.scope[words.line] != defined_at)
    uses = np.unique(words.word[is_use] * np.int64(total) + words.line[is_use])
    used_word, line = uses // total, uses % total
    lines_with = np.bincount(used_word, minlength=header_of_word.size)
    followed = lines_with[used_word] < _COMMON
    pull = np.bincount(header_of_word[used_word[followed]], weights=promise[line[followed]], minlength=total)
    top = pull.max(initial=0.0)
    if top == 0:
        return np.zeros(total)
    return np.where(structure.scope >= 0, pull[np.maximum(structure.scope, 0)] / top, 0.0)
