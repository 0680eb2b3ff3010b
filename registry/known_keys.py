"""The keys of tools.json at each level, and how a misspelt one is found.

A key that we do not know stays in the file and means nothing. But one that is almost a key of ours, or that is ours at
another level, was meant for us: if it could leave something on that its author meant to switch off, it is a problem,
and otherwise a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Literal

from tools.kit.spec import Effect

Level = Literal["file", "profile", "category", "tool", "response", "pruning", "effects", "deny", "rule"]
# Reports a problem: the place in the file, and the message.
Tell = Callable[[str, str], None]
# A name, the same without case and separators, and its letters as bits.
_Name = tuple[str, str, int]

EFFECTS: tuple[Effect, ...] = ("read", "write", "execute")
_MOST_LETTERS = 2
_SHOWN_CHARS = 60

# For each key: whether something could stay on if it is misspelt or at the wrong level.
KEYS: Mapping[Level, Mapping[str, bool]] = {
    "file": {"version": False, "activeProfile": True, "profiles": True},
    "profile": {
        "id": False,
        "label": False,
        "description": False,
        "enabled": True,
        "categories": True,
        "unlisted": True,
        "response": False,
        "pruning": False,
        "effects": True,
        "deny": True,
    },
    "category": {
        "id": False,
        "label": False,
        "description": False,
        "enabled": True,
        "tools": True,
        "mount": False,
        "wrap": False,
    },
    "tool": {
        "id": False,
        "name": False,
        "label": False,
        "description": False,
        "category": True,
        "enabled": True,
        "inputSchema": False,
    },
    "response": {"form": False, "mode": False},
    "pruning": {"everywhere": False, "root": True},
    "effects": dict.fromkeys(EFFECTS, True),
    "deny": {"paths": True, "commands": True},
    "rule": {"id": False, "pattern": True, "reason": False, "match": True, "not_match": True},
}
_PLACES: Mapping[Level, str] = {
    "file": "at the top of the file",
    "profile": "in a profile",
    "category": "in a category",
    "tool": "in a tool",
    "response": "in response",
    "pruning": "in pruning",
    "effects": "in effects",
    "deny": "in deny",
    "rule": "in a deny rule",
}
# Where each key belongs, the outermost level first.
_LEVELS: Mapping[str, Level] = {key: level for level in reversed([*KEYS]) for key in KEYS[level]}
# What people write in place of a key, in other letters.
_OPPOSITES = frozenset({"disabled", "disable", "off"})
_SYNONYMS: Mapping[Level, Mapping[str, str]] = {
    "file": {"active": "activeProfile", "defaultProfile": "activeProfile"},
    "profile": {"category": "categories"},
}
_SEPARATORS = re.compile(r"[\s_.-]+")


def check_keys(entry: Mapping[str, Any], level: Level, pointer: str, problem: Tell, warn: Tell) -> None:
    """Report every key of `entry` that is almost one of ours, or ours at another level."""
    known = KEYS[level]
    for key in entry:
        if key in known:
            continue
        meant = None if key in _SYNONYMS.get(level, ()) else _LEVELS.get(key)
        at = f"{pointer}/{escape(key)}"
        if meant is not None:
            tell = problem if KEYS[meant][key] else warn
            tell(at, f"{key} has no effect here: it belongs {_PLACES[meant]}")
        elif "enabled" in known and key.lower() in _OPPOSITES:
            problem(at, f'there is no key {key} (write "enabled": false)')
        elif (near := _nearest_key(key, level)) is not None:
            tell = problem if known[near] else warn
            tell(at, f"there is no key {_show(key)} here (did you mean {near}?)")
        elif (near := _nearest_key_elsewhere(key)) is not None:
            problem(at, f"there is no key {_show(key)} (did you mean {near}, {_PLACES[_LEVELS[near]]}?)")


def escape(key: str) -> str:
    """A key as a part of a JSON pointer."""
    return _show(key).replace("~", "~0").replace("/", "~1")


def nearest(word: str, known: Iterable[str], most: int = _MOST_LETTERS) -> str | None:
    """The known name that is at most `most` letters away, the nearest first; case and separators do not count."""
    return _nearest(_plain(word), ((name, *_shape(name)) for name in known), most)


def _nearest(plain: str, known: Iterable[_Name], most: int) -> str | None:
    length, letters = len(plain), _letters(plain)
    found: tuple[int, str] | None = None
    for name, other, others in known:
        # The length and the letters rule most pairs out at once.
        if abs(length - len(other)) > most or (letters ^ others).bit_count() > 2 * most:
            continue
        distance = _distance(plain, other, most)
        if distance <= most and (found is None or distance < found[0]):
            found = distance, name
    return None if found is None else found[1]


def _nearest_key(key: str, level: Level) -> str | None:
    """The key of this level that `key` is a misspelling of."""
    if (synonym := _SYNONYMS.get(level, {}).get(key)) is not None:
        return synonym
    plain = _plain(key)
    if (same := _stems(level).get(_stem(plain))) is not None:
        return same
    # A short name is near to every short word: for it fewer letters count, unless something could stay on.
    dangerous, long, short = _names(level)
    return _nearest(plain, dangerous, 2) or _nearest(plain, long, 2) or _nearest(plain, short, 1 if len(key) > 3 else 0)


def _nearest_key_elsewhere(key: str) -> str | None:
    """The key of some level that `key` is a misspelling of, where that could leave something on."""
    plain = _plain(key)
    return _stems(None).get(_stem(plain)) or _nearest(plain, _names(None)[0], 2)


@cache
def _stems(level: Level | None) -> dict[str, str]:
    """The keys of a level by their stems; without a level, those of all levels that could leave something on."""
    return {_stem(_plain(name)): name for name in reversed(_dangerous_keys() if level is None else [*KEYS[level]])}


@cache
def _names(level: Level | None) -> tuple[tuple[_Name, ...], tuple[_Name, ...], tuple[_Name, ...]]:
    """The keys of a level: those that could leave something on, the other long ones, the other short ones."""
    if level is None:
        return tuple((name, *_shape(name)) for name in _dangerous_keys() if len(name) > 4), (), ()
    known = KEYS[level]
    every = [(name, *_shape(name)) for name in known]
    dangerous = tuple(each for each in every if known[each[0]] and len(each[0]) > 2)
    return (
        dangerous,
        tuple(each for each in every if each not in dangerous and len(each[0]) > 4),
        tuple(each for each in every if each not in dangerous and len(each[0]) <= 4),
    )


def _dangerous_keys() -> list[str]:
    return [name for name, level in _LEVELS.items() if KEYS[level][name]]


def _show(key: str) -> str:
    return key if len(key) <= _SHOWN_CHARS else f"{key[:_SHOWN_CHARS]}…"


def _shape(name: str) -> tuple[str, int]:
    plain = _plain(name)
    return plain, _letters(plain)


def _plain(word: str) -> str:
    word = word.lower()
    return word if word.isalnum() else _SEPARATORS.sub("", word)


def _stem(plain: str) -> str:
    """A word without the ending that makes it a plural or a participle."""
    if plain.endswith(("ies", "ied")):
        return f"{plain[:-3]}y"
    return plain.removesuffix("d").removesuffix("e") if plain.endswith("ed") else plain.removesuffix("s")


def _letters(word: str) -> int:
    """The letters of a word as bits: words with few letters in common are far apart."""
    bits = 0
    for letter in word[:_SHOWN_CHARS]:
        bits |= 1 << (ord(letter) % 61)
    return bits


def _distance(one: str, other: str, most: int) -> int:
    """How many letters must be added, taken away, replaced or swapped with a neighbour; any number over `most` if more.

    This is the optimal string alignment distance.
    """
    before: list[int] = []
    last: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, last, row = last, row, [i]
        for j, against in enumerate(other, 1):
            cost = min(last[j] + 1, row[j - 1] + 1, last[j - 1] + (letter != against))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == against:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return row[-1]
