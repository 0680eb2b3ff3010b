"""Daemons that mount themselves or each other: it ends, and a sentence says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.support.daemon import COMMAND, Daemon, running
from tests.support.waiting import eventually
from tests.upstream.mounting import document, small


async def mounts(daemon: Daemon) -> Any:
    async with daemon.http() as client:
        return (await client.get("/health")).json()["mounts"]


async def listed(daemon: Daemon) -> list[str]:
    answer = await daemon.rpc("tools/list")
    return [tool["name"] for tool in answer["result"]["tools"]]


async def test_a_daemon_that_mounts_its_own_url_is_refused_with_a_sentence(home: Path) -> None:
    with running(home) as daemon:
        own = {"url": f"{daemon.url}/mcp", "headers": {"Authorization": f"Bearer {daemon.token}"}}
        daemon.save(document({"myself": own}))
        facts = await eventually(lambda: mounts(daemon), lambda found: "problem" in found.get("myself", {}))
        sentence = "this daemon has mounted itself: its URL is its own; it already has all of these tools"
        assert sentence in facts["myself"]["problem"]
        assert not any(name.startswith("myself") for name in await listed(daemon))


async def test_a_server_that_refuses_us_over_http_is_quoted(home: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with running(home) as daemon, running(tmp_path / "other") as other:
        daemon.save(document({"other": {"url": f"{other.url}/mcp", "headers": {"Authorization": "Bearer wrong"}}}))
        facts = await eventually(lambda: mounts(daemon), lambda found: "problem" in found.get("other", {}))
        assert facts["other"]["problem"] == "HTTP 401 Unauthorized"


async def test_a_daemon_that_starts_itself_gets_its_own_tools_once(home: Path) -> None:
    own = {"command": COMMAND, "args": ["stdio", "--tools-file", str(home / "tools.json")]}
    (home / "tools.json").write_text(json.dumps(document({"myself": own, "small": small(only=["echo"])})))
    with running(home) as daemon:
        facts = await eventually(lambda: mounts(daemon), lambda found: found["myself"].get("tools"))
        names = await eventually(lambda: listed(daemon), lambda names: {"myself_fs_read", "echo"} <= set(names))
        # The daemon inside has mounted nothing, and says why.
        assert "myself_myself_fs_read" not in names
        assert "myself_echo" not in names
        assert "mounts nothing itself: loops end here" in facts["myself"]["stderr"]
        arguments = {"path": str(home / "tools.json")}
        answer = await daemon.rpc("tools/call", name="myself_fs_read", arguments=arguments)
        assert "myself_fs_read" in answer["result"]["structuredContent"]["text"]


async def test_a_daemon_that_mounts_a_bridge_to_itself_is_refused_with_a_sentence(home: Path) -> None:
    own = {"command": COMMAND, "args": ["stdio", "--attach", "--tools-file", str(home / "tools.json")]}
    (home / "tools.json").write_text(json.dumps(document({"myself": own})))
    with running(home) as daemon:
        facts = await eventually(lambda: mounts(daemon), lambda found: "problem" in found["myself"])
        assert "this daemon has mounted itself" in facts["myself"]["problem"]
        assert not any(name.startswith("myself") for name in await listed(daemon))


async def test_two_daemons_that_mount_each_other_offer_each_other_their_own_tools(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with running(tmp_path / "one") as one, running(tmp_path / "two") as two:
        for daemon, other in ((one, two), (two, one)):
            headers = {"Authorization": f"Bearer {other.token}"}
            daemon.save(document({"other": {"url": f"{other.url}/mcp", "headers": headers, "except": ["fs_list"]}}))
        for daemon in (one, two):
            names = await other_tools(daemon)
            assert "other_fs_read" in names
            assert [name for name in names if name.startswith("other_other")] == []
        found = await one.rpc("tools/call", name="other_fs_read", arguments={"path": str(two.tools_json)})
        assert '\\"other\\"' in found["result"]["structuredContent"]["text"]


async def other_tools(daemon: Daemon) -> list[str]:
    """The tools of the mounted daemon, once it has listed them."""
    return await eventually(lambda: listed(daemon), lambda names: any(name.startswith("other_") for name in names))
