"""display_file: a tool of this wire alone, by which a model shows a file to the person in the chat.

It does nothing itself. Open WebUI knows the name of the operation, and opens the file that the answer names.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mcp_agent.open_terminal.files import Files
from mcp_agent.open_terminal.requests import TerminalRequest, text_field
from tools.context import ToolContext
from tools.files.paths import to_wire
from tools.kit.results import Result
from tools.kit.spec import Tool

_OPERATION = {
    "operationId": "display_file",
    "summary": "Show a file",
    "description": "Show the person a file: a picture, a PDF, a page, a text. You do not see it; read it with fs_read.",
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "path": {
                            "type": "string",
                            "description": "File to show; absolute, or relative to the working directory.",
                        }
                    },
                    "required": ["path"],
                }
            }
        },
    },
    "responses": {"200": {"description": "The result.", "content": {"application/json": {"schema": {}}}}},
}


class _Displayed(Result, frozen=True):
    path: str
    exists: bool

    def render(self) -> str:
        return f"{self.path} is shown" if self.exists else f"there is no file {self.path}"


def display_paths(tools: tuple[Tool, ...]) -> Mapping[str, Any]:
    """What is added to the description of these tools: whoever may read files may show them."""
    return {"/files/display": {"post": _OPERATION}} if any(tool.name == "fs_read" for tool in tools) else {}


async def display_file(files: Files, request: TerminalRequest) -> dict[str, Any]:
    """Where a file is and whether it exists. Raises TerminalRefusal, ClientLeft."""
    path = files.path(request, text_field(await request.body(), "path"))

    def work(ctx: ToolContext, _: Tool) -> _Displayed:
        target = ctx.paths.resolve(path)
        return _Displayed(to_wire(target), os.path.isfile(ctx.paths.real(target)))  # noqa: PTH113 - it may be long

    shown = await files.run(request, "fs_read", work, path=path)
    return {"path": shown.path, "exists": shown.exists, "text": shown.render()}
