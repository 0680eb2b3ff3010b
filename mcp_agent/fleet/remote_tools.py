"""The tools of all boxes as one list: each once, with an argument that says where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

from mcp_agent.fleet.directory import Directory
from mcp_agent.fleet.messages import ToolEntry
from tools.context import ToolContext
from tools.kit.spec import Tool

BOX = "box"
# Every conversation pays for it with each tool. The instructions and `box_use` say what it means.
_BOX_SCHEMA = {"type": "string"}
# The strictest last.
_EFFECTS = ("read", "write", "execute")
# Their argument `command` is what they run.
_RUN_COMMANDS = ("shell_exec", "shell_start_session", "bash")


@dataclass(eq=False, repr=False)
class RemoteTool(Tool):
    """A tool of boxes. Its calls are sent there, and the function is never called."""

    given_listed_schema: Mapping[str, Any] = field(default_factory=dict)
    # It takes an argument of the name that ours has; then a box is chosen with `box_use` alone.
    has_own_box: bool = False

    @property
    def command_keyword(self) -> str | None:
        """By its name: a box does not say which argument is a command line."""
        return "command" if self.name in _RUN_COMMANDS else None

    @cached_property
    def listed_schema(self) -> dict[str, Any]:
        added = {
            name: schema
            for name, schema in self.input_schema.get("properties", {}).items()
            if name not in (self.given_schema or {}).get("properties", {})
        }
        properties = {**self.given_listed_schema.get("properties", {}), **added}
        return {**self.given_listed_schema, "properties": properties} if added else dict(self.given_listed_schema)


def remote_tools(directory: Directory, taken: Collection[str]) -> list[Tool]:
    """Every tool that a box has, as most boxes describe it; `taken` are names of other tools.

    What a box says of a tool never makes it more harmless on the others: of all holders, the strictest effect counts,
    and a profile must allow the tool in every category that one of them places it in.
    """
    holders: dict[str, list[ToolEntry]] = {}
    counts: Counter[str] = Counter()
    for tools, count in directory.counted_sets():
        for entry in tools:
            holders.setdefault(entry.name, []).append(entry)
            counts[entry.name] += count
    return [_remote_tool(entries, takes_box=counts[name] > 1) for name, entries in holders.items() if name not in taken]


def _remote_tool(entries: Sequence[ToolEntry], *, takes_box: bool) -> RemoteTool:
    """One tool of several entries of its name, the most common first."""
    entry = entries[0]
    schema, listed = entry.input_schema or {"type": "object"}, entry.listed_schema or {"type": "object"}
    has_own_box = BOX in schema.get("properties", {})
    if takes_box and not has_own_box:
        schema, listed = _with_box(schema), _with_box(listed)
    category, *other_categories = dict.fromkeys(each.category for each in entries)
    return RemoteTool(
        name=entry.name,
        category=category,
        effect=max((each.effect for each in entries), key=_EFFECTS.index),
        function=_never,
        title=entry.title or entry.name,
        destructive=any(each.destructive for each in entries),
        idempotent=all(each.idempotent for each in entries),
        deadline_s=0.0,
        instant=None,
        given_schema=schema,
        aliases=entry.aliases,
        known_as=entry.known_as,
        hints=entry.hints,
        given_description=entry.description or entry.name,
        given_listed_schema=listed,
        has_own_box=has_own_box,
        other_categories=tuple(other_categories),
    )


def _with_box(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {**schema, "properties": {**schema.get("properties", {}), BOX: _BOX_SCHEMA}}


async def _never(_: ToolContext, /, **__: Any) -> NoReturn:
    raise AssertionError("a tool of a box runs there")
