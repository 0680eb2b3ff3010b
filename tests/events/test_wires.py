"""Sessions as MCP clients hear of them: notifications on each wire that has a stream, and resources."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import pytest
from mcp import ClientSession, types
from mcp.client.sse import sse_client

from mcp_agent.answers.budget import MOST_MESSAGE_BYTES
from mcp_agent.events.hub import RATE_BYTES
from tests.support.daemon import COMMAND, Daemon, environment, running
from tests.support.event_stream import EventStream, call, start
from tests.support.waiting import PATIENCE_S

_STREAM = {"Accept": "application/json, text/event-stream"}
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "a-test", "version": "1"},
}
_SHELL = "mcp-agent/shellSessions"

# Gives the next notification that a client hears.
Hear = Callable[[], Awaitable[dict[str, Any]]]


@contextlib.asynccontextmanager
async def _over_get(daemon: Daemon, query: str = "", name: str = "a-test") -> AsyncIterator[Hear]:
    async with daemon.http(**_STREAM) as http:
        headers = await _opened(http, name=name)
        async with http.stream("GET", f"/mcp{query}", headers=headers) as response:
            yield _messages(EventStream(response))


@contextlib.asynccontextmanager
async def _over_sse(daemon: Daemon, query: str = "") -> AsyncIterator[Hear]:
    async with daemon.http() as http, http.stream("GET", f"/sse{query}") as response:
        yield _messages(EventStream(response))


@contextlib.asynccontextmanager
async def _over_listen(daemon: Daemon, query: str = "") -> AsyncIterator[Hear]:
    params = {"notifications": {_SHELL: True}, "_meta": _META}
    message = {"jsonrpc": "2.0", "id": 9, "method": "subscriptions/listen", "params": params}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen", **_STREAM}
    async with (
        daemon.http(**headers) as http,
        http.stream("POST", f"/mcp{query}", json=message) as response,
    ):
        hear = _messages(EventStream(response))
        acknowledged = await hear()
        assert acknowledged["params"]["notifications"] == {_SHELL: True}
        yield hear


_WIRES = {"GET /mcp": _over_get, "/sse": _over_sse, "subscriptions/listen": _over_listen}


@pytest.mark.parametrize("wire", _WIRES)
async def test_output_and_exit_are_notifications_with_the_same_object(shared_daemon: Daemon, wire: str) -> None:
    async with _WIRES[wire](shared_daemon) as hear:
        session = await start(shared_daemon, "echo hello >&2; exit 3")
        output, exited = await _next(hear), await _next(hear)
    for told in (output, exited):
        told["params"].pop("_meta", None)
    assert output == {
        "jsonrpc": "2.0",
        "method": "notifications/shell_session_output",
        "params": {
            "type": "shell_session_output",
            "session_id": session,
            "stream": "stderr",
            "chunk": "hello\n",
            "offset": 0,
        },
    }
    assert exited == {
        "jsonrpc": "2.0",
        "method": "notifications/shell_session_exit",
        "params": {"type": "shell_session_exit", "session_id": session, "exit_code": 3},
    }


@pytest.mark.parametrize("wire", _WIRES)
async def test_a_connection_that_asks_for_messages_hears_the_same_objects_in_them_and_nothing_twice(
    shared_daemon: Daemon, wire: str
) -> None:
    async with _WIRES[wire](shared_daemon, "?events=message") as hear:
        session = await start(shared_daemon, "echo hello; exit 3")
        output, exited = await hear(), await hear()
    printed = {
        "type": "shell_session_output",
        "session_id": session,
        "stream": "stdout",
        "chunk": "hello\n",
        "offset": 0,
    }
    ended = {"type": "shell_session_exit", "session_id": session, "exit_code": 3}
    for told, data in ((output, printed), (exited, ended)):
        told["params"].pop("_meta", None)
        params = {"level": "info", "logger": data["type"], "data": data}
        assert told == {"jsonrpc": "2.0", "method": "notifications/message", "params": params}


async def test_a_client_of_the_python_library_hears_messages_unless_it_asks_otherwise(shared_daemon: Daemon) -> None:
    async with (
        _over_get(shared_daemon, name="mcp") as by_name,
        _over_get(shared_daemon, "?events=notification", name="mcp") as asking,
        _over_get(shared_daemon, name="mcp (via mcp-remote 0.1.38)") as through_a_proxy,
        _over_get(shared_daemon, name="mcp-other") as other,
    ):
        await start(shared_daemon, "echo hello")
        told = [(await hear())["method"] for hear in (by_name, asking, through_a_proxy, other)]
    message, own = "notifications/message", "notifications/shell_session_output"
    assert told == [message, own, message, own]


async def test_a_client_that_has_set_a_higher_log_level_hears_no_messages_of_sessions(shared_daemon: Daemon) -> None:
    async with shared_daemon.http(**_STREAM) as http:
        headers = await _opened(http, name="mcp")
        for level in ("error", "info"):
            set_level = {"jsonrpc": "2.0", "id": 2, "method": "logging/setLevel", "params": {"level": level}}
            assert (await http.post("/mcp", json=set_level, headers=headers)).status_code == 200
            session = await start(shared_daemon, f"echo {level}")
            async with http.stream("GET", "/mcp", headers=headers) as response:
                if level == "info":
                    told = await _messages(EventStream(response))()
                else:
                    read = {"session_id": session, "input": "", "wait_ms": 10_000, "until": "^never$"}
                    await call(shared_daemon, "shell_send_input", **read)
    assert told["params"]["data"]["chunk"] == "info\n"


@pytest.mark.parametrize(
    ("path", "choices"), [("/sse", "notification, message, named"), ("/mcp", "notification, message")]
)
async def test_a_form_of_events_that_there_is_not_is_refused(shared_daemon: Daemon, path: str, choices: str) -> None:
    async with shared_daemon.http(Accept="text/event-stream") as http:
        headers = await _opened(http) if path == "/mcp" else {}
        refused = await http.get(f"{path}?events=loud", headers=headers)
    assert refused.status_code == 400
    assert refused.json()["error"]["message"] == f"events is 'loud' and must be one of {choices}"


@pytest.mark.parametrize("wire", _WIRES)
async def test_a_client_that_keeps_reading_loses_nothing_of_a_flood(shared_daemon: Daemon, wire: str) -> None:
    """Seen: of a burst of 1 MB a client of /sse got 7 %, of 4.8 MB 1.5 %, and a gap for the rest."""
    size = 50 * 1024 * 1024
    async with _WIRES[wire](shared_daemon) as hear:
        assert await _flood(shared_daemon, hear, size) == Flood(heard=size, lost=0)


async def test_the_official_client_of_sse_loses_nothing_of_a_flood(shared_daemon: Daemon) -> None:
    size = 50 * 1024 * 1024
    digest, heard, has_ended = hashlib.sha256(), 0, asyncio.Event()

    async def take(message: Any) -> None:
        nonlocal heard
        if isinstance(message, types.LoggingMessageNotification):
            params = message.params
            if params.logger == "shell_session_exit":
                has_ended.set()
            else:
                assert (params.logger, params.data["offset"]) == ("shell_session_output", heard)
                heard += len(params.data["chunk"])
                digest.update(params.data["chunk"].encode())

    async with (
        sse_client(f"{shared_daemon.url}/sse", headers=shared_daemon.headers) as (read, write),
        ClientSession(read, write, message_handler=take) as client,
        asyncio.timeout(8 * PATIENCE_S),
    ):
        await client.initialize()
        await start(shared_daemon, f"yes 'a line of output' | head -c {size}")
        # What is asked for meanwhile is answered before the rest of the output.
        await client.list_tools()
        assert not has_ended.is_set()
        await has_ended.wait()
    line = b"a line of output\n"
    assert (heard, digest.digest()) == (size, hashlib.sha256((line * (size // len(line) + 1))[:size]).digest())


async def test_a_client_that_puts_what_it_hears_before_a_model_gets_a_rate_with_gaps_that_add_up(
    shared_daemon: Daemon,
) -> None:
    size = 20 * 1024 * 1024
    async with _over_get(shared_daemon, name="codex-mcp-client") as hear:
        # A control character is six times as long in JSON.
        found = await _flood(shared_daemon, hear, size, "\033")
    assert found.heard + found.lost == size
    assert found.heard < 10 * RATE_BYTES


async def test_named_events_come_on_sse_for_who_asks(shared_daemon: Daemon) -> None:
    async with shared_daemon.http() as http, http.stream("GET", "/sse?events=named") as response:
        await start(shared_daemon, "echo hello")
        heard = await EventStream(response).next("shell_session_output")
    assert heard.data["chunk"] == "hello\n"


def test_on_stdio_events_are_lines_and_the_end_of_input_stops_all_sessions(home: Path) -> None:
    process = subprocess.Popen(
        [COMMAND, "stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(home), cwd=home
    )
    assert process.stdin is not None
    assert process.stdout is not None
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a-test", "version": "1"}}
    start_session = {"name": "shell_start_session", "arguments": {"command": "echo hello; exec sleep 3196"}}
    with process:
        for message in (
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": start_session},
        ):
            process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        told: list[dict[str, Any]] = []
        while not told or told[-1].get("method") != "notifications/shell_session_output":
            told.append(json.loads(process.stdout.readline()))
        process.stdin.close()
        told += [json.loads(line) for line in process.stdout]
    pid = next(each["result"]["structuredContent"]["pid"] for each in told if each.get("id") == 2)
    assert told[-1]["method"] == "notifications/shell_session_exit"
    assert not Path(f"/proc/{pid}").exists()


def test_on_stdio_a_command_that_was_asked_for_before_the_end_is_answered(home: Path) -> None:
    asked = {"name": "shell_exec", "arguments": {"command": "sleep 0.3; echo done"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": asked}
    done = subprocess.run(
        [COMMAND, "stdio"],
        input=json.dumps(message).encode() + b"\n",
        capture_output=True,
        env=environment(home),
        cwd=home,
        timeout=PATIENCE_S,
        check=True,
    )
    assert json.loads(done.stdout)["result"]["structuredContent"]["stdout"] == "done\n"


async def test_a_session_is_a_resource_that_is_read_a_page_at_a_time(shared_daemon: Daemon) -> None:
    session = await start(shared_daemon, "seq 1 60000; exit 2")
    await call(shared_daemon, "shell_send_input", session_id=session, input="", wait_ms=20_000, until="^60000$")
    listed = (await shared_daemon.rpc("resources/list"))["result"]["resources"]
    assert f"session://{session}" in [each["uri"] for each in listed]
    text, uri = "", f"session://{session}"
    while uri:
        (contents,) = (await shared_daemon.rpc("resources/read", uri=uri))["result"]["contents"]
        assert contents["_meta"]["offset"] == len(text)
        text += contents["text"]
        uri = contents["_meta"].get("next", "")
    assert text == "".join(f"{number}\n" for number in range(1, 60_001))


async def test_a_watched_session_is_reported_as_updated(shared_daemon: Daemon) -> None:
    session = await start(shared_daemon, "cat")
    async with shared_daemon.http(**_STREAM) as http:
        headers = await _opened(http)
        subscribe = {"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe"}
        params = {"uri": f"session://{session}"}
        assert (await http.post("/mcp", json={**subscribe, "params": params}, headers=headers)).status_code == 200
        async with http.stream("GET", "/mcp", headers=headers) as response:
            hear = _messages(EventStream(response))
            await call(shared_daemon, "shell_send_input", session_id=session, input="hello\n")
            while (told := await hear())["method"] != "notifications/resources/updated":
                pass
    await call(shared_daemon, "shell_stop_session", session_id=session)
    assert told["params"] == {"uri": f"session://{session}"}


async def test_a_client_without_the_shell_hears_and_reads_nothing_of_sessions(daemon: Daemon) -> None:
    session = await start(daemon, "echo secret; cat")
    profile = "/mcp/read-only"
    async with daemon.http(**_STREAM) as http:
        headers = await _opened(http, profile)
        async with http.stream("GET", profile, headers=headers) as response:
            hear = _messages(EventStream(response))
            await call(daemon, "shell_send_input", session_id=session, input="more\n", wait_ms=5_000)
            read = {"jsonrpc": "2.0", "id": 3, "method": "resources/read", "params": {"uri": f"session://{session}"}}
            refused = (await http.post(profile, json=read, headers=headers)).json()
            daemon.cli("disable", "fs_list", "--profile", "read-only")
            assert (await hear())["method"] == "notifications/tools/list_changed"
    assert "not found" in refused["error"]["message"]


async def test_instructions_name_the_sessions_that_run_and_stay_the_same_while_they_do(daemon: Daemon) -> None:
    session = await start(daemon, "exec sleep 300")
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a-test", "version": "1"}}
    told = (await daemon.rpc("initialize", **params))["result"]["instructions"]
    assert f"also those of other clients: {session} (exec sleep 300).\n" in told


async def test_sessions_outlive_their_client_unless_it_is_set_otherwise(home: Path) -> None:
    for setting, is_running in (("false", True), ("true", False)):
        with running(home, "--stop-on-disconnect", setting) as daemon:
            async with daemon.http(**_STREAM) as http:
                headers = await _opened(http)
                params = {"name": "shell_start_session", "arguments": {"command": "exec sleep 300"}}
                message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}
                answer = (await http.post("/mcp", json=message, headers=headers)).json()
                session = answer["result"]["structuredContent"]["session_id"]
                assert (await http.delete("/mcp", headers=headers)).status_code == 204
            wait_ms = 0 if is_running else 10_000
            told = await call(daemon, "shell_send_input", session_id=session, input="", wait_ms=wait_ms)
            assert told["running"] is is_running


async def _opened(http: httpx2.AsyncClient, path: str = "/mcp", name: str = "a-test") -> dict[str, str]:
    """The headers of a new MCP session."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": name, "version": "1"}}
    answer = await http.post(path, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    return {"Mcp-Session-Id": answer.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-11-25"}


def _messages(stream: EventStream) -> Hear:
    async def hear() -> dict[str, Any]:
        return (await stream.next("message")).data

    return hear


class Flood(NamedTuple):
    heard: int
    lost: int


async def _flood(daemon: Daemon, hear: Hear, size: int, character: str = "x") -> Flood:
    session = await start(daemon, f"head -c {size} /dev/zero | tr '\\0' '\\{ord(character):03o}'")
    heard = lost = 0
    while (told := await _next(hear))["method"] != "notifications/shell_session_exit":
        params = told["params"]
        assert (params["session_id"], params["offset"]) == (session, heard + lost)
        if told["method"] == "notifications/shell_session_gap":
            lost += params["lost_bytes"]
        else:
            heard += len(params["chunk"])
            assert params["chunk"].strip(character) == ""
            assert len(json.dumps(told)) < MOST_MESSAGE_BYTES
    return Flood(heard, lost)


async def _next(hear: Hear) -> dict[str, Any]:
    """The next notification about a session."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            told = await hear()
            if told["method"].startswith("notifications/shell_session"):
                return told
