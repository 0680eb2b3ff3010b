"""The machine that a gateway runs on is none of the boxes: no wire reaches its files or gives a shell there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.daemon import Daemon
from tests.support.fleet import Fleet, running_fleet
from tests.support.nats import nats_server
from tests.support.open_terminal import get, run_tool, terminal


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("machine")
    with nats_server(folder) as server, running_fleet(folder, server.url) as fleet:
        fleet.member("one")
        yield fleet


@pytest.fixture(scope="module")
def gateway(fleet: Fleet) -> Daemon:
    daemon = fleet.gateway().running
    (daemon.home / "own.txt").write_text("of the gateway\n")
    return daemon


@pytest.mark.parametrize(
    ("method", "path", "asked"),
    [
        ("GET", "/files/cwd", {}),
        ("GET", "/files/list", {"params": {"directory": "."}}),
        ("GET", "/files/read", {"params": {"path": "own.txt"}}),
        ("GET", "/files/view", {"params": {"path": "own.txt"}}),
        ("GET", "/files/search", {"params": {"query": "own"}}),
        ("POST", "/files/mkdir", {"json": {"path": "made"}}),
        ("POST", "/files/move", {"json": {"source": "own.txt", "destination": "made"}}),
        ("POST", "/files/archive", {"json": {"paths": ["own.txt"]}}),
        ("POST", "/files/upload", {"files": {"file": ("made", b"x")}}),
        ("DELETE", "/files/delete", {"params": {"path": "own.txt"}}),
        ("POST", "/api/terminals", {}),
    ],
)
async def test_open_terminal_of_a_gateway_has_no_files_and_no_shell(
    gateway: Daemon, method: str, path: str, asked: dict[str, Any]
) -> None:
    async with terminal(gateway) as client:
        answer = await client.request(method, path, **asked)
    assert (answer.status_code, answer.json()["detail"]) == (
        501,
        "the tools run on other machines, so there are no files and no shell here",
    )
    assert (gateway.home / "own.txt").read_text() == "of the gateway\n"
    assert not (gateway.home / "made").exists()


async def test_open_terminal_of_a_gateway_has_the_tools_of_the_boxes(fleet: Fleet, gateway: Daemon) -> None:
    async with terminal(gateway) as client:
        ran = await run_tool(client, "shell_exec", command="pwd")
        config = await get(client, "/api/config")
        prompt = (await get(client, "/system"))["prompt"]
    assert str(fleet.folder / "one") in ran.text
    assert config["features"]["terminal"] is False
    assert "the boxes of a fleet" in prompt
    assert str(gateway.home) not in prompt


async def test_the_owner_of_a_gateway_reads_no_file_of_its_machine(gateway: Daemon) -> None:
    async with gateway.http() as http:
        for path in ("/api/files/start", f"/api/files/content?path={gateway.home / 'own.txt'}"):
            assert (await http.get(path)).status_code == 404
