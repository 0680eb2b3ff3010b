"""A restart of the daemon, as the conversations see it whose sessions ended with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon, running

_TEXT = {"X-MCP-Agent-Form": "text"}


async def _call(daemon: Daemon, chat: str, tool: str, **arguments: Any) -> str:
    """A call of the conversation `chat`, by a client that has no session."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    async with daemon.http(**{**_TEXT, "X-Session-Id": chat}) as http:
        text: str = (await http.post("/mcp", json=message)).json()["result"]["content"][0]["text"]
    return text


async def _start(daemon: Daemon, chat: str, command: str) -> tuple[str, str]:
    """The id of a session and the path of its output, once it has printed `ready`."""
    async with daemon.http(**{"X-Session-Id": chat}) as http:
        params = {"name": "shell_start_session", "arguments": {"command": command}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        started = (await http.post("/mcp", json=message)).json()["result"]["structuredContent"]
        seen: dict[str, Any] = {"input": "", "session_id": started["session_id"], "until": "ready", "since": 0}
        message["params"] = {"name": "shell_send_input", "arguments": seen}
        assert (await http.post("/mcp", json=message)).json()["result"]["structuredContent"]["matched"]
    return started["session_id"], started["output_path"]


@pytest.mark.parametrize("is_killed", [False, True], ids=["stopped", "killed"])
async def test_a_restart_tells_the_conversation_what_it_ended_and_the_output_stays(home: Path, is_killed: bool) -> None:
    with running(home) as daemon:
        session, path = await _start(daemon, "ours", "echo one; echo é; echo ready; exec sleep 300")
        ended, _ = await _start(daemon, "ours", "echo ready")
        if is_killed:
            daemon.process.kill()
            daemon.process.wait()
    note = f"the daemon was restarted; session {session} (echo one; echo é; echo ready; exec sleep 300) ended"
    with running(home) as daemon:
        other, first, second = [
            await _call(daemon, chat, "shell_exec", command="true") for chat in ("b", "ours", "ours")
        ]
        assert "restarted" not in other + second
        assert first.splitlines()[0] == f"[{note}; its output: {path}]"
        assert "ready" in await _call(daemon, "ours", "fs_read", path=path)
        read = await _call(daemon, "ours", "shell_send_input", session_id=session, input="", since=4)
        code = -1 if is_killed else 143
        assert read == f"[exit {code} because the daemon stopped · from byte 4]\né\nready\n"
        refused = await _call(daemon, "ours", "shell_send_input", session_id=session, input="x")
        assert "because the daemon stopped" in refused
        assert "it had ended before" in await _call(daemon, "ours", "shell_stop_session", session_id=session)
        assert "[exit 0" in await _call(daemon, "ours", "shell_send_input", session_id=ended, input="", wait_ms=0)
    # It stays so over another restart, and nobody is told twice.
    with running(home) as daemon:
        assert "restarted" not in await _call(daemon, "ours", "shell_exec", command="true")
        assert "ready" in await _call(daemon, "ours", "shell_send_input", session_id=session, input="", since=0)


async def test_a_command_that_was_left_running_is_named_once_in_the_next_result(shared_daemon: Daemon) -> None:
    """Gemini CLI stops listening at Esc without a word; the answer that names the session reaches nobody."""
    daemon = shared_daemon
    left = {"command": "exec sleep 300", "yield_ms": 50}
    async with daemon.http(**{"X-Session-Id": "esc"}) as http:
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "shell_exec", "arguments": left},
        }
        answers = [(await http.post("/mcp", json=message)).json()["result"]["structuredContent"] for _ in range(2)]
    first, second = (each["session_id"] for each in answers)
    # The second call has told of the first one; the next one is about the second.
    assert answers[1]["notes"] == [f"session {first} (exec sleep 300) still runs, since an earlier call"]
    assert "still runs" not in await _call(daemon, "somebody else", "shell_exec", command="true")
    assert "still runs" not in await _call(daemon, "esc", "shell_stop_session", session_id=second)
    assert "still runs" not in await _call(daemon, "esc", "shell_stop_session", session_id=first)
