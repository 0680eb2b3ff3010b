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


async def _result(http: httpx2.AsyncClient, headers: dict[str, str], folder: Path) -> dict[str, Any]:
    asked = _request("tools/call", name="fs_list", arguments={"path": str(folder)})
    result: dict[str, Any] = (await http.post("/mcp", json=asked, headers=headers)).json()["result"]
    return result


async def _heard_from(http: httpx2.AsyncClient, headers: dict[str, str], daemon: Daemon) -> list[str]:
    """The methods of what a reopened stream says, up to the output of a session that starts then."""
    heard: list[str] = []
    async with http.stream("GET", "/mcp", headers=headers) as response:
        stream = EventStream(response)
        heard.append((await stream.next("message")).data["method"])
        await start(daemon, "echo hello")
        heard.append((await stream.next("message")).data["method"])
    return heard


async def test_a_client_keeps_its_name_and_form_and_is_told_once_to_look_again(home: Path) -> None:
    names = ("codex-mcp-client", "mcp")
    with running(home) as daemon:
        other = command(home, "token", "create", "other").stdout
        async with daemon.http(**_STREAM) as http:
            clients = {name: await _opened(http, name) for name in names}
            before = {name: await _result(http, clients[name], home) for name in names}
    assert [("structuredContent" in before[name]) for name in names] == [False, True]
    with running(home) as daemon:
        async with daemon.http(**_STREAM) as http:
            after = {name: await _result(http, clients[name], home) for name in names}
            heard = {name: await _heard_from(http, clients[name], daemon) for name in names}
            token = next(word for line in other.splitlines() for word in line.split() if len(word) > 30)
            stolen = {**clients["mcp"], "Authorization": f"Bearer {token}"}
            refused = await http.post("/mcp", json=_request("tools/list"), headers=stolen)
            assert (await http.delete("/mcp", headers=clients["mcp"])).status_code == 204
        await eventually(lambda: _kept(home), lambda kept: len(kept) == 1)
    assert [("structuredContent" in after[name]) for name in names] == [False, True]
    changed, own = "notifications/tools/list_changed", "notifications/shell_session_output"
    assert heard == {"codex-mcp-client": [changed, own], "mcp": [changed, "notifications/message"]}
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
