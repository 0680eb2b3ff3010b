"""Errors for clients that show their model all arguments of a failed call beside our text: short ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

# A shorter value says more than the name of its argument.
_FEWEST_CHARS = 16
_MOST_CHARS = 500
_QUOTED = re.compile(r"'([^'\n]{16,300})'|\"([^\"\n]{16,300})\"")
_MOST_VALUES = 100


def shorten_error(text: str, arguments: Mapping[str, Any]) -> str:
    """The text of an error with names of arguments in the place of their values, and only its first and last lines."""
    values = {}
    for name, value in _texts("", arguments):
        if len(value) >= _FEWEST_CHARS:
            values[name] = repr(value[:300])[1:-1]
        if len(values) >= _MOST_VALUES:
            break

    def name_of(quoted: re.Match[str]) -> str:
        shown = (quoted[1] or quoted[2]).removesuffix("…")
        return next((name for name, value in values.items() if value.startswith(shown)), quoted[0])

    text = _QUOTED.sub(name_of, text)
    if len(text) <= _MOST_CHARS:
        return text
    head = text.find("\n", _MOST_CHARS // 2)
    tail = text.find("\n", len(text) - _MOST_CHARS // 2)
    if not 0 <= head < tail:
        return f"{text[: _MOST_CHARS - 1]}…"
    return f"{text[:head]}\n…{text[tail:]}"[: _MOST_CHARS * 2]


def _texts(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _texts(f"{name}.{key}" if name else str(key), each)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _texts(f"{name}[{index}]", each)
