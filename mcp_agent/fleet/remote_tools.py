"""The tools of all boxes as one list: each once, with an argument that says where."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

from mcp_agent.fleet.directory import Directory
from tools.context import ToolContext
from tools.kit.spec import Tool

BOX = "box"
# Every conversation pays for it with each tool. The instructions and `box_use` say what it means.
_BOX_SCHEMA = {"type": "string"}
_EFFECTS = ("read", "write", "execute")


@dataclass(eq=False, repr=False)
class RemoteTool(Tool):
    """A tool of boxes. Its calls are sent there, and the function is never called."""

    given_listed_schema: Mapping[str, Any] = field(default_factory=dict)
    # It takes an argument of the name that ours has; then a box is chosen with `box_use` alone.
    has_own_box: bool = False

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
    """Every tool that a box has, as most boxes describe it; `taken` are names of other tools."""
    described: dict[str, dict[str, Any]] = {}
    counts: dict[str, int] = {}
    for tools, count in directory.counted_sets():
        for entry in tools:
            name = str(entry["name"])
            described.setdefault(name, entry)
            counts[name] = counts.get(name, 0) + count
    return [
        _remote_tool(name, entry, takes_box=counts[name] > 1) for name, entry in described.items() if name not in taken
    ]


def _remote_tool(name: str, entry: Mapping[str, Any], *, takes_box: bool) -> RemoteTool:
    effect = entry.get("effect")
    schema, listed = entry.get("schema") or {"type": "object"}, entry.get("listed") or {"type": "object"}
    has_own_box = BOX in schema.get("properties", {})
    if takes_box and not has_own_box:
        schema, listed = _with_box(schema), _with_box(listed)
    return RemoteTool(
        name=name,
        category=str(entry.get("category") or "boxes"),
        # What a box does not say may be anything.
        effect=effect if effect in _EFFECTS else "execute",
        function=_never,
        title=str(entry.get("title") or name),
        destructive=bool(entry.get("destructive", True)),
        idempotent=bool(entry.get("idempotent", False)),
        deadline_s=0.0,
        instant=None,
        given_schema=schema,
        aliases=tuple(map(str, entry.get("aliases") or ())),
        known_as=tuple(map(str, entry.get("known_as") or ())),
        hints={str(key): str(value) for key, value in (entry.get("hints") or {}).items()},
        given_description=str(entry.get("description") or name),
        given_listed_schema=listed,
        has_own_box=has_own_box,
    )


def _with_box(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {**schema, "properties": {**schema.get("properties", {}), BOX: _BOX_SCHEMA}}


async def _never(_: ToolContext, /, **__: Any) -> NoReturn:
    raise AssertionError("a tool of a box runs there")
