"""`mcp-agent sessions`, for the person at the machine."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path

from tests.support.daemon import COMMAND, Daemon, command, environment
from tests.support.event_stream import call, start
from tests.support.waiting import PATIENCE_S


async def test_sessions_are_listed_with_their_state(daemon: Daemon) -> None:
    nothing = daemon.cli("sessions", "list")
    assert (nothing.stdout, nothing.stderr) == ("", "no sessions\n")
    running = await start(daemon, "exec sleep 300")
    ended = await start(daemon, "echo bye; exit 3")
    await call(daemon, "shell_send_input", session_id=ended, input="", wait_ms=10_000)
    lines = daemon.cli("sessions", "list").stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [[running, "running"], [ended, "exit"]]
    assert lines[0].endswith("exec sleep 300")
    assert [each["exit_code"] for each in json.loads(daemon.cli("sessions", "list", "--json").stdout)] == [None, 3]
    offered = command(daemon.home, "__complete", "sessions", "stop", "").stdout.split()
    assert sorted(offered) == sorted([running, ended])


async def test_tail_prints_what_a_session_prints_and_ends_as_it_ends(daemon: Daemon) -> None:
    session = await start(daemon, "echo out; echo err >&2; exit 3")
    done = daemon.cli("sessions", "tail", session)
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 3)


async def test_a_session_that_is_not_there_is_said_to_be_missing(daemon: Daemon) -> None:
    done = daemon.cli("sessions", "tail", "nope")
    told = "mcp-agent: there is no session 'nope' (no session is running, and none has ended in the last hour)\n"
    assert (done.stdout, done.stderr, done.returncode) == ("", told, 2)
    session = await start(daemon, "exec sleep 300")
    assert daemon.cli("sessions", "tail", "nope").stderr.endswith(f"(there are: {session})\n")


async def test_tail_begins_with_a_whole_line(daemon: Daemon) -> None:
    session = await start(daemon, "seq 1 10000; exit 0")
    await call(daemon, "shell_send_input", session_id=session, input="", wait_ms=10_000, until="^10000$")
    done = daemon.cli("sessions", "tail", session)
    first = int(done.stdout.split()[0])
    assert 8_000 < first < 9_000
    assert done.stdout == "".join(f"{number}\n" for number in range(first, 10_001))


async def test_ctrl_c_ends_tail_and_leaves_the_session_running(daemon: Daemon) -> None:
    session = await start(daemon, "echo first; cat")
    tail = await asyncio.create_subprocess_exec(
        COMMAND,
        *("sessions", "tail", session, "--tools-file", str(daemon.tools_json)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(daemon.home),
        cwd=daemon.home,
    )
    assert tail.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        assert await tail.stdout.readline() == b"first\n"
        await call(daemon, "shell_send_input", session_id=session, input="second\n")
        assert await tail.stdout.readline() == b"second\n"
        tail.send_signal(signal.SIGINT)
        rest, errors = await tail.communicate()
    assert (rest, errors, tail.returncode) == (b"", b"", 130)
    told = await call(daemon, "shell_send_input", session_id=session, input="", wait_ms=0)
    assert told["running"] is True


async def test_stop_ends_a_session_and_says_how(daemon: Daemon) -> None:
    session = await start(daemon, "exec sleep 300")
    done = daemon.cli("sessions", "stop", session, "--signal", "INT")
    assert (done.stdout, done.returncode) == (f"{session} has ended: exit 130, signal INT\n", 0)


def test_a_session_that_is_not_there_is_told(daemon: Daemon) -> None:
    for action in ("stop", "tail"):
        done = daemon.cli("sessions", action, "s00000000")
        assert done.returncode == 2
        assert "there is no session 's00000000'" in done.stderr


def test_without_a_daemon_there_are_no_sessions(home: Path) -> None:
    done = command(home, "sessions", "list")
    assert done.returncode == 3
    assert "no daemon is running" in done.stderr
