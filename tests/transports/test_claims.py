"""What holds on every wire. Each claim is made once and run over each of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.daemon import EVERY_TOOL, Daemon
from tests.support.peers import TELLING, WIRES, Connect, Refused


async def test_a_client_sees_every_tool_of_the_default_profile(shared_daemon: Daemon, connect: Connect) -> None:
    async with connect(shared_daemon) as peer:
        listed = await peer.tools()
    assert list(listed) == EVERY_TOOL
    assert listed["fs_read"]["required"] == ["path"]


async def test_a_file_is_read(shared_daemon: Daemon, connect: Connect, tmp_path: Path) -> None:
    file = tmp_path / "ä b.txt"
    file.write_text("één\ntwo\n")
    async with connect(shared_daemon) as peer:
        answer = await peer.call("fs_read", path=str(file))
    assert not answer.is_error
    assert answer.object.pop("rev")
    assert answer.object == {"path": str(file), "content": "één\ntwo\n", "size": 10}


async def test_a_missing_file_is_an_error_that_says_what_to_do(shared_daemon: Daemon, connect: Connect) -> None:
    async with connect(shared_daemon) as peer:
        answer = await peer.call("fs_read", path="/nowhere/at-all")
    assert answer.is_error
    assert answer.object["error"]["code"] == "NOT_FOUND"
    assert "/nowhere/at-all" in answer.object["error"]["message"]
    assert "fs_list" in answer.object["error"]["hint"]


async def test_arguments_that_do_not_fit_are_told_all_at_once(shared_daemon: Daemon, connect: Connect) -> None:
    async with connect(shared_daemon) as peer:
        answer = await peer.call("fs_read", max_bytes="many", pth="x")
    error = answer.object["error"]
    assert answer.is_error
    assert error["code"] == "INVALID_PARAMS"
    assert error["issues"] == [
        {"path": "arguments", "code": "unrecognized_keys", "message": "unrecognized_keys"},
        {"path": "arguments.max_bytes", "code": "invalid_type", "message": "invalid_type"},
        {"path": "arguments.path", "code": "invalid_type", "message": "invalid_type"},
    ]
    assert "did you mean path?" in error["message"]
    assert "max_bytes must be an integer" in error["message"]


async def test_an_unknown_tool_is_refused(shared_daemon: Daemon, connect: Connect) -> None:
    async with connect(shared_daemon) as peer:
        with pytest.raises(Refused, match=r"fs_raed.*did you mean fs_read") as refusal:
            await peer.call("fs_raed", path="x")
    assert refusal.value.code == -32602


async def test_an_explicit_null_is_an_absent_argument(shared_daemon: Daemon, connect: Connect, tmp_path: Path) -> None:
    (tmp_path / "one").touch()
    async with connect(shared_daemon) as peer:
        answer = await peer.call("fs_list", path=str(tmp_path), recursive=None, after=None)
    assert [entry["path"] for entry in answer.object["entries"]] == [str(tmp_path / "one")]


@pytest.mark.parametrize("wire", TELLING)
async def test_a_switched_off_tool_is_told_unlisted_and_refused(daemon: Daemon, wire: str) -> None:
    async with WIRES[wire](daemon) as peer:
        assert list(await peer.tools()) == EVERY_TOOL
        daemon.save({"profiles": [{"id": "default", "categories": [{"id": "filesystem", "tools": [_off("fs_read")]}]}]})
        await peer.told()
        assert list(await peer.tools()) == [name for name in EVERY_TOOL if name != "fs_read"]
        answer = await peer.call("fs_read", path="x")
    assert answer.is_error
    assert answer.object["error"]["code"] == "TOOL_DISABLED"
    assert answer.object["error"]["message"] == "Tool fs_read is disabled"
    assert "mcp-agent enable fs_read" in answer.object["error"]["hint"]


async def test_a_switched_off_tool_is_refused_on_every_wire(home: Path, connect: Connect, daemon: Daemon) -> None:
    assert daemon.cli("disable", "filesystem").returncode == 0
    async with connect(daemon) as peer:
        assert not [name for name in await peer.tools() if name.startswith("fs_")]
        answer = await peer.call("fs_read", path="x")
    assert answer.object["error"]["code"] == "TOOL_DISABLED"
    assert "category filesystem" in answer.object["error"]["hint"]


def _off(tool: str) -> dict[str, object]:
    return {"id": tool, "enabled": False}


async def test_a_result_over_a_million_bytes_is_cut_and_kept_whole(
    shared_daemon: Daemon, connect: Connect, tmp_path: Path
) -> None:
    (tmp_path / "escapes").write_bytes(b"\x1b" * 390_000)
    async with connect(shared_daemon) as peer:
        answer = await peer.call("fs_read", path=str(tmp_path / "escapes"), max_bytes=400_000)
        found = await peer.call("fs_grep", base=answer.object["artifactRef"], pattern="escapes")
    assert not answer.is_error
    assert answer.object["truncated"] is True
    assert answer.object["artifactRef"] in answer.object["hint"]
    assert len(found.object["matches"]) == 1
