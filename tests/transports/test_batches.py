"""Batches of messages: they end with their client, as single messages do, and none takes the wire for itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon
from tests.support.sockets import seconds_until_gone
from tests.support.waiting import PATIENCE_S, eventually

_OLD = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "a-test", "version": "1"}}


def _sleeping(pid_file: Path) -> list[dict[str, Any]]:
    command = f"echo $$ > {pid_file}; exec sleep 60"
    params = {"name": "shell_exec", "arguments": {"command": command, "yield_ms": 0}}
    return [{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}]


async def _next_data(lines: AsyncIterator[str]) -> Any:
    while not (line := await anext(lines)).startswith("data: "):
        pass
    return json.loads(line.removeprefix("data: "))


async def _started(pid_file: Path) -> None:
    await eventually(lambda: pid_file.exists() and pid_file.read_text().endswith("\n"))


@pytest.mark.parametrize("path", ["/rpc", "/mcp"])
async def test_a_batch_ends_when_its_client_leaves(shared_daemon: Daemon, tmp_path: Path, path: str) -> None:
    """Seen: its command ran to the end."""
    pid_file = tmp_path / "pid"
    version = {"Mcp-Protocol-Version": "2025-03-26", "Accept": "application/json, text/event-stream"}
    async with shared_daemon.http(**version) as http:
        asked = asyncio.create_task(http.post(path, json=_sleeping(pid_file)))
        await _started(pid_file)
        asked.cancel()
        await asyncio.wait([asked])
    await seconds_until_gone(pid_file)


async def test_messages_acknowledges_a_batch_at_once_and_it_ends_with_the_stream(
    shared_daemon: Daemon, tmp_path: Path
) -> None:
    """Seen: the answer to the POST came when the batch was done, and nothing ended it."""
    pid_file = tmp_path / "pid"
    async with shared_daemon.http() as http, asyncio.timeout(PATIENCE_S):
        async with http.stream("GET", "/sse") as response:
            lines = response.aiter_lines()
            endpoint = [await anext(lines) for _ in range(2)][1].removeprefix("data: ")
            acknowledged = await http.post(endpoint, json=_sleeping(pid_file))
            assert acknowledged.status_code == 202
            pings = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in (2, 3)]
            assert (await http.post(endpoint, json=pings)).status_code == 202
            assert [each["id"] for each in await _next_data(lines)] == [2, 3]
            assert (await http.post(endpoint, json=[])).status_code == 400
            await _started(pid_file)
        await seconds_until_gone(pid_file)


async def test_a_batch_with_an_ended_session_is_not_found(shared_daemon: Daemon) -> None:
    """Seen: it was answered, outside of any session."""
    async with shared_daemon.http(Accept="application/json, text/event-stream") as http:
        begin = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _OLD}
        session = (await http.post("/mcp", json=begin)).headers["mcp-session-id"]
        headers = {"Mcp-Session-Id": session}
        batch = [{"jsonrpc": "2.0", "id": 2, "method": "ping"}]
        assert (await http.post("/mcp", json=batch, headers=headers)).status_code == 200
        assert (await http.delete("/mcp", headers=headers)).status_code == 204
        refused = await http.post("/mcp", json=batch, headers=headers)
    assert (refused.status_code, refused.json()["error"]["message"]) == (
        404,
        "Session not found; send initialize again to open a new session",
    )
