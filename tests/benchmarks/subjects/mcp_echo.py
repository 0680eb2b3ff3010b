"""The official package's low-level server with the trivial tool, over HTTP or over stdio."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any

import mcp_types as types
import orjson
from mcp.server.lowlevel import Server

_TOOL = types.Tool(
    name="echo",
    description="Say what it is told.",
    input_schema={
        "type": "object",
        "properties": {"text": {"type": "string", "description": "What to say."}},
        "required": ["text"],
    },
)


async def _list_tools(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[_TOOL])


async def _call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    said = {"text": (params.arguments or {})["text"]}
    content = types.TextContent(type="text", text=orjson.dumps(said).decode())
    return types.CallToolResult(content=[content], structured_content=said)


def _server() -> Server[Any]:
    return Server("echo", version="1", on_list_tools=_list_tools, on_call_tool=_call_tool)


def over_http() -> None:
    import uvicorn

    class Announcing(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            port = self.servers[0].sockets[0].getsockname()[1]
            print(f"http://127.0.0.1:{port}/mcp", flush=True)

    # JSON answers cost it less than its default, a stream for every answer.
    app = _server().streamable_http_app(json_response=True)
    # Kept open while the other side is started, however long that takes.
    config = uvicorn.Config(
        app, port=0, loop="uvloop", http="httptools", access_log=False, log_level="warning", timeout_keep_alive=60
    )
    Announcing(config).run()


async def over_stdio() -> None:
    from mcp.server.stdio import stdio_server

    server = _server()
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    if sys.argv[1] == "http":
        over_http()
    else:
        asyncio.run(over_stdio())
