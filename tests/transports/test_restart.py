"""A restart of the daemon, as a client of /mcp sees it that goes on with its session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcp_agent.transports.session_records import MOST_RECORDS, SessionRecord, SessionRecords
from tests.support.daemon import Daemon, command, running
from tests.support.event_stream import EventStream, start
from tests.support.waiting import eventually

_STREAM = {"Accept": "application/json, text/event-stream"}


def _request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def _opened(http: httpx2.AsyncClient, name: str) -> dict[str, str]:
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": name, "version": "1.2"}}
    answer = await http.post("/mcp", json=_request("initialize", **params))
    return {"Mcp-Session-Id": answer.headers["mcp-session-id"]}


async def _heard_first(http: httpx2.AsyncClient, headers: dict[str, str], daemon: Daemon) -> str:
    """The method of the first message on a reopened stream, while a session starts."""
    async with http.stream("GET", "/mcp", headers=headers) as response:
        await start(daemon, "echo hello")
        method: str = (await EventStream(response).next("message")).data["method"]
        return method


async def _messages(http: httpx2.AsyncClient, headers: dict[str, str], folder: Path) -> list[dict[str, Any]]:
    """What a client that reads streams is sent for a call: a change that it has missed, and the answer."""
    asked = _request("tools/call", name="fs_list", arguments={"path": str(folder)})
    text = (await http.post("/mcp", json=asked, headers=headers)).text
    return [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if '"jsonrpc"' in line]


async def test_a_client_keeps_its_name_and_form_and_is_told_once_to_look_again(home: Path) -> None:
    names = ("codex-mcp-client", "mcp")
    with running(home) as daemon:
        other = command(home, "token", "create", "other").stdout
        async with daemon.http(**_STREAM) as http:
            clients = {name: await _opened(http, name) for name in names}
            before = {name: await _messages(http, clients[name], home) for name in names}
    assert [len(before[name]) for name in names] == [1, 1]
    assert [("structuredContent" in before[name][0]["result"]) for name in names] == [False, True]
    with running(home) as daemon:
        async with daemon.http(**_STREAM) as http:
            after = {name: await _messages(http, clients[name], home) for name in names}
            heard = {name: await _heard_first(http, clients[name], daemon) for name in names}
            token = next(word for line in other.splitlines() for word in line.split() if len(word) > 30)
            stolen = {**clients["mcp"], "Authorization": f"Bearer {token}"}
            refused = await http.post("/mcp", json=_request("tools/list"), headers=stolen)
            assert (await http.delete("/mcp", headers=clients["mcp"])).status_code == 204
        await eventually(lambda: _kept(home), lambda kept: len(kept) == 1)
    assert [after[name][0]["method"] for name in names] == ["notifications/tools/list_changed"] * 2
    assert [("structuredContent" in after[name][1]["result"]) for name in names] == [False, True]
    assert heard == {"codex-mcp-client": "notifications/shell_session_output", "mcp": "notifications/message"}
    assert refused.status_code == 404
    (kept,) = _kept(home).values()
    assert kept == {
        "owner": "owner",
        "client": "codex-mcp-client",
        "client_version": "1.2",
        "version": "2025-06-18",
        "log_level": None,
        "root": "",
    }
    assert clients["codex-mcp-client"]["Mcp-Session-Id"] not in _file(home).read_text()


async def test_the_newest_sessions_are_on_record_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "mcp-sessions.json"
    records = SessionRecords(path)
    kept = SessionRecord("owner", "codex", "1", "2025-06-18", None)
    for number in range(MOST_RECORDS + 10):
        records.keep(f"session-{number}", kept)
    await eventually(lambda: path.exists() and len(json.loads(path.read_bytes())), lambda size: size == MOST_RECORDS)
    assert path.stat().st_mode & 0o777 == 0o600
    again = SessionRecords(path)
    assert again.find("session-9") is None
    assert again.find(f"session-{MOST_RECORDS + 9}") == kept


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1]",
        b'{"a": 1}',
        b'{"a": {"owner": "x"}}',
        b'{"a": {"owner": "o", "client": 5, "client_version": "1", "version": "2025-06-18", "log_level": null}}',
    ],
)
async def test_a_file_that_is_not_ours_counts_as_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mcp-sessions.json"
    path.write_bytes(content)
    records = SessionRecords(path)
    assert records.find("a") is None


def _file(home: Path) -> Path:
    return home / ".local" / "state" / "mcp-agent" / "mcp-sessions.json"


def _kept(home: Path) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(_file(home).read_bytes())
    return kept
