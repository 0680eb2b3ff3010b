"""What is known of a text before anything is asked about it: its kind, its lines and how they hang together.

The shapes of the last few texts are remembered, since one question about a file is seldom the only one.
"""

from functools import lru_cache

import numpy as np

from tools.pruning.engine.arrays import Bools, Ints
from tools.pruning.engine.characters import characters_of
from tools.pruning.engine.failures import failure_lines
from tools.pruning.engine.headings import code_blocks, sections_of, units_of
from tools.pruning.engine.layout import Layout, layout_of
from tools.pruning.engine.protection import protected_lines
from tools.pruning.engine.selection import SourceType
from tools.pruning.engine.source_type import detect
from tools.pruning.engine.structure import Structure, flat, in_triple_quotes, structure_of
from tools.pruning.engine.words import Words
from tools.records import record

_REMEMBERED_TEXTS = 4
_REMEMBERED_CHARS = 400_000


@record
class Shape:
    """`unit` gives every line the first line of its unit; `reports` marks the lines of a log that report an error."""

    kind: SourceType
    layout: Layout
    words: Words
    structure: Structure
    unit: Ints
    protected: Bools
    reports: Bools


def shape_of(text: str, source_type: SourceType | None) -> Shape:
    """Read a text as `source_type`, or as what it looks like. Nobody may change what is handed out here."""
    return _remembered(text, source_type) if len(text) <= _REMEMBERED_CHARS else _read(text, source_type)


def _read(text: str, source_type: SourceType | None) -> Shape:
    characters = characters_of(text)
    layout = layout_of(text, characters)
    words = Words(text, characters)
    total = len(layout)
    quoted = in_triple_quotes(layout)
    kind = source_type or detect(layout, quoted)
    blocks = code_blocks(layout) if kind == "docs" else []
    if kind == "code":
        structure = structure_of(layout, quoted)
    else:
        structure = sections_of(layout, blocks) if kind == "docs" else flat(total)
    return Shape(
        kind=kind,
        layout=layout,
        words=words,
        structure=structure,
        unit=units_of(total, blocks),
        protected=protected_lines(text, layout),
        reports=failure_lines(layout, words) if kind == "logs" else np.zeros(total, dtype=np.bool_),
    )


_remembered = lru_cache(maxsize=_REMEMBERED_TEXTS)(_read)
