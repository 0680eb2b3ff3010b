"""`mcp-agent stdio --attach`: a client by way of ssh, and the one daemon that its sessions live in."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.process.runtime_file import running_daemon
from tests.support.daemon import COMMAND, Daemon, command, environment, running
from tests.support.peers import over_stdio
from tests.support.waiting import PATIENCE_S, eventually
from tools.files import disk


class _Client:
    """A program that was configured with a command, and speaks MCP to it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._id = 0
        self.heard: list[dict[str, Any]] = []

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._id += 1
        await self.say({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params})
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            while True:
                line = await self.process.stdout.readline()
                assert line, "the bridge has ended"
                message: dict[str, Any] = json.loads(line)
                if message.get("id") == self._id:
                    return message
                self.heard.append(message)

    async def say(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        await self.process.stdin.drain()

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = await self.ask("tools/call", name=tool, arguments=arguments)
        result: dict[str, Any] = answer["result"]["structuredContent"]
        return result

    async def open(self) -> None:
        info = {"name": "a-test", "version": "1"}
        await self.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=info)
        await self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def first_sentence(self) -> str:
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            return (await self.process.stderr.readline()).decode()


@contextlib.asynccontextmanager
async def _client(home: Path, arguments: list[str], path: str) -> AsyncIterator[_Client]:
    process = await asyncio.create_subprocess_exec(
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(home, {"PATH": path}),
        cwd=home,
        limit=2**24,
    )
    assert process.stdin is not None
    try:
        yield _Client(process)
    finally:
        process.stdin.close()
        async with asyncio.timeout(PATIENCE_S):
            await process.wait()


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH with a stand-in for ssh, which runs the command line in a shell here, as sshd does there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    ssh = folder / "ssh"
    ssh.write_text(
        '#!/bin/sh\nwhile [ "$1" = -o ]; do shift 2; done\n[ "$1" = box ] || exit 255\nshift\nexec sh -c "$*"\n'
    )
    ssh.chmod(0o755)
    return f"{folder}:{Path(COMMAND).parent}:/usr/bin:/bin"


async def test_by_way_of_ssh_sessions_outlive_the_client_and_every_client_sees_them(
    home: Path, path: str, tmp_path: Path
) -> None:
    laptop = tmp_path / "laptop"
    laptop.mkdir()
    assert command(laptop, "connect", "opencode", "--ssh", "box", PATH=path).returncode == 0
    entry = json.loads((laptop / ".config/opencode/opencode.json").read_text())["mcp"]["devbox"]
    assert entry["command"] == [
        "ssh",
        "box",
        "mcp-agent",
        "stdio",
        "--attach",
        "--profile",
        "lean",
    ]
    with running(home) as daemon:
        # On the other machine, the daemon is that of the user who logs in.
        extra = ["--tools-file", str(daemon.tools_json)]
        async with _client(home, entry["command"] + extra, path) as client:
            assert await client.first_sentence() == f"mcp-agent: attached to the daemon at {daemon.url}\n"
            await client.open()
            listed = (await client.ask("tools/list"))["result"]["tools"]
            assert len(listed) == 13
            started = await client.call("shell_start_session", command="echo hello; exec sleep 300")
        async with _client(home, entry["command"] + extra, path) as another:
            await another.open()
            seen = await another.call(
                "shell_send_input", session_id=started["session_id"], input="", since=0, wait_ms=20_000
            )
            assert (seen["output"], seen["running"]) == ("hello\n", True)


async def test_a_restart_of_the_daemon_is_hardly_noticed(home: Path, path: str) -> None:
    with running(home) as first:
        flags = ["--tools-file", str(first.tools_json)]
        bridge = _client(home, ["mcp-agent", "stdio", "--attach", *flags], path)
        client = await bridge.__aenter__()
        await client.open()
        assert (await client.call("shell_exec", command="echo one"))["stdout"] == "one\n"
    # It waits for the next one, on another port.
    asking = asyncio.create_task(client.call("shell_exec", command="echo two"))
    with running(home) as second:
        assert second.url != first.url
        assert (await asking)["stdout"] == "two\n"
        # What is sent unasked comes through again, too.
        assert second.cli("disable", "fs_delete").returncode == 0

        async def heard() -> bool:
            await client.ask("ping")
            return any(each.get("method") == "notifications/tools/list_changed" for each in client.heard)

        await eventually(heard)
        await bridge.__aexit__(None, None, None)


async def test_while_the_daemon_is_away_a_call_fails_soon_and_names_the_box(home: Path, path: str) -> None:
    with running(home) as first:
        flags = ["--tools-file", str(first.tools_json)]
        bridge = _client(home, ["mcp-agent", "stdio", "--attach", *flags], path)
        client = await bridge.__aenter__()
        await client.open()
        assert first.cli("stop").returncode == 0
    async with asyncio.timeout(5):
        answer = await client.ask("tools/call", name="shell_exec", arguments={"command": "true"})
    assert answer["error"]["message"] == (
        f"no daemon is running on {socket.gethostname()}; nothing was done. Start it there with `mcp-agent serve`"
    )
    await bridge.__aexit__(None, None, None)


