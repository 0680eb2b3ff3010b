"""Reads the `deny` rules of a profile in tools.json, and reports every problem with its place.

    "deny": {
      "paths":    [{"id": "env", "pattern": [".env*", "!.env.example"], "reason": "secrets", "match": ["app/.env"]}],
      "commands": [{"id": "force", "pattern": "git push .*--force", "reason": "…", "not_match": ["git push"]}]
    }

The examples are tested when the file is read. If one fails, the file is refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from difflib import get_close_matches
from typing import Any

from tools.kit.errors import Denied, InvalidPattern
from tools.kit.rules import CommandRules, Deny, PathRules, Rule

_KINDS = ("paths", "commands")
_KEYS = ("id", "pattern", "reason", "match", "not_match")
# The folder that relative paths in examples count from.
_SOMEWHERE = "/somewhere"

Tell = Callable[[str, str], None]
Rules = PathRules | CommandRules


def read_deny(value: Any, pointer: str, place: str, problem: Tell) -> Deny:
    """The rules in `value`, which is at `pointer` in the file; `place` names the file and the profile."""
    if not isinstance(value, dict):
        problem(pointer, "must be an object with paths and commands")
        return Deny()
    _check_keys(value, _KINDS, pointer, problem)
    seen: set[str] = set()
    paths = [*_rules(value.get("paths", []), f"{pointer}/paths", place, PathRules, seen, problem)]
    commands = [*_rules(value.get("commands", []), f"{pointer}/commands", place, CommandRules, seen, problem)]
    return Deny(PathRules(tuple(paths)) if paths else None, CommandRules(tuple(commands)) if commands else None)


def describe_rules(rules: Rules | None) -> list[dict[str, Any]]:
    """The rules as JSON objects, for /api."""
    return [
        {"id": rule.id, "patterns": list(rule.patterns), "reason": rule.reason}
        for rule in (rules.rules if rules else ())
    ]


def _rules(
    entries: Any, pointer: str, place: str, kind: type[PathRules] | type[CommandRules], seen: set[str], problem: Tell
) -> Iterator[Rule]:
    if not isinstance(entries, list):
        problem(pointer, "must be an array of rules")
        return
    for index, entry in enumerate(entries):
        where = f"{pointer}/{index}"
        if not isinstance(entry, dict):
            problem(where, "a rule must be an object with id, pattern and reason")
            continue
        _check_keys(entry, _KEYS, where, problem)
        rule = _rule(entry, where, place, seen, problem)
        if rule is None:
            continue
        try:
            compiled = kind((rule,))
        except InvalidPattern as error:
            problem(f"{where}/pattern", error.message)
            continue
        _try_examples(compiled, entry, where, problem)
        yield rule


def _rule(entry: dict[str, Any], where: str, place: str, seen: set[str], problem: Tell) -> Rule | None:
    texts: dict[str, str] = {}
    for key in ("id", "reason"):
        value = entry.get(key)
        if isinstance(value, str) and value.strip():
            texts[key] = value
        else:
            problem(f"{where}/{key}", f"a rule needs {'an id' if key == 'id' else 'a reason'}, a text")
    patterns = _texts(entry.get("pattern"))
    if not patterns or "" in patterns:
        problem(f"{where}/pattern", "a rule needs a pattern: a text, or an array of texts")
        return None
    if len(texts) < 2:
        return None
    if texts["id"] in seen:
        problem(f"{where}/id", f"the rule {texts['id']!r} stands above already")
    seen.add(texts["id"])
    return Rule(texts["id"], tuple(patterns), texts["reason"], f"{place} at {where}")


def _try_examples(rules: Rules, entry: dict[str, Any], where: str, problem: Tell) -> None:
    for key, must_match in (("match", True), ("not_match", False)):
        examples = _texts(entry.get(key, []))
        if examples is None:
            problem(f"{where}/{key}", "must be an example, or an array of examples")
            continue
        for index, example in enumerate(examples):
            at = f"{where}/{key}/{index}" if isinstance(entry[key], list) else f"{where}/{key}"
            try:
                found = rules.match(_example_path(example) if isinstance(rules, PathRules) else example)
            except Denied as error:
                problem(at, error.message)
                continue
            if (found is not None) != must_match:
                verb = "does not match and should" if must_match else "matches and should not"
                problem(at, f"{example!r} {verb}")


def _example_path(example: str) -> str:
    expanded = os.path.expanduser(example)  # noqa: PTH111 - Path.expanduser raises where there is no such user
    return os.path.normpath(os.path.join(_SOMEWHERE, expanded))  # noqa: PTH118 - text, as rules take it


def _texts(value: Any) -> list[str] | None:
    if isinstance(value, str):
        return [value]
    return value if isinstance(value, list) and all(isinstance(each, str) for each in value) else None


def _check_keys(entry: dict[str, Any], known: Iterable[str], pointer: str, problem: Tell) -> None:
    """Report a misspelt key: it would allow what its author means to forbid."""
    for key in entry:
        near = get_close_matches(key, known, n=1, cutoff=0.7)
        if near and key not in near:
            problem(f"{pointer}/{key}", f"there is no key {key} here (did you mean {near[0]}?)")
