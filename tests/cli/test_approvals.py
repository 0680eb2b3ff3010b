"""`mcp-agent approvals` and `mcp-agent ask`: what waits, a command for each new call, and the answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.approvals.asking import pending
from tests.support.daemon import COMMAND, Daemon, environment, running
from tests.support.peers import WIRES
from tests.support.waiting import eventually


@pytest.fixture
def asking(home: Path) -> Iterator[Daemon]:
    with running(home, "--approval-hold-s", "60") as daemon:
        done = daemon.cli("ask", "shell")
        assert done.stdout.startswith("shell is set to ask in the profile default\n"), done.stderr
        yield daemon


async def _ask(daemon: Daemon, command: str) -> dict[str, Any]:
    async with WIRES["rpc"](daemon) as peer:
        return (await peer.call("shell_exec", command=command)).object


@contextlib.contextmanager
def _watching(daemon: Daemon, *flags: str) -> Iterator[None]:
    process = subprocess.Popen(
        [COMMAND, "approvals", "watch", *flags], stdout=subprocess.DEVNULL, env=environment(daemon.home)
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


async def test_a_command_is_run_for_each_new_call_with_a_link_that_decides_nothing(
    asking: Daemon, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    with _watching(asking, "--notify", f'echo "$MCP_AGENT_APPROVAL $MCP_AGENT_APPROVAL_LINK" >> {told}; cat >> {told}'):
        call = asyncio.create_task(_ask(asking, "echo one"))
        (request,) = await pending(asking)
        text = await eventually(lambda: told.read_text() if told.exists() else "", lambda text: text.endswith("}"))
        line, _, document = text.partition("\n")
        assert line == f"owner: shell_exec echo one {asking.url}/#/ask/{request['id']}"
        assert json.loads(document)["command"] == "echo one"
        async with asking.http() as http:
            assert (await http.get(f"/api/approvals/{request['id']}")).status_code == 405
        assert [each["id"] for each in await pending(asking)] == [request["id"]]
        done = await asyncio.to_thread(asking.cli, "approvals", "deny", request["id"], "--reason", "not now")
        assert done.returncode == 0
        assert (await call)["error"]["message"] == "the owner did not approve this call: not now"


async def test_what_waits_is_listed_and_answered_once(asking: Daemon) -> None:
    call = asyncio.create_task(_ask(asking, "echo one"))
    (request,) = await pending(asking)
    listed = await asyncio.to_thread(asking.cli, "approvals", "list")
    assert listed.stdout.split("\t")[0] == request["id"]
    assert "echo one" in listed.stdout
    assert (await asyncio.to_thread(asking.cli, "approvals", "approve", request["id"])).returncode == 0
    assert (await call)["stdout"] == "one\n"
    again = await asyncio.to_thread(asking.cli, "approvals", "approve", request["id"])
    assert again.returncode == 2
    assert "does not wait any more" in again.stderr


async def test_always_says_what_it_adds(asking: Daemon) -> None:
    call = asyncio.create_task(_ask(asking, "echo one"))
    (request,) = await pending(asking)
    done = await asyncio.to_thread(asking.cli, "approvals", "approve", request["id"], "--always", "-y")
    assert "exactly this command no longer asks" in done.stdout
    assert (await call)["stdout"] == "one\n"
    assert (await _ask(asking, "echo one"))["stdout"] == "one\n"


def test_enable_takes_the_question_away_and_says_what_still_asks(asking: Daemon) -> None:
    asking.cli("ask", "--effect", "execute")
    done = asking.cli("enable", "shell")
    assert "asks you first: all that can execute asks" in done.stdout
    assert "ask" in asking.cli("profile", "show").stdout
    assert "asks you first" not in asking.cli("enable", "--effect", "execute").stdout
