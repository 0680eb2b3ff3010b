"""The words of a text, read once: which word stands on which line, and what each word is made of.

Words are numbered in order of first appearance. Everything that is asked about a word is asked once per distinct
word, and everything that is asked about its places is an array operation.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from tools.pruning.engine.layout import Bools, Ints

_WORD_OR_BREAK = re.compile(r"\w+|\n")
_PART_OR_BREAK = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+|\n")


@dataclass(frozen=True, slots=True)
class Words:
    """`word[k]` is the number of the k-th word of the text and `line[k]` the line it stands on, from 0.

    `part[j]` is a part of the word with the number `part_word[j]`, as an index into `parts`, which are in lower case.
    `whole` has every word in lower case without underscores. Number 0 is no word.
    """

    vocabulary: dict[str, int]
    whole: list[str]
    word: Ints
    line: Ints
    parts: list[str]
    part: Ints
    part_word: Ints

    def per_line(self, total_lines: int) -> Ints:
        return np.bincount(self.line, minlength=total_lines)

    def lines_with(self, words: Iterable[str], total_lines: int) -> Bools:
        """Mark the lines on which one of these words stands, exactly as it is written here."""
        wanted = np.zeros(len(self.vocabulary), dtype=np.bool_)
        wanted[[self.vocabulary[word] for word in words if word in self.vocabulary]] = True
        marked = np.zeros(total_lines, dtype=np.bool_)
        marked[self.line[wanted[self.word]]] = True
        return marked


def words_of(text: str) -> Words:
    vocabulary, word, line = _numbered(_WORD_OR_BREAK.findall(text))
    distinct = "\n".join(vocabulary).strip("\n")
    lowered, part, part_word = _numbered(_PART_OR_BREAK.findall(distinct))
    return Words(
        vocabulary=vocabulary,
        whole=["", *distinct.replace("_", "").lower().split("\n")],
        word=word,
        line=line,
        parts=[part.lower() for part in lowered],
        part=part,
        part_word=part_word + 1,
    )


def parts_of(word: str) -> list[str]:
    """Split `camelCase`, `snake_case` and `HTTPServer2` into lower-case parts."""
    return [part.lower() for part in _PART_OR_BREAK.findall(word)]


def _numbered(found: list[str]) -> tuple[dict[str, int], Ints, Ints]:
    """Number what was found, the line break first; give the numbers, then number and line of all that is no break."""
    distinct = dict.fromkeys(("\n",)) | dict.fromkeys(found)
    numbers = dict(zip(distinct, range(len(distinct)), strict=True))
    numbered = np.fromiter(map(numbers.__getitem__, found), dtype=np.int64, count=len(found))
    is_break = numbered == 0
    return numbers, numbered[~is_break], np.cumsum(is_break)[~is_break]
