"""The resources and prompts, by the names and with the contents that the suites' scenarios describe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mcp_agent.calls.call import Caller
from tests.conformance.server.fixtures import PIXEL, image, resource

_TEXT = "test://static-text"
_BINARY = "test://static-binary"
_WATCHED = "test://watched-resource"
_TEMPLATE = "test://template/{id}/data"


class FixtureResources:
    def entries(self, caller: Caller) -> list[dict[str, Any]]:
        return [
            {"uri": _TEXT, "name": "static-text", "description": "A text.", "mimeType": "text/plain"},
            {"uri": _BINARY, "name": "static-binary", "description": "An image.", "mimeType": "image/png"},
            {"uri": _WATCHED, "name": "watched-resource", "description": "To watch.", "mimeType": "text/plain"},
        ]

    def templates(self, caller: Caller) -> list[dict[str, Any]]:
        return [{"uriTemplate": _TEMPLATE, "name": "template", "description": "Data by its id."}]

    async def read(self, caller: Caller, uri: str) -> list[dict[str, Any]] | None:
        if uri == _BINARY:
            return [{"uri": uri, "mimeType": "image/png", "blob": PIXEL}]
        if uri in (_TEXT, _WATCHED):
            text = "This is the content of the static text resource."
            return [{"uri": uri, "mimeType": "text/plain", "text": text}]
        if uri.startswith("test://template/") and uri.endswith("/data"):
            found = uri.removeprefix("test://template/").removesuffix("/data")
            text = json.dumps({"id": found, "templateTest": True, "data": f"Data for ID: {found}"})
            return [{"uri": uri, "mimeType": "application/json", "text": text}]
        return None

    async def completions(self, caller: Caller, template: str, argument: str, value: str) -> list[str] | None:
        return [value] if (template, argument) == (_TEMPLATE, "id") else None


class FixturePrompts:
    def entries(self, caller: Caller) -> list[dict[str, Any]]:
        return [
            {"name": "test_simple_prompt", "description": "A prompt."},
            {"name": "test_prompt_with_arguments", "description": "A prompt.", "arguments": _needed("arg1", "arg2")},
            {
                "name": "test_prompt_with_embedded_resource",
                "description": "A prompt with a resource.",
                "arguments": _needed("resourceUri"),
            },
            {"name": "test_prompt_with_image", "description": "A prompt with an image."},
        ]

    async def get(self, caller: Caller, name: str, arguments: Mapping[str, str]) -> dict[str, Any] | None:
        match name:
            case "test_simple_prompt":
                content = [_text("This is a simple prompt for testing.")]
            case "test_prompt_with_arguments":
                content = [_text(f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'")]
            case "test_prompt_with_embedded_resource":
                embedded = "Embedded resource content for testing."
                content = [
                    resource(arguments["resourceUri"], "text/plain", embedded),
                    _text("Please process the embedded resource above."),
                ]
            case "test_prompt_with_image":
                content = [image(), _text("Please analyze the image above.")]
            case _:
                return None
        return {"messages": [{"role": "user", "content": block} for block in content]}

    async def completions(self, caller: Caller, name: str, argument: str, value: str) -> list[str] | None:
        if name != "test_prompt_with_arguments" or argument not in ("arg1", "arg2"):
            return None
        return [word for word in ("paris", "park", "party") if word.startswith(value)]


def _needed(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "description": "Any text.", "required": True} for name in names]


def _text(text: str) -> Mapping[str, Any]:
    return {"type": "text", "text": text}
