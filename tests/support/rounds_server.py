"""A server of the official package over stdio whose calls take several rounds. Run it as a program.

It is of the era without handshakes, where a server that needs something says so in its answer, and is called again.
"""

from __future__ import annotations

import asyncio
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

_TOOLS = ("wait", "ask", "report", "who")
_QUESTION = types.ElicitRequest(
    params=types.ElicitRequestFormParams(message="your name?", requested_schema={"type": "object", "properties": {}})
)


async def list_tools(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return types.ListToolsResult(tools=[types.Tool(name=name, input_schema={"type": "object"}) for name in _TOOLS])


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult | types.InputRequiredResult:
    if params.name == "wait" and params.request_state is None:
        return types.InputRequiredResult(request_state="later")
    if params.name == "ask":
        return types.InputRequiredResult(input_requests={"name": _QUESTION}, request_state="asked")
    if params.name == "report":
        await ctx.session.report_progress(1, 2, "half")
    said = {"wait": str(params.request_state), "who": str(sorted(params.meta or {}))}.get(params.name, params.name)
    return types.CallToolResult(content=[types.TextContent(type="text", text=said)])


async def main() -> None:
    server = Server("rounds", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    asyncio.run(main())
