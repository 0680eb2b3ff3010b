"""The resources of this host: documents about itself that a client can read and watch.

    host://tools            every tool, by category, and whether this caller may use it
    host://tools/{name}     one tool: description, schema, switch
    session://{id}          what a shell session has printed, a page at a time

Later kinds are further providers with the same methods. Prompts, which a person picks in a client, come from providers
like them; this host has none of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol

import orjson

from mcp_agent.calls.call import Caller
from mcp_agent.events.types import session_uri
from registry.catalog import label
from registry.gate import Access, Gate
from tools.kit.spec import Tool
from tools.sessions.manager import SessionManager
from tools.sessions.session import Session

TOOLS_URI = "host://tools"
# What a resource shows of a file is read with this tool, under its switch and its rules.
FILE_TOOL = "fs_read"
# No mounted server answers for them.
_OUR_SCHEMES = ("host", "session", "ax", "undo")
_ONE_TOOL = f"{TOOLS_URI}/{{name}}"
_ONE_SESSION = f"{session_uri('{id}')}{{?since}}"
_SESSION_URI = re.compile(r"session://(?P<id>[a-z0-9_-]+)(\?since=(?P<since>\d{1,18}))?")
# Control characters become six bytes each: even then a page fits one message.
_SESSION_PAGE_BYTES = 128 * 1024


class CannotBeRead(Exception):
    """A resource exists and cannot be read now; the message says why."""


class Resources(Protocol):
    """One kind of resource. What asks for a URI gets None where it is of another kind, or nothing is there."""

    def entries(self, caller: Caller) -> list[dict[str, Any]]: ...

    def templates(self, caller: Caller) -> list[dict[str, Any]]: ...

    async def read(self, caller: Caller, uri: str) -> list[dict[str, Any]] | None:
        """The contents, each with its `uri` and with `text` or, in Base64, `blob`."""

    async def completions(self, caller: Caller, template: str, argument: str, value: str) -> list[str] | None:
        """What `value`, the beginning of a template's argument, could become; the likeliest first."""


class Prompts(Protocol):
    """Some prompts from one place. What asks for a prompt by name gets None where the prompt is not one of these."""

    def entries(self, caller: Caller) -> list[dict[str, Any]]: ...

    async def get(self, caller: Caller, name: str, arguments: Mapping[str, str]) -> dict[str, Any] | None:
        """The result of `prompts/get`. Every argument that the listed prompt requires is there."""

    async def completions(self, caller: Caller, name: str, argument: str, value: str) -> list[str] | None:
        """What `value`, the beginning of an argument, could become; the likeliest first."""


class HostResources:
    """What the host says about itself. All of it may be known to every caller: a switch is no secret."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def entries(self, caller: Caller) -> list[dict[str, Any]]:
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
                "uriTemplate": _ONE_TOOL,
                "name": "tool",
                "title": "One tool",
                "description": "A tool's description, arguments and switch.",
                "mimeType": "application/json",
            }
        ]

    async def read(self, caller: Caller, uri: str) -> list[dict[str, Any]] | None:
        access = caller.access
        if uri == TOOLS_URI:
            return [_json(uri, self._overview(access))]
        name = uri.removeprefix(f"{TOOLS_URI}/")
        tool = self._gate.catalog.by_name.get(name) if name != uri else None
        return None if tool is None else [_json(uri, self._one(access, tool))]

    async def completions(self, caller: Caller, template: str, argument: str, value: str) -> list[str] | None:
        if (template, argument) != (_ONE_TOOL, "name"):
            return None
        return [tool.name for tool in self._gate.visible(caller.access) if tool.name.startswith(value)]

    def _overview(self, access: Access) -> dict[str, Any]:
        visible = {tool.name for tool in self._gate.visible(access)}
        return {
            "categories": [
                {
                    "id": category,
                    "label": label(category),
                    "tools": [{"name": tool.name, "enabled": tool.name in visible} for tool in found],
                }
                for category, found in self._gate.catalog.categories.items()
            ]
        }

    def _one(self, access: Access, tool: Tool) -> dict[str, Any]:
        # A caller may see more arguments than the tool itself has.
        seen = next((each for each in self._gate.visible(access) if each.name == tool.name), None)
        return {
            "name": tool.name,
            "category": tool.category,
            "enabled": seen is not None,
            "description": tool.whole_description or tool.description,
            "inputSchema": (seen or tool).input_schema,
        }


class SessionResources:
    """The output of shell sessions, for callers that may use the shell."""

    def __init__(self, gate: Gate, sessions: SessionManager) -> None:
        self._gate = gate
        self._sessions = sessions

    def entries(self, caller: Caller) -> list[dict[str, Any]]:
        if not self._gate.offers(caller.access, "shell"):
            return []
        return [
            {
                "uri": session_uri(session.id),
                "name": session.id,
                "title": session.command[:80],
                "description": f"Output of a shell session: {_state(session)}, {session.end} bytes.",
                "mimeType": "text/plain",
            }
            for session in self._sessions.all
        ]

    def templates(self, caller: Caller) -> list[dict[str, Any]]:
        if not self._gate.offers(caller.access, "shell"):
            return []
        return [
            {
                "uriTemplate": _ONE_SESSION,
                "name": "session",
                "title": "Output of a shell session",
                "description": "What a session has printed from the byte `since` on; `_meta` names the next page.",
                "mimeType": "text/plain",
            }
        ]

    async def read(self, caller: Caller, uri: str) -> list[dict[str, Any]] | None:
        named = _SESSION_URI.fullmatch(uri)
        if named is None or not self._gate.offers(caller.access, "shell"):
            return None
        session = next((each for each in self._sessions.all if each.id == named["id"]), None)
        if session is None:
            return None
        text, begins, end = session.text(min(int(named["since"] or 0), session.end), _SESSION_PAGE_BYTES)
        meta: dict[str, Any] = {"offset": begins, "next_offset": end, "running": session.is_running}
        if session.exit_code is not None:
            meta["exit_code"] = session.exit_code
            if session.ended_by is not None:
                meta["ended_by"] = session.ended_by
        if end < session.end:
            meta["next"] = f"{session_uri(session.id)}?since={end}"
        return [{"uri": uri, "mimeType": "text/plain", "text": text, "_meta": meta}]

    async def completions(self, caller: Caller, template: str, argument: str, value: str) -> list[str] | None:
        if (template, argument) != (_ONE_SESSION, "id") or not self._gate.offers(caller.access, "shell"):
            return None
        return [session.id for session in self._sessions.all if session.id.startswith(value)]


def scheme(uri: str) -> str:
    """What a URI begins with; its case does not count."""
    return uri.partition(":")[0].lower()


def is_ours(uri: str) -> bool:
    """Whether a URI, or a template, names what this host keeps."""
    return scheme(uri) in _OUR_SCHEMES


def _state(session: Session) -> str:
    return "running" if session.is_running else f"ended with {session.exit_code}"


def _json(uri: str, value: dict[str, Any]) -> dict[str, Any]:
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    return {"uri": uri, "mimeType": "application/json", "text": text}
