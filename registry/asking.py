"""What needs the owner's approval: the switches of a profile that say "ask", and its rules for commands."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from tools.kit.errors import Denied
from tools.kit.listed_commands import ListedCommands
from tools.kit.rules import CommandRules, Rule

Alone = Literal["wait", "deny"]
# The most characters of what a rule matched that a question shows.
_MATCHED_CHARS = 200


class AskRule(Rule, frozen=True):
    """A rule for commands that need approval. `exceptions` are expressions for whole commands."""

    exceptions: tuple[str, ...] = ()
    # Whether the owner may add an exception when it asks.
    may_always: bool = True


class AskPolicy(Struct, frozen=True):
    """The `ask` of a profile."""

    rules: tuple[AskRule, ...] = ()
    exceptions: tuple[str, ...] = ()
    unasked: tuple[str, ...] = ()
    alone: Alone = "wait"


NO_ASK = AskPolicy()


class AskReason(NamedTuple):
    """Why a call needs approval: the rule, or the switch, of a profile. Two with the same fields are one."""

    profile: str
    # The id of a rule, or a switch: `tool:fs_write`, `category:shell`, `effect:execute`.
    rule: str
    is_switch: bool
    text: str
    matched: str
    may_always: bool
    # What the rule was when it asked: an hour's permission ends with it.
    source: AskRule | AskPolicy
    alone: Alone


class ToolAsk:
    """What one profile says of one tool. Made when the gate is asked for the tool first."""

    def __init__(self, profile: str, ask: AskPolicy, switch: str | None) -> None:
        self._profile = profile
        self._ask = ask
        self._switch = switch

    @property
    def of_rules(self) -> ToolAsk:
        """The same without the switch."""
        return ToolAsk(self._profile, self._ask, None)

    # Compiled when the first command is matched: most tools run none.
    @cached_property
    def _rules(self) -> list[tuple[AskRule, CommandRules, Exceptions]]:
        return [(rule, CommandRules((rule,)), Exceptions(rule.exceptions)) for rule in self._ask.rules]

    @cached_property
    def _exceptions(self) -> Exceptions:
        return Exceptions(self._ask.exceptions)

    @cached_property
    def _unasked(self) -> ListedCommands:
        return ListedCommands(self._ask.unasked)

    def reason(self, tool: str, command: str | None, *, is_plain: bool) -> AskReason | None:
        """Why a call needs approval; None if it does not. `command` is what it runs, and None if it runs none.

        `is_plain`: the command is all that is run, and not the input of something that runs.
        """
        if command is not None:
            for rule, matcher, exceptions in self._rules:
                matched = _match(matcher, command)
                if matched is not None and not exceptions.has(command):
                    return AskReason(
                        self._profile, rule.id, False, rule.reason, matched, rule.may_always, rule, self._ask.alone
                    )
        if self._switch is None or command == "":
            return None
        if command is not None and (self._exceptions.has(command) or (is_plain and self._unasked.has(command))):
            return None
        kind, _, name = self._switch.partition(":")
        text = {
            "tool": f"{tool} asks",
            "category": f"every tool of {name} asks",
            "effect": f"every tool that can {name} asks",
        }[kind]
        return AskReason(self._profile, self._switch, True, text, name, True, self._ask, self._ask.alone)


class Exceptions:
    """Expressions, each for a whole command. Raises InvalidPattern for one that cannot be compiled."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self._rules = CommandRules((Rule("except", patterns, "an exception"),)) if patterns else None

    def has(self, command: str) -> bool:
        try:
            return self._rules is not None and self._rules.matches_whole(command)
        except Denied:
            # At the time limit it is no exception.
            return False


def _match(rules: CommandRules, command: str) -> str | None:
    try:
        found = rules.match(command)
    except Denied:
        # At the time limit nobody knows: the owner does.
        return command[:_MATCHED_CHARS]
    return None if found is None else found.matched[:_MATCHED_CHARS]


def describe_ask(ask: AskPolicy) -> dict[str, Any]:
    """`ask` as it stands in tools.json."""
    found: dict[str, Any] = {}
    if ask.rules:
        found["commands"] = [
            {
                "id": rule.id,
                "pattern": list(rule.patterns),
                "reason": rule.reason,
                **({"except": list(rule.exceptions)} if rule.exceptions else {}),
                **({} if rule.may_always else {"always": False}),
            }
            for rule in ask.rules
        ]
    if ask.unasked:
        found["unasked"] = list(ask.unasked)
    if ask.exceptions:
        found["except"] = list(ask.exceptions)
    if ask.alone != "wait":
        found["alone"] = ask.alone
    return found
