"""What the characters of a text say about each line: its extent, indentation and cost, and where its words are.

Everything here is computed in one sweep over the code points; no line is looked at twice. It knows nothing
of languages or questions.
"""

from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tools.records import record

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

_TAB_COLUMNS = 4
_SPACE, _WORD, _PUNCTUATION = 0, 1, 2
_ASCII = 128
_PLANE = 1 << 16


@record
class Layout:
    """One entry per line of `text.split("\\n")`, and one in `word_start` and `word_end` per word of the text.

    `first` and `last` are the codes of its visible ends; 127 stands for whatever lies beyond ASCII, 0 for none.
    `opening` is a number for its first three characters from there, as `opening_of` makes it of a word. A token is a
    word or a punctuation mark.
    """

    text: str
    lines: list[str]
    start: Ints
    is_blank: Bools
    indent: Ints
    first: Ints
    last: Ints
    opening: Ints
    tokens: Ints
    word_start: Ints
    word_end: Ints

    def __len__(self) -> int:
        return len(self.lines)

    def line_of(self, offsets: Ints) -> Ints:
        """Give the line on which each of these characters stands."""
        return np.searchsorted(self.start, offsets, side="right") - 1


def layout_of(text: str) -> Layout:
    """Measure every line. A blank line has the indentation of the next line that is not blank."""
    codes, kinds = _read(text + "\n")
    ends = np.flatnonzero(codes == ord("\n"))
    starts = np.concatenate(([0], ends[:-1] + 1))

    run_start, run_end = _stretches(kinds != _SPACE)
    guarded = np.append(run_start, codes.size - 1)
    runs_before = np.searchsorted(run_start, starts)
    first_at = guarded[runs_before]
    is_blank = first_at >= ends
    last_at = np.append(run_end, 0)[np.append(runs_before[1:], run_start.size) - 1] - 1

    indent = first_at - starts
    tabs = np.flatnonzero(codes == ord("\t"))
    if tabs.size:
        indent += (np.searchsorted(tabs, first_at) - np.searchsorted(tabs, starts)) * (_TAB_COLUMNS - 1)

    word_start, word_end = _stretches(kinds == _WORD)
    marks = np.flatnonzero(kinds == _PUNCTUATION)
    tokens_before = np.searchsorted(word_start, ends) + np.searchsorted(marks, ends)
    return Layout(
        text=text,
        lines=text.split("\n"),
        start=starts,
        is_blank=is_blank,
        indent=_carried_back(indent, is_blank),
        first=np.where(is_blank, 0, codes[first_at]).astype(np.int64),
        last=np.where(is_blank, 0, codes[last_at]).astype(np.int64),
        opening=_packed(codes[first_at], codes[np.minimum(first_at + 1, ends)], codes[np.minimum(first_at + 2, ends)]),
        tokens=np.diff(tokens_before, prepend=0),
        word_start=word_start,
        word_end=word_end,
    )


def opening_of(word: str) -> int:
    """The number of a word's first three characters; a word of two is followed by a space."""
    return int(_packed(*(np.array(ord(character)) for character in word[:3].ljust(3))))


def _packed(first: npt.NDArray[Any], second: npt.NDArray[Any], third: npt.NDArray[Any]) -> Ints:
    packed: Ints = (first.astype(np.int64) * _ASCII + second) * _ASCII + third
    return packed


def _stretches(mask: Bools) -> tuple[Ints, Ints]:
    """Give where each stretch of the mask begins and where it has ended. The last entry of the mask is not set."""
    edges = np.flatnonzero(mask[1:] != mask[:-1]) + 1
    if mask[0]:
        edges = np.concatenate(([0], edges))
    return edges[::2], edges[1::2]


def _read(text: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Give a code and a kind per character. Codes beyond ASCII are 127."""
    if text.isascii():
        codes = np.frombuffer(text.encode("ascii"), dtype=np.uint8)
        return codes, _kinds(_ASCII).take(codes)
    wide = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    return np.minimum(wide, 127).astype(np.uint8), _kinds(_PLANE).take(np.minimum(wide, _PLANE - 1))


@cache
def _kinds(size: int) -> npt.NDArray[np.uint8]:
    """Tell letters, marks and spaces apart as `\\w` and `\\s` do. What lies beyond the first plane is a mark."""
    kinds = np.full(size, _PUNCTUATION, dtype=np.uint8)
    for code in range(size):
        character = chr(code)
        if character.isalnum() or character == "_":
            kinds[code] = _WORD
        elif character.isspace() or not (character.isprintable() or code >= _ASCII):
            kinds[code] = _SPACE
    return kinds


def _carried_back(indent: Ints, is_blank: Bools) -> Ints:
    solid = np.flatnonzero(~is_blank)
    if solid.size == 0:
        return np.zeros_like(indent)
    following = np.searchsorted(solid, np.arange(indent.size))
    carried = indent[solid[np.minimum(following, solid.size - 1)]]
    return np.where(following < solid.size, carried, 0)
