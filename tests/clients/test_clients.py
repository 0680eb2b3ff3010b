"""Programs that people connect, each played the way it behaves."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from mcp.client.streamable_http import streamable_http_client

from tests.support.daemon import COMMAND, EVERY_TOOL, Daemon, environment
from tests.support.peers import official
from tests.support.waiting import PATIENCE_S
from tools.files.revisions import rev_of_bytes, short_rev

_ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "2"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def _initialize(request_id: int, name: str, version: str = "2025-11-25") -> dict[str, Any]:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": name, "version": "1"}}
    return {"jsonrpc": "2.0", "id": request_id, "method": "initialize", "params": params}


def _over_stdio(home: Path, messages: list[dict[str, Any]], env: dict[str, str] | None = None) -> dict[Any, Any]:
    """Every answer by its id, of a stdio server that is sent `messages` and then the end of input."""
    done = subprocess.run(
        [COMMAND, "stdio", "--tools-file", str(home / "tools.json")],
        input="".join(json.dumps(message) + "\n" for message in messages).encode(),
        capture_output=True,
        env=environment(home) if env is None else env,
        cwd=home,
        timeout=PATIENCE_S,
        check=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return {answer.get("id"): answer for answer in answers}


def test_claude_code_probes_and_falls_back_on_one_pipe(home: Path) -> None:
    answers = _over_stdio(
        home,
        [
            {"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {"_meta": _ENVELOPE}},
            _initialize(1, "claude-code"),
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
            {"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": {"_meta": _ENVELOPE}},
        ],
    )
    assert "2026-07-28" in answers[0]["result"]["supportedVersions"]
    assert answers[0]["result"]["resultType"] == "complete"
    assert answers[1]["result"]["protocolVersion"] == "2025-11-25"
    assert "resultType" not in answers[2]["result"]
    assert answers[2]["result"]["tools"] == answers[3]["result"]["tools"] != []


async def test_claude_code_is_given_text_and_nothing_twice(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text('say "hi"\n')
    async with (
        daemon.http() as http,
        official(streamable_http_client(f"{daemon.url}/mcp", http_client=http), "legacy", name="claude-code") as peer,
    ):
        result = await peer.client.call_tool("fs_read", {"path": str(tmp_path / "a.txt")})
    assert result.structured_content is None
    rev = rev_of_bytes(b'say "hi"\n')
    assert [block.model_dump(include={"text"}) for block in result.content] == [
        {"text": f'{tmp_path / "a.txt"} · 9 bytes · rev {short_rev(rev)}\nsay "hi"\n'}
    ]


async def test_open_webui_reconnects_for_every_message_and_leaves_nothing(daemon: Daemon) -> None:
    for _ in range(12):
        async with (
            daemon.http() as http,
            official(streamable_http_client(f"{daemon.url}/mcp", http_client=http), "legacy") as peer,
        ):
            assert list(await peer.tools()) != []
    async with daemon.http() as http:
        health = (await http.get("/health")).json()
    assert health["clients"]["sessions"] == 0


async def test_clients_that_never_say_goodbye_do_not_pile_up(daemon: Daemon) -> None:
    async with daemon.http() as http:
        for index in range(230):
            answer = await http.post("/mcp", json=_initialize(index, "rude"))
            assert answer.status_code == 200
        health = (await http.get("/health")).json()
    assert health["clients"]["sessions"] == health["limits"]["sessions"]


async def test_open_webui_gets_text_by_the_header_of_its_connection(daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x")
    call = {"name": "fs_read", "arguments": {"path": str(tmp_path / "a.txt")}}
    async with daemon.http() as http:
        answer = await http.post(
            "/mcp",
            json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
            headers={"X-MCP-Agent-Form": "text"},
        )
    result = answer.json()["result"]
    assert result == {
        "content": [
            {"type": "text", "text": f"{tmp_path / 'a.txt'} · 1 bytes · rev {short_rev(rev_of_bytes(b'x'))}\nx"}
        ],
        "isError": False,
    }


async def test_a_restarted_daemon_takes_up_the_sessions_of_its_clients(daemon: Daemon) -> None:
    """A session id from before the restart is served as if nothing had happened."""
    headers = {"Mcp-Session-Id": "abcdefghijklmnopqrstuvwxyz123456", "MCP-Protocol-Version": "2025-06-18"}
    async with daemon.http() as http:
        answer = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=headers)
        assert answer.status_code == 200
        assert (await http.delete("/mcp", headers=headers)).status_code == 204
        after = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, headers=headers)
    assert after.status_code == 404


async def test_instructions_say_where_the_tools_act(daemon: Daemon, home: Path) -> None:
    started_by_the_client = _over_stdio(home, [_initialize(1, "claude-code")])[1]["result"]["instructions"]
    reached_by_http = (await daemon.rpc("initialize", **_initialize(1, "x")["params"]))["result"]["instructions"]
    first_lines = [told.partition("\n")[0] for told in (started_by_the_client, reached_by_http)]
    assert first_lines == [
        "These tools act on the machine that mcp-agent runs on, with the rights of the user who started it.",
        "These tools act on the machine of the daemon, which need not be the one the chat runs on, with the rights of "
        "the user who started it there.",
    ]


@pytest.mark.parametrize("variables", [["PATH", "HOME"], ["PATH"]])
def test_codex_passes_hardly_any_environment(home: Path, variables: list[str]) -> None:
    env = {name: value for name, value in environment(home).items() if name in variables}
    messages = [_initialize(1, "codex-mcp-client", "2025-06-18"), {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}]
    answers = _over_stdio(home, messages, env)
    assert answers[1]["result"]["protocolVersion"] == "2025-06-18"
    assert [tool["name"] for tool in answers[2]["result"]["tools"]] == EVERY_TOOL


def test_gemini_hides_secrets_and_stdio_needs_none(home: Path) -> None:
    env = {name: value for name, value in environment(home).items() if "TOKEN" not in name}
    answers = _over_stdio(home, [_initialize(1, "gemini-cli-mcp-client"), _call(2, "fs_list", path=str(home))], env)
    assert answers[2]["result"]["content"][0]["text"].startswith(f"{home} · ")


def test_schemas_have_nothing_that_gemini_or_codex_cannot_read(home: Path) -> None:
    answers = _over_stdio(home, [_initialize(1, "gemini-cli-mcp-client"), _list(2)])
    told = json.dumps(answers[2]["result"]["tools"])
    assert not [word for word in ("$ref", "$defs", "anyOf", "oneOf", "$schema", '"null"') if word in told]


async def test_the_keep_alive_of_a_silent_stream_comes_in_time(probes: Daemon) -> None:
    """A silence of five minutes ends a call in one popular client; a proxy gives up after one."""
    session = "keep-alive-keep-alive-keep"
    waiting = _call(1, "wait", seconds=3600)
    listening = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen"}
    listening["params"] = {"notifications": {}, "_meta": _ENVELOPE}
    stateless = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}
    accept = {"Accept": "application/json, text/event-stream"}

    async def first_comment(method: str, headers: dict[str, str], body: Any = None) -> None:
        async with (
            probes.http() as http,
            http.stream(method, "/mcp", json=body, headers={**accept, **headers}) as answer,
        ):
            assert answer.headers["content-type"].startswith("text/event-stream")
            async for line in answer.aiter_lines():
                if line.startswith(":"):
                    return

    async with asyncio.timeout(40):
        await asyncio.gather(
            first_comment("GET", {"Mcp-Session-Id": session}),
            first_comment("POST", {}, waiting),
            first_comment("POST", stateless, listening),
        )


def _call(request_id: int, tool: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": tool, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


def _list(request_id: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/list"}
