"""Clients of the official Python library, of its first or second generation: two on each wire, all at once.

Run as a program, by the interpreter that has the generation. Takes one JSON argument, prints one line when every client
listens, starts a session on each stdio server when a line comes in, and prints what each client heard of one session.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from importlib.metadata import version
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client

_IS_FIRST = version("mcp").startswith("1.")


@contextlib.asynccontextmanager
async def _streams(wire: str, asked: dict[str, Any]) -> AsyncIterator[Any]:
    headers = {"Authorization": f"Bearer {asked['token']}"}
    if wire == "sse":
        async with sse_client(asked["url"] + "/sse", headers=headers) as streams:
            yield streams
    elif wire == "stdio":
        async with stdio_client(StdioServerParameters(**asked["server"])) as streams:
            yield streams
    elif _IS_FIRST:
        from mcp.client import streamable_http

        connect: Any = streamable_http.streamablehttp_client  # type: ignore[attr-defined] # of the first generation
        async with connect(asked["url"] + "/mcp", headers=headers) as streams:
            yield streams[:2]
    else:
        import httpx2
        from mcp.client.streamable_http import streamable_http_client

        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            streamable_http_client(asked["url"] + "/mcp", http_client=http) as streams,
        ):
            yield streams


class _Client:
    """One client that says of itself nothing but what its library says, and keeps what it is told of sessions."""

    def __init__(self, wire: str, asked: dict[str, Any]) -> None:
        self.wire, self._asked = wire, asked
        self.heard: list[dict[str, Any]] = []
        self.is_listening, self.may_start, self.has_ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def on_message(self, params: Any) -> None:
        self.heard.append({"logger": params.logger, **params.data})
        if params.logger == "shell_session_exit":
            self.has_ended.set()

    async def run(self) -> None:
        wire, _, era = self.wire.partition(" ")
        async with (
            _streams(wire, self._asked) as (read, write),
            ClientSession(read, write, logging_callback=self.on_message) as session,
        ):
            listening = None
            if era == "stateless":
                await session.discover()
                listening = asyncio.create_task(_listen(session))
            else:
                await session.initialize()
            await session.list_tools()
            self.is_listening.set()
            await self.may_start.wait()
            if wire == "stdio":
                await session.call_tool("shell_start_session", {"command": self._asked["command"]})
            await self.has_ended.wait()
            if listening is not None:
                listening.cancel()


async def _listen(session: Any) -> None:
    """Ask for the events of sessions in the way of the era without handshakes."""
    import mcp_types

    wanted = mcp_types.SubscriptionFilter(**{"mcp-agent/shellSessions": True})  # type: ignore[arg-type] # an extension
    params = mcp_types.SubscriptionsListenRequestParams(notifications=wanted)
    await session.send_request(mcp_types.SubscriptionsListenRequest(params=params), mcp_types.EmptyResult)


async def _main(asked: dict[str, Any]) -> None:
    clients = [_Client(wire, asked) for wire in asked["wires"] for _ in range(2)]
    async with asyncio.TaskGroup() as tasks:
        for client in clients:
            tasks.create_task(client.run())
        for client in clients:
            await client.is_listening.wait()
        print(json.dumps("listening"), flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        for client in clients:
            client.may_start.set()
        for client in clients:
            await client.has_ended.wait()
    print(json.dumps([{"wire": client.wire, "heard": client.heard} for client in clients]), flush=True)


if __name__ == "__main__":
    asyncio.run(_main(json.loads(sys.argv[1])))
