"""What a client asks its person before it calls a tool of ours, and what `connect --approve` writes to change that.

Without `--approve` nothing is written, and the client does as it does by itself.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from msgspec import Struct

from mcp_agent.cli.clients.config_file import Change, ConfigEntry, project_file
from registry.user_error import UserError

Approve = Literal["none", "reads", "all"]
APPROVALS: tuple[Approve, ...] = get_args(Approve)


class ApprovalRules(Struct, frozen=True):
    """A list of allowed tools in another file than that of the entry, with a rule for a server and one for a tool."""

    file: str
    moved_by: tuple[str, str]
    keys: tuple[str, ...]

    def change(self, name: str, tools: Sequence[str] | None, project: Path | None, backups: Path) -> Change:
        """What makes our rules those for `tools`; None stands for the whole server. Raises UserError.

        `backups` is where the old files of a project are kept.
        """
        place = self._place(project, backups)
        before = self._rules(place)
        server = f"mcp__{name}"
        others = [rule for rule in before if not _is_of(rule, server)]
        ours = [server] if tools is None else [f"{server}__{tool}" for tool in tools]
        if before == [*others, *ours]:
            return place.unchanged()
        return place.put([*others, *ours]) if others or ours else place.remove()

    def current(self, name: str, project: Path | None = None) -> list[str]:
        """Our rules that are in force. Raises UserError."""
        return [rule for rule in self._rules(self._place(project)) if _is_of(rule, f"mcp__{name}")]

    def _place(self, project: Path | None, backups: Path | None = None) -> ConfigEntry:
        if project is not None:
            return ConfigEntry(project_file(project, self.file), "json", self.keys, backups)
        folder = os.environ.get(self.moved_by[0])
        path = Path(folder) / self.moved_by[1] if folder else Path.home() / self.file
        return ConfigEntry(path, "json", self.keys)

    def _rules(self, place: ConfigEntry) -> list[str]:
        rules = place.entry()
        if rules is not None and not isinstance(rules, list):
            raise UserError(f"{place.path} is left alone: {'.'.join(self.keys)} is no list")
        return rules or []


def _is_of(rule: object, server: str) -> bool:
    return rule == server or str(rule).startswith(f"{server}__")


class Approval(Struct, frozen=True):
    """What a client does about approvals. `all` and `tool` are fields of our entry, None where it has none."""

    # What it does where nothing is approved: the end of a sentence that begins with its name.
    by_itself: str
    # Those that approve everything, and those that approve the given tools.
    all: dict[str, Any] | None = None
    tools: Callable[[Sequence[str]], dict[str, Any]] | None = None
    rules: ApprovalRules | None = None
    # What to do instead, where neither is possible.
    instead: str = ""

    def check(self, title: str, approve: Approve) -> None:
        """Raises UserError where that cannot be written for this client."""
        if approve == "none" or self.rules is not None:
            return
        if approve == "all" and self.all is None:
            raise UserError(f"{title} takes no approval from its file: {self.instead}")
        if approve == "reads" and self.tools is None:
            advice = "--approve all or none" if self.all else self.instead
            raise UserError(f"{title} has no rules for single tools in its file: {advice}")

    def fields(self, approve: Approve, reading: Sequence[str]) -> dict[str, Any]:
        """What our entry holds besides; `reading` are the names of the tools that only read."""
        if approve == "all":
            return self.all or {}
        return self.tools(reading) if approve == "reads" and self.tools is not None else {}

    def describe(self, title: str, approve: Approve, reading: Sequence[str]) -> str:
        """What the client will do, in one line."""
        if approve == "all":
            return f"{title} runs every tool unasked, commands too"
        if approve == "reads":
            return f"{title} runs the {len(reading)} tools unasked that only read; without that it {self.by_itself}"
        return f"{title} {self.by_itself}"
