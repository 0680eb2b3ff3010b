"""One object of tools.json whose values are checked as they are taken; every problem is reported with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from registry.known_keys import Tell

TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Entry:
    """A value that is bad is reported, and a harmless one is given in its place: the file is refused in the end."""

    def __init__(self, value: Any, pointer: str, problem: Tell, keys: tuple[str, ...]) -> None:
        self.values: dict[str, Any] = value if isinstance(value, dict) else {}
        self.pointer = pointer
        self._problem = problem
        if not isinstance(value, dict):
            problem(pointer, "must be an object")
        # A misspelt key would be no key at all: what it should forbid would be allowed.
        for key in self.values:
            if key not in keys:
                problem(f"{pointer}/{key}", f"there is no key {key} here; there are {', '.join(keys)}")

    def problem(self, message: str, key: str = "") -> None:
        self._problem(f"{self.pointer}/{key}" if key else self.pointer, message)

    def entry(self, key: str, keys: tuple[str, ...]) -> Entry | None:
        """The object below `key`; None if there is none."""
        value = self.values.get(key)
        return None if value is None else Entry(value, f"{self.pointer}/{key}", self._problem, keys)

    def entries(self, key: str, keys: tuple[str, ...]) -> Iterator[Entry]:
        """The objects of the array below `key`."""
        value = self.values.get(key, [])
        if not isinstance(value, list):
            self.problem("must be an array of objects", key)
            return
        for index, each in enumerate(value):
            yield Entry(each, f"{self.pointer}/{key}/{index}", self._problem, keys)

    def text(self, key: str, default: str | None = None) -> str:
        """A text; it may be empty only where that is the default."""
        value = self.values.get(key, default)
        if isinstance(value, str) and (value or default == "") and "\0" not in value:
            return value
        self.problem("must be a text", key)
        return ""

    def name(self, key: str) -> str:
        """A text that can be the name of a tool."""
        name = self.text(key)
        if name and not TOOL_NAME.fullmatch(name):
            self.problem(f"{name!r} must be letters, digits, _ and -, at most 64", key)
        return name

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key, [])
        if isinstance(value, list) and all(isinstance(each, str) and "\0" not in each for each in value):
            return tuple(value)
        self.problem("must be an array of texts", key)
        return ()

    def texts_by_name(self, key: str) -> Mapping[str, str]:
        value = self.values.get(key, {})
        if isinstance(value, dict) and all(isinstance(each, str) and "\0" not in each for each in value.values()):
            return MappingProxyType(value)
        self.problem("must be an object of texts", key)
        return MappingProxyType({})

    def seconds(self, key: str, default: float, most: float) -> float:
        value = self.values.get(key, default)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= most:
            return float(value)
        self.problem(f"must be a number of seconds, at most {most:g}", key)
        return default

    def flag(self, key: str) -> bool:
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            self.problem("must be true or false", key)
        return value is True

    def check_variables(self, key: str, names: Mapping[str, Any]) -> None:
        for name in names:
            if not VARIABLE.fullmatch(name):
                self.problem(f"{name!r} is no name of a variable", f"{key}/{name}")
