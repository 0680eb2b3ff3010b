"""A gateway over the tools of several boxes: real processes on a real nats-server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.daemon import Daemon
from tests.support.fleet import Fleet, call, running_fleet
from tests.support.nats import nats_server


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    with nats_server(folder) as server, running_fleet(folder, server.url) as fleet:
        yield fleet


@pytest.fixture(scope="module")
def gateway(fleet: Fleet) -> Daemon:
    """With two boxes, of which one has a label."""
    fleet.member("one", labels=("gpu=1", "zone=eu"))
    fleet.member("two", labels=("zone=eu",))
    daemon = fleet.gateway().daemon
    assert daemon is not None
    return daemon


async def test_a_call_runs_on_the_box_that_is_named(gateway: Daemon) -> None:
    for box in ("one", "two"):
        result = await call(gateway, "shell_exec", command="basename $PWD", box=box)
        assert (result["exit_code"], result["stdout"]) == (0, f"{box}\n")


async def test_labels_that_fit_one_box_name_it(gateway: Daemon) -> None:
    assert (await call(gateway, "shell_exec", command="basename $PWD", box="gpu=1"))["stdout"] == "one\n"


async def test_a_call_without_a_box_lists_those_that_there_are(gateway: Daemon) -> None:
    error = (await call(gateway, "shell_exec", command="true"))["error"]
    assert error["code"] == "BOX_NEEDED"
    assert "one (gpu=1, zone=eu), two (zone=eu)" in error["hint"]


async def test_every_tool_is_listed_once_with_box(gateway: Daemon) -> None:
    tools = (await gateway.rpc("tools/list"))["result"]["tools"]
    names = [tool["name"] for tool in tools]
    assert len(names) == len(set(names))
    assert {"boxes", "box_use", "box_run", "fs_read", "shell_exec"} <= set(names)
    (shell,) = [tool for tool in tools if tool["name"] == "shell_exec"]
    assert "box" in shell["inputSchema"]["properties"]
