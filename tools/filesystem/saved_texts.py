"""A text that a person has edited, written as its file was: in its encoding, with its mark and its line ends.

An editor in a browser is given the text, knows nothing of how it was written, and ends every line with one character.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import chain, zip_longest

from tools.files.diffs import common_ends
from tools.files.text import decode
from tools.kit.errors import IsBinary

_LINE_END = re.compile(r"(\r\n|\r|\n)")


def as_written_before(old: bytes, new: bytes) -> bytes:
    """The UTF-8 text `new` as the file `old` is written; as it is, if either is no text or `old` cannot hold it."""
    try:
        text = new.decode("utf-8")
        before, encoding = decode(old, name="", size=len(old), cut=False)
    except (UnicodeDecodeError, IsBinary):
        return new
    if encoding.bom:
        text = text.removeprefix("\ufeff")
    if "\r" in before and "\r" not in text:
        text = _with_line_ends(before, text)
    try:
        return encoding.bom + encoding.encode(text)
    except UnicodeEncodeError:
        return text.encode()


def _with_line_ends(before: str, text: str) -> str:
    """`text` with the line ends of `before`: each its own at the beginning and the end that are the same in both, and
    between them the one that is there most often."""
    parts = _LINE_END.split(before)
    ends = parts[1::2]
    lines = text.split("\n")
    head, tail = common_ends(parts[0::2], lines)
    needed = len(lines) - 1
    # Nothing ends the last line of a text.
    closing = ends[len(ends) - max(tail - 1, 0) :]
    opening = ends[: min(head, needed - len(closing))]
    usual = Counter(ends).most_common(1)[0][0]
    between = [usual] * (needed - len(opening) - len(closing))
    return "".join(chain.from_iterable(zip_longest(lines, [*opening, *between, *closing], fillvalue="")))
