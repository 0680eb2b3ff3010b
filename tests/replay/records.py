"""Reads records: one folder, one file for each kind, JSON lines, also behind gzip. README.md has their form."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

Record = dict[str, Any]
# A text that is said to be what the edit makes of the one before it.
_EXACT = "exact"


class Records:
    def __init__(self, folder: Path, most: int | None = None) -> None:
        """`most` records of a kind are read, spread over all of them; None for all."""
        if not folder.is_dir():
            raise NotADirectoryError(f"there is no folder {folder}")
        self._folder, self._most = folder, most

    def of(self, kind: str) -> list[Record]:
        found = list(self._texts(kind) if kind == "edits" else self._lines(kind))
        if self._most is None or len(found) <= self._most:
            return found
        return [found[index * len(found) // self._most] for index in range(self._most)]

    def _lines(self, kind: str) -> Iterator[Record]:
        for path, opened in ((self._folder / f"{kind}.jsonl", open), (self._folder / f"{kind}.jsonl.gz", gzip.open)):
            if path.exists():
                with opened(path, "rb") as lines:
                    yield from map(orjson.loads, lines)

    def _texts(self, kind: str) -> Iterator[Record]:
        """With texts in the place of references to those of earlier records."""
        known: dict[str, str] = {}
        for record in self._lines(kind):
            _resolve(record, record["id"], known)
            if record.get("eventual"):
                _resolve(record["eventual"], f"{record['id']}:e", known)
            yield record


def _resolve(record: Record, name: str, known: dict[str, str]) -> None:
    join = "" if name.endswith(":e") else ":"
    for key in ("before", "after", "final"):
        value = record.get(key)
        if isinstance(value, dict):
            of_edit = value["ref"] == _EXACT
            value = replaced(record["before"], record) if of_edit else known[value["ref"]]
        if value is not None:
            record[key] = known[f"{name}{join}{key}"] = value


def replaced(text: str, edit: Record) -> str:
    """The text after an edit that is made to the letter."""
    return text.replace(edit["old_string"], edit["new_string"], -1 if edit.get("replace_all") else 1)
