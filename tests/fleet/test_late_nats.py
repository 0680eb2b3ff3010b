"""Boxes and gateways that start before their NATS server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon
from tests.support.fleet import Program, call
from tests.support.nats import NatsServer
from tests.support.waiting import PATIENCE_S, eventually, eventually_sync

# The last pause before they try again may have been one of ten seconds.
_JOIN_S = 10 + 2 * PATIENCE_S
_OTHERS_ONLY = "authorization { users: [{user: somebody, password: else}] }"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    """One that is not started yet."""
    server = NatsServer(tmp_path)
    yield server
    server.kill()


@pytest.fixture
def programs() -> Iterator[list[Program]]:
    started: list[Program] = []
    yield started
    for program in started:
        program.stop()


def _start(programs: list[Program], home: Path, *arguments: str) -> Daemon:
    places = ("--tools-file", str(home / "tools.json"), "--state-dir", str(home / "state"))
    programs.append(Program(home, (*arguments, *places)))
    return programs[-1].start()


async def _fleet_facts(daemon: Daemon) -> dict[str, Any]:
    async with daemon.http() as client:
        found: dict[str, Any] = (await client.get("/health")).json()["fleet"]
        return found


async def test_they_serve_and_join_when_it_is_there(
    tmp_path: Path, server: NatsServer, programs: list[Program]
) -> None:
    member = ("serve", "--fleet", server.url, "--box")
    box = _start(programs, tmp_path / "one", *member, "one", "--port", "0")
    silent = _start(programs, tmp_path / "two", *member, "two", "--no-listen")
    gateway = _start(programs, tmp_path / "gw", "gateway", "--fleet", server.url, "--name", "gw", "--port", "0")
    place = f"{server.host}:{server.port}"
    for daemon in (box, silent, gateway):
        # A thread writes the log.
        await eventually(daemon.stderr.read_text, lambda log: f"NATS at {place} cannot be used" in log)
    # Each does what it can without a fleet.
    assert (await call(box, "shell_exec", command="true"))["exit_code"] == 0
    assert (await call(gateway, "boxes"))["boxes"] == []
    facts = await _fleet_facts(box)
    assert (facts["box"], facts["joined"], facts["connected"], facts["nats"]) == ("one", False, False, [place])
    assert place in facts["problem"]
    assert (await _fleet_facts(gateway))["connected"] is False
    async with gateway.http() as client, client.stream("GET", "/events") as events:
        assert events.status_code == 200

    server.start()
    names = await eventually(
        lambda: call(gateway, "boxes"),
        lambda found: [row["box"] for row in found["boxes"]] == ["one", "two"],
        within_s=_JOIN_S,
    )
    assert names["boxes"][0]["box"] == "one"
    for name in ("one", "two"):
        found = await call(gateway, "shell_exec", command="basename $PWD", box=name)
        assert found["stdout"] == f"{name}\n"
    facts = await _fleet_facts(box)
    assert (facts["joined"], facts["connected"], facts["problem"]) == (True, True, None)
    assert (await _fleet_facts(gateway))["boxes"] == 2


@pytest.mark.parametrize("command", [("serve", "--box", "one"), ("gateway", "--name", "gw")])
def test_one_that_lets_in_others_only_ends_them(
    tmp_path: Path, programs: list[Program], command: tuple[str, ...]
) -> None:
    server = NatsServer(tmp_path, _OTHERS_ONLY)
    url = server.url.replace("nats://", "nats://me:wrong@")
    daemon = _start(programs, tmp_path / "one", *command, "--fleet", url, "--port", "0")
    process = programs.pop().process
    assert process is not None
    server.start()
    try:
        assert process.wait(_JOIN_S) == 1
        assert process.stdout is not None
        process.stdout.close()
    finally:
        process.kill()
        server.kill()
    eventually_sync(lambda: "cannot be used" in "".join(daemon.stderr.read_text().splitlines()[-1:]))
    assert "wrong" not in daemon.stderr.read_text()
