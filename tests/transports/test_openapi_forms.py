"""The three forms of an answer on /tools: an object, plain text, and the bytes of an image."""

from __future__ import annotations

import base64
import io
from typing import Any

import pytest
from mcp_types import ImageContent, TextContent
from PIL import Image

from tests.support.daemon import Daemon
from tests.support.peers import McpPeer, over_http, over_sse, over_stdio

_TEXT = "text/plain; charset=utf-8"


@pytest.mark.parametrize(
    ("tool", "arguments", "status", "told"),
    [
        ("shell_exec", {"command": "printf 'a\\nb'; exit 3"}, 200, "[exit 3 · "),
        ("fs_read", {"path": "/nowhere"}, 400, "/nowhere does not exist"),
        ("fs_read", {}, 422, "path"),
        ("no_such_tool", {}, 404, "Unknown tool: no_such_tool"),
    ],
)
async def test_text_is_what_a_model_reads_and_errors_are_text_too(
    shared_daemon: Daemon, tool: str, arguments: dict[str, Any], status: int, told: str
) -> None:
    async with shared_daemon.http() as client:
        text = await client.post(f"/tools/{tool}", json=arguments, headers={"X-MCP-Agent-Form": "text"})
        plain = await client.post(f"/tools/{tool}", json=arguments)
    assert (text.status_code, text.headers["content-type"]) == (status, _TEXT)
    assert told in text.text
    assert not text.text.startswith("{")
    assert (plain.status_code, plain.headers["content-type"]) == (status, "application/json")
    if status == 200:
        assert text.text.endswith("]\na\nb")


@pytest.mark.parametrize(("body", "status"), [(b"{", 400), (b"[]", 422)])
async def test_a_body_that_cannot_be_read_is_refused_in_the_same_form(
    shared_daemon: Daemon, body: bytes, status: int
) -> None:
    headers = {"X-MCP-Agent-Form": "TEXT", "content-type": "application/json"}
    async with shared_daemon.http() as client:
        answer = await client.post("/tools/fs_read", content=body, headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (status, _TEXT)


def _png() -> bytes:
    written = io.BytesIO()
    Image.new("RGB", (3, 2), "red").save(written, "PNG")
    return written.getvalue()


@pytest.mark.parametrize("form", ["json", "text"])
async def test_an_image_is_sent_as_the_bytes_that_it_is(shared_daemon: Daemon, form: str) -> None:
    path = shared_daemon.home / "red.png"
    path.write_bytes(_png())
    async with shared_daemon.http() as client:
        answer = await client.post("/tools/fs_read", json={"path": str(path)}, headers={"X-MCP-Agent-Form": form})
    assert (answer.headers["content-type"], answer.content) == ("image/png", _png())


@pytest.mark.parametrize(
    "connect",
    [over_http("legacy"), over_http("2026-07-28"), over_sse, over_stdio("legacy")],
    ids=["handshake", "stateless", "sse", "stdio"],
)
async def test_an_image_is_an_image_block_on_every_mcp_wire(shared_daemon: Daemon, connect: Any) -> None:
    path = shared_daemon.home / "block.png"
    path.write_bytes(_png())
    async with connect(shared_daemon) as peer:
        assert isinstance(peer, McpPeer)
        result = await peer.client.call_tool("fs_read", {"path": str(path)})
    text, image = result.content
    assert isinstance(text, TextContent)
    assert isinstance(image, ImageContent)
    assert text.text.startswith(f"{path} · PNG image of 3 × 2 pixels")
    assert (image.mime_type, base64.b64decode(image.data)) == ("image/png", _png())
    assert result.structured_content is None


async def test_on_rpc_an_image_is_described(shared_daemon: Daemon) -> None:
    path = shared_daemon.home / "rpc.png"
    path.write_bytes(_png())
    answer = await shared_daemon.rpc("tools/call", name="fs_read", arguments={"path": str(path)})
    told = answer["result"]["structuredContent"]
    assert (told["media_type"], told["width"], told["height"]) == ("image/png", 3, 2)
