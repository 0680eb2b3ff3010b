"""Short results as clients of a running daemon get them: on every wire, with the same object on each."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import TextContent

from tests.answers.promises import MOST_BYTES, broken, broken_object
from tests.support.daemon import COMMAND, WITH_PROBES, Daemon, environment, running
from tests.support.waiting import PATIENCE_S

_COMPACT = {"profiles": [{"id": "default", "response": {"mode": "compact"}}]}
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture(scope="module")
def compact(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("home")
    (home / "tools.json").write_text(json.dumps(_COMPACT))
    with running(home, start=WITH_PROBES) as daemon:
        yield daemon


def _message(name: str, arguments: dict[str, Any], **params: Any) -> dict[str, Any]:
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments, **params},
    }


async def _posted(daemon: Daemon, wire: str, tool: str, arguments: dict[str, Any]) -> str:
    """The object of a result, after its promises were checked on the bytes that came."""
    async with daemon.http() as http:
        if wire == "tools":
            answer = await http.post(f"/tools/{tool}", json=arguments)
            assert len(answer.content) <= MOST_BYTES
            assert list(broken_object(answer.text, tool, is_error=answer.status_code != 200)) == []
            return answer.text
        message, headers = _message(tool, arguments), {}
        if wire == "stateless":
            message = _message(tool, arguments, _meta=_META)
            headers = {"Mcp-Method": "tools/call", "Mcp-Name": tool, "MCP-Protocol-Version": "2026-07-28"}
        path = "/rpc" if wire == "rpc" else "/mcp"
        answer = await http.post(path, json=message, headers=headers)
        result = orjson.dumps(answer.json()["result"])
        assert len(result) <= len(answer.content)
        assert broken(result, tool) == []
        text: str = answer.json()["result"]["content"][0]["text"]
        return text


@pytest.mark.parametrize("wire", ["handshake", "stateless", "rpc", "tools"])
async def test_every_wire_sends_the_same_short_object(compact: Daemon, tmp_path: Path, wire: str) -> None:
    for number in range(40):
        (tmp_path / f"file {number:02}").touch()
    listed = json.loads(await _posted(compact, wire, "fs_list", {"path": str(tmp_path)}))
    assert (listed["count"], len(listed["items"])) == (40, 10)
    more = json.loads(await _posted(compact, wire, "fs_list", {"cursor": listed["nextCursor"]}))
    assert more["items"][0]["id"].endswith("file 10")
    failed = json.loads(await _posted(compact, wire, "fs_read", {"path": str(tmp_path / "nothing")}))
    assert (failed["success"], failed["error"]["code"]) == (False, "NOT_FOUND")
    filled = json.loads(await _posted(compact, wire, "artifact_read", {"ref": listed["artifactRef"]}))
    assert filled["content"].startswith('{"path":')
    pictured = json.loads(await _posted(compact, wire, "picture", {"size": 50_000}))
    assert pictured["content"][0] == {"type": "image", "mimeType": "image/png", "bytes": 50_000}


@contextlib.asynccontextmanager
async def _official(compact: Daemon, kind: str, mode: str) -> AsyncIterator[Client]:
    server: Any = StdioServerParameters(
        command=COMMAND,
        args=["stdio", "--tools-file", str(compact.tools_json)],
        env=environment(compact.home),
        cwd=compact.home,
    )
    async with compact.http() as http:
        if kind == "http":
            server = streamable_http_client(f"{compact.url}/mcp", http_client=http)
        elif kind == "sse":
            server = sse_client(f"{compact.url}/sse", headers=compact.headers)
        async with Client(server, mode=mode, read_timeout_seconds=PATIENCE_S) as client:
            yield client


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("http", "legacy"), ("http", "2026-07-28"), ("sse", "legacy"), ("stdio", "legacy"), ("stdio", "2026-07-28")],
)
async def test_the_official_client_reads_short_results(compact: Daemon, tmp_path: Path, kind: str, mode: str) -> None:
    (tmp_path / "log").write_text("".join(f"line {number}\n" for number in range(900)))
    async with _official(compact, kind, mode) as client:
        tools = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
        result = await client.call_tool("fs_read", {"path": str(tmp_path / "log")})
    assert tools["fs_read"]["properties"]["cursor"]["type"] == "string"
    (block,) = result.content
    assert isinstance(block, TextContent)
    assert result.structured_content is None
    shown = json.loads(block.text)
    assert (shown["summary"], shown["content"]["omittedLines"]) == (
        f"900 lines, 7,990 bytes of {_brief(tmp_path)}",
        880,
    )


def _brief(folder: Path) -> str:
    path = str(folder / "log")
    return path if len(path) <= 40 else f"...{path[-37:]}"


async def test_a_cursor_holds_over_a_restart_of_the_daemon(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "tools.json").write_text(json.dumps(_COMPACT))
    for number in range(40):
        (home / f"file {number:02}").touch()
    with running(home) as first:
        listed = json.loads(await _posted(first, "rpc", "fs_list", {"path": str(home)}))
    with running(home) as second:
        more = json.loads(await _posted(second, "handshake", "fs_list", {"cursor": listed["nextCursor"]}))
    assert (more["count"], more["artifactRef"]) == (listed["count"], listed["artifactRef"])
    assert len({item["id"] for item in (*listed["items"], *more["items"])}) == 20


async def test_a_profile_turns_it_on_and_off_while_the_daemon_runs(daemon: Daemon) -> None:
    async with daemon.http() as http:
        tools = (await http.get("/openapi.json")).json()["paths"]
        full = (await http.post("/tools/health", json={})).json()
        narrowed = (await http.post("/mcp/compact", json=_message("health", {}))).json()["result"]
    schema = tools["/tools/health"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert "cursor" not in schema["properties"]
    assert "summary" not in full
    assert json.loads(narrowed["content"][0]["text"])["summary"].startswith("mcp-pruner ")
    assert "structuredContent" not in narrowed


async def test_a_large_result_of_a_full_profile_is_told_in_the_log(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "large").write_text("x" * 10_300)
    (tmp_path / "small").write_text("x" * 9_000)
    for name in ("small", "large"):
        await daemon.rpc("tools/call", name="fs_read", arguments={"path": str(tmp_path / name)})
    (line,) = await daemon.logged("response.large")
    assert (line["level"].upper(), line["data"]["tool"], line["data"]["bytes"] > 10_240) == ("WARN", "fs_read", True)


def test_the_command_line_shows_what_a_short_profile_gives(daemon: Daemon) -> None:
    with_daemon = daemon.cli("call", "health", "--profile", "compact")
    assert json.loads(with_daemon.stdout)["summary"].startswith("mcp-pruner ")
