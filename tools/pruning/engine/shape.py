"""What is known of a text before anything is asked about it: its kind, its lines and how they hang together.

The shapes of the last few texts are remembered, since one question about a file is seldom the only one.
"""

from collections import deque

import numpy as np

from tools.kit.records import record
from tools.pruning.engine.arrays import Bools, Floats, Ints
from tools.pruning.engine.characters import characters_of
from tools.pruning.engine.failures import failure_lines, failure_worth, with_context
from tools.pruning.engine.headings import code_blocks, sections_of, units_of
from tools.pruning.engine.layout import Layout, layout_of
from tools.pruning.engine.protection import protected_lines
from tools.pruning.engine.relevance import prior_in_code, prior_in_prose
from tools.pruning.engine.selection import SourceType
from tools.pruning.engine.source_type import detect
from tools.pruning.engine.structure import Structure, flat, in_triple_quotes, structure_of
from tools.pruning.engine.traits import code_traits, prose_traits
from tools.pruning.engine.words import Words

_REMEMBERED_TEXTS = 4
_REMEMBERED_CHARS = 400_000


@record
class Shape:
    """`prior` is what every line has before anything is asked: as a score, and in a log as a share of a report.

    `header` gives every line the header it is of little use without, or -1, and `unit` the first line of its unit.
    `protected` marks the lines that are always kept.
    """

    kind: SourceType
    layout: Layout
    words: Words
    structure: Structure
    header: Ints
    unit: Ints
    prior: Floats
    protected: Bools


def shape_of(text: str, source_type: SourceType | None) -> Shape:
    """Read a text as `source_type`, or as what it looks like. Nobody may change what is handed out here."""
    # Two texts are told apart faster than one is hashed.
    for known, known_type, shape in [*_remembered]:
        if known_type == source_type and known == text:
            return shape
    shape = _read(text, source_type)
    if len(text) <= _REMEMBERED_CHARS:
        _remembered.append((text, source_type, shape))
    return shape


def _read(text: str, source_type: SourceType | None) -> Shape:
    characters = characters_of(text)
    layout = layout_of(text, characters)
    words = Words(text, characters)
    quoted = in_triple_quotes(layout)
    kind = source_type or detect(layout, quoted)
    blocks = code_blocks(layout) if kind == "docs" else []
    unit = units_of(len(layout), blocks)
    protected = protected_lines(text, layout)
    if kind == "code":
        structure = structure_of(layout, quoted)
        prior = prior_in_code(code_traits(layout, structure))
    elif kind == "docs":
        structure = sections_of(layout, blocks)
        prior = prior_in_prose(prose_traits(layout, structure, unit))
    else:
        structure = flat(len(layout))
        reports = failure_lines(layout, words)
        prior = failure_worth(layout, reports)
        protected |= with_context(reports)
    return Shape(
        kind=kind,
        layout=layout,
        words=words,
        structure=structure,
        header=np.where(structure.is_header, structure.parent, structure.scope),
        unit=unit,
        prior=prior,
        protected=protected,
    )


_remembered: deque[tuple[str, SourceType | None, Shape]] = deque(maxlen=_REMEMBERED_TEXTS)
