"""A gateway over hundreds of boxes: what a model pays for the list of tools, and how boxes are found."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from mcp_agent.fleet.bus import Bus
from mcp_agent.fleet.messages import ToolEntry, pack_tools
from registry.catalog import discover
from registry.gate import Access, Gate
from registry.profiles import DEFAULT_PROFILE, SHIPPED, Profiles
from tests.support.daemon import Daemon, running
from tests.support.fleet import Swarm, call, running_fleet
from tests.support.nats import nats_server
from tests.support.waiting import eventually
from tools.kit.llm_tokens import estimate

_BOXES = 500


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Daemon]:
    """In front of 500 boxes."""
    gate = Gate(discover(), Profiles(DEFAULT_PROFILE, SHIPPED))
    tools = pack_tools(map(ToolEntry.of, gate.visible(Access())))
    with nats_server(tmp_path) as server, running_fleet(tmp_path, server.url) as fleet:
        bus = Bus(server.url, name="swarm", inbox_prefix="_INBOX.swarm")
        Swarm(bus, _BOXES, tools)
        await bus.start()
        try:
            daemon = fleet.gateway().running
            await eventually(lambda: call(daemon, "boxes"), lambda found: found["total"] == _BOXES)
            yield daemon
        finally:
            await bus.close()


async def test_the_list_of_a_large_fleet_costs_little_more_than_that_of_one_box(
    gateway: Daemon, tmp_path: Path
) -> None:
    home = tmp_path / "alone"
    home.mkdir()
    with running(home) as daemon:
        of_one = await _list(daemon)
    of_fleet = await _list(gateway)
    fleet_tools = {"boxes", "box_use", "box_run", "box_copy"}
    assert {tool["name"] for tool in of_fleet} - {tool["name"] for tool in of_one} == fleet_tools
    costs = [estimate(orjson.dumps(tools).decode()) for tools in (of_one, of_fleet)]
    assert costs[1] <= costs[0] * 1.15, costs


async def test_boxes_are_paged_and_found_by_their_labels(gateway: Daemon) -> None:
    first = await call(gateway, "boxes")
    assert (first["total"], len(first["boxes"]), first["next_offset"]) == (_BOXES, 50, 50)
    last = await call(gateway, "boxes", offset=450)
    assert (last["boxes"][-1]["box"], "next_offset" in last) == ("box0499", False)
    groups = (await call(gateway, "boxes", group_by="zone"))["boxes"]
    assert [(each["group"], each["boxes"]) for each in groups][:2] == [("z0", 72), ("z1", 72)]
    error = (await call(gateway, "shell_exec", command="true", box="zone=z1"))["error"]
    assert (error["code"], "and 52 more" in error["hint"]) == ("BOX_NEEDED", True)
    error = (await call(gateway, "shell_exec", command="true"))["error"]
    assert (error["code"], len(error["hint"]) < 1_000) == ("BOX_NEEDED", True)


async def _list(daemon: Daemon) -> list[dict[str, Any]]:
    """The list as a client of MCP gets it."""
    async with daemon.http(accept="application/json") as client:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        tools: list[dict[str, Any]] = (await client.post("/mcp", json=message)).json()["result"]["tools"]
        return tools
