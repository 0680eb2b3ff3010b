"""Clients of the daemon over each of its wires, behind one face, so that one claim can be held against all of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation, ServerNotification, TextContent, ToolListChangedNotification

from tests.support.daemon import COMMAND, Daemon, environment
from tests.support.waiting import PATIENCE_S


@dataclass(frozen=True)
class Answer:
    object: dict[str, Any]
    is_error: bool


class Refused(Exception):
    """A call that no tool answered."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Peer(Protocol):
    """What every wire can do."""

    async def tools(self) -> dict[str, dict[str, Any]]:
        """The listed tools, each with its input schema."""

    async def call(self, name: str, **arguments: Any) -> Answer: ...

    async def told(self) -> None:
        """Return once this client has been told that its list of tools changed."""


class McpPeer:
    """The official client, in either era."""

    def __init__(self, client: Client, changes: asyncio.Queue[None]) -> None:
        self.client = client
        self._changes = changes

    async def tools(self) -> dict[str, dict[str, Any]]:
        listed = await self.client.list_tools(cache_mode="bypass")
        return {tool.name: tool.input_schema for tool in listed.tools}

    async def call(self, name: str, **arguments: Any) -> Answer:
        try:
            result = await self.client.call_tool(name, arguments)
        except MCPError as error:
            raise Refused(error.error.code, error.error.message) from None
        (block,) = result.content
        assert isinstance(block, TextContent)
        # The two halves are one object, and it is checked on every call of every test.
        assert json.loads(block.text) == result.structured_content
        return Answer(json.loads(block.text), bool(result.is_error))

    async def told(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self._changes.get()


class RpcPeer:
    """Plain JSON-RPC; nobody tells it anything."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def _request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        answer = await self._client.post("/rpc", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        body = answer.json()
        if "error" in body:
            raise Refused(body["error"]["code"], body["error"]["message"])
        result: dict[str, Any] = body["result"]
        return result

    async def tools(self) -> dict[str, dict[str, Any]]:
        return {tool["name"]: tool["inputSchema"] for tool in (await self._request("tools/list", {}))["tools"]}

    async def call(self, name: str, **arguments: Any) -> Answer:
        result = await self._request("tools/call", {"name": name, "arguments": arguments})
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
        return Answer(result["structuredContent"], result["isError"])

    async def told(self) -> None:
        return


Connect = Callable[[Daemon], AbstractAsyncContextManager[Peer]]


@contextlib.asynccontextmanager
async def official(server: Any, mode: str, *, name: str = "a-test") -> AsyncIterator[McpPeer]:
    """The official client on `server`, listening for changes in the way of its era."""
    changes: asyncio.Queue[None] = asyncio.Queue()

    async def heard(message: ServerNotification | Exception) -> None:
        # A stateless client is told through its subscription, and hears the notification here besides.
        if mode == "legacy" and isinstance(message, ToolListChangedNotification):
            changes.put_nowait(None)

    info = Implementation(name=name, version="1")
    async with Client(
        server, mode=mode, message_handler=heard, client_info=info, read_timeout_seconds=PATIENCE_S
    ) as client:
        if mode == "legacy":
            yield McpPeer(client, changes)
            return
        async with client.listen(tools_list_changed=True) as subscription, asyncio.TaskGroup() as tasks:

            async def forward() -> None:
                async for _ in subscription:
                    changes.put_nowait(None)

            forwarding = tasks.create_task(forward())
            yield McpPeer(client, changes)
            forwarding.cancel()


def over_http(mode: str, path: str = "/mcp") -> Connect:
    @contextlib.asynccontextmanager
    async def connect(daemon: Daemon) -> AsyncIterator[Peer]:
        async with (
            daemon.http() as http,
            official(streamable_http_client(daemon.url + path, http_client=http), mode) as peer,
        ):
            yield peer

    return connect


def over_stdio(mode: str, *flags: str) -> Connect:
    """A stdio server on the same tools.json, as a local client would start it; with --attach a bridge to the daemon."""

    @contextlib.asynccontextmanager
    async def connect(daemon: Daemon) -> AsyncIterator[Peer]:
        server = StdioServerParameters(
            command=COMMAND,
            args=["stdio", "--tools-file", str(daemon.tools_json), *flags],
            env=environment(daemon.home),
            cwd=daemon.home,
        )
        async with official(server, mode) as peer:
            yield peer

    return connect


@contextlib.asynccontextmanager
async def over_sse(daemon: Daemon) -> AsyncIterator[Peer]:
    """The transport of 2024 with the official client for it."""
    async with official(sse_client(f"{daemon.url}/sse", headers=daemon.headers), "legacy") as peer:
        yield peer


class ToolsPeer:
    """OpenAPI: the description tells the tools, a POST calls one."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def tools(self) -> dict[str, dict[str, Any]]:
        paths = (await self._client.get("/openapi.json")).json()["paths"]
        operations = [operation["post"] for operation in paths.values()]
        return {
            operation["operationId"]: operation["requestBody"]["content"]["application/json"]["schema"]
            for operation in operations
        }

    async def call(self, name: str, **arguments: Any) -> Answer:
        answer = await self._client.post(f"/tools/{name}", json=arguments)
        body = answer.json()
        if answer.status_code == 404:
            raise Refused(-32602, body["error"]["message"])
        return Answer(body, answer.status_code != 200)

    async def told(self) -> None:
        return


@contextlib.asynccontextmanager
async def over_tools(daemon: Daemon) -> AsyncIterator[Peer]:
    async with daemon.http() as http:
        yield ToolsPeer(http)


@contextlib.asynccontextmanager
async def over_rpc(daemon: Daemon) -> AsyncIterator[Peer]:
    async with daemon.http() as http:
        yield RpcPeer(http)


WIRES: dict[str, Connect] = {
    "mcp-handshake": over_http("legacy"),
    "mcp-stateless": over_http("2026-07-28"),
    "mcp-auto": over_http("auto"),
    "stdio-handshake": over_stdio("legacy"),
    "stdio-stateless": over_stdio("2026-07-28"),
    "attached": over_stdio("legacy", "--attach"),
    "attached-stateless": over_stdio("2026-07-28", "--attach"),
    "rpc": over_rpc,
    "sse": over_sse,
    "post-sse": over_http("legacy", "/sse"),
    "post-mcp-sse": over_http("2026-07-28", "/mcp/sse"),
    "post-root": over_http("legacy", "/"),
    "tools": over_tools,
}
TELLING = [name for name in WIRES if name not in ("rpc", "tools")]
