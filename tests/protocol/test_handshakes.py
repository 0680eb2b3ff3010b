"""The handshake and stateless eras on /mcp, message by message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_agent import __version__
from tests.support.daemon import Daemon

_ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "a-test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def _initialize(version: str) -> dict[str, Any]:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "a-test", "version": "1"}}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


def _request(method: str, request_id: Any = 1, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


@pytest.mark.parametrize("version", ["2025-03-26", "2025-06-18", "2025-11-25"])
async def test_each_handshake_version_is_spoken(shared_daemon: Daemon, version: str) -> None:
    async with shared_daemon.http() as http:
        opened = await http.post("/mcp", json=_initialize(version))
        headers = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": version}
        ready = await http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
        listed = await http.post("/mcp", json=_request("tools/list", 2), headers=headers)
        closed = await http.delete("/mcp", headers=headers)
    result = opened.json()["result"]
    assert result["protocolVersion"] == version
    assert result["serverInfo"] == {"name": "mcp-agent", "title": "mcp-agent", "version": __version__}
    assert result["capabilities"]["tools"] == {"listChanged": True}
    assert len(result["instructions"].splitlines()) <= 12
    assert (ready.status_code, ready.content) == (202, b"")
    assert listed.json()["id"] == 2
    assert closed.status_code == 204


async def test_an_unknown_version_is_met_with_the_latest(shared_daemon: Daemon) -> None:
    async with shared_daemon.http() as http:
        opened = await http.post("/mcp", json=_initialize("1999-01-01"))
    assert opened.json()["result"]["protocolVersion"] == "2025-11-25"


async def test_a_version_header_that_nobody_speaks_is_refused_with_what_is(shared_daemon: Daemon) -> None:
    async with shared_daemon.http() as http:
        answer = await http.post("/mcp", json=_request("tools/list"), headers={"MCP-Protocol-Version": "2031-01-01"})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == -32022
    assert "2026-07-28" in answer.json()["error"]["data"]["supported"]


async def test_a_session_answers_only_while_it_lives(shared_daemon: Daemon) -> None:
    async with shared_daemon.http() as http:
        session = {
            "Mcp-Session-Id": (await http.post("/mcp", json=_initialize("2025-06-18"))).headers["mcp-session-id"]
        }
        assert (await http.post("/mcp", json=_request("ping"), headers=session)).json()["result"] == {}
        assert (await http.delete("/mcp", headers=session)).status_code == 204
        gone = await http.post("/mcp", json=_request("ping"), headers=session)
        assert (await http.get("/mcp", headers={**session, "Accept": "text/event-stream"})).status_code == 404
    assert gone.status_code == 404
    assert "initialize" in gone.json()["error"]["message"]


async def test_a_stateless_request_is_complete_in_itself(shared_daemon: Daemon) -> None:
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
    async with shared_daemon.http() as http:
        answer = await http.post("/mcp", json=_request("tools/list", _meta=_ENVELOPE), headers=headers)
    result = answer.json()["result"]
    assert "mcp-session-id" not in answer.headers
    assert result["resultType"] == "complete"
    assert (result["ttlMs"], result["cacheScope"]) == (1000, "private")
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "mcp-agent"


@pytest.mark.parametrize(
    ("headers", "meta", "code"),
    [
        ({"Mcp-Method": "tools/list"}, _ENVELOPE, -32020),
        ({"MCP-Protocol-Version": "2026-07-28"}, _ENVELOPE, -32020),
        ({"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}, _ENVELOPE, -32020),
        ({"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}, {}, -32602),
        (
            {"MCP-Protocol-Version": "2027-01-01", "Mcp-Method": "tools/list"},
            {**_ENVELOPE, "io.modelcontextprotocol/protocolVersion": "2027-01-01"},
            -32022,
        ),
    ],
)
async def test_a_stateless_request_that_contradicts_itself_is_refused(
    shared_daemon: Daemon, headers: dict[str, str], meta: dict[str, Any], code: int
) -> None:
    async with shared_daemon.http() as http:
        answer = await http.post("/mcp", json=_request("tools/list", _meta=meta), headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, code)


async def test_an_unknown_method_is_told_in_each_eras_way(shared_daemon: Daemon) -> None:
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/destroy"}
    async with shared_daemon.http() as http:
        stateless = await http.post("/mcp", json=_request("tools/destroy", _meta=_ENVELOPE), headers=headers)
        handshake = await http.post("/mcp", json=_request("tools/destroy"))
    assert (stateless.status_code, stateless.json()["error"]["code"]) == (404, -32601)
    assert (handshake.status_code, handshake.json()["error"]["code"]) == (200, -32601)


async def test_a_stateless_client_has_nothing_to_get_or_delete(shared_daemon: Daemon) -> None:
    async with shared_daemon.http(**{"MCP-Protocol-Version": "2026-07-28"}) as http:
        assert (await http.get("/mcp")).status_code == 405
        assert (await http.delete("/mcp")).status_code == 405
        assert (await http.put("/mcp", json={})).status_code == 405


async def test_batches_are_answered_in_the_versions_that_have_them(shared_daemon: Daemon) -> None:
    messages = [_request("ping", 1), {"jsonrpc": "2.0", "method": "notifications/initialized"}, _request("nope", 2)]
    async with shared_daemon.http() as http:
        old = await http.post("/mcp", json=messages, headers={"MCP-Protocol-Version": "2025-03-26"})
        new = await http.post("/mcp", json=messages, headers={"MCP-Protocol-Version": "2025-11-25"})
        plain = await http.post("/rpc", json=messages)
        long = await http.post("/rpc", json=[_request("ping", index) for index in range(21)])
    assert [answer["id"] for answer in old.json()] == [answer["id"] for answer in plain.json()] == [1, 2]
    assert (new.status_code, new.json()["error"]["code"]) == (400, -32600)
    assert (long.status_code, long.json()["error"]["code"]) == (400, -32600)


async def test_a_batch_of_large_answers_is_one_message_all_the_same(shared_daemon: Daemon, tmp_path: Path) -> None:
    (tmp_path / "long").write_text("a line of a long text\n" * 18_000)
    arguments = {"path": str(tmp_path / "long"), "max_bytes": 1_000_000}
    calls = [_request("tools/call", index, name="fs_read", arguments=arguments) for index in range(5)]
    async with shared_daemon.http() as http:
        answer = await http.post("/rpc", json=calls)
    assert len(answer.content) <= 1_000_000
    assert [each["id"] for each in answer.json()] == [0, 1, 2, 3, 4]
    told = [each["error"]["message"] if "error" in each else "whole" for each in answer.json()]
    assert set(told) == {"whole", "the answer does not fit beside the others; ask for it alone"}


async def test_resources_prompts_and_levels_are_served(shared_daemon: Daemon) -> None:
    rpc = shared_daemon.rpc
    assert (await rpc("resources/list"))["result"]["resources"][0]["uri"] == "host://tools"
    templates = (await rpc("resources/templates/list"))["result"]["resourceTemplates"]
    assert templates[0]["uriTemplate"] == "host://tools/{name}"
    one = (await rpc("resources/read", uri="host://tools/fs_read"))["result"]["contents"][0]
    assert '"name": "fs_read"' in one["text"]
    assert (await rpc("resources/read", uri="host://nothing"))["error"]["code"] == -32002
    assert (await rpc("resources/subscribe", uri="host://tools"))["result"] == {}
    assert (await rpc("prompts/list"))["result"] == {"prompts": []}
    assert (await rpc("logging/setLevel", level="error"))["result"] == {}
    assert (await rpc("logging/setLevel", level="loud"))["error"]["code"] == -32602


async def test_every_tool_says_what_it_does_to_the_world(shared_daemon: Daemon) -> None:
    tools = (await shared_daemon.rpc("tools/list"))["result"]["tools"]
    reading = next(tool for tool in tools if tool["name"] == "fs_read")
    assert reading["annotations"] == {
        "title": "Read a file",
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }
