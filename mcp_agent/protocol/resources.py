"""The resources of this host: documents about itself that a client can read and watch.

    host://tools            every tool, by category, and whether this caller may use it
    host://tools/{name}     one tool: description, schema, switch

Further kinds (what a tool left behind, a running session) are further providers with the same three methods.
"""

from __future__ import annotations

from typing import Any, Protocol

import orjson

from mcp_agent.calls import Caller
from registry.catalog import label
from registry.gate import Access, Gate
from tools.spec import Tool

TOOLS_URI = "host://tools"


class Resources(Protocol):
    """One kind of resource. `read` gives None for a URI of another kind, or one that is not there."""

    def listed(self, caller: Caller) -> list[dict[str, Any]]: ...

    def templates(self, caller: Caller) -> list[dict[str, Any]]: ...

    def read(self, caller: Caller, uri: str) -> dict[str, Any] | None: ...


class HostResources:
    """What the host says about itself. All of it may be known to every caller: a switch is no secret."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def listed(self, caller: Caller) -> list[dict[str, Any]]:
        return [
            {
                "uri": TOOLS_URI,
                "name": "tools",
                "title": "Tools and their switches",
                "description": "Every tool of this host, by category, and whether you may use it.",
                "mimeType": "application/json",
            }
        ]

    def templates(self, caller: Caller) -> list[dict[str, Any]]:
        return [
            {
                "uriTemplate": f"{TOOLS_URI}/{{name}}",
                "name": "tool",
                "title": "One tool",
                "description": "A tool's description, arguments and switch.",
                "mimeType": "application/json",
            }
        ]

    def read(self, caller: Caller, uri: str) -> dict[str, Any] | None:
        access = caller.access
        if uri == TOOLS_URI:
            return _json(uri, self._overview(access))
        name = uri.removeprefix(f"{TOOLS_URI}/")
        tool = self._gate.catalog.get(name) if name != uri else None
        return None if tool is None else _json(uri, self._one(access, tool))

    def _overview(self, access: Access) -> dict[str, Any]:
        visible = set(self._gate.visible(access))
        return {
            "categories": [
                {
                    "id": category,
                    "label": label(category),
                    "tools": [{"name": tool.name, "enabled": tool in visible} for tool in found],
                }
                for category, found in self._gate.catalog.categories.items()
            ]
        }

    def _one(self, access: Access, tool: Tool) -> dict[str, Any]:
        return {
            "name": tool.name,
            "category": tool.category,
            "enabled": tool in self._gate.visible(access),
            "description": tool.description,
            "inputSchema": tool.input_schema,
        }


def _json(uri: str, value: dict[str, Any]) -> dict[str, Any]:
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    return {"uri": uri, "mimeType": "application/json", "text": text}
