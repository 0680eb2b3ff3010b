"""Finding words in a text by what they hold, and taking a word apart."""

import re
from collections.abc import Iterable, Iterator

import numpy as np

from tools.pruning.engine.layout import Ints, Layout
from tools.records import record

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W\d_A-Z]+|\d+")


@record
class Found:
    """`spelled` has the distinct words that were found; `word[k]` is the k-th place, as an index into it."""

    spelled: list[str]
    word: Ints
    line: Ints


def words_with(pieces: Iterable[str], layout: Layout) -> Found:
    """Find the words that hold one of these pieces, which are of letters and digits in lower case.

    Asking the text for a few pieces is several times faster than reading all of its words.
    """
    lowered = layout.text.lower()
    if len(lowered) != len(layout.text):
        # One letter has two in lower case; places in the text must stay places in the text.
        lowered = layout.text.replace("\u0130", "I").lower()
    places = [place for piece in _shortest(pieces) for place in _places(piece, lowered)]
    at = np.unique(np.searchsorted(layout.word_start, np.array(places, dtype=np.int64), side="right") - 1)
    begins, ends = layout.word_start[at], layout.word_end[at]
    text = layout.text
    numbers: dict[str, int] = {}
    word = [
        numbers.setdefault(text[begin:end], len(numbers))
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    ]
    return Found(spelled=list(numbers), word=np.array(word, dtype=np.int64), line=layout.line_of(begins))


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
