"""A call that waits for the owner, over every wire: it runs when the owner says so, once, and not otherwise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from tests.approvals.asking import Era, decide, pending, streamed_command
from tests.support import node, programs
from tests.support.daemon import Daemon, running
from tests.support.peers import WIRES, Connect
from tests.support.waiting import eventually

ASKING = {"profiles": [{"id": "default", "categories": [{"id": "shell", "ask": True}]}]}


@pytest.fixture
def asking(home: Path) -> Iterator[Daemon]:
    """A daemon whose shell asks, and that holds a call for no longer than a test does."""
    (home / "tools.json").write_text(json.dumps(ASKING))
    with running(home, "--approval-hold-s", "60") as daemon:
        yield daemon


@pytest.mark.parametrize("wire", [name for name in WIRES if not name.startswith("stdio")])
async def test_an_approved_call_runs(asking: Daemon, wire: str, tmp_path: Path) -> None:
    connect: Connect = WIRES[wire]
    mark = tmp_path / "ran"
    async with connect(asking) as peer:
        call = asyncio.create_task(peer.call("shell_exec", command=f"touch {mark}; echo done"))
        (request,) = await pending(asking)
        assert request["command"] == f"touch {mark}; echo done"
        assert not mark.exists()
        await decide(asking, request["id"], "once")
        answer = await call
    assert mark.exists()
    assert answer.object["stdout"] == "done\n"


@pytest.mark.parametrize("wire", [name for name in WIRES if not name.startswith("stdio")])
async def test_a_denied_call_does_not_run_and_is_told_why(asking: Daemon, wire: str, tmp_path: Path) -> None:
    connect: Connect = WIRES[wire]
    mark = tmp_path / "ran"
    async with connect(asking) as peer:
        call = asyncio.create_task(peer.call("shell_exec", command=f"touch {mark}"))
        (request,) = await pending(asking)
        await decide(asking, request["id"], "deny", reason="use make instead")
        answer = await call
    assert not mark.exists()
    assert answer.is_error
    assert answer.object["error"]["code"] == "DENIED"
    assert answer.object["error"]["message"] == "the owner did not approve this call: use make instead"


@pytest.mark.parametrize("era", get_args(Era))
async def test_a_client_is_told_every_five_seconds_that_its_call_waits(asking: Daemon, era: Era) -> None:
    async with streamed_command(asking, era, "echo done") as messages:
        told = [(await anext(messages)) for _ in range(3)]
        (request,) = await pending(asking)
        await decide(asking, request["id"], "once")
        rest = [message async for message in messages]
    assert {message["method"] for message in told} == {"notifications/progress"}
    assert {message["params"]["progressToken"] for message in told} == {"p"}
    expected = f"waiting for the owner to approve this call ({request['id']})"
    assert {message["params"]["message"] for message in told} == {expected}
    first, second, third = (message["params"]["progress"] for message in told)
    # Seconds. On a busy machine they come later, and never before.
    assert first == 0
    assert 5 <= second < 10
    assert 5 <= third - second < 10
    *progress, answer = rest
    assert all(message["params"]["progress"] >= third for message in progress)
    assert answer["result"]["structuredContent"]["stdout"] == "done\n"


@pytest.mark.parametrize(("generation", "era"), [(1, "handshake"), (2, "handshake"), (2, "stateless")])
@pytest.mark.parametrize("decision", ["once", "deny"])
async def test_the_typescript_clients_wait_for_the_owner(
    home: Path, generation: int, era: str, decision: str, tmp_path: Path
) -> None:
    mark = tmp_path / "runs"
    asked = {
        "modules": str(programs.typescript_sdk() if generation == 1 else programs.typescript_client()),
        "generation": generation,
        "era": era,
        "command": f"echo run >> {mark}; cat {mark}",
    }
    (home / "tools.json").write_text(json.dumps(ASKING))
    # The stateless one sends its call again after each round.
    with running(home, "--approval-hold-s", "2" if era == "stateless" else "60") as daemon:
        client = await asyncio.create_subprocess_exec(
            *(node.NODE, str(Path(__file__).with_name("typescript_client.mjs"))),
            json.dumps({**asked, "url": daemon.url, "token": daemon.token}),
            stdout=asyncio.subprocess.PIPE,
            env=node.environment(),
        )
        (request,) = await pending(daemon)
        if era == "stateless":
            audit = daemon.home / ".local/state/mcp-agent/audit/audit.jsonl"
            await eventually(lambda: audit.read_text().count("APPROVAL_PENDING") > 1)
        await decide(daemon, request["id"], decision, reason="not now")
        output, _ = await client.communicate()
    said = json.loads(output)
    assert f"waiting for the owner to approve this call ({request['id']})" in said["progress"]
    if decision == "once":
        assert said["result"]["stdout"] == "run\n"
        assert mark.read_text() == "run\n"
    else:
        assert said["result"]["error"]["message"] == "the owner did not approve this call: not now"
        assert not mark.exists()
