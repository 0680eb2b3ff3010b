"""A session that the daemon ended says why, in its event and in every result about it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, running
from tests.support.event_stream import call, events, start
from tests.support.shell_host import ShellHost, shell_host
from tests.support.waiting import PATIENCE_S, eventually


@pytest.fixture
async def short(home: Path) -> AsyncIterator[Daemon]:
    with running(home, "--session-age-s", "1") as daemon:
        yield daemon


async def test_an_old_session_says_that_it_was_its_age(short: Daemon) -> None:
    async with events(short) as client:
        session = await start(short, "exec sleep 60")
        heard = await client.next("shell_session_exit")
    ended = {"exit_code": 143, "signal": "TERM", "ended_by": "age"}
    assert heard.data == {"type": "shell_session_exit", "session_id": session, **ended}
    read = await call(short, "shell_send_input", session_id=session, input="", wait_ms=0)
    assert {name: read[name] for name in ended} == ended
    stopped = await call(short, "shell_stop_session", session_id=session)
    assert (stopped["already_ended"], stopped["ended_by"]) == (True, "age")
    resource = await short.rpc("resources/read", uri=f"session://{session}")
    assert resource["result"]["contents"][0]["_meta"]["ended_by"] == "age"
    assert "exit 143 (age)" in short.cli("sessions", "list").stdout
    tail = short.cli("sessions", "tail", session, "--since", "0")
    assert (tail.returncode, tail.stderr) == (143, "[exit 143 because it reached the age limit of sessions]\n")
    read = await short.rpc("tools/call", name="shell_send_input", arguments={"session_id": session, "input": "x"})
    assert "it reached the age limit of sessions" in read["result"]["content"][0]["text"]


async def test_a_timeout_that_came_to_a_session_says_so(shell: ShellHost) -> None:
    promoted = await shell.call("shell_exec", command="exec sleep 60", yield_ms=50, timeout_seconds=0.3)
    session = shell.daemon.sessions.find(promoted["session_id"])
    await session.wait_for_exit(PATIENCE_S)
    read = await shell.call("shell_send_input", session_id=session.id, input="", wait_ms=0)
    assert (read["exit_code"], read["ended_by"]) == (143, "timeout")


async def test_a_session_that_went_with_its_client_says_so(tmp_path: Path) -> None:
    async with shell_host(tmp_path, stop_on_disconnect="true") as shell:
        session = shell.daemon.sessions.find(await shell.start("exec sleep 60"))
        shell.daemon.sessions.on_disconnect("a-start")
        await session.wait_for_exit(PATIENCE_S)
        assert session.ended_by == "disconnect"


async def test_the_end_of_the_daemon_says_so_to_those_who_watch_and_to_those_who_wait(home: Path) -> None:
    with running(home) as daemon:
        async with events(daemon) as client:
            session = await start(daemon, "exec sleep 60")
            waiting = asyncio.create_task(call(daemon, "shell_exec", command="touch begun; exec sleep 60"))
            await eventually((home / "begun").exists)
            daemon.process.send_signal(signal.SIGTERM)
            heard = await client.next("shell_session_exit")
            executed = await waiting
    assert (heard.data["session_id"], heard.data["ended_by"]) == (session, "shutdown")
    assert (executed["exit_code"], executed["ended_by"]) == (143, "shutdown")


async def test_a_session_that_ends_itself_or_is_stopped_has_no_such_field(shell: ShellHost) -> None:
    own = await shell.start("exit 3")
    await shell.daemon.sessions.find(own).wait_for_exit(PATIENCE_S)
    other = await shell.start("exec sleep 60")
    stopped = await shell.call("shell_stop_session", session_id=other)
    assert stopped == {"session_id": other, "stopped": True, "exit_code": 143, "signal": "TERM"}
    read = await shell.call("shell_send_input", session_id=own, input="", wait_ms=0)
    assert (read["exit_code"], "ended_by" in read) == (3, False)
