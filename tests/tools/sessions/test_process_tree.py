"""Nothing of ours stays alive, and nobody else's process is touched."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import COMMAND, Daemon, environment, running
from tests.support.pruner_http import PRUNER
from tests.support.shell_host import ShellHost
from tests.support.waiting import PATIENCE_S, eventually, eventually_sync
from tools.sessions import process_tree
from tools.sessions.process_tree import ProcessId

_ESCAPES = {
    "setsid": "setsid sleep 300 & sleep 300",
    "double fork": "(sleep 300 & (sleep 300 &) &) ; sleep 300",
    "setsid twice": "setsid setsid sh -c 'sleep 300 & wait' & wait",
    "ignores TERM": "trap '' TERM; (trap '' TERM; sleep 300) & sleep 300",
    "leader gone": "setsid sleep 300 > /dev/null 2>&1 &",
    "stopped": "sleep 300 & sleep 0.1; kill -STOP $!; wait",
    "no environment": "env -i setsid sleep 300 & wait",
}


@pytest.fixture
def nap(tmp_path: Path) -> str:
    """A number of seconds that no other test sleeps, in this run of the tests or in one beside it."""
    return f"3000.{zlib.crc32(bytes(tmp_path))}"


@pytest.mark.parametrize("command", _ESCAPES.values(), ids=_ESCAPES)
async def test_stop_leaves_nothing_alive(shell: ShellHost, command: str, nap: str) -> None:
    session = await shell.start(f"{command.replace('300', nap)}\n")
    await eventually(lambda: _sleepers(nap))
    found = shell.daemon.sessions.find(session)
    await found.stop(signal.SIGTERM, 0.3)
    assert _sleepers(nap) == []


async def test_a_process_that_took_over_a_number_is_never_signalled() -> None:
    stranger = _stranger()
    try:
        began = process_tree.start_time(stranger.pid)
        assert began is not None
        assert process_tree.send(ProcessId(stranger.pid, began - 1), signal.SIGKILL) is False
        assert stranger.poll() is None
        assert process_tree.send(ProcessId(stranger.pid, began), signal.SIGKILL) is True
        assert stranger.wait(PATIENCE_S) == -signal.SIGKILL
    finally:
        stranger.kill()
        stranger.wait()


async def test_a_session_that_is_over_does_not_lead_to_who_has_its_number_now(shell: ShellHost) -> None:
    """The number of a leader counts for finding its processes only until it is reaped."""
    session_id = await shell.start("true")
    session = shell.daemon.sessions.find(session_id)
    await session.wait_for_exit(PATIENCE_S)
    assert session.child.is_reaped
    stranger = _stranger()
    try:
        # As if the stranger had been given the leader's number.
        session.child.process.pid = stranger.pid
        await session.stop(signal.SIGKILL)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.alone
async def test_the_next_start_after_a_crash_cleans_up(home: Path, nap: str) -> None:
    with running(home) as daemon:
        commands = [f"setsid sleep {nap} & sleep {nap}", f"trap '' TERM; sleep {nap} & sleep {nap}"]
        for command in commands:
            await _call(daemon, "shell_start_session", command=command)
        folder = next((home / ".local" / "state" / "mcp-agent" / "sessions").iterdir())
        await eventually(lambda: _sleepers(nap), lambda found: len(found) == 4)
        daemon.process.kill()
        daemon.process.wait()
        stranger = _stranger()
        try:
            with (folder / "processes").open("a") as record:
                record.write(f"{stranger.pid} 1\n{os.getpid()} 1\n")
            began = time.monotonic()
            with running(home):
                assert time.monotonic() - began < 5
                assert _sleepers(nap) == []
                assert not (folder / "processes").exists()
                assert stranger.poll() is None
        finally:
            stranger.kill()
            stranger.wait()


@pytest.mark.alone
async def test_a_killed_daemon_that_nobody_reaps_counts_as_gone(home: Path, nap: str) -> None:
    with running(home) as daemon:
        await _call(daemon, "shell_start_session", command=f"setsid sleep {nap} & sleep {nap}")
        await eventually(lambda: _sleepers(nap), lambda found: len(found) == 2)
        daemon.process.kill()
        # Not reaped: `wait` comes at the end of the block, so the daemon is a zombie all the while.
        await eventually(lambda: _state(daemon.process.pid), lambda state: state == "Z")
        assert "no daemon is running" in daemon.cli("sessions", "list").stderr
        with running(home):
            assert _sleepers(nap) == []
            assert _state(daemon.process.pid) == "Z"


@pytest.mark.parametrize("program", [(COMMAND, "stdio"), (PRUNER,)], ids=["mcp-agent", "mcp-pruner"])
async def test_what_starts_beside_a_daemon_leaves_its_sessions_alone(
    home: Path, nap: str, program: tuple[str, ...]
) -> None:
    ping = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
    with running(home) as daemon:
        await _call(daemon, "shell_start_session", command=f"sleep {nap}")
        beside = await asyncio.create_subprocess_exec(
            *program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(home),
            cwd=home,
        )
        answer, _ = await beside.communicate(ping)
        assert json.loads(answer)["result"] == {}
        assert _sleepers(nap) != []


@pytest.mark.alone
async def test_a_stopping_daemon_ends_its_sessions_tells_of_it_and_leaves_nothing(home: Path, nap: str) -> None:
    with running(home) as daemon:
        for _ in range(9):
            await _call(daemon, "shell_start_session", command=f"sleep {nap}")
        await _call(daemon, "shell_start_session", command=f"trap '' TERM; sleep {nap} & while true; do wait; done")
        async with daemon.http() as http, http.stream("GET", "/events") as stream:
            lines = stream.aiter_lines()
            assert await anext(lines) == ": connected"
            began = time.monotonic()
            daemon.process.send_signal(signal.SIGTERM)
            told = [line async for line in lines if line == "event: shell_session_exit"]
        assert await asyncio.to_thread(daemon.process.wait, PATIENCE_S) == 0
        assert time.monotonic() - began < 10
    assert len(told) == 10
    assert _sleepers(nap) == []
    # What they printed is there for the next start, and nothing else.
    left = [path.suffix for path in (home / ".local" / "state" / "mcp-agent" / "sessions").glob("*/*")]
    assert sorted(left) == [".json", *[".log"] * 10, *[".session"] * 10]


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize(
    ("program", "tool"), [((COMMAND, "stdio"), "shell_exec"), ((PRUNER,), "bash")], ids=["mcp-agent", "mcp-pruner"]
)
def test_a_signal_over_stdio_leaves_nothing_alive(
    home: Path, nap: str, program: tuple[str, ...], tool: str, sign: signal.Signals
) -> None:
    call = {"name": tool, "arguments": {"command": f"trap '' HUP; sleep {nap}; true"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    with subprocess.Popen(
        program,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(home),
        cwd=home,
    ) as server:
        assert server.stdin is not None
        server.stdin.write(json.dumps(message).encode() + b"\n")
        server.stdin.flush()
        eventually_sync(lambda: _sleepers(nap))
        server.send_signal(sign)
        assert server.wait(PATIENCE_S) == 0
    assert _sleepers(nap) == []


async def test_what_a_daemon_under_nohup_starts_can_be_hung_up(home: Path) -> None:
    ignoring = ("sh", "-c", "trap '' HUP INT QUIT; exec \"$@\"", "sh", COMMAND)
    with running(home, start=ignoring) as daemon:
        for number, name in ((1, "HUP"), (2, "INT"), (3, "QUIT")):
            answer = await _call(daemon, "shell_exec", command=f"kill -{name} $$; echo survived")
            assert (answer["exit_code"], answer["stdout"]) == (128 + number, "")
        daemon.process.send_signal(signal.SIGHUP)
        assert (await _call(daemon, "shell_exec", command="echo alive"))["stdout"] == "alive\n"


async def test_closing_the_connection_of_a_waiting_call_ends_its_command(daemon: Daemon, nap: str) -> None:
    call = {"name": "shell_exec", "arguments": {"command": f"sleep {nap}"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    async with daemon.http() as http:
        waiting = asyncio.create_task(http.post("/rpc", json=message))
        await eventually(lambda: _sleepers(nap))
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await eventually(lambda: _sleepers(nap), lambda left: not left)


def _stranger() -> subprocess.Popen[bytes]:
    """A process that is none of a daemon's."""
    return subprocess.Popen(["sleep", "300"], start_new_session=True)


async def _call(daemon: Daemon, tool: str, **arguments: str) -> dict[str, Any]:
    answer = await daemon.rpc("tools/call", name=tool, arguments=arguments)
    assert answer["result"]["isError"] is False, answer
    result: dict[str, Any] = answer["result"]["structuredContent"]
    return result


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def _sleepers(seconds: str) -> list[int]:
    """The processes on this machine that sleep so many seconds."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[:2] == [b"sleep", seconds.encode()]:
                found.append(int(folder.name))
    return found
