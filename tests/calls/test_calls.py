"""The path of one call, seen from outside: progress, cancellation, deadlines, failures."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp.client.streamable_http import streamable_http_client

from tests.support.daemon import Daemon
from tests.support.peers import McpPeer, official
from tests.support.waiting import eventually

_ACCEPT = {"Accept": "application/json, text/event-stream"}
_STATELESS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def _call(tool: str, *, meta: dict[str, Any] | None = None, request_id: Any = 1, **arguments: Any) -> dict[str, Any]:
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    if meta is not None:
        params["_meta"] = meta
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


async def _until(file: Path, content: str) -> None:
    """Wait for a tool to write `content` into `file`."""
    await eventually(lambda: file.read_text() if file.exists() else None, lambda text: text == content)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_progress_reaches_the_client_that_asked_for_it(probes: Daemon, mode: str) -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    async with (
        probes.http() as http,
        official(streamable_http_client(f"{probes.url}/mcp", http_client=http), mode) as peer,
    ):
        assert isinstance(peer, McpPeer)
        result = await peer.client.call_tool("report", {"steps": 3}, progress_callback=note)
    assert result.structured_content == {"said": "done"}
    assert heard == [(1, 3, "step 1"), (2, 3, "step 2"), (3, 3, "step 3")]


async def test_a_quick_answer_is_plain_json(probes: Daemon) -> None:
    async with probes.http(**_ACCEPT) as http:
        answer = await http.post("/mcp", json=_call("echo", text="hi"))
    assert answer.headers["content-type"] == "application/json"


async def test_a_client_that_reads_only_streams_gets_one(probes: Daemon) -> None:
    async with probes.http(Accept="text/event-stream") as http:
        answer = await http.post("/mcp", json=_call("echo", text="hi"))
    (data,) = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    assert json.loads(data)["result"]["structuredContent"] == {"said": "hi"}


@pytest.mark.parametrize("tool", ["wait", "loop"])
@pytest.mark.parametrize("path", ["/mcp", "/rpc"])
async def test_closing_the_connection_ends_the_work(probes: Daemon, tmp_path: Path, tool: str, path: str) -> None:
    mark = tmp_path / "mark"
    async with probes.http(**_ACCEPT) as http:
        waiting = asyncio.create_task(http.post(path, json=_call(tool, mark=str(mark))))
        if tool == "loop":
            await _until(mark, "running")
        else:
            await _in_flight(probes)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await _until(mark, "cancelled" if tool == "wait" else "stopped")


async def test_a_cancelled_notification_ends_the_work(probes: Daemon, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    session = {"Mcp-Session-Id": "cancelled-cancelled-cancelled"}
    async with probes.http(**_ACCEPT, **session) as http:
        waiting = asyncio.create_task(http.post("/mcp", json=_call("loop", request_id="a", mark=str(mark))))
        await _until(mark, "running")
        notification = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "a"}}
        assert (await http.post("/mcp", json=notification)).status_code == 202
        await _until(mark, "stopped")
        answer = (await waiting).text
    assert '"id":"a","error":{"code":-32800,"message":"Request cancelled"}' in answer


async def test_a_call_that_takes_too_long_is_given_up(probes: Daemon) -> None:
    answer = await probes.rpc("tools/call", name="slow", arguments={})
    assert answer["result"]["isError"]
    error = answer["result"]["structuredContent"]["error"]
    assert error["code"] == "TIMEOUT"
    assert error["message"] == "slow took longer than 0.2 s and was given up"


async def test_an_exception_of_ours_reaches_the_log_and_not_the_wire(probes: Daemon) -> None:
    answer = await probes.rpc("tools/call", name="explode", arguments={})
    error = answer["result"]["structuredContent"]["error"]
    assert error["code"] == "INTERNAL_ERROR"
    assert "12345" not in json.dumps(answer)
    (logged,) = await probes.logged("tool.internal_error")
    assert logged["request_id"] in error["message"]
    assert "the secret is 12345" in logged["data"]["traceback"]


async def test_a_name_that_no_file_can_have_is_the_callers_to_mend(probes: Daemon) -> None:
    answer = await probes.rpc("tools/call", name="fs_read", arguments={"path": "x" * 70_000, "max_bytes": 100})
    assert answer["result"]["structuredContent"]["error"]["code"] == "INVALID_PATH"


async def test_a_strict_tool_answers_bad_arguments_with_a_json_rpc_error(probes: Daemon) -> None:
    answer = await probes.rpc("tools/call", name="read", arguments={"max_output_bytes": "x"})
    assert answer["error"] == {
        "code": -32602,
        "message": "Invalid params",
        "data": {
            "jeeves": {"schemaVersion": 1},
            "method": "tools/call",
            "tool": "read",
            "issues": [
                {"path": "arguments.file_path", "code": "invalid_type", "message": "invalid_type"},
                {"path": "arguments.max_output_bytes", "code": "invalid_type", "message": "invalid_type"},
            ],
        },
    }


async def test_a_text_that_is_not_kept_is_told_in_the_words_of_each_wire(probes: Daemon) -> None:
    wanted = {"prune_id": "prn_x", "ranges": [{"start_line": 1, "end_line": 1}], "include_line_numbers": False}
    error = (await probes.rpc("tools/call", name="recover_text", arguments=wanted))["error"]
    assert (error["code"], error["message"], error["data"]["code"], error["data"]["prune_id"]) == (
        -32004,
        "prune_id_not_found",
        "prune_id_not_found",
        "prn_x",
    )
    async with probes.http() as http:
        refused = await http.post("/tools/recover_text", json=wanted)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "NOT_FOUND")


async def test_calls_run_side_by_side(probes: Daemon) -> None:
    async with probes.http() as http:
        waiting = asyncio.create_task(http.post("/rpc", json=_call("wait", seconds=3600)))
        answer = await http.post("/rpc", json=_call("echo", text="meanwhile"))
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert answer.json()["result"]["structuredContent"] == {"said": "meanwhile"}


async def _in_flight(daemon: Daemon) -> None:
    """Give the daemon the time to have a call under way: two round trips on another connection."""
    for _ in range(2):
        await daemon.rpc("ping")
