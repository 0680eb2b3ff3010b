"""Text for short results: one-line summaries, and labels for the items of a list, each with a length limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

MOST_SUMMARY = 100
MOST_LABEL = 50
_BRIEF_CHARS = 40
_END_CHARS = 4_000
# With more matches the files are not counted, because that takes nearly as long as writing the matches.
_COUNTED_MATCHES = 20_000
_IDS = ("id", "path", "file_path", "uri", "url", "key", "name", "title")
_LABELS = ("label", "title", "name", "summary", "message", "text", "description", "path", "status")


class Item(NamedTuple):
    """One element of a list: its id and a label. `is_whole`: the two have everything that the element has."""

    id: str
    label: str
    is_whole: bool = True


def shorten(text: str, most: int) -> str:
    """`text` on one line and within `most` characters, with dots where it was cut."""
    line = " ".join(text[: most * 4].split())
    return line if len(line) <= most and len(text) <= most * 4 else f"{line[: most - 3]}..."


def shorten_middle(text: str, most: int) -> str:
    """As `shorten`, but cuts the middle: the reason of an error often stands after a long path."""
    line = " ".join(text[:2_000].split())
    half = (most - 3) // 2
    return line if len(line) <= most else f"{line[:half]}...{line[len(line) - most + 3 + half :]}"


def short_path(path: str) -> str:
    """A path for a summary. Of a long path the end stays, because it differs most from other paths."""
    line = path.replace("\n", " ")
    return line if len(line) <= _BRIEF_CHARS else f"...{line[3 - _BRIEF_CHARS :]}"


def quantity(number: int, noun: str, plural: str | None = None) -> str:
    """Such as "1 file" and "4,812 lines"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def line_count(text: str) -> int:
    """The number of lines; a final newline begins no further line."""
    return text.count("\n") + (not text.endswith("\n")) if text else 0


def line_cut(text: str | bytes, most: int) -> int:
    """Where to cut a text so that at most so much of it stays: behind a line end, unless a long line is there."""
    if most >= len(text):
        return len(text)
    newline = text.rfind("\n", most // 2, most) if isinstance(text, str) else text.rfind(b"\n", most // 2, most)
    return most if newline == -1 else newline + 1


def last_line(text: str) -> str:
    """The last line that is not empty."""
    end = text[-_END_CHARS:].rstrip()
    return end[end.rfind("\n") + 1 :].strip()


def matches_summary(matches: Sequence[Mapping[str, Any]], *, is_cut: bool) -> str:
    """The number of matches and of files, and the file with the most matches. Each match has a `path`."""
    if not matches:
        return "no matches"
    found = f"{'the first ' if is_cut else ''}{quantity(len(matches), 'match', 'matches')}"
    if len(matches) > _COUNTED_MATCHES:
        return f"{found}, the first in {short_path(matches[0]['path'])}"
    counts = Counter(map(itemgetter("path"), matches))
    first, (most, number) = next(iter(counts)), counts.most_common(1)[0]
    if len(counts) == 1:
        return f"{found} in {short_path(first)}"
    where = f"most in {short_path(most)}" if number > 1 else f"the first {short_path(first)}"
    return f"{found} in {quantity(len(counts), 'file')}, {where}"


def folder_count(entries: Iterable[Mapping[str, Any]]) -> int:
    """The number of folders. Each entry has a `type`."""
    return list(map(itemgetter("type"), entries)).count("directory")


def any_item(entry: Any) -> Item:
    """An item for any element of a list, made from the keys that usually name something."""
    if not isinstance(entry, Mapping):
        text = entry if isinstance(entry, str) else orjson.dumps(entry, default=str).decode()
        return Item("", text)
    identity = next((str(entry[key]) for key in _IDS if isinstance(entry.get(key), str | int)), "")
    label = next(
        (str(entry[key]) for key in _LABELS if isinstance(entry.get(key), str) and entry[key] != identity), None
    )
    if label is None:
        label = ", ".join(f"{key} {value}" for key, value in entry.items() if isinstance(value, str | int | float))
    return Item(identity, label, is_whole=False)
