"""Reads the `deny` rules of a profile in tools.json, and reports every problem with its place.

    "deny": {
      "paths":    [{"id": "env", "pattern": [".env*", "!.env.example"], "reason": "secrets", "match": ["app/.env"]}],
      "commands": [{"id": "force", "pattern": "git push .*--force", "reason": "…", "not_match": ["git push"]}]
    }

The examples are tested when the file is read. If one fails, the file is refused.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from registry.known_keys import Tell, check_keys
from tools.kit.errors import Denied, InvalidPattern
from tools.kit.rules import CommandRules, Deny, PathRules, Rule

_MOST_PATTERN_CHARS = 2_000
_EXAMPLES_S = 2.0
# The folder that relative paths in examples count from.
_SOMEWHERE = "/somewhere"

Rules = PathRules | CommandRules


def read_deny(value: Any, pointer: str, place: str, problem: Tell, warn: Tell) -> Deny:
    """The rules in `value`, which is at `pointer` in the file; `place` names the file and the profile."""
    if not isinstance(value, dict):
        problem(pointer, "must be an object with paths and commands")
        return Deny()
    check_keys(value, "deny", pointer, problem, warn)
    reader = _RuleReader(place, problem, warn)
    paths = [*reader.rules(value.get("paths", []), f"{pointer}/paths", PathRules)]
    commands = [*reader.rules(value.get("commands", []), f"{pointer}/commands", CommandRules)]
    together = PathRules(tuple(paths)) if paths else None
    if together is not None:
        # Compiled here, where nobody waits for it, and not at the first call.
        _ = together.any_glob
    return Deny(together, CommandRules(tuple(commands)) if commands else None)


def describe_rules(rules: Rules | None) -> list[dict[str, Any]]:
    """The rules as JSON objects, for /api."""
    return [
        {"id": rule.id, "patterns": list(rule.patterns), "reason": rule.reason}
        for rule in (rules.rules if rules else ())
    ]


class _RuleReader:
    """Reads the rules of one profile. `place` names the file and the profile."""

    def __init__(self, place: str, problem: Tell, warn: Tell) -> None:
        self._place = place
        self._problem = problem
        self._warn = warn
        self._seen: set[str] = set()
        self._left_s = _EXAMPLES_S

    def rules(self, entries: Any, pointer: str, kind: type[PathRules] | type[CommandRules]) -> Iterator[Rule]:
        if not isinstance(entries, list):
            self._problem(pointer, "must be an array of rules")
            return
        for index, entry in enumerate(entries):
            where = f"{pointer}/{index}"
            if not isinstance(entry, dict):
                self._problem(where, "a rule must be an object with id, pattern and reason")
                continue
            check_keys(entry, "rule", where, self._problem, self._warn)
            rule = self._rule(entry, where)
            if rule is None:
                continue
            try:
                compiled = kind((rule,))
            except InvalidPattern as error:
                self._problem(f"{where}/pattern", error.message)
                continue
            self._try_examples(compiled, entry, where)
            yield rule

    def _rule(self, entry: dict[str, Any], where: str) -> Rule | None:
        texts: dict[str, str] = {}
        for key in ("id", "reason"):
            value = entry.get(key)
            if isinstance(value, str) and value.strip():
                texts[key] = value
            else:
                self._problem(f"{where}/{key}", f"a rule needs {'an id' if key == 'id' else 'a reason'}, a text")
        patterns = _texts(entry.get("pattern"))
        if not patterns or "" in patterns:
            self._problem(f"{where}/pattern", "a rule needs a pattern: a text, or an array of texts")
            return None
        longest = max(map(len, patterns))
        if longest > _MOST_PATTERN_CHARS:
            self._problem(
                f"{where}/pattern", f"a pattern has {longest:,} characters, and may have {_MOST_PATTERN_CHARS:,}"
            )
            return None
        if len(texts) < 2:
            return None
        if texts["id"] in self._seen:
            self._problem(f"{where}/id", f"the rule {texts['id']!r} stands above already")
        self._seen.add(texts["id"])
        return Rule(texts["id"], tuple(patterns), texts["reason"], f"{self._place} at {where}")

    def _try_examples(self, rules: Rules, entry: dict[str, Any], where: str) -> None:
        for key, must_match in (("match", True), ("not_match", False)):
            examples = _texts(entry.get(key, []))
            if examples is None:
                self._problem(f"{where}/{key}", "must be an example, or an array of examples")
                continue
            for index, example in enumerate(examples):
                at = f"{where}/{key}/{index}" if isinstance(entry[key], list) else f"{where}/{key}"
                if self._left_s <= 0:
                    self._problem(at, f"the examples of this profile take longer than {_EXAMPLES_S:g} s together")
                    return
                begun = time.monotonic()
                try:
                    found = rules.match(_example_path(example) if isinstance(rules, PathRules) else example)
                except Denied as error:
                    self._problem(at, error.message)
                    continue
                finally:
                    self._left_s -= time.monotonic() - begun
                if (found is not None) != must_match:
                    verb = "does not match and should" if must_match else "matches and should not"
                    self._problem(at, f"{example!r} {verb}")


def _example_path(example: str) -> str:
    expanded = os.path.expanduser(example)  # noqa: PTH111 - Path.expanduser raises where there is no such user
    return os.path.normpath(os.path.join(_SOMEWHERE, expanded))  # noqa: PTH118 - text, as rules take it


def _texts(value: Any) -> list[str] | None:
    if isinstance(value, str):
        return [value]
    return value if isinstance(value, list) and all(isinstance(each, str) for each in value) else None