async def test_a_call_that_the_daemon_did_not_survive_is_an_error_and_not_made_again(
    home: Path, path: str, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    with running(home) as first:
        bridge = _client(home, ["mcp-agent", "stdio", "--attach", "--tools-file", str(first.tools_json)], path)
        client = await bridge.__aenter__()
        await client.open()
        asking = asyncio.create_task(
            client.ask("tools/call", name="shell_exec", arguments={"command": f"echo ran >> {mark}; exec sleep 300"})
        )
        await eventually(mark.exists)
        first.process.kill()
        assert (await asking)["error"]["message"] == "the daemon ended while this call was under way"
    with running(home):
        assert (await client.ask("ping"))["result"] == {}
        await bridge.__aexit__(None, None, None)
    assert mark.read_text() == "ran\n"


async def test_without_a_daemon_it_starts_one_that_stays(home: Path, path: str) -> None:
    state = home / "state"
    flags = ["--tools-file", str(home / "tools.json"), "--state-dir", str(state)]
    extra = {"MCP_AGENT_PORT": "0"}
    async with _client(
        home, ["env", *(f"{k}={v}" for k, v in extra.items()), COMMAND, "stdio", "--attach", *flags], path
    ) as client:
        await client.open()
        sentence = await client.first_sentence()
        found = running_daemon(state / "daemon.json")
        assert found is not None
        assert sentence == f"mcp-agent: started a daemon at {found.url}; it stays when this client goes\n"
    try:
        assert running_daemon(state / "daemon.json") == found
    finally:
        os.kill(found.pid, signal.SIGTERM)
        await eventually(lambda: running_daemon(state / "daemon.json"), lambda left: left is None)


async def test_where_none_can_be_started_it_serves_alone(home: Path, path: str) -> None:
    state = home / "state"
    state.mkdir(mode=0o700)
    flags = ["--tools-file", str(home / "tools.json"), "--state-dir", str(state)]
    # Whoever holds this lock is the daemon of the folder; here nobody answers for it.
    with disk.open_descriptor(state / "serve.lock", os.O_RDWR | os.O_CREAT) as descriptor:
        assert disk.lock(descriptor, wait=False)
        async with _client(home, [COMMAND, "stdio", "--attach", *flags], path) as client:
            await client.open()
            assert (await client.call("shell_exec", command="echo alone"))["stdout"] == "alone\n"
            assert "no daemon could be started" in await client.first_sentence()
            assert await client.first_sentence() == ("mcp-agent: serving this client alone; its sessions end with it\n")


async def test_a_call_that_is_cancelled_ends_its_command(daemon: Daemon, path: str, tmp_path: Path) -> None:
    flags = ["--tools-file", str(daemon.tools_json)]
    mark = tmp_path / "mark"
    async with _client(daemon.home, ["mcp-agent", "stdio", "--attach", *flags], path) as client:
        await client.open()
        call = {"name": "shell_exec", "arguments": {"command": f"echo $$ > {mark}; exec sleep 300"}}
        await client.say({"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": call})
        pid = await eventually(lambda: mark.read_text() if mark.exists() else "", lambda text: text.endswith("\n"))
        await client.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "long"}})
        await eventually(lambda: Path(f"/proc/{pid.strip()}").exists(), lambda there: not there)
        assert (await client.ask("ping"))["result"] == {}


async def test_progress_of_a_call_comes_through_before_its_answer(daemon: Daemon, path: str) -> None:
    flags = ["--tools-file", str(daemon.tools_json)]
    async with _client(daemon.home, ["mcp-agent", "stdio", "--attach", *flags], path) as client:
        await client.open()
        call = {"name": "shell_exec", "arguments": {"command": "echo begun; sleep 2; echo ended"}}
        answer = await client.ask("tools/call", **call, _meta={"progressToken": "a"})
        assert answer["result"]["structuredContent"]["stdout"] == "begun\nended\n"
        heard = [each["params"] for each in client.heard if each.get("method") == "notifications/progress"]
        assert heard
        assert heard[0]["message"] == "1 line printed: begun"


async def test_a_client_without_handshakes_calls_and_listens_through_it(daemon: Daemon, tmp_path: Path) -> None:
    name = tmp_path / "é"
    name.write_text("text")
    async with over_stdio("2026-07-28", "--attach")(daemon) as peer:
        assert (await peer.call("fs_read", path=str(name))).object["content"] == "text"
        assert daemon.cli("disable", "fs_delete").returncode == 0
        await peer.told()
        assert "fs_delete" not in await peer.tools()


async def test_what_the_daemon_refuses_is_an_error_with_its_words(daemon: Daemon, path: str) -> None:
    flags = ["--tools-file", str(daemon.tools_json), "--profile", "no-such"]
    async with _client(daemon.home, ["mcp-agent", "stdio", "--attach", *flags], path) as client:
        answer = await client.ask("initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo={})
        assert answer["error"]["message"] == "there is no profile 'no-such'"
