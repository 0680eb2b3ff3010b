"""Switches thrown while clients are connected, in every way a person can throw them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import EVERY_TOOL, Daemon
from tests.support.peers import WIRES
from tests.support.waiting import PATIENCE_S, eventually

_OFF = {"profiles": [{"id": "default", "categories": [{"id": "filesystem", "enabled": False}]}]}
_NOTHING = {"profiles": [{"id": "default", "unlisted": "disabled"}]}
_ON: dict[str, Any] = {"profiles": []}


def _by_hand(daemon: Daemon) -> None:
    daemon.tools_json.write_text(json.dumps(_OFF))


def _by_command(daemon: Daemon) -> None:
    done = daemon.cli("disable", "filesystem")
    assert done.returncode == 0
    assert done.stdout.startswith("filesystem is off in the profile default\n")


def _by_command_elsewhere(daemon: Daemon) -> None:
    """A command that does not find the running daemon changes the file, and the daemon sees that."""
    assert daemon.cli("disable", "filesystem", "--state-dir", str(daemon.home / "other")).returncode == 0


def _by_editor(daemon: Daemon) -> None:
    daemon.save(_OFF)


@pytest.mark.alone
@pytest.mark.parametrize("throw", [_by_hand, _by_command, _by_command_elsewhere, _by_editor])
async def test_every_client_is_told_lists_again_and_is_refused(daemon: Daemon, throw: Callable[[Daemon], None]) -> None:
    wires = ["mcp-handshake", "mcp-stateless", "sse", "stdio-handshake", "stdio-stateless"]
    arrived: set[str] = set()
    thrown = asyncio.Event()

    async def client(wire: str) -> float:
        async with WIRES[wire](daemon) as peer:
            assert list(await peer.tools()) != []
            arrived.add(wire)
            await thrown.wait()
            since = time.monotonic()
            await peer.told()
            took_s = time.monotonic() - since
            assert not [name for name in await peer.tools() if name.startswith("fs_")]
            assert (await peer.call("fs_list", path="/")).object["error"]["code"] == "TOOL_DISABLED"
            return took_s

    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        clients = [tasks.create_task(client(wire)) for wire in wires]
        await eventually(lambda: len(arrived) == len(wires))
        await asyncio.to_thread(throw, daemon)
        thrown.set()
    # The promise is one second. A machine that runs everything else at once gets three.
    assert max(each.result() for each in clients) < 3


@pytest.mark.parametrize("broken", ['{"profiles": [', "[]", '{"activeProfile": "nobody"}', '{"version": 7}', ""])
async def test_a_broken_file_changes_nothing_and_is_reported(daemon: Daemon, broken: str) -> None:
    async with WIRES["mcp-handshake"](daemon) as peer:
        daemon.save(broken)
        problems = await _problems(daemon)
        assert problems[0]["severity"] == "error"
        assert list(await peer.tools()) == EVERY_TOOL
        assert not (await peer.call("fs_list", path="/")).is_error
        daemon.save(_OFF)
        await peer.told()
        assert not [name for name in await peer.tools() if name.startswith("fs_")]
    told = await daemon.logged("registry.rejected", "registry.reloaded")
    assert [line["event"] for line in told] == ["registry.rejected", "registry.reloaded"]


async def test_a_deleted_file_changes_nothing_until_it_is_back(daemon: Daemon) -> None:
    async with WIRES["mcp-stateless"](daemon) as peer:
        daemon.save(_OFF)
        await peer.told()
        daemon.tools_json.unlink()
        assert "is not there" in (await _problems(daemon))[0]["message"]
        assert not [name for name in await peer.tools() if name.startswith("fs_")]
        daemon.save(_ON)
        await peer.told()
        assert list(await peer.tools()) == EVERY_TOOL


async def test_a_command_does_not_write_over_a_broken_file(daemon: Daemon) -> None:
    daemon.save('{"profiles": [')
    await _problems(daemon)
    done = daemon.cli("disable", "fs_read")
    assert done.returncode == 2
    assert "is broken" in done.stderr
    assert daemon.tools_json.read_text() == '{"profiles": ['


async def test_choosing_a_profile_takes_effect_at_once(daemon: Daemon) -> None:
    async with WIRES["mcp-handshake"](daemon) as peer:
        assert daemon.cli("profile", "use", "pruner").stdout.startswith("pruner is the active profile\n")
        await peer.told()
        assert not [name for name in await peer.tools() if name.startswith("fs_")]


async def test_a_profile_in_the_url_narrows_and_never_widens(daemon: Daemon) -> None:
    daemon.save(_NOTHING)
    async with daemon.http() as http:
        await _told_once(daemon)
        listed = {}
        for profile in ("default", "lean", "read-only", "browser-only"):
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            listed[profile] = (await http.post(f"/mcp/{profile}", json=message)).json()["result"]["tools"]
        assert listed == {"default": [], "lean": [], "read-only": [], "browser-only": []}
        unknown = await http.post("/mcp/nobody", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    assert unknown.status_code == 404
    assert "nobody" in unknown.json()["error"]["message"]


async def test_a_pinned_profile_stays_whatever_the_file_says(home: Path) -> None:
    from tests.support.daemon import running

    with running(home, "--profile", "browser-only") as daemon:
        daemon.save({"activeProfile": "default", "profiles": []})
        answer = await daemon.rpc("tools/list")
    assert answer["result"]["tools"] == []


async def test_a_watched_resource_is_reported_as_updated(daemon: Daemon) -> None:
    from mcp.client.streamable_http import streamable_http_client
    from mcp.client.subscriptions import ResourceUpdated

    from tests.support.peers import official

    async with (
        daemon.http() as http,
        official(streamable_http_client(f"{daemon.url}/mcp", http_client=http), "2026-07-28") as peer,
        peer.client.listen(resource_subscriptions=["host://tools"]) as subscription,
        asyncio.timeout(PATIENCE_S),
    ):
        daemon.save(_OFF)
        async for event in subscription:
            assert event == ResourceUpdated(uri="host://tools")
            break
        contents = (await peer.client.read_resource("host://tools", cache_mode="bypass")).contents
    overview = json.loads(contents[0].model_dump()["text"])
    assert overview["categories"][0]["tools"][0] == {"name": "fs_delete", "enabled": False}


async def _problems(daemon: Daemon) -> list[dict[str, Any]]:
    """What /health says is wrong, once it says anything."""
    async with daemon.http() as http:

        async def look() -> list[dict[str, Any]]:
            problems: list[dict[str, Any]] = (await http.get("/health")).json()["registry"]["problems"]
            return problems

        return await eventually(look)


async def _told_once(daemon: Daemon) -> None:
    await eventually(lambda: daemon.rpc("tools/list"), lambda answer: not answer["result"]["tools"])
