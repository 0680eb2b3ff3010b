"""The MCP messages that clients of the benchmarks send, in both eras, and the openings that come before a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import orjson

from tests.benchmarks.http_client import HttpClient
from tests.benchmarks.processes import Program

Era = Literal["2025-11-25", "2026-07-28"]
_CLIENT = {"name": "benchmark", "version": "1"}
_META = "io.modelcontextprotocol/"


def message(method: str, params: Mapping[str, Any] | None = None, *, request_id: int | None = None) -> bytes:
    """A request, or without an id a notification."""
    value: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
    if request_id is not None:
        value["id"] = request_id
    if params is not None:
        value["params"] = params
    return orjson.dumps(value)


def initialize() -> bytes:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": _CLIENT}
    return message("initialize", params, request_id=1)


def unopened_http(url: str, era: Era, token: str) -> HttpClient:
    """A client with the headers of an MCP client."""
    headers = {
        "accept": "application/json, text/event-stream",
        "authorization": f"Bearer {token}",
        "mcp-protocol-version": era,
    }
    return HttpClient(url, headers)


def opened_http(url: str, era: Era, token: str) -> HttpClient:
    """A client of `url` that is ready to call tools."""
    client = unopened_http(url, era, token)
    if era == "2025-11-25":
        session_id = client.exchange(client.written(initialize())).header("mcp-session-id")
        if session_id is not None:
            client.headers["mcp-session-id"] = session_id
        client.exchange(client.written(message("notifications/initialized")))
    return client


def http_call(client: HttpClient, era: Era, tool: str, arguments: Mapping[str, Any]) -> bytes:
    """A written request that calls `tool`."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    if era == "2026-07-28":
        client.headers |= {"mcp-method": "tools/call", "mcp-name": tool}
        capabilities: dict[str, Any] = {}
        params["_meta"] = {
            f"{_META}protocolVersion": era,
            f"{_META}clientInfo": _CLIENT,
            f"{_META}clientCapabilities": capabilities,
        }
    return client.written(message("tools/call", params, request_id=2))


def open_stdio(program: Program) -> None:
    """Shake hands with a server on its pipes."""
    ask(program, initialize())
    program.stdin.write(message("notifications/initialized") + b"\n")
    program.stdin.flush()


def ask(program: Program, request: bytes) -> bytes:
    """Send a request over a pipe and read lines until one that answers."""
    program.stdin.write(request + b"\n")
    program.stdin.flush()
    while b'"method":' in (line := program.line())[:200] and b'"result":' not in line[:200]:
        pass
    return line
