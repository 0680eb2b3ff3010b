"""Reads the `ask` of a profile in tools.json, and reports every problem with its place.

    "ask": {
      "commands": [{"id": "push", "pattern": "git push", "reason": "it is public", "except": ["git push --dry-run"]}],
      "unasked": ["ls", "git log", "make test"],
      "except": ["npm run build"],
      "alone": "deny"
    }

The rules have the language of `deny`. An exception is an expression for a whole command. What is in `unasked` runs
without a question although a switch asks: programs that are known to change nothing, and exact command lines. It does
not overrule a rule. The examples are tested when the file is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from registry.asking import NO_ASK, AskPolicy, AskRule, Exceptions, ToolAsk
from registry.deny_rules import RuleReader
from registry.schema import Report
from tools.kit.errors import InvalidPattern
from tools.kit.listed_commands import is_entry
from tools.kit.rules import CommandRules


def read_ask(values: Mapping[str, Any], pointer: str, place: str, report: Report) -> AskPolicy:
    """The `ask` of a profile from what the schema has read at `pointer`; `place` names the file and the profile."""
    if not values:
        return NO_ASK
    reader = _AskReader(place, report)
    return AskPolicy(
        tuple(reader.ask_rules(values.get("commands", []), f"{pointer}/commands")),
        tuple(reader.expressions(values.get("except", ()), f"{pointer}/except")),
        tuple(reader.entries(values.get("unasked", ()), f"{pointer}/unasked")),
        values.get("alone", "wait"),
    )


class _AskReader(RuleReader):
    def ask_rules(self, entries: list[Any], pointer: str) -> Iterator[AskRule]:
        for index, entry in enumerate(entries):
            if entry is None:
                continue
            where = f"{pointer}/{index}"
            exceptions = tuple(self.expressions(entry.get("except", ()), f"{where}/except"))
            rule = AskRule(
                entry["id"],
                tuple(entry["pattern"]),
                entry["reason"],
                f"{self.place} at {where}",
                exceptions,
                entry.get("always", True),
            )
            try:
                CommandRules((rule,))
            except InvalidPattern as error:
                self.report.problem(f"{where}/pattern", error.message)
                continue
            self.try_examples(partial(ToolAsk("", AskPolicy((rule,)), None).reason, "", is_plain=True), entry, where)
            yield rule

    def expressions(self, patterns: Any, pointer: str) -> Iterator[str]:
        for index, pattern in enumerate(patterns):
            try:
                Exceptions((pattern,))
            except InvalidPattern as error:
                self.report.problem(f"{pointer}/{index}", error.message)
            else:
                yield pattern

    def entries(self, commands: Any, pointer: str) -> Iterator[str]:
        for index, command in enumerate(commands):
            if is_entry(command):
                yield command
            else:
                problem = f"{command[:60]!r} is no command in plain words; write an expression into except"
                self.report.problem(f"{pointer}/{index}", problem)
