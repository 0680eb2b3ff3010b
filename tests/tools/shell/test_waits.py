"""What one call can wait for: the end, a port, a file, silence, another session; as long as its client bears it."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.calls.call import Call, Caller, Success
from registry.gate import Access
from tests.support.shell_host import ShellHost

# Answers one caller and ends, so that whoever only looks must not call it.
_SERVER = """
import socket, sys, time
time.sleep(float(sys.argv[2]))
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("up", flush=True)
server.accept()
"""


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.fixture
def server(tmp_path: Path) -> str:
    (tmp_path / "server.py").write_text(_SERVER)
    return f"{sys.executable} server.py"


async def _wait(shell: ShellHost, session: str, *events: str, **arguments: Any) -> dict[str, Any]:
    return await shell.call(
        "shell_send_input",
        session_id=session,
        **{"input": "", "wait_ms": 20_000, "wait_for": list(events), **arguments},
    )


async def test_for_a_port_that_nobody_calls(shell: ShellHost, server: str) -> None:
    port = _free_port()
    session = await shell.start(f"{server} {port} 0.4")
    waited = await _wait(shell, session, f"port:{port}")
    assert (waited["came"], waited["running"]) == (f"port:{port}", True)
    with socket.create_connection(("127.0.0.1", port)):
        assert (await _wait(shell, session, "exit"))["exit_code"] == 0


async def test_a_session_starts_and_waits_for_its_port_in_one_call(shell: ShellHost, server: str) -> None:
    port = _free_port()
    started = await shell.call(
        "shell_start_session", wire="http", command=f"{server} {port} 0.4", wait_for=[f"port:{port}"]
    )
    assert (started["came"], started["running"]) == (f"port:{port}", True)
    socket.create_connection(("127.0.0.1", port)).close()


async def test_a_server_that_a_command_left_behind_is_waited_for(shell: ShellHost, server: str) -> None:
    port = _free_port()
    command = f"{server} {port} 0.6 >/dev/null 2>&1 & echo started"
    started = await shell.call("shell_start_session", wire="http", command=command, wait_for=[f"port:{port}"])
    assert (started["came"], started["running"], started["output"]) == (f"port:{port}", False, "started\n")
    socket.create_connection(("127.0.0.1", port)).close()


async def test_a_command_that_fails_ends_the_wait_for_its_port(shell: ShellHost) -> None:
    began = time.monotonic()
    started = await shell.call(
        "shell_start_session", wire="http", command="sleep 0.4; echo no; exit 3", wait_for=[f"port:{_free_port()}"]
    )
    assert (started["exit_code"], started["output"], "came" in started) == (3, "no\n", False)
    assert time.monotonic() - began < 10


async def test_for_a_file_in_the_folder_of_the_session(shell: ShellHost, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    session = await shell.start("sleep 0.4; touch done; sleep 300", cwd="sub")
    assert (await _wait(shell, session, "file:done"))["came"] == "file:done"
    assert (await _wait(shell, session, f"file:{tmp_path}/sub/done", "port:1"))["came"] == f"file:{tmp_path}/sub/done"


async def test_for_silence(shell: ShellHost) -> None:
    session = await shell.start("for i in 1 2 3 4; do echo $i; sleep 0.25; done; sleep 300")
    waited = await _wait(shell, session, "quiet:0.6")
    assert (waited["came"], waited["output"]) == ("quiet", "1\n2\n3\n4\n")


async def test_for_the_end_although_the_output_pauses(shell: ShellHost) -> None:
    session = await shell.start("echo one; sleep 0.6; echo two")
    waited = await _wait(shell, session, "exit")
    assert (waited["exit_code"], waited["output"], "came" in waited) == (0, "one\ntwo\n", False)


async def test_for_any_of_several_sessions(shell: ShellHost) -> None:
    first, second = [await shell.start(f"sleep {seconds}") for seconds in (300, 300)]
    third = await shell.start("sleep 0.5")
    waited = await _wait(shell, first, f"session:{second}", f"session:{third}")
    assert (waited["came"], waited["running"]) == (f"session:{third}", True)
    # Some models leave the word away.
    assert (await _wait(shell, first, third))["came"] == f"session:{third}"


async def test_for_a_pattern_or_something_else(shell: ShellHost) -> None:
    session = await shell.start("sleep 0.4; echo ready; sleep 300")
    waited = await _wait(shell, session, f"port:{_free_port()}", until="ready")
    assert (waited["matched"], waited["output"]) == (True, "ready\n")


async def test_what_did_not_come_is_told(shell: ShellHost) -> None:
    session = await shell.start("echo warming up; sleep 300")
    waited = await shell.call(
        "shell_send_input",
        wire="http",
        client="claude-code",
        session_id=session,
        input="",
        wait_ms=400,
        wait_for=["file:never"],
    )
    assert ("came" in waited, waited["running"], waited["output"]) == (False, True, "warming up\n")


async def test_input_with_something_to_wait_for_waits(shell: ShellHost) -> None:
    session = await shell.start("cat")
    sent = await shell.call("shell_send_input", session_id=session, input="hi\n", until="hi")
    assert (sent["matched"], sent["output"]) == (True, "hi\n")


@pytest.mark.parametrize("event", ["port:0", "port:http", "quiet:", "exit:0", "file:", "nothing", ""])
async def test_what_cannot_be_waited_for_is_refused_before_anything_starts(shell: ShellHost, event: str) -> None:
    refused = await shell.call("shell_start_session", wire="http", command="touch started", wait_for=["exit", event])
    assert refused["error"]["code"] == "INVALID_PARAMS"
    assert refused["error"]["issues"][0]["path"] == "arguments.wait_for.1"
    assert not (shell.folder / "started").exists()


@pytest.mark.parametrize(
    ("client", "wire", "hears_progress", "most_ms"),
    [
        ("claude-code", "http", True, 600_000),
        ("claude-code", "http", False, 30_000),
        ("codex-mcp-client", "http", True, 280_000),
        ("@cline/core", "http", True, 30_000),
        ("somebody", "http", True, 30_000),
        ("", "rpc", False, 30_000),
    ],
)
async def test_as_long_as_the_client_is_known_to_bear(
    shell: ShellHost, client: str, wire: str, hears_progress: bool, most_ms: int
) -> None:
    session = await shell.start("true")
    caller = Caller("owner", Access(), wire, client, connection="c")
    arguments = {"session_id": session, "input": "", "wait_ms": 3_600_000}
    told: list[str | None] = []
    report = (lambda done, total, message: told.append(message)) if hears_progress else None
    outcome = await shell.daemon.dispatcher.call(Call("t", caller, "shell_send_input", arguments, report))
    assert isinstance(outcome, Success)
    assert outcome.reply.as_object()["wait_ms"] == most_ms


async def test_the_caller_hears_that_the_wait_goes_on(shell: ShellHost) -> None:
    session = await shell.start("echo compiling; sleep 300")
    heard = asyncio.Event()
    messages: list[str | None] = []

    def report(done: float, total: float | None, message: str | None) -> None:
        messages.append(message)
        heard.set()

    caller = Caller("owner", Access(), "http", "claude-code", connection="c")
    arguments = {"session_id": session, "input": "", "wait_for": ["exit"]}
    call = asyncio.create_task(shell.daemon.dispatcher.call(Call("t", caller, "shell_send_input", arguments, report)))
    async with asyncio.timeout(20):
        await heard.wait()
    assert messages == ["1 line printed: compiling"]
    await shell.call("shell_stop_session", session_id=session)
    assert isinstance(await call, Success)


@pytest.mark.parametrize("tool", ["shell_exec", "bash"])
async def test_a_command_that_becomes_a_session_says_how_to_wait_for_it(shell: ShellHost, tool: str) -> None:
    caller = Caller("owner", Access(), "http", "claude-code", connection="c")
    command = {"command": "sleep 0.5; echo one; sleep 0.5; echo two", "yield_time_ms": 10}
    outcome = await shell.daemon.dispatcher.call(Call("t", caller, tool, command))
    assert isinstance(outcome, Success)
    session = outcome.reply.as_object()["session_id"]
    assert f'session {session}: wait with shell_send_input wait_for=["exit"] since=0' in outcome.result.render()
    told = {"session_id": session, "wait_for": ["exit"], "since": 0}
    waited = await shell.call("shell_send_input", wire="http", client="claude-code", **told)
    assert (waited["exit_code"], waited["output"]) == (0, "one\ntwo\n")
