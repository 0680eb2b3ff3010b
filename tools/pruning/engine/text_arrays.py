"""The characters, lines and words of a text as numpy arrays.

Everything is computed for the whole text at once: a Python loop over the lines of a long text takes longer than the
rest of the engine. This module knows nothing of languages or questions.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from tools.pruning.engine.question import UNSPACED

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Codes: TypeAlias = npt.NDArray[np.uint8]

NO_LIMIT = 1 << 62
# The code of every character that is not ASCII.
_NOT_ASCII = 127
_ASCII_SIZE = 128
_PACKED_SIZE = 1 << 15
_PLANE_SIZE = 1 << 16
_LOWER_CASE_BIT = 0x20
_IS_VISIBLE, _IS_WORD, _IS_DIGIT = 1, 2, 4
_TAB_COLUMNS = 4
_PREFIX_CHARS = 4


class Characters(Struct, frozen=True):
    """One entry per character of the text, between an added newline before it and one after it.

    `codes` holds the ASCII code, and 127 for every other character. `lowered` holds the same in lower case; it is
    meant for letters and digits only. `begins_part` is set where a part of `camelCase` or `snake_case` begins; it has
    no entries for the two newlines.
    """

    codes: Codes
    lowered: Codes
    is_visible: Bools
    is_word: Bools
    begins_part: Bools


class LineArray(Struct, frozen=True):
    """One entry per line of `text.split("\\n")`; only `codes` has one per character, with a final newline added.

    `first` and `last` are the codes of the first and last visible character (of whitespace, in a blank line), and
    `opening` packs the first three into one number, see `mark_openings`. A token is a word or a punctuation mark. A
    blank line has the indentation of the next line that is not blank.
    """

    text: str
    codes: Codes
    start: Ints
    end: Ints
    is_blank: Bools
    indent: Ints
    first: Codes
    last: Codes
    opening: Ints
    tokens: Ints

    def __len__(self) -> int:
        return self.start.size

    @property
    def ends_in_newline(self) -> bool:
        """Whether the last line is only the empty string after a final newline."""
        return bool(self.start[-1] == self.end[-1])

    def line(self, number: int) -> str:
        """The line without its newline; numbers begin at 0."""
        return self.text[self.start[number] : self.end[number]]

    def line_of(self, offsets: Ints) -> Ints:
        """The number of the line that each character offset is on."""
        return np.searchsorted(self.start, offsets, side="right") - 1

    def triples(self, character: str) -> Ints:
        """The offsets where an ASCII character stands three times in a row; triples do not overlap."""
        # A regular expression is faster here than `str.find`, which is slow on repeated characters.
        matches = re.finditer(re.escape(character * 3), self.text) if character in self.text else ()
        return np.fromiter((match.start() for match in matches), dtype=np.int64)

    def matching(self, pattern: re.Pattern[str], lines: Ints, most_chars: int = NO_LIMIT) -> list[int]:
        """Those of `lines` whose beginning matches; at most `most_chars` of a line are read."""
        starts = self.start[lines]
        ends = np.minimum(self.end[lines], starts + most_chars)
        match, text = pattern.match, self.text
        spans: Iterable[tuple[int, int, int]] = zip(lines.tolist(), starts.tolist(), ends.tolist(), strict=True)
        return [line for line, start, end in spans if match(text, start, end)]


class Words:
    """An index of the parts of words: `HTTPServer_2` has the parts `HTTP`, `Server` and `2`.

    The first four letters of every part are stored as one integer, because comparing integers is several times
    faster than searching the text.
    """

    def __init__(self, text: str, characters: Characters) -> None:
        self._text = text
        # With one more entry, so that every part has a next one.
        self._part_start = np.flatnonzero(np.append(characters.begins_part, True))
        self._prefix = _prefixes(characters.lowered[1:], self._part_start[:-1])
        # No word reaches the newlines that were added at both ends, so beginnings and ends take turns.
        self._word_edges = np.flatnonzero(characters.is_word[1:] != characters.is_word[:-1])
        self._underscore = np.append(np.flatnonzero(characters.codes[1:] == ord("_")), characters.codes.size)

    def starting_with(self, prefix: str) -> Ints:
        """The parts that begin with this lower-case prefix. Only its first four letters are compared."""
        letters = bytes(min(ord(letter), _NOT_ASCII) for letter in prefix[:_PREFIX_CHARS])
        mask = np.uint32((1 << 8 * len(letters)) - 1)
        # Most prefixes have all four letters, and masking takes as long as comparing.
        every = self._prefix if len(letters) == _PREFIX_CHARS else self._prefix & mask
        found: Ints = np.flatnonzero(every == int.from_bytes(letters, "little"))
        return found

    def extents(self, parts: Ints, is_whole: Bools) -> tuple[Ints, Ints]:
        """The start and end offsets of these parts or, where `is_whole` is set, of the words that they are in."""
        start = self._part_start[parts]
        next_part = self._part_start[parts + 1]
        next_underscore = self._underscore[np.searchsorted(self._underscore, start)]
        word_start, word_end = self.around(start)
        end = np.minimum(np.minimum(next_part, next_underscore), word_end)
        return np.where(is_whole, word_start, start), np.where(is_whole, word_end, end)

    def around(self, offsets: Ints) -> tuple[Ints, Ints]:
        """The start and end offsets of the words that these offsets are in."""
        edge = np.searchsorted(self._word_edges, offsets, side="right")
        return self._word_edges[edge - 1], self._word_edges[edge]

    def find(self, piece: str) -> Ints:
        """The offsets where this stands, as a word or within one."""
        return np.fromiter(_find_all(piece, self._text), dtype=np.int64)

    def containing(self, pieces: Iterable[str]) -> tuple[Ints, Ints]:
        """The start and end offsets of the words that contain one of these lower-case pieces."""
        lowered = self._text.lower()
        if len(lowered) != len(self._text):
            # U+0130 is the one character with two in lower case; offsets must stay those of the text.
            lowered = self._text.replace("\u0130", "I").lower()
        offsets = [offset for piece in pieces for offset in _find_all(piece, lowered)]
        start, end = self.around(np.array(offsets, dtype=np.int64))
        start, at = np.unique(start, return_index=True)
        return start, end[at]

    def spellings(self, start: Ints, end: Ints) -> list[str]:
        """The pieces of the text between these offsets."""
        text = self._text
        return [text[begin:after] for begin, after in zip(start.tolist(), end.tolist(), strict=True)]


def read_lines(text: str, characters: Characters) -> LineArray:
    codes, is_visible, is_word = characters.codes[1:], characters.is_visible, characters.is_word
    # The places where visible characters begin or end, and all newlines. The next place after a newline is the first
    # visible character of the line, or the end of a blank line; the place before it begins the trailing whitespace. So
    # one pass over the text finds all of them.
    places = np.flatnonzero((codes == ord("\n")) | (is_visible[1:] != is_visible[:-1]))
    newlines = np.flatnonzero(codes.take(places) == ord("\n"))
    end = places[newlines]
    start = np.concatenate(([0], end[:-1] + 1))
    first_at = places[np.concatenate(([0], newlines[:-1] + 1))]
    is_blank = first_at == end
    last_at = np.maximum(end - 1, start)
    trailed = np.flatnonzero(~is_visible[1:][last_at] & ~is_blank)
    last_at[trailed] = places[newlines[trailed] - 1] - 1

    indent = first_at - start
    if "\t" in text:
        tabs = np.flatnonzero(codes == ord("\t"))
        indent += (np.searchsorted(tabs, first_at) - np.searchsorted(tabs, start)) * (_TAB_COLUMNS - 1)

    begins_token = is_visible[1:] & ~(is_word[1:] & is_word[:-1])
    return LineArray(
        text=text,
        codes=codes,
        start=start,
        end=end,
        is_blank=is_blank,
        indent=_carry_back(indent, is_blank),
        first=codes[first_at],
        last=codes[last_at],
        opening=_pack(*(codes.take(first_at + place, mode="clip") for place in range(3))),
        tokens=np.add.reduceat(begins_token, start, dtype=np.int32).astype(np.int64),
    )


def mark_openings(words: Iterable[str]) -> Bools:
    """A table that tells for every `Lines.opening` whether a word can begin so; a short word is followed by spaces."""
    letters = np.array([[ord(character) for character in word[:3].ljust(3)] for word in words], dtype=np.uint8)
    return mark(_pack(*letters.T), _PACKED_SIZE)


def mark(indices: Ints | Sequence[int], total: int) -> Bools:
    """A mask of `total` entries that is set at these indices."""
    mask = np.zeros(total, dtype=np.bool_)
    mask[indices] = True
    return mask


def mark_codes(characters: str) -> Bools:
    """A table that tells for every code whether it is one of these ASCII characters."""
    return mark([ord(character) for character in characters], _ASCII_SIZE)


def read_characters(text: str) -> Characters:
    """Classify every character: ASCII by comparing codes, all others by a table."""
    codes, others, wide = _codes(f"\n{text}\n")
    is_upper = (codes - ord("A")) < 26
    is_lower = (codes - ord("a")) < 26
    is_digit = (codes - ord("0")) < 10
    is_visible = (codes - ord("!")) < _NOT_ASCII - ord("!")
    lowered = codes | np.uint8(_LOWER_CASE_BIT)
    is_letter = is_lower
    if others.size:
        # Other letters have no case here: all of them count as small ones.
        kinds, small = _other_characters()
        kind = kinds[wide]
        is_visible[others] = kind & _IS_VISIBLE
        is_digit[others] = kind & _IS_DIGIT
        is_letter = is_lower.copy()
        is_letter[others] = (kind & (_IS_WORD | _IS_DIGIT)) == _IS_WORD
        lowered[others] = small[wide]
    # Of two masks, `a > b` is set where a is set and b is not. It takes half the time of `a & ~b`.
    begins_part = (is_letter[1:-1] > is_letter[:-2]) > (is_lower[1:-1] & is_upper[:-2])
    begins_part |= is_upper[1:-1] > (is_upper[:-2] > is_lower[2:])
    begins_part |= is_digit[1:-1] > is_digit[:-2]
    return Characters(
        codes=codes,
        lowered=lowered,
        is_visible=is_visible,
        is_word=is_letter | is_upper | is_digit | (codes == ord("_")),
        begins_part=begins_part,
    )


def _codes(text: str) -> tuple[Codes, Ints, npt.NDArray[np.uint32]]:
    """The code of every character, the offsets of those that are not ASCII, and the code points of these."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), dtype=np.uint8), np.zeros(0, np.int64), np.zeros(0, np.uint32)
    wide = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    others = np.flatnonzero(wide > _NOT_ASCII)
    return np.minimum(wide, _NOT_ASCII).astype(np.uint8), others, np.minimum(wide[others], _PLANE_SIZE - 1)


