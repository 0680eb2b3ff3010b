"""The methods of MCP as `mcp-pruner` answers them: fewer than the daemon, and with what its contract says of each."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from mcp_agent import __version__
from mcp_agent.calls.contract import SCHEMA_VERSION, issues_data
from mcp_agent.process.logs import event
from mcp_agent.protocol.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, NoParams, Payload, RpcError
from mcp_agent.protocol.methods import McpRequest, Methods

log = logging.getLogger(__name__)

READING = ("read", "bash", "grep")
PRUNING = ("prune_text", "recover_text", "health")
_INSTRUCTIONS = (
    "prune_text leaves of a text the lines that a goal needs, unaltered and in order, with a marker for each gap.\n"
    "recover_text brings back the lines behind a ⟦PRUNÉ: …⟧ marker, by its prune_id and line numbers.\n"
    "A text that could not be pruned comes back whole, and `warnings` says why."
)
_ANSWERED = frozenset(("initialize", "ping", "tools/list", "tools/call"))


class PruningMethods(Methods):
    """The methods of `mcp-pruner http`."""

    lists_bounds = True

    async def result(self, request: McpRequest) -> Payload:
        if request.message.method == "notifications/initialized":
            # Proxies that know no notifications send it with an id.
            return {}
        result = await super().result(request)
        if request.message.method == "initialize":
            return {
                "protocolVersion": result_object(result)["protocolVersion"],
                "serverInfo": {"name": "mcp-pruner", "version": __version__},
                # Some clients ask for these two lists in any case; they are empty.
                "capabilities": {"tools": {"listChanged": False}, "resources": {}, "prompts": {}},
                "instructions": _INSTRUCTIONS,
            }
        return result


class ReadingMethods(Methods):
    """The methods of `mcp-pruner` over stdio. Every issue of bad parameters is reported, always in the same form."""

    lists_bounds = True

    def reading_error(self, error: RpcError) -> RpcError:
        if isinstance(error, NoParams) and error.method in _ANSWERED:
            return _invalid(error.method, {}, [("", "invalid_type")])
        return error

    async def result(self, request: McpRequest) -> Payload:
        method, params = request.message.method, request.message.params
        if method not in _ANSWERED:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method[:100]}")
        issues = _issues(method, params, self._gate.catalog.names)
        if issues:
            told = "; ".join(f"{path}: {code}" for path, code in issues)
            event(log, logging.INFO, "tool.request_invalid", message=f"{method}: {told}")
            raise _invalid(method, params, issues)
        result = await super().result(request)
        if method == "initialize":
            return {
                "protocolVersion": result_object(result)["protocolVersion"],
                "serverInfo": {"name": "@jeeves/mcp-pruner", "version": __version__},
                "capabilities": {"tools": {"listChanged": False}},
                "jeeves": SCHEMA_VERSION,
            }
        return result


def result_object(payload: Payload) -> dict[str, Any]:
    assert isinstance(payload, dict), "what initialize answers is not encoded yet"
    return payload


def _issues(method: str, params: Any, tools: Collection[str]) -> list[tuple[str, str]]:
    """Each problem of a request's parameters: its path, and what zod 3 would call it."""
    issues: list[tuple[str, str]] = []
    if method == "initialize":
        _expect(params, "protocolVersion", str, issues, is_required=True)
        _expect(params, "capabilities", dict, issues)
        _expect(params, "clientInfo", dict, issues)
        if isinstance(client := params.get("clientInfo"), dict):
            _expect(client, "name", str, issues, is_required=True, within="clientInfo.")
            _expect(client, "version", str, issues, within="clientInfo.")
    elif method == "tools/call":
        _expect(params, "name", str, issues, is_required=True)
        if isinstance(name := params.get("name"), str) and name not in tools:
            issues.append(("name", "invalid_enum_value"))
        _expect(params, "arguments", dict, issues)
    elif method == "tools/list" and (cursor := params.get("cursor")) is not None:
        # There is one page, so no client was given a cursor.
        issues.append(("cursor", "custom" if isinstance(cursor, str) else "invalid_type"))
    return sorted(issues)


def _expect(
    params: Any, name: str, kind: type, issues: list[tuple[str, str]], *, is_required: bool = False, within: str = ""
) -> None:
    value = params.get(name)
    if not isinstance(value, kind) and (value is not None or is_required):
        issues.append((f"{within}{name}", "invalid_type"))


def _invalid(method: str, params: Any, issues: list[tuple[str, str]]) -> RpcError:
    name = params.get("name") if method == "tools/call" else None
    tool = name[:100] if isinstance(name, str) else None
    told = [{"path": path, "code": code, "message": code} for path, code in issues]
    return RpcError(INVALID_PARAMS, "Invalid params", issues_data(method, tool, told))
