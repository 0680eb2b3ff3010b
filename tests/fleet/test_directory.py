"""The table of boxes: what a gateway learns from beats, and how it forgets."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from mcp_agent.fleet.bus import Bus
from mcp_agent.fleet.directory import AWAY_S, Directory
from mcp_agent.fleet.member import fitting_tools
from mcp_agent.fleet.messages import (
    About,
    BadMessage,
    Beat,
    Leaves,
    ToolEntry,
    digest,
    encode,
    pack_tools,
    read_tools,
)
from mcp_agent.fleet.remote_tools import remote_tools
from mcp_agent.fleet.subjects import box_of_uri, boxes_in
from registry.catalog import Catalog
from registry.gate import Access, Gate
from registry.profiles import DEFAULT_PROFILE, SHIPPED, Profiles, Switches
from tests.support.fleet import Swarm
from tests.support.nats import nats_server
from tests.support.waiting import eventually
from tools.kit.errors import ToolDisabled

_READ = ToolEntry("fs_read", "filesystem", "read", "Read", "Read a file.", destructive=False, idempotent=True)
_EXEC = ToolEntry("shell_exec", "shell", "execute", "Run", "Run a command.")
_TOOLS = pack_tools([_READ])


@contextlib.asynccontextmanager
async def _directory(folder: Path, count: int, tools: bytes = _TOOLS) -> AsyncIterator[tuple[Directory, Swarm, Bus]]:
    """A directory that knows so many boxes, all with the same tools; and a connection to be any other box on."""
    with nats_server(folder) as server:
        boxes = Bus(server.url, name="swarm", inbox_prefix="_INBOX.swarm")
        gateway = Bus(server.url, name="gateway", inbox_prefix="_INBOX.gateway.gw")
        swarm, directory = Swarm(boxes, count, tools), Directory(gateway)
        gateway.on_connected = directory.ask_everybody
        try:
            await boxes.start()
            await gateway.start()
            await eventually(lambda: len(directory.boxes), lambda found: found == count)
            yield directory, swarm, boxes
        finally:
            await gateway.close()
            await boxes.close()


async def _join_one_more(directory: Directory, bus: Bus, tools: bytes, claimed: str | None = None) -> None:
    """Another box, with tools under a digest that need not be theirs, says who it is. Returns when it was heard."""
    about = About({}, "/srv", "0", "other", claimed or digest(tools))
    await bus.publish("agent.other.beat", encode(Beat("bootother", "facts", about=about, tools=tools)))
    # Messages of one connection come in order.
    await bus.publish("agent.box0000.beat", encode(Beat("bootbox0000", "facts of box0000", sessions=77)))
    await eventually(lambda: directory.boxes["box0000"].sessions == 77)


async def test_boxes_with_the_same_tools_send_them_once(tmp_path: Path) -> None:
    async with _directory(tmp_path, 40) as (directory, _, _):
        assert directory.counted_sets() == [((_READ,), 40)]
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
            await bus.publish("agent.box0000.beat", encode(Leaves(boot)))
            # Messages of one connection come in order.
            await bus.publish("agent.other.beat", encode(Beat(boot, "x")))
            await eventually(lambda: len(directory.boxes), lambda found: found == left)  # noqa: B023
        assert directory.counted_sets() == []


_GOOD = {"type": "beat", "boot": "bootbox0000", "facts": "facts of box0000"}


@pytest.mark.parametrize(
    "forged",
    [
        {},
        {"boot": 5},
        {"sessions": 1e30},
        {"sessions": -1},
        {"events": 2**64 - 1},
        {"load": float("nan")},
        {"load": 1e300},
        {"about": {"labels": 5}},
        {"about": {"labels": {"gpu": 1}, "directory": "", "version": "", "host": "", "tools": ""}},
    ],
)
async def test_a_forged_beat_is_ignored_as_a_whole(tmp_path: Path, forged: dict[str, Any]) -> None:
    async with _directory(tmp_path, 1) as (directory, swarm, bus):
        box = directory.boxes["box0000"]
        heard_at = box.heard_at
        for name in ("box0000", "bad", "BAD"):
            await bus.publish(f"agent.{name}.beat", msgspec.msgpack.encode({**_GOOD, **forged} if forged else []))
        await bus.publish("agent.box0000.beat", b"")
        assert box.heard_at == heard_at
        await swarm.beat()
        await eventually(lambda: box.heard_at > heard_at)
        assert list(directory.boxes) == ["box0000"]
        assert (box.sessions, box.load, dict(box.labels)) == (0, 0.5, {"zone": "z0"})


async def test_a_box_cannot_replace_the_tools_of_others_under_their_digest(tmp_path: Path) -> None:
    forged = pack_tools([msgspec.structs.replace(_EXEC, effect="read", category="filesystem", description="forged")])
    async with _directory(tmp_path, 1, pack_tools([_EXEC])) as (directory, _, bus):
        await _join_one_more(directory, bus, forged, claimed=digest(pack_tools([_EXEC])))
        assert list(directory.boxes) == ["box0000"]
        (tool,) = remote_tools(directory, ())
        assert (tool.effect, tool.category, tool.description) == ("execute", "shell", "Run a command.")


@pytest.mark.parametrize("honest", [1, 3])
async def test_of_all_holders_of_a_tool_the_strictest_effect_and_every_category_count(
    tmp_path: Path, honest: int
) -> None:
    """A box with its own credentials says that its `shell_exec` only reads, and that it is another category."""
    milder = msgspec.structs.replace(_EXEC, effect="read", category="browser", destructive=False, idempotent=True)
    async with _directory(tmp_path, honest, pack_tools([_EXEC, _READ])) as (directory, _, bus):
        await _join_one_more(directory, bus, pack_tools([milder, _READ]))
        assert len(directory.boxes) == honest + 1
        tools = {tool.name: tool for tool in remote_tools(directory, ())}
        found = tools["shell_exec"]
        assert (found.effect, found.destructive, found.idempotent) == ("execute", True, False)
        assert {found.category, *found.other_categories} == {"shell", "browser"}
        gate = Gate(Catalog(tools.values()), Profiles(DEFAULT_PROFILE, _profiles()))
        for profile in ("read-only", "browser-only", "no-shell", "no-browser"):
            with pytest.raises(ToolDisabled):
                gate.admit(Access(profile), "shell_exec")
        assert gate.admit(Access(DEFAULT_PROFILE), "shell_exec")
        assert gate.admit(Access("read-only"), "fs_read")


def _profiles() -> dict[str, Any]:
    default = SHIPPED[DEFAULT_PROFILE]
    off = {
        f"no-{category}": msgspec.structs.replace(
            default, id=f"no-{category}", categories={category: Switches(enabled=False)}
        )
        for category in ("shell", "browser")
    }
    return {**SHIPPED, **off}


def test_what_a_box_says_of_its_tools_is_taken_as_far_as_it_can_be_offered() -> None:
    deep: Any = {}
    for _ in range(300):
        deep = {"properties": deep}
    odd: list[Any] = [
        5,
        {},
        {"name": "a tool", "category": "x", "effect": "read"},
        {"name": "a", "category": "x", "effect": "read", "input_schema": []},
        {"name": "b", "category": "x", "effect": "read", "input_schema": {"properties": 5}},
        {"name": "c", "category": "x", "effect": "read", "aliases": "none"},
        {"name": "d", "category": "x", "effect": "read", "hints": []},
        {"name": "e", "category": "x", "effect": "harmless"},
        {"name": "f", "category": "x", "effect": "read", "listed_schema": deep},
        {"name": "fs_read", "category": "filesystem", "effect": "read"},
    ]
    data = msgspec.json.encode(odd)
    assert read_tools(data, digest(data)) == (ToolEntry("fs_read", "filesystem", "read"),)
    for broken in (b"", b"{}", b"[" * 100_000, orjson.dumps("x")):
        with pytest.raises(BadMessage):
            read_tools(broken, digest(broken))


def test_a_box_offers_as_many_tools_as_one_message_holds() -> None:
    tools = [ToolEntry(f"tool{number}", "x", "read", description="x" * 100_000) for number in range(12)]
    assert [tool.name for tool in fitting_tools(tools)] == [f"tool{number}" for number in range(8)]
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