@cache
def _other_characters() -> tuple[Codes, Codes]:
    """For every code point of the first plane: what kind it is (as `\\w`, `\\d` and `\\s` tell) and its lower case.

    Letters of scripts without spaces, and everything beyond the first plane, count as punctuation marks do. The table
    takes 50 ms to build, and most texts do not need it.
    """
    kinds = np.full(_PLANE_SIZE, _IS_VISIBLE, dtype=np.uint8)
    small = np.full(_PLANE_SIZE, _NOT_ASCII, dtype=np.uint8)
    is_unspaced = re.compile(f"[{UNSPACED}]").match
    for code in range(_NOT_ASCII + 1, _PLANE_SIZE):
        character = chr(code)
        if is_unspaced(character):
            continue
        if character.isalnum():
            kinds[code] |= _IS_WORD | (_IS_DIGIT if character.isdecimal() else 0)
            small[code] = min(ord(character.lower()[0]), _NOT_ASCII)
        elif character.isspace():
            kinds[code] = 0
    return kinds, small


def _prefixes(lowered: Codes, starts: Ints) -> npt.NDArray[np.uint32]:
    """Four characters from each start as one integer, the first one in the lowest byte."""
    padded = np.append(lowered, np.zeros(_PREFIX_CHARS, dtype=np.uint8))
    # A view of the text in which an integer begins at every character.
    return np.ndarray(lowered.shape, "<u4", padded, strides=(1,)).take(starts)


def _pack(first: Codes, second: Codes, third: Codes) -> Ints:
    """Three characters as one number of 15 bits. Five bits tell letters apart, but not their case."""
    # A larger number would need a table that does not fit into the cache of the processor.
    packed: Ints = (first & 31).astype(np.int64) << 10 | (second & 31).astype(np.int64) << 5 | third & 31
    return packed


def _carry_back(indent: Ints, is_blank: Bools) -> Ints:
    total = indent.size
    # With one more entry, for blank lines at the end.
    line = np.where(is_blank, total, np.arange(total))
    next_line = np.minimum.accumulate(line[::-1])[::-1]
    carried: Ints = np.append(indent, 0)[next_line]
    return carried


def _find_all(piece: str, text: str) -> Iterator[int]:
    at = text.find(piece)
    while at >= 0:
        yield at
        at = text.find(piece, at + len(piece))
