"""The official package's low-level server with the trivial tool, over HTTP or over stdio.

Over HTTP as it comes, with a stream for every answer (`http`), or with answers in plain JSON, which costs it less
(`json`).
"""

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


def over_http(*, json_response: bool) -> None:
    import uvicorn

    class Announcing(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            port = self.servers[0].sockets[0].getsockname()[1]
            print(f"http://127.0.0.1:{port}/mcp", flush=True)

    app = _server().streamable_http_app(json_response=json_response)
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
    if sys.argv[1] == "stdio":
        asyncio.run(over_stdio())
    else:
        over_http(json_response=sys.argv[1] == "json")
