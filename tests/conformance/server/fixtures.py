"""The tools, by the names and with the answers that the suites' scenarios describe."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp_agent.calls.contract import Refused
from tools.context import ToolContext
from tools.kit.errors import ToolError
from tools.kit.results import Block, Body, Content, Result
from tools.kit.spec import tool

# One red pixel, and no sound at all.
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SILENCE = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
_SOON_S = 0.05


class Text(Result, frozen=True):
    text: str

    def render(self) -> str:
        return self.text


class Blocks(Result, frozen=True):
    content: tuple[Block, ...]

    def render(self) -> str:
        return f"[{len(self.content)} blocks]"

    @property
    def body(self) -> Body:
        return Body(content=Content(self.content))


class Intended(ToolError):
    code = "INTENDED"


def image() -> Block:
    return {"type": "image", "data": PIXEL, "mimeType": "image/png"}


def resource(uri: str, mime_type: str, text: str) -> Block:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}}


@tool("conformance", effect="read")
def test_simple_text(ctx: ToolContext) -> Text:
    """Give a simple text."""
    return Text("This is a simple text response for testing.")


@tool("conformance", effect="read")
def test_image_content(ctx: ToolContext) -> Blocks:
    """Give an image."""
    return Blocks((image(),))


@tool("conformance", effect="read")
def test_audio_content(ctx: ToolContext) -> Blocks:
    """Give a sound."""
    return Blocks(({"type": "audio", "data": SILENCE, "mimeType": "audio/wav"},))


@tool("conformance", effect="read")
def test_embedded_resource(ctx: ToolContext) -> Blocks:
    """Give a resource within the result."""
    return Blocks((resource("test://embedded-resource", "text/plain", "This is an embedded resource content."),))


@tool("conformance", effect="read")
def test_multiple_content_types(ctx: ToolContext) -> Blocks:
    """Give a text, an image and a resource."""
    text = {"type": "text", "text": "Multiple content types test:"}
    embedded = resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return Blocks((text, image(), embedded))


@tool("conformance", effect="read")
async def test_tool_with_logging(ctx: ToolContext) -> Text:
    """Log three times on the way."""
    ctx.log("info", "Tool execution started")
    await asyncio.sleep(_SOON_S)
    ctx.log("info", "Tool processing data")
    await asyncio.sleep(_SOON_S)
    ctx.log("info", "Tool execution completed")
    return Text("logged")


@tool("conformance", effect="read")
def test_logging_tool(ctx: ToolContext) -> Text:
    """Log at every level that a caller could have asked for."""
    ctx.log("debug", "for who wants to know everything")
    ctx.log("emergency", "for who wants to know next to nothing")
    return Text("logged")


@tool("conformance", effect="read")
async def test_tool_with_progress(ctx: ToolContext) -> Text:
    """Report progress three times on the way."""
    for done in (0, 50, 100):
        ctx.progress(done, 100)
        await asyncio.sleep(_SOON_S)
    return Text("done")


@tool("conformance", effect="read")
def test_error_handling(ctx: ToolContext) -> Text:
    """Fail, always."""
    raise Intended("This tool intentionally returns an error for testing")


@tool("conformance", effect="read")
async def test_reconnection(ctx: ToolContext) -> Text:
    """Begin a stream, which the server cuts off, and go on until the client is back."""
    ctx.log("warning", "the connection is about to break")
    await asyncio.sleep(1)
    return Text("the answer after the break")


@tool("conformance", effect="read")
def test_missing_capability(ctx: ToolContext) -> Text:
    """Need something of the client that it does not have."""
    raise Refused(-32021, "this needs a client that samples", {"requiredCapabilities": {"sampling": {}}})


@tool("conformance", effect="read")
async def test_streaming_elicitation(ctx: ToolContext) -> Text:
    """Answer without asking the client anything: this host never does."""
    ctx.progress(1, 1)
    return Text("nothing to ask")


@tool(
    "conformance",
    effect="read",
    schema={
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}, "query": {"type": "string"}},
        "required": ["region"],
    },
)
def test_headers(ctx: ToolContext, **arguments: Any) -> Text:
    """Take an argument that a client repeats in a header."""
    return Text(str(arguments["region"]))


@tool(
    "conformance",
    effect="read",
    schema={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)
def json_schema_2020_12_tool(ctx: ToolContext, **arguments: Any) -> Text:
    """Show a schema with everything that JSON Schema has."""
    return Text(", ".join(sorted(arguments)))


@tool("conformance", effect="read")
def test_switched(ctx: ToolContext) -> Text:
    """Be switched on and off by test_trigger_tool_change."""
    return Text("on")
