"""The records of a log with one to a line: which of them are of a shape that few have.

Thousands of lines tell that a login failed, and one that it succeeded, in words that no question about it has. The
shape of a record is its words without numbers; at a place where the words vary, any word will do.
"""

import re
from collections import defaultdict

from tools.pruning.engine.text_arrays import Bools, Ints, LineArray, mark

_WITH_DIGIT = re.compile(r"\S*\d\S*")
_LONGEST_RECORD = 400
_MOST_WORDS = 14
# At a place with more words than this, and than a tenth of the records, the words vary.
_MOST_VARIANTS = 8
_VARIES = 0.1
_FEW = 3
# Where more are rare than this share, rarity tells nothing.
_MOST_RARE = 0.05


def read_shapes(lines: LineArray, numbers: Ints) -> tuple[Bools, Bools]:
    """Mark the records of a rare shape, and those whose shape an earlier record has. `numbers` are their lines."""
    words = [
        _WITH_DIGIT.sub("0", lines.line(line)[:_LONGEST_RECORD]).split()[:_MOST_WORDS] for line in numbers.tolist()
    ]
    shapes = [list(range(len(words)))]
    for place in range(_MOST_WORDS):
        shapes = [part for shape in shapes for part in _split(shape, words, place)]
    rare = [each for shape in shapes if len(shape) <= _FEW for each in shape]
    if len(rare) > _MOST_RARE * len(words):
        rare = []
    repeated = [each for shape in shapes for each in shape[1:]]
    return mark(numbers[rare], len(lines)), mark(numbers[repeated], len(lines))


def _split(shape: list[int], words: list[list[str]], place: int) -> list[list[int]]:
    """Records of one shape so far, divided by the word at a place; as they are where the words vary."""
    if len(shape) <= _FEW:
        return [shape]
    parts: defaultdict[str, list[int]] = defaultdict(list)
    for record in shape:
        parts[words[record][place] if place < len(words[record]) else ""].append(record)
    varies = len(parts) > max(_MOST_VARIANTS, _VARIES * len(shape))
    return [shape] if varies else [*parts.values()]
