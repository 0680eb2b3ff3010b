"""Connections that break: what a client in a session hears when it comes back, and what is over for good."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcp_agent.protocol.jsonrpc import WireAnswer
from mcp_agent.security.auth_tokens import Principal
from mcp_agent.security.open_streams import OpenStreams
from mcp_agent.transports import exchange
from mcp_agent.transports.exchange import Exchange
from mcp_agent.transports.sse_frames import Replay
from tests.support.daemon import Daemon
from tests.support.waiting import eventually, within

_ACCEPT = {"Accept": "application/json, text/event-stream"}
_CHANGED = "notifications/tools/list_changed"
_STATELESS = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/logLevel": "info",
}


@dataclass
class Event:
    id: str = ""
    retry: str = ""
    data: str = ""

    @property
    def said(self) -> Any:
        """What a message says: a log's text, or the answer's."""
        message = json.loads(self.data)
        return message["params"]["data"] if "params" in message else message["result"]["structuredContent"]["said"]


class Events:
    def __init__(self, answer: httpx2.Response) -> None:
        # These sessions are of an earlier start, so the first answer of each says that the tools may have changed.
        self._is_answer = answer.request.method == "POST" or "request-" in answer.request.headers.get(
            "last-event-id", ""
        )
        self.status = answer.status_code
        self._lines = answer.aiter_lines()

    async def next(self) -> Event | None:
        """The next event, or None at the end of the stream."""
        fields: dict[str, str] = {}
        async for line in self._lines:
            if not line and fields:
                fields.pop("event", None)
                if _CHANGED not in fields.get("data", "") or not self._is_answer:
                    return Event(**fields)
                fields = {}
                continue
            name, _, value = line.partition(": ")
            if name and line.strip(":"):
                fields[name] = value
        return None


@contextlib.asynccontextmanager
async def _stream(daemon: Daemon, method: str, body: Any = None, **headers: str) -> AsyncIterator[Events]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        within(),
        daemon.http(**_ACCEPT) as http,
        http.stream(method, "/mcp", json=body, headers=named) as answer,
    ):
        yield Events(answer)


def _session(name: str, version: str = "2025-11-25") -> dict[str, str]:
    return {"Mcp_Session_Id": f"{name}-{'s' * 22}", "MCP_Protocol_Version": version}


def _telling(folder: Path, **meta: Any) -> dict[str, Any]:
    params: dict[str, Any] = {"name": "tell", "arguments": {"folder": str(folder)}}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {**params, **meta}}


async def _heard(events: Events) -> Event:
    event = await events.next()
    assert event is not None
    return event


async def test_a_broken_stream_goes_on_where_it_broke(probes: Daemon, tmp_path: Path) -> None:
    session = _session("goes-on")
    (tmp_path / "1").touch()
    async with _stream(probes, "POST", _telling(tmp_path), **session) as events:
        priming = await _heard(events)
        assert (priming.data, priming.retry) == ("", "3000")
        first = await _heard(events)
        assert first.said == "step 1"
    async with _stream(probes, "GET", Last_Event_ID=first.id, **session) as events:
        (tmp_path / "2").touch()
        assert [(await _heard(events)).said for _ in range(2)] == ["step 2", "told"]
        assert await events.next() is None
    assert not (tmp_path / "cancelled").exists()


async def test_what_was_said_while_the_client_was_away_is_kept(probes: Daemon, tmp_path: Path) -> None:
    session = _session("was-away")
    (tmp_path / "1").touch()
    async with _stream(probes, "POST", _telling(tmp_path), **session) as events:
        priming = await _heard(events)
        await _heard(events)
    (tmp_path / "2").touch()
    for _ in range(2):
        # Twice: what has been replayed can be replayed again.
        async with _stream(probes, "GET", Last_Event_ID=priming.id, **session) as events:
            assert [(await _heard(events)).said for _ in range(3)] == ["step 1", "step 2", "told"]
            assert await events.next() is None


async def test_a_client_of_an_older_version_is_sent_no_event_without_a_message(probes: Daemon, tmp_path: Path) -> None:
    for step in "12":
        (tmp_path / step).touch()
    async with _stream(probes, "POST", _telling(tmp_path), **_session("older", "2025-06-18")) as events:
        assert (await _heard(events)).said == "step 1"


async def test_a_notification_that_a_broken_stream_lost_is_sent_again(daemon: Daemon) -> None:
    session = _session("notified")
    async with _stream(daemon, "GET", **session) as events:
        opened = await _heard(events)
        assert daemon.cli("disable", "fs_read").returncode == 0
        told = await _heard(events)
        assert json.loads(told.data)["method"] == _CHANGED
    async with _stream(daemon, "GET", Last_Event_ID=opened.id, **session) as events:
        assert await _heard(events) == told


async def test_a_client_that_has_no_stream_hears_a_switch_with_the_next_answer(daemon: Daemon) -> None:
    """After an outage of five seconds Gemini CLI and opencode never open theirs again."""
    session = {**_session("deaf"), "Accept": _ACCEPT["Accept"]}
    headers = {name.replace("_", "-"): value for name, value in session.items()}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with daemon.http() as http:

        async def heard() -> int:
            return (await http.post("/mcp", json=ping, headers=headers)).text.count(_CHANGED)

        assert [await heard(), await heard()] == [1, 0], "what it knew is of an earlier start"
        assert daemon.cli("disable", "fs_read").returncode == 0
        assert [await heard(), await heard()] == [1, 0]


async def test_an_event_that_is_no_longer_kept_is_told_so(probes: Daemon) -> None:
    async with _stream(probes, "GET", Last_Event_ID="request-0123456789ab-4", **_session("forgotten")) as events:
        assert events.status == 410


async def test_a_stateless_client_calls_its_request_off_by_leaving(probes: Daemon, tmp_path: Path) -> None:
    headers = {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": "tools/call", "Mcp_Name": "tell"}
    (tmp_path / "1").touch()
    async with _stream(probes, "POST", _telling(tmp_path, _meta=_STATELESS), **headers) as events:
        first = await _heard(events)
        assert (first.id, first.said) == ("", "step 1")
    await eventually((tmp_path / "cancelled").exists)


async def test_work_whose_client_stays_away_is_called_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "RESUME_WITHIN_S", 0.05)
    is_called_off = asyncio.Event()

    async def work() -> WireAnswer:
        try:
            await asyncio.sleep(3600)
        finally:
            is_called_off.set()
        return WireAnswer(b"{}")

    async def receive() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        pass

    state = {"principal": Principal("a-test"), "streams": OpenStreams(), "revocations": 0}
    scope = {"type": "http", "http_version": "1.1", "method": "POST", "state": state}
    waiting = Exchange(scope, receive, send, accepts_json=False, accepts_stream=True)
    waiting.replay, waiting.primes = Replay(), True
    async with within():
        await waiting.run(1, work())
    assert is_called_off.is_set()


def test_the_newest_messages_are_kept_within_bounds() -> None:
    replay = Replay()
    for number in range(1, 300):
        replay.keep("a", number, b"x")
    assert [kept.number for kept in replay.after("a", 0)] == list(range(100, 300))
    replay.keep("b", 1, b"y" * 999_990)
    assert [kept.number for kept in replay.after("a", 0)] == list(range(290, 300))
    replay.keep("b", 2, b"z" * 2_000_000)
    assert [kept.number for kept in replay.after("b", 0)] == [2]
    assert not replay.knows("a")
