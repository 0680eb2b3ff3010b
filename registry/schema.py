"""How the keys of tools.json are declared, and how a value is read by a declaration (`registry/tools_json.py`).

Reading reports every problem with its JSON pointer and goes on. A key that we do not know stays in the file and means
nothing. But one that is almost a key of ours, or that is ours at another level, was meant for us: if it could leave
something on that its author meant to switch off, it is a problem, and otherwise a warning.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from registry.profiles import BadRegistry, Problem
from tools.kit.spelling import did_you_mean, nearest

_MOST_PROBLEMS = 100
# How like a key of ours another must be that is meant for it: all with one wrong letter are.
_KEY_LIKENESS = 0.7
# How like a switch must be: a tool of another version has a name that is not far from one of this version.
SWITCH_LIKENESS = 0.8
_SHOWN_CHARS = 60
# What people write in place of `"enabled": false`.
_OPPOSITES = frozenset({"disabled", "disable", "off"})
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Report:
    """Collects the problems of the file `origin` in the order in which they are found. Warnings are among them."""

    def __init__(self, origin: str = "tools.json", levels: Mapping[str, Level] = MappingProxyType({})) -> None:
        """`levels` says where each key of the file belongs."""
        self.origin = origin
        self.levels = levels
        self.guarding = [key for key in levels if levels[key].keys[key].guards and len(key) > 4]
        self.known_as = {word: key for key in levels for word in levels[key].keys[key].known_as}
        self.found: list[Problem] = []
        self._counts = Counter[bool]()

    def problem(self, pointer: str, message: str, *, is_warning: bool = False) -> None:
        """Keep the first problems and the first warnings: nobody reads thousands. Raises BadRegistry for too many."""
        self._counts[is_warning] += 1
        if self._counts[is_warning] <= _MOST_PROBLEMS:
            self.found.append(Problem(pointer, message, is_warning))
        elif not is_warning:
            raise BadRegistry([*self.found, Problem("", "there are more problems")], self.origin)

    def warn(self, pointer: str, message: str) -> None:
        self.problem(pointer, message, is_warning=True)

    def raise_problems(self) -> None:
        """Raise BadRegistry if there is more than warnings."""
        if self._counts[False]:
            raise BadRegistry(self.found, self.origin)


# Reads the value at a pointer. It gives None for a value that is absent, or bad and reported.
ReadValue = Callable[[Any, str, Report], Any]


class KeyRule(NamedTuple):
    """A key of an object."""

    # None: it is for people, and not read.
    kind: ReadValue | None = None
    # Whether something could stay on if it is misspelt or at the wrong level.
    guards: bool = False
    is_required: bool = False
    # Other words that people use for it.
    known_as: tuple[str, ...] = ()


class Level:
    """An object of the file and its keys. `name` is what it is, `place` is where its keys are.

    A strict one has no other keys. In any other, a key that is no misspelling is the owner's own.
    """

    def __init__(self, name: str, place: str, keys: Mapping[str, KeyRule], *, is_strict: bool = False) -> None:
        self.name, self.place, self.keys, self._is_strict = name, place, keys, is_strict
        self._required = [key for key, each in keys.items() if each.is_required]
        self._known_as = {word: key for key, each in keys.items() for word in each.known_as}
        # Two letters are near to every short word.
        self._compared = [key for key in keys if len(key) > 2]

    def __call__(self, value: Any, pointer: str, report: Report) -> dict[str, Any] | None:
        """The values of the keys that are there. None if a required one is not, and for null."""
        if value is None:
            return None
        if not isinstance(value, dict):
            report.problem(pointer, f"{self.name} must be an object, not {short_json(value)}")
            return None
        if not value.keys() <= self.keys.keys():
            self.check_keys(value, pointer, report)
        for key in self._required:
            if key not in value:
                report.problem(f"{pointer}/{key}", f"{self.name} needs {'an' if key[0] in 'aeiou' else 'a'} {key}")
        found: dict[str, Any] = {}
        for key, (kind, *_) in self.keys.items():
            if kind is not None and key in value and (read := kind(value[key], f"{pointer}/{key}", report)) is not None:
                found[key] = read
        return found if all(key in found for key in self._required) else None

    def check_keys(self, value: Iterable[str], pointer: str, report: Report) -> None:
        """Report every key that this object cannot have, is almost one of ours, or is ours at another level."""
        for key in value:
            if key in self.keys:
                continue
            at = f"{pointer}/{escape(key)}"
            here = self._known_as.get(key)
            meant = report.levels.get(key) if here is None else None
            if meant is not None and not self._is_strict:
                message = f"{key} has no effect here: it belongs {meant.place}"
                report.problem(at, message, is_warning=not meant.keys[key].guards)
            elif "enabled" in self.keys and key.lower() in _OPPOSITES:
                report.problem(at, f'there is no key {key} (write "enabled": false)')
            elif here := here or _meant(key, self._compared):
                message = f"there is no key {_cut(key)} here (did you mean {here}?)"
                report.problem(at, message, is_warning=not (self._is_strict or self.keys[here].guards))
            elif self._is_strict:
                report.problem(at, f"there is no key {_cut(key)} here; there are {', '.join(self.keys)}")
            elif elsewhere := report.known_as.get(key) or _meant(key, report.guarding):
                place = report.levels[elsewhere].place
                report.problem(at, f"there is no key {_cut(key)} (did you mean {elsewhere}, {place}?)")

    def where_keys_belong(self) -> Mapping[str, Level]:
        """The level of each key, here and below; of several levels the outermost."""
        return MappingProxyType({key: level for level in reversed([*self._levels()]) for key in level.keys})

    def _levels(self) -> Iterator[Level]:
        yield self
        for key in self.keys.values():
            below = getattr(key.kind, "level", key.kind)
            if isinstance(below, Level) and below.place:
                yield from below._levels()


class ArrayOf:
    """A kind: an array of objects whose `id`, if they have one, is their own. A bad one is None in the list."""

    def __init__(self, level: Level, *, may_be_one: bool = False) -> None:
        self.level, self._may_be_one = level, may_be_one

    def __call__(self, value: Any, pointer: str, report: Report) -> list[dict[str, Any] | None] | None:
        if self._may_be_one and (value is None or isinstance(value, dict)):
            one = self.level(value, pointer, report)
            return None if one is None else [one]
        if not isinstance(value, list):
            report.problem(pointer, f"must be an array, not {short_json(value)}")
            return None
        found: list[dict[str, Any] | None] = []
        ids: set[str] = set()
        for index, each in enumerate(value):
            at = f"{pointer}/{index}"
            if each is None:
                report.problem(at, f"{self.level.name} must be an object, not null")
            found.append(self.level(each, at, report))
            own = each.get("id") if isinstance(each, dict) else None
            if isinstance(own, str):
                if own in ids:
                    report.problem(f"{at}/id", f"{self.level.name} with the id {own!r} stands above already")
                ids.add(own)
        return found


def checked(fits: Callable[[Any], bool], what: str) -> ReadValue:
    """A kind of values that `fits` knows, and `what` describes."""

    def read(value: Any, pointer: str, report: Report) -> Any:
        if fits(value):
            return value
        report.problem(pointer, f"must be {what}, not {short_json(value)}")
        return None

    return read


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


BOOLEAN = checked(lambda value: isinstance(value, bool), "true or false")
TEXT = checked(_is_text, "a string")
FILLED_TEXT = checked(lambda value: _is_text(value) and value.strip() != "", "a string that is not empty")
TEXTS = checked(_are_texts, "an array of strings")
TOOL_NAME = checked(
    lambda value: isinstance(value, str) and _TOOL_NAME.fullmatch(value) is not None,
    "a name of letters, digits, _ and -, at most 64",
)
VARIABLE = checked(lambda value: isinstance(value, str) and is_variable(value), "the name of a variable")
_OBJECT = checked(lambda value: isinstance(value, dict), "an object")
_ONE_OR_MORE = checked(lambda value: _is_text(value) or _are_texts(value), "a string, or an array of strings")


def is_variable(name: str) -> bool:
    return _VARIABLE.fullmatch(name) is not None


def one_or_more(value: Any, pointer: str, report: Report) -> list[str] | None:
    """A kind: a text, or an array of texts."""
    found: str | list[str] | None = _ONE_OR_MORE(value, pointer, report)
    return [found] if isinstance(found, str) else found


def one_of(*options: str) -> ReadValue:
    """A kind: one of some words. Null is as if it were absent."""

    def read(value: Any, pointer: str, report: Report) -> str | None:
        if value is None or value in options:
            return None if value is None else str(value)
        near = did_you_mean(value, options) if isinstance(value, str) else ""
        report.problem(pointer, f"must be one of {', '.join(options)}, not {short_json(value)}{near}")
        return None

    return read


def seconds(most: float) -> ReadValue:
    def fits(value: Any) -> bool:
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= most

    return checked(fits, f"a number of seconds, at most {most:g}")


def by_name(kind: ReadValue, fits: Callable[[str], bool] = lambda _: True, problem: str = "") -> ReadValue:
    """A kind: an object with values of one kind under names that fit; `problem` is said of one that does not."""

    def read(value: Any, pointer: str, report: Report) -> Mapping[str, Any] | None:
        if _OBJECT(value, pointer, report) is None:
            return None
        found: dict[str, Any] = {}
        for name, each in value.items():
            at = f"{pointer}/{escape(name)}"
            if not fits(name):
                report.problem(at, f"{_cut(name)!r} {problem}")
            found[name] = kind(each, at, report)
        return MappingProxyType(found)

    return read


def _meant(key: str, keys: Iterable[str]) -> str | None:
    """The key of ours that the owner's is a misspelling of."""
    return nearest(key, keys, _KEY_LIKENESS) if len(key) > 3 else nearest(key, keys)


def short_json(value: Any) -> str:
    """A value as JSON, short enough for a message."""
    return _cut(json.dumps(value, ensure_ascii=False))


def escape(key: str) -> str:
    """A key as a part of a JSON pointer."""
    return _cut(key).replace("~", "~0").replace("/", "~1")


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
