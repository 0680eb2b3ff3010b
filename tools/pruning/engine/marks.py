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
_ONE = np.uint64(1)
# For every bit of a word, the bits below it.
_BELOW = (_ONE << np.arange(_WORD_BITS, dtype=np.uint64)) - _ONE


class Marks:
    """The places where a mask is set. Offsets to ask for are from 0 to the size of the mask."""

    def __init__(self, mask: Bools) -> None:
        self._size = mask.size
        # With an empty word on either side, so that every word has two neighbours.
        self._words = np.zeros(mask.size // _WORD_BITS + 3, dtype="<u8")
        packed = np.packbits(mask, bitorder="little")
        self._words.view(np.uint8)[8 : 8 + packed.size] = packed

    def places(self) -> Ints:
        """Give all of them. This is fast where most words are empty."""
        filled = self._words.nonzero()[0]
        bits = np.unpackbits(self._words[filled].view(np.uint8), bitorder="little").view(np.bool_).nonzero()[0]
        found: Ints = ((filled[bits >> _WORD_SHIFT] - 1) << _WORD_SHIFT) + (bits & _LAST_BIT)
        return found

    def before(self, offsets: Ints) -> Ints:
        """Give how many marks stand before each offset."""
        counts = np.bitwise_count(self._words)
        totals = counts.cumsum(dtype=np.int64)
        at = (offsets >> _WORD_SHIFT) + 1
        counted: Ints = totals[at - 1] + np.bitwise_count(self._words[at] & _BELOW[offsets & _LAST_BIT])
        return counted

    def first_from(self, offsets: Ints) -> Ints:
        """Give the first mark at or after each offset; the size of the mask where there is none."""
        at = (offsets >> _WORD_SHIFT) + 1
        bit = (offsets & _LAST_BIT).view(np.uint64)
        # The word that begins at the offset: the end of one and the beginning of the next.
        word = self._words[at] >> bit
        word |= self._words[at + 1] << _ONE << (_LAST_BIT - bit)
        first: Ints = offsets + np.bitwise_count(~word & (word - _ONE))
        missing = (word == 0).nonzero()[0]
        if missing.size:
            places = np.append(self.places(), self._size)
            first[missing] = places[np.searchsorted(places[:-1], offsets[missing])]
        return first

    def last_before(self, offsets: Ints) -> Ints:
        """Give the last mark before each offset; -1 where there is none."""
        at = (offsets >> _WORD_SHIFT) + 1
        bit = (offsets & _LAST_BIT).view(np.uint64)
        # The word that ends before the offset.
        word = self._words[at - 1] >> bit
        word |= self._words[at] << _ONE << (_LAST_BIT - bit)
        last: Ints = offsets - _WORD_BITS + _highest(word)
        missing = (word == 0).nonzero()[0]
        if missing.size:
            places = np.append(self.places(), -1)
            last[missing] = places[np.searchsorted(places[:-1], offsets[missing]) - 1]
        return last


def _highest(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.int32]:
    """The place of the highest bit of each word."""
    # Where the bit below it is empty, the number is not rounded up to the next one when it loses its last digits.
    _, lengths = np.frexp((words & ~(words >> _ONE)).astype(np.float64))
    return lengths - 1
