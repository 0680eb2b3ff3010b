"""Light stemming of English words, enough that `parse`, `parsed`, `parser` and `parsing` meet.

It is the same for the question and the text, so a stem need not be a word; it need only be shared.
"""

from functools import lru_cache

# No more letters than this are taken off a word, and none of one that would have fewer than `SHORTEST_STEM` left.
LONGEST_ENDING = 5
SHORTEST_STEM = 3
_REMEMBERED_WORDS = 8192
_DOUBLED = frozenset("bdfgmnprt")


@lru_cache(maxsize=_REMEMBERED_WORDS)
def stem(word: str) -> str:
    """Give the stem of a lower-case word. Words of three letters or fewer are left as they are."""
    if len(word) <= 3 or not word.isalpha():
        return word
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-3] + "y" if word.endswith("ies") and len(word) > 4 else word[:-1]
    for suffix in ("ing", "ed", "er", "or", "ion", "ly"):
        if word.endswith(suffix) and len(word) - len(suffix) >= 4:
            return _trimmed(word[: -len(suffix)])
    return _trimmed(word)


def _trimmed(word: str) -> str:
    if len(word) > 4 and word[-1] == word[-2] and word[-1] in _DOUBLED:
        return word[:-1]
    return word[:-1] if len(word) > 3 and word.endswith("e") else word
