"""Which name a misspelt one stands for: every "did you mean" comes from here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

_SEPARATORS = re.compile(r"[\s_.-]+")
# Of three letters, two are enough.
_LIKENESS = 0.65
# No name of ours is as long, and comparing long texts takes a while.
_MOST_CHARS = 100


def nearest(word: str, names: Iterable[str], likeness: float = _LIKENESS) -> str | None:
    """The name that is most like `word`; None if none is. Case and separators do not count.

    `likeness` is that of `difflib`: 1 for the same letters, 0 for no common one.
    """
    spellings = {_letters(name): name for name in names}
    found = get_close_matches(_letters(word[:_MOST_CHARS]), spellings, n=1, cutoff=likeness)
    return spellings[found[0]] if found else None


def did_you_mean(word: str, names: Iterable[str], likeness: float = _LIKENESS) -> str:
    """The end of a sentence that says that there is no `word`; empty if no name is like it."""
    near = nearest(word, names, likeness)
    return f" (did you mean {near}?)" if near else ""


def _letters(word: str) -> str:
    folded = word.casefold()
    return _SEPARATORS.sub("", folded) or folded
