"""A call that waits for the owner, over every wire: it runs when the owner says so, once, and not otherwise."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon, running
from tests.support.peers import WIRES, Connect
from tests.support.waiting import eventually

ASKING = {"profiles": [{"id": "default", "categories": [{"id": "shell", "ask": True}]}]}


@pytest.fixture
def asking(home: Path) -> Iterator[Daemon]:
    """A daemon whose shell asks, and that holds a call for no longer than a test does."""
    (home / "tools.json").write_text(json.dumps(ASKING))
    with running(home, "--approval-hold-s", "15") as daemon:
        yield daemon


async def pending(daemon: Daemon, count: int = 1) -> list[dict[str, Any]]:
    """The questions that wait, once there are so many."""
    async with daemon.http() as http:

        async def look() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = (await http.get("/api/approvals")).json()["approvals"]
            return found

        return await eventually(look, lambda found: len(found) == count and all(each["waiting"] for each in found))


async def decide(daemon: Daemon, request_id: str, decision: str, **more: str) -> dict[str, Any]:
    async with daemon.http() as http:
        answer = await http.post(f"/api/approvals/{request_id}", json={"decision": decision, **more})
        found: dict[str, Any] = answer.json()
        return {"status": answer.status_code, **found}


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
