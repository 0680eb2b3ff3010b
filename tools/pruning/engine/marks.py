"""Places in a text, one bit a character: how many there are before a place, and which is the next or the last one.

A list of the places would be an order of magnitude larger, and to search it slower: a bitmap is asked for thousands of
places at once in a few operations on machine words.
"""

import numpy as np
import numpy.typing as npt

from tools.pruning.engine.arrays import Bools, Ints

_WORD_BITS = 64
_WORD_SHIFT = 6
_LAST_BIT = _WORD_BITS - 1
# For every bit of a word, the bits below it.
_BELOW = (np.uint64(1) << np.arange(_WORD_BITS, dtype=np.uint64)) - np.uint64(1)


class Marks:
    """The places where a mask is set. Offsets to ask for are from 0 to the size of the mask."""

    def __init__(self, mask: Bools) -> None:
        self._size = mask.size
        self._words = np.zeros(mask.size // _WORD_BITS + 1, dtype="<u8")
        packed = np.packbits(mask, bitorder="little")
        self._words.view(np.uint8)[: packed.size] = packed

    def before(self, offsets: Ints) -> Ints:
        """Give how many marks stand before each offset."""
        counts = np.bitwise_count(self._words)
        totals = np.cumsum(counts, dtype=np.int64) - counts
        at = offsets >> _WORD_SHIFT
        counted: Ints = totals[at] + np.bitwise_count(self._words[at] & _BELOW[offsets & _LAST_BIT])
        return counted

    def first_from(self, offsets: Ints) -> Ints:
        """Give the first mark at or after each offset; the size of the mask where there is none."""
        at = offsets >> _WORD_SHIFT
        bits = self._words[at] & ~_BELOW[offsets & _LAST_BIT]
        missing = np.flatnonzero(bits == 0)
        if missing.size:
            marked = np.flatnonzero(self._words)
            following = np.append(marked, -1)[np.searchsorted(marked, at[missing], side="right")]
            at[missing], bits[missing] = following, self._words[following]
        first: Ints = (at << _WORD_SHIFT) + np.bitwise_count(~bits & (bits - np.uint64(1)))
        first[missing[at[missing] < 0]] = self._size
        return first

    def last_before(self, offsets: Ints) -> Ints:
        """Give the last mark before each offset; -1 where there is none."""
        at = offsets >> _WORD_SHIFT
        bits = self._words[at] & _BELOW[offsets & _LAST_BIT]
        missing = np.flatnonzero(bits == 0)
        if missing.size:
            marked = np.flatnonzero(self._words)
            preceding = np.append(marked, -1)[np.searchsorted(marked, at[missing]) - 1]
            at[missing], bits[missing] = preceding, self._words[preceding]
        last: Ints = (at << _WORD_SHIFT) + _highest(bits)
        last[missing[at[missing] < 0]] = -1
        return last


def _highest(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """The place of the highest bit of each word."""
    filled = bits.copy()
    for shift in (1, 2, 4, 8, 16, 32):
        filled |= filled >> np.uint64(shift)
    return np.bitwise_count(filled) - np.uint8(1)
