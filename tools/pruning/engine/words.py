"""The words of a text, found by how their parts begin or by what they hold, and how a word is taken apart."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np

from tools.pruning.engine.arrays import Ints
from tools.pruning.engine.characters import UNSPACED, Characters, folded
from tools.pruning.engine.marks import Marks

_PART = re.compile(rf"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z{UNSPACED}]+|\d+")
_PREFIX_CHARS = 4
_EVERY_LETTER = 0xFFFFFFFF
_REMEMBERED_PREFIXES = 1024


class Words:
    """The words of one text.

    What a question asks for is always the beginning of a part. The first letters of every part are kept as one number:
    to compare numbers is several times faster than to search the text.
    """

    def __init__(self, text: str, characters: Characters) -> None:
        self._text = text
        starts = np.flatnonzero(characters.begins_part)
        padded = np.append(characters.folded, np.zeros(_PREFIX_CHARS, dtype=np.uint8))
        self._prefix = np.ndarray(characters.folded.shape, "<u4", padded, strides=(1,)).take(starts)
        # With one more, so that every part has a next one.
        self._part_start = np.append(starts, characters.folded.size)
        self._gaps = Marks(~characters.is_word)
        self._breaks = Marks(~characters.is_word | (characters.codes == ord("_")))

    def beginning(self, prefix: str) -> Ints:
        """Find the parts that begin with this, which is in lower case. Of a long one only the first letters count."""
        letters, value = _number(prefix[:_PREFIX_CHARS])
        every = self._prefix if letters == _EVERY_LETTER else self._prefix & letters
        found: Ints = (every == value).nonzero()[0]
        return found

    def parts(self, found: Ints) -> tuple[Ints, Ints]:
        """Give where these parts begin and where they have ended."""
        start = self._part_start[found]
        return start, np.minimum(self._part_start[found + 1], self._breaks.first_from(start))

    def around(self, places: Ints) -> tuple[Ints, Ints]:
        """Give where the words begin in which these places are, and where they have ended."""
        return self._gaps.last_before(places) + 1, self._gaps.first_from(places)

    def places(self, piece: str) -> Ints:
        """Find where this stands, as a word or within one."""
        return np.fromiter(_places(piece, self._text), dtype=np.int64)

    def holding(self, pieces: Iterable[str]) -> tuple[Ints, Ints]:
        """Find the words that hold one of these pieces, which are of letters and digits in lower case."""
        lowered = self._text.lower()
        if len(lowered) != len(self._text):
            # One letter has two in lower case; places in the text must stay places in the text.
            lowered = self._text.replace("\u0130", "I").lower()
        places = [place for piece in _shortest(pieces) for place in _places(piece, lowered)]
        start, end = self.around(np.array(places, dtype=np.int64))
        start, at = np.unique(start, return_index=True)
        return start, end[at]

    def spelled(self, start: Ints, end: Ints) -> list[str]:
        """Give what stands between these places."""
        text = self._text
        return [text[begin:after] for begin, after in zip(start.tolist(), end.tolist(), strict=True)]


@lru_cache(maxsize=_REMEMBERED_PREFIXES)
def _number(prefix: str) -> tuple[np.uint32, np.uint32]:
    """Which letters of a number a prefix says something about, and what they are."""
    letters = folded(prefix)
    return np.uint32((1 << 8 * len(letters)) - 1), np.uint32(int.from_bytes(letters, "little"))


def parts_of(word: str) -> list[str]:
    """Split `camelCase`, `snake_case` and `HTTPServer2` into lower-case parts."""
    return [part.lower() for part in _PART.findall(word)]


def _shortest(pieces: Iterable[str]) -> list[str]:
    """Leave out the pieces that hold another: their words are found with that one."""
    kept: list[str] = []
    for piece in sorted(pieces, key=len):
        if not any(shorter in piece for shorter in kept):
            kept.append(piece)
    return kept


def _places(piece: str, text: str) -> Iterator[int]:
    at = text.find(piece)
    while at >= 0:
        yield at
        at = text.find(piece, at + len(piece))
