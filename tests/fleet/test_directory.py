"""The table of boxes: what a gateway learns from beats, and how it forgets."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson

from mcp_agent.fleet.bus import Bus
from mcp_agent.fleet.directory import AWAY_S, Directory
from mcp_agent.fleet.member import fitting_tools
from mcp_agent.fleet.remote_tools import remote_tools
from mcp_agent.fleet.subjects import box_of_uri, boxes_in
from tests.support.fleet import Swarm
from tests.support.nats import nats_server
from tests.support.waiting import eventually

_TOOLS: list[dict[str, Any]] = [{"name": "fs_read", "category": "filesystem", "effect": "read"}]


@contextlib.asynccontextmanager
async def _directory(folder: Path, count: int) -> AsyncIterator[tuple[Directory, Swarm, Bus]]:
    with nats_server(folder) as server:
        boxes = await Bus.connect(server.url, name="swarm", inbox_prefix="_INBOX.swarm")
        gateway = await Bus.connect(server.url, name="gateway", inbox_prefix="_INBOX.gateway.gw")
        swarm, directory = Swarm(boxes, count, _TOOLS), Directory()
        try:
            await swarm.join()
            await directory.join(gateway)
            await eventually(lambda: len(directory.boxes), lambda found: found == count)
            yield directory, swarm, boxes
        finally:
            await gateway.close()
            await boxes.close()


async def test_boxes_with_the_same_tools_send_them_once(tmp_path: Path) -> None:
    async with _directory(tmp_path, 40) as (directory, _, _):
        assert directory.counted_sets() == [(_TOOLS, 40)]
        assert [box.name for box in directory.holders("fs_read")][:2] == ["box0000", "box0001"]
        assert [box.name for box in directory.find(labels={"zone": "z6"})][:2] == ["box0006", "box0013"]
        assert [box.name for box in directory.find(names="*39")] == ["box0039"]


async def test_a_silent_box_is_marked_until_it_is_heard_again(tmp_path: Path) -> None:
    async with _directory(tmp_path, 2) as (directory, _, _):
        box = directory.boxes["box0001"]
        box.heard_at -= AWAY_S + 1
        assert [directory.is_away(each) for each in directory.boxes.values()].count(True) == 1
        await eventually(lambda: directory.ask_boot("box0001", 1.0))
        assert not directory.is_away(box)


async def test_a_box_that_leaves_is_forgotten_with_its_tools_and_another_start_of_it_is_not(tmp_path: Path) -> None:
    async with _directory(tmp_path, 1) as (directory, _, bus):
        for boot, left in (("another", 1), ("bootbox0000", 0)):
            await bus.publish("agent.box0000.beat", orjson.dumps({"leaves": True, "boot": boot}))
            # Messages of one connection come in order.
            await bus.publish("agent.other.beat", orjson.dumps({"boot": boot}))
            await eventually(lambda: len(directory.boxes), lambda found: found == left)  # noqa: B023
        assert directory.counted_sets() == []


async def test_a_beat_that_cannot_be_read_is_ignored(tmp_path: Path) -> None:
    async with _directory(tmp_path, 1) as (directory, swarm, bus):
        for beat in (b"", b"[]", b"{}", b'{"boot": 5}', b'{"boot": "x", "facts": "y", "load": []}'):
            await bus.publish("agent.bad.beat", beat)
            await bus.publish("agent.BAD.beat", beat)
        box = directory.boxes["box0000"]
        heard_at = box.heard_at
        await swarm.beat()
        await eventually(lambda: box.heard_at > heard_at)
        assert list(directory.boxes) == ["box0000"]


async def test_what_a_box_says_of_its_tools_is_taken_as_far_as_it_can_be_offered(tmp_path: Path) -> None:
    with nats_server(tmp_path) as server:
        boxes = await Bus.connect(server.url, name="swarm", inbox_prefix="_INBOX.swarm")
        gateway = await Bus.connect(server.url, name="gateway", inbox_prefix="_INBOX.gateway.gw")
        odd: list[Any] = [
            5,
            {},
            {"name": "a tool"},
            {"name": "a", "schema": []},
            {"name": "b", "schema": {"properties": 5}},
            {"name": "c", "aliases": "none"},
            {"name": "d", "hints": []},
        ]
        try:
            await Swarm(boxes, 1, [*odd, *_TOOLS, {"name": "boxes"}]).join()
            directory = Directory()
            await directory.join(gateway)
            await eventually(lambda: directory.boxes)
            (tool,) = remote_tools(directory, {"boxes"})
            assert (tool.name, tool.effect, tool.listed_schema) == ("fs_read", "read", {"type": "object"})
        finally:
            await gateway.close()
            await boxes.close()


def test_a_box_offers_as_many_tools_as_one_message_holds() -> None:
    tools = [{"name": f"tool{number}", "description": "x" * 100_000} for number in range(12)]
    assert [tool["name"] for tool in fitting_tools(tools)] == [f"tool{number}" for number in range(8)]
    assert fitting_tools(tools[:3]) == tools[:3]


def test_the_box_is_read_from_ids_and_from_nothing_else() -> None:
    for arguments, boxes in (
        ({"session_id": "s0123abcd-gpu-1"}, ["gpu-1"]),
        ({"session_id": "s0123abcd"}, []),
        ({"path": "undo://m3k4-two", "to": "notes-two"}, ["two"]),
        ({"path": f"ax://shell/{'0' * 20}-two?cursor=5"}, ["two"]),
        ({"path": "undo://m3k4-two/inner/file"}, ["two"]),
        ({"prune_id": "prn_25brui6dy7qpwaxn-two"}, ["two"]),
        ({"prune_id": "prn_25brui6dy7qpwaxn"}, []),
        ({"cursor": "c1_abc-_DEF.two"}, ["two"]),
        ({"cursor": "c1_abc"}, []),
        ({"command": "echo s0123abcd-two", "count": 5, "text": "c1_abc.two"}, []),
    ):
        assert boxes_in(arguments) == set(boxes)
    assert [box_of_uri(uri) for uri in ("session://s01-two?since=5", "undo://m3k4-two", "host://tools")] == [
        "two",
        "two",
        None,
    ]
