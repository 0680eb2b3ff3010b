"""An editor of TOML that changes one table and leaves every other byte as it was.

A table with a header of its own is a run of lines, which is put in or taken out as text. tomlkit does the rest: tables
that are written in one line, or with dotted names.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from typing import Any

_HEADER = re.compile(r"^[ \t]*\[")


class NotToml(ValueError):
    """The text cannot be read, or not be changed without touching something else. The message says why."""


def read(text: str) -> dict[str, Any]:
    """What the text means. Raises NotToml."""
    try:
        return tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise NotToml(str(error)) from None


def set_table(text: str, path: Sequence[str], value: dict[str, Any]) -> str:
    """The text with the table `value` at `path`. Raises NotToml."""
    document = read(text)
    before = _at(document, path)
    if before == value:
        return text
    wanted = _with(document, path, value)
    line_end = "\r\n" if "\r\n" in text else "\n"
    block = _block(path, value, line_end)
    if before is None:
        # A file whose last line has no end keeps it so, and taking the table out gives that back.
        is_ended = not text or text.endswith("\n")
        joint = "" if not text else line_end if is_ended else 2 * line_end
        candidate = text + joint + (block if is_ended else block.removesuffix(line_end))
    else:
        span = _span(text, path)
        candidate = "" if span is None else text[: span[0]] + block.removesuffix(line_end) + text[span[1] :]
    if _means(candidate, wanted):
        return candidate
    return _by_library(text, path, value, wanted)


def remove_table(text: str, path: Sequence[str]) -> str:
    """The text without the table at `path`. Raises NotToml."""
    document = read(text)
    if _at(document, path) is None:
        return text
    wanted = _with(document, path, None)
    span = _span(text, path)
    if span is not None:
        start, end = span
        is_ended = text.startswith(("\r\n", "\n"), end)
        if is_ended:
            end = text.index("\n", end) + 1
        head = _without_line_end(text[:start]) if _ends_with_empty_line(text[:start]) else text[:start]
        candidate = (head if is_ended else _without_line_end(head)) + text[end:]
        if _means(candidate, wanted):
            return candidate
    return _by_library(text, path, None, wanted)


def _span(text: str, path: Sequence[str]) -> tuple[int, int] | None:
    """Where the lines of the table and of those below it begin and end, without the last line end; None if nowhere.

    What is a header inside a longer text in quotes is taken for one here; then the result does not mean what it should,
    and is not used.
    """
    own = re.compile(rf"^[ \t]*\[\s*{_dotted_key(path)}\s*(?:\.|\])")
    start, end, is_inside, place = None, 0, False, 0
    for line in text.splitlines(keepends=True):
        if _HEADER.match(line):
            is_inside = own.match(line) is not None
            if is_inside and start is None:
                start = place
        if is_inside and line.strip() and not line.lstrip().startswith("#"):
            end = place + len(line.rstrip("\r\n"))
        place += len(line)
    return None if start is None else (start, end)


def _dotted_key(path: Sequence[str]) -> str:
    return r"\s*\.\s*".join(rf"""(?:{re.escape(key)}|"{re.escape(key)}"|'{re.escape(key)}')""" for key in path)


def _block(path: Sequence[str], value: dict[str, Any], line_end: str) -> str:
    import tomlkit

    table: dict[str, Any] = value
    for key in reversed(path):
        table = {key: table}
    return tomlkit.dumps(table).replace("\n", line_end)


def _by_library(text: str, path: Sequence[str], value: dict[str, Any] | None, wanted: dict[str, Any]) -> str:
    import tomlkit
    import tomlkit.exceptions

    mark = text[: len(text) - len(text.removeprefix("\ufeff"))]
    try:
        document = tomlkit.parse(text.removeprefix("\ufeff"))
        parent: Any = document
        for key in path[:-1]:
            parent = parent[key]
        if value is None:
            del parent[path[-1]]
        else:
            inline = tomlkit.inline_table()
            inline.update(value)
            parent[path[-1]] = inline
        candidate = mark + tomlkit.dumps(document)
    except (tomlkit.exceptions.TOMLKitError, KeyError, TypeError, ValueError) as error:
        raise NotToml(f"{'.'.join(path)} cannot be changed there: {error}") from None
    if not _means(candidate, wanted):
        raise NotToml(f"{'.'.join(path)} cannot be changed there without touching something else")
    return candidate


def _means(text: str, wanted: dict[str, Any]) -> bool:
    """Whether the text means that, but for tables that are empty."""
    try:
        return bool(_without_empty(read(text)) == _without_empty(wanted))
    except NotToml:
        return False


def _without_empty(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    filled = {key: _without_empty(each) for key, each in value.items()}
    return {key: each for key, each in filled.items() if each != {}}


def _at(document: Any, path: Sequence[str]) -> Any:
    for key in path:
        if not isinstance(document, dict):
            raise NotToml(f"{'.'.join(path[:-1])} holds something other than a table")
        document = document.get(key)
        if document is None:
            return None
    return document


def _with(document: dict[str, Any], path: Sequence[str], value: dict[str, Any] | None) -> dict[str, Any]:
    """The document with that table; with None, without it."""
    key = path[0]
    if len(path) > 1:
        inner = document.get(key, {})
        if not isinstance(inner, dict):
            raise NotToml(f"{key} holds something other than a table")
        return {**document, key: _with(inner, path[1:], value)}
    rest = {name: each for name, each in document.items() if name != key}
    return rest if value is None else {**rest, key: value}


def _ends_with_empty_line(text: str) -> bool:
    return _without_line_end(text) != text and (_without_line_end(text) == "" or _without_line_end(text).endswith("\n"))


def _without_line_end(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
