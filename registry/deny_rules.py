"""Compiles the `deny` rules of a profile in tools.json, and reports every problem with its place.

    "deny": {
      "paths":    [{"id": "env", "pattern": [".env*", "!.env.example"], "reason": "secrets", "match": ["app/.env"]}],
      "commands": [{"id": "force", "pattern": "git push .*--force", "reason": "…", "not_match": ["git push"]}]
    }

The examples are tested when the file is read. If one fails, the file is refused.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from registry.schema import Report, one_or_more
from tools.kit.errors import Denied, InvalidPattern
from tools.kit.rules import NOTHING, CommandRules, Deny, PathRules, Rule, RuleMatch

_MOST_PATTERN_CHARS = 2_000
_EXAMPLES_S = 2.0
# The folder that relative paths in examples count from.
_SOMEWHERE = "/somewhere"

Rules = PathRules | CommandRules


def patterns(value: Any, pointer: str, report: Report) -> list[str] | None:
    """The kind of `pattern`: a text, or an array of texts, neither empty nor long."""
    found = one_or_more(value, pointer, report)
    if found is None:
        return None
    longest = max(map(len, found), default=0)
    if not (found and all(found)):
        report.problem(pointer, "an empty pattern matches nothing")
    elif longest > _MOST_PATTERN_CHARS:
        report.problem(pointer, f"a pattern has {longest:,} characters, and may have {_MOST_PATTERN_CHARS:,}")
    else:
        return found
    return None


def read_deny(values: Mapping[str, Any], pointer: str, place: str, report: Report) -> Deny:
    """The rules in `values`, which is at `pointer` in the file; `place` names the file and the profile."""
    if not values:
        return NOTHING
    reader = RuleReader(place, report)
    paths = [*reader.rules(values.get("paths", []), f"{pointer}/paths", PathRules)]
    reader.path_rules = {rule.id for rule in paths}
    commands = [*reader.rules(values.get("commands", []), f"{pointer}/commands", CommandRules)]
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


class RuleReader:
    """Reads the rules of one profile. `place` names the file and the profile."""

    def __init__(self, place: str, report: Report) -> None:
        self.place = place
        self.report = report
        self.path_rules: set[str] = set()
        self._left_s = _EXAMPLES_S

    def rules(self, entries: list[Any], pointer: str, kind: type[PathRules] | type[CommandRules]) -> Iterator[Rule]:
        for index, entry in enumerate(entries):
            where = f"{pointer}/{index}"
            if entry is None:
                continue
            if kind is CommandRules and entry["id"] in self.path_rules:
                self.report.problem(f"{where}/id", f"the profile has a rule {entry['id']!r} for paths, too")
            rule = Rule(entry["id"], tuple(entry["pattern"]), entry["reason"], f"{self.place} at {where}")
            try:
                compiled = kind((rule,))
            except InvalidPattern as error:
                self.report.problem(f"{where}/pattern", error.message)
                continue
            self.try_examples(partial(_match, compiled), entry, where)
            yield rule

    def try_examples(self, match: Callable[[str], object], entry: dict[str, Any], where: str) -> None:
        """Report the examples of a rule that do not come out as they should. `match` gives None for no match."""
        for key, must_match in (("match", True), ("not_match", False)):
            for index, example in enumerate(entry.get(key, ())):
                at = f"{where}/{key}/{index}"
                if self._left_s <= 0:
                    problem = f"the examples of this profile take longer than {_EXAMPLES_S:g} s together"
                    self.report.problem(at, problem)
                    return
                begun = time.monotonic()
                try:
                    found = match(example)
                except Denied as error:
                    self.report.problem(at, error.message)
                    continue
                finally:
                    self._left_s -= time.monotonic() - begun
                if (found is not None) != must_match:
                    verb = "does not match and should" if must_match else "matches and should not"
                    self.report.problem(at, f"{example!r} {verb}")


def _match(rules: Rules, example: str) -> RuleMatch | None:
    return rules.match(_example_path(example) if isinstance(rules, PathRules) else example)


def _example_path(example: str) -> str:
    expanded = os.path.expanduser(example)  # noqa: PTH111 - Path.expanduser raises where there is no such user
    return os.path.normpath(os.path.join(_SOMEWHERE, expanded))  # noqa: PTH118 - text, as rules take it
