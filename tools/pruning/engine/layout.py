"""What the characters of a text say about each line: its extent, indentation and cost.

No line is looked at by itself: everything is asked of all lines at once. It knows nothing of languages or questions.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tools.kit.records import record
from tools.pruning.engine.arrays import Bools, Codes, Ints
from tools.pruning.engine.characters import Characters
from tools.pruning.engine.marks import Marks

_TAB_COLUMNS = 4
_NO_LIMIT = 1 << 62
_ASCII = 128


@record
class Layout:
    """One entry per line of `text.split("\\n")`; only `codes` has one per character, as `Characters` has.

    `first` and `last` are the codes of its visible ends; 127 stands for whatever lies beyond ASCII. A blank line has
    those of a space or a newline. `opening` is a number for its first three characters from there and `fourth` the
    code of the next, for `Openings` to compare. A token is a word or a punctuation mark.
    """

    text: str
    codes: Codes
    start: Ints
    end: Ints
    is_blank: Bools
    indent: Ints
    first: Ints
    last: Ints
    opening: Ints
    fourth: Ints
    tokens: Ints

    def __len__(self) -> int:
        return self.start.size

    @property
    def ends_in_newline(self) -> bool:
        """Whether the last line is only the empty string after a final newline."""
        return bool(self.start[-1] == self.end[-1])

    def line(self, number: int) -> str:
        """The line itself, without its newline."""
        return self.text[self.start[number] : self.end[number]]

    def line_of(self, offsets: Ints) -> Ints:
        """Give the line on which each of these characters stands."""
        return np.searchsorted(self.start, offsets, side="right") - 1

    def tripled(self, mark: str) -> Ints:
        """Give where a character stands three times in a row, from left to right and none within another."""
        if mark not in self.text:
            return np.zeros(0, dtype=np.int64)
        is_mark = self.codes == ord(mark)
        is_triple = is_mark[:-2] & is_mark[1:-1] & is_mark[2:]
        at = Marks(is_triple).places()
        begins = np.append(-2, at[:-1]) < at - 1
        row: Ints = at[begins][np.cumsum(begins) - 1]
        triples: Ints = at[(at - row) % 3 == 0]
        return triples

    def matching(self, pattern: re.Pattern[str], lines: Ints, most_chars: int = _NO_LIMIT) -> list[int]:
        """Give those of the lines that begin with the pattern, if no more than so many characters are read of each."""
        starts = self.start[lines]
        ends = np.minimum(self.end[lines], starts + most_chars)
        match, text = pattern.match, self.text
        spans: Iterable[tuple[int, int, int]] = zip(lines.tolist(), starts.tolist(), ends.tolist(), strict=True)
        return [line for line, start, end in spans if match(text, start, end)]


def layout_of(text: str, characters: Characters) -> Layout:
    """Measure every line. A blank line has the indentation of the next line that is not blank."""
    codes, is_visible, is_word = characters.codes, characters.is_visible, characters.is_word
    end = np.flatnonzero(codes == ord("\n"))
    start = np.concatenate(([0], end[:-1] + 1))

    visible = Marks(is_visible)
    first_at = np.minimum(visible.first_from(start), end)
    is_blank = first_at == end
    last_at = np.maximum(end - 1, start)
    trailed = (~is_visible[last_at] & ~is_blank).nonzero()[0]
    last_at[trailed] = visible.last_before(end[trailed])

    indent = first_at - start
    if "\t" in text:
        tabs = Marks(codes == ord("\t"))
        indent += (tabs.before(first_at) - tabs.before(start)) * (_TAB_COLUMNS - 1)

    begins_token = is_visible.copy()
    begins_token[1:] &= ~(is_word[1:] & is_word[:-1])
    tokens_before = Marks(begins_token).before(end)
    return Layout(
        text=text,
        codes=codes,
        start=start,
        end=end,
        is_blank=is_blank,
        indent=_carried_back(indent, is_blank),
        first=codes[first_at].astype(np.int64),
        last=codes[last_at].astype(np.int64),
        opening=_packed(*(codes.take(first_at + place, mode="clip") for place in range(3))),
        fourth=codes.take(first_at + 3, mode="clip").astype(np.int64),
        tokens=tokens_before - np.append(0, tokens_before[:-1]),
    )


class Openings:
    """Several lists of words, to be asked which lines may begin with one: no more than four letters are compared.

    A word of two letters is followed by a space, one of three by anything that does not go on with it.
    """

    def __init__(self, *lists: Sequence[str]) -> None:
        words = [(1 << number, word) for number, listed in enumerate(lists) for word in listed]
        self._word = np.zeros(_ASCII**3, dtype=np.uint8)
        self._lists = np.zeros((len(words) + 1, _ASCII), dtype=np.uint8)
        for number, (bit, word) in enumerate(words, start=1):
            opening = _packed(*(np.array(ord(character)) for character in word[:3].ljust(3)))
            # Words that begin alike are one.
            self._word[opening] = self._word[opening] or number
            self._lists[self._word[opening], [_may_follow(word, chr(code)) for code in range(_ASCII)]] |= bit
        self._count = len(lists)

    def of(self, layout: Layout) -> list[Bools]:
        """Mark, for each list, the lines that begin like one of its words."""
        word = self._word[layout.opening].astype(np.int64)
        lists = self._lists.ravel()[word * _ASCII + layout.fourth]
        return [(lists & np.uint8(1 << number)) != 0 for number in range(self._count)]


def _may_follow(word: str, fourth: str) -> bool:
    if len(word) < 3:
        return True
    return word[3] == fourth if len(word) > 3 else not (fourth.isalnum() or fourth == "_")


def _packed(first: npt.NDArray[Any], second: npt.NDArray[Any], third: npt.NDArray[Any]) -> Ints:
    packed: Ints = (first.astype(np.int64) * _ASCII + second) * _ASCII + third
    return packed


def _carried_back(indent: Ints, is_blank: Bools) -> Ints:
    total = indent.size
    # With one more for what comes after the last line.
    line = np.where(is_blank, total, np.arange(total))
    next_solid = np.minimum.accumulate(line[::-1])[::-1]
    carried: Ints = np.append(indent, 0)[next_solid]
    return carried
