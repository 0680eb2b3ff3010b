"""What the characters of a text say about each line: its extent, indentation and cost.

Everything here is computed in one sweep over the code points; no line is looked at twice. It knows nothing
of words, languages or questions.
"""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

_TAB_COLUMNS = 4

_VISIBLE = np.ones(128, dtype=np.bool_)
_VISIBLE[[9, 10, 11, 12, 13, 32]] = False
_PUNCTUATION = np.array([chr(c).isprintable() and not chr(c).isalnum() and c not in (32, 95) for c in range(128)])


@dataclass(frozen=True, slots=True)
class Layout:
    """One entry per line of `text.split("\\n")`; `first` and `last` are the codes of its visible ends."""

    lines: list[str]
    is_blank: Bools
    indent: Ints
    first: Ints
    last: Ints
    punctuation: Ints

    def __len__(self) -> int:
        return len(self.lines)


def layout_of(text: str) -> Layout:
    """Measure every line. A blank line has the indentation of the next line that is not blank."""
    codes = _codes(text + "\n")
    ends = np.flatnonzero(codes == ord("\n"))
    starts = np.concatenate(([0], ends[:-1] + 1))

    visible = np.flatnonzero(_VISIBLE.take(codes))
    guarded = np.append(visible, codes.size - 1)
    visible_before = np.searchsorted(visible, starts)
    first_at = guarded[visible_before]
    last_at = guarded[np.append(visible_before[1:], visible.size) - 1]
    is_blank = first_at >= ends

    indent = first_at - starts
    tabs = np.flatnonzero(codes == ord("\t"))
    if tabs.size:
        indent += (np.searchsorted(tabs, first_at) - np.searchsorted(tabs, starts)) * (_TAB_COLUMNS - 1)
    return Layout(
        lines=text.split("\n"),
        is_blank=is_blank,
        indent=_carried_back(indent, is_blank),
        first=np.where(is_blank, 0, codes[first_at]).astype(np.int64),
        last=np.where(is_blank, 0, codes[last_at]).astype(np.int64),
        punctuation=np.add.reduceat(_PUNCTUATION.take(codes), starts, dtype=np.int64),
    )


def _codes(text: str) -> npt.NDArray[np.uint8]:
    """Give one code per character. What lies beyond ASCII is a letter as far as layout goes: 127 stands for it."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    wide = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return np.minimum(wide, 127).astype(np.uint8)


def _carried_back(indent: Ints, is_blank: Bools) -> Ints:
    solid = np.flatnonzero(~is_blank)
    if solid.size == 0:
        return np.zeros_like(indent)
    following = np.searchsorted(solid, np.arange(indent.size))
    carried = indent[solid[np.minimum(following, solid.size - 1)]]
    return np.where(following < solid.size, carried, 0)
