"""The sections of a document and its code blocks, in Markdown and reStructuredText."""

import re

import numpy as np

from tools.pruning.engine.arrays import Bools, Ints
from tools.pruning.engine.layout import Layout
from tools.pruning.engine.structure import Structure

_ATX = re.compile(r" {0,3}(#{1,6})\s+\S")
_UNDERLINE = re.compile(r"([=\-~^\"'*+#`:.])\1{2,}\s*$")
_FENCE = re.compile(r"\s{0,12}(?:[-*+]\s+|\d+[.)]\s+)?(`{3,}|~{3,})(.*)$")
_MAY_FENCE = np.zeros(128, dtype=np.bool_)
_MAY_FENCE[[ord(c) for c in "`~-*+0123456789"]] = True


def code_blocks(layout: Layout) -> list[tuple[int, int]]:
    """Give the first and last line of every fenced block, from 0. A fence that never closes runs to the end."""
    blocks: list[tuple[int, int]] = []
    opened = -1
    fence = ""
    if layout.tripled("`").size == 0 and layout.tripled("~").size == 0:
        return blocks
    for i in np.flatnonzero(_MAY_FENCE[layout.first]).tolist():
        match = _FENCE.match(layout.line(i))
        if match is None:
            continue
        mark, rest = match[1], match[2].strip()
        if opened < 0:
            is_underline = mark[0] == "~" and i > 0 and not layout.is_blank[i - 1]
            if "`" not in rest and not is_underline:
                opened, fence = i, mark
        elif mark[0] == fence[0] and len(mark) >= len(fence) and not rest:
            blocks.append((opened, i))
            opened = -1
    if opened >= 0:
        blocks.append((opened, len(layout) - (2 if layout.ends_in_newline else 1)))
    return blocks


def sections_of(layout: Layout, blocks: list[tuple[int, int]]) -> Structure:
    """Read headings as headers: the section of a line is its scope, and a deeper section has the outer as parent."""
    total = len(layout)
    in_block = np.zeros(total, dtype=np.bool_)
    for first, last in blocks:
        in_block[first : last + 1] = True
    scope = np.full(total, -1, dtype=np.int64)
    parent = np.full(total, -1, dtype=np.int64)
    is_header = np.zeros(total, dtype=np.bool_)
    open_headings: list[tuple[int, int]] = []
    underline_levels: dict[str, int] = {}
    nothing = np.zeros(total, dtype=np.bool_)
    previous = 0
    for line, level in _headings(layout, in_block, underline_levels):
        scope[previous:line] = open_headings[-1][0] if open_headings else -1
        while open_headings and open_headings[-1][1] >= level:
            open_headings.pop()
        parent[line] = open_headings[-1][0] if open_headings else -1
        open_headings.append((line, level))
        is_header[line] = True
        previous = line
    scope[previous:] = open_headings[-1][0] if open_headings else -1
    return Structure(is_header=is_header, is_import=nothing, is_comment=nothing, scope=scope, parent=parent)


def _headings(layout: Layout, in_block: Bools, underline_levels: dict[str, int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    repeats = (layout.first == layout.last) & ~layout.is_blank & ~in_block
    for i in np.flatnonzero((layout.first == ord("#")) & ~in_block).tolist():
        atx = _ATX.match(layout.line(i))
        if atx:
            found.append((i, len(atx[1])))
    for i in np.flatnonzero(repeats[1:] & ~layout.is_blank[:-1] & ~in_block[:-1]).tolist():
        line, below = layout.line(i), layout.line(i + 1)
        underline = _UNDERLINE.match(below)
        title = line.strip()
        if underline and title and not _UNDERLINE.match(line) and len(below.strip()) >= min(len(title), 3):
            found.append((i, underline_levels.setdefault(underline[1], len(underline_levels) + 1)))
    return sorted(found)


def units_of(total: int, blocks: list[tuple[int, int]]) -> Ints:
    """Give every line the first line of its unit: a code block is one unit, any other line is its own."""
    unit = np.arange(total)
    for first, last in blocks:
        unit[first : last + 1] = first
    return unit
