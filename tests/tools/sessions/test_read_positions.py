"""What is new to whom: each conversation reads the output of a session from its own place, also behind one token."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.support.daemon import Daemon
from tests.support.event_stream import start
from tests.support.peers import over_http

_READ = {"input": "", "wait_ms": 10_000, "until": "two"}


async def _read(http: httpx2.AsyncClient, session: str, path: str, headers: dict[str, str]) -> dict[str, Any]:
    arguments = {**_READ, "session_id": session}
    if path.startswith("/tools"):
        plain: dict[str, Any] = (await http.post(path, json=arguments, headers=headers)).json()
        return plain
    params = {"name": "shell_send_input", "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    found: dict[str, Any] = (await http.post(path, json=message, headers=headers)).json()["result"]["structuredContent"]
    return found


@pytest.mark.parametrize("header", ["X-OpenWebUI-Chat-Id", "X-Session-Id", "Mcp-Session-Id"])
@pytest.mark.parametrize("path", ["/mcp", "/rpc", "/tools/shell_send_input"])
async def test_each_chat_behind_one_token_is_told_everything_once(
    shared_daemon: Daemon, path: str, header: str
) -> None:
    session = await start(shared_daemon, "echo one; echo two")
    async with shared_daemon.http() as http:
        chats = [{header: f"a-conversation-with-a-name-{number}-{path.strip('/')[:4]}"} for number in (1, 2)]
        first = [await _read(http, session, path, chat) for chat in chats]
        second = [await _read(http, session, path, chat) for chat in chats]
    assert [each["output"] for each in (*first, *second)] == ["one\ntwo\n", "one\ntwo\n", "", ""]
    assert not any("note" in each for each in (*first, *second))


async def test_a_new_mcp_session_of_a_chat_goes_on_where_the_chat_was(shared_daemon: Daemon) -> None:
    """Open WebUI opens an MCP session for every message of a chat."""
    session = await start(shared_daemon, "echo one; echo two; cat")
    async with shared_daemon.http() as http:
        chat = {"X-OpenWebUI-Chat-Id": "a-chat-of-two-messages"}
        sessions = [{**chat, "Mcp-Session-Id": f"an-mcp-session-of-a-message-{number}"} for number in (1, 2)]
        outputs = [(await _read(http, session, "/mcp", headers))["output"] for headers in sessions]
    assert outputs == ["one\ntwo\n", ""]


@pytest.mark.parametrize("path", ["/mcp", "/rpc", "/tools/shell_send_input"])
async def test_a_caller_that_names_no_conversation_goes_on_where_its_token_was(
    shared_daemon: Daemon, path: str
) -> None:
    session = await start(shared_daemon, "echo one; sleep 1; echo two")
    async with shared_daemon.http() as http:
        read = [await _read(http, session, path, {}) for _ in range(2)]
    # Its first output came with the answer to the start.
    assert [each["output"] for each in read] == ["two\n", ""]
    assert [each["offset"] for each in read] == [4, 8]


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
async def test_a_client_of_the_library_watches_a_session_without_naming_a_place(
    shared_daemon: Daemon, mode: str
) -> None:
    """The newer era has no session ids at all."""
    async with over_http(mode)(shared_daemon) as peer:
        started = (await peer.call("shell_start_session", command="echo ready; exec cat")).object
        about = {"session_id": started["session_id"], "wait_ms": 10_000}
        said = [started["output"]]
        for line in ("one", "two"):
            sent = (await peer.call("shell_send_input", **about, input=f"{line}\n", until=line)).object
            said.append(sent["output"])
            assert sent["next_offset"] == len("".join(said))
        await peer.call("shell_stop_session", session_id=started["session_id"])
    assert said == ["ready\n", "one\n", "two\n"]
