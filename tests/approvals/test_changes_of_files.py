"""A change of a file that asks: the owner sees the whole diff before, and approves that and nothing else."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.approvals.asking import decide, pending
from tests.support.daemon import Daemon, running
from tests.support.peers import WIRES

_ASKING = {"profiles": [{"id": "default", "effects": {"write": "ask"}}]}


@pytest.fixture
def asking(home: Path) -> Iterator[Daemon]:
    (home / "tools.json").write_text(json.dumps(_ASKING))
    with running(home, "--approval-hold-s", "60") as daemon:
        yield daemon


def _cases(folder: Path) -> dict[str, tuple[dict[str, Any], str]]:
    """For each tool a call, and the diff that is shown of it, without the names of the files."""
    old = str(folder / "old.txt")
    return {
        "fs_write": ({"path": old, "content": "one\n2\n"}, "@@ -1,2 +1,2 @@\n one\n-two\n+2\n"),
        "fs_patch": (
            {"path": old, "operations": [{"type": "replace_first", "pattern": "two", "replacement": "2"}]},
            "@@ -1,2 +1,2 @@\n one\n-two\n+2\n",
        ),
        "fs_delete": ({"path": old}, "@@ -1,2 +0,0 @@\n-one\n-two\n"),
        "fs_move": ({"from": old, "to": str(folder / "new.txt")}, ""),
    }


@pytest.mark.parametrize("tool", ["fs_write", "fs_patch", "fs_delete", "fs_move"])
async def test_the_diff_is_shown_and_the_approved_change_is_made(asking: Daemon, tool: str, tmp_path: Path) -> None:
    old = tmp_path / "old.txt"
    old.write_text("one\ntwo\n")
    arguments, shown = _cases(tmp_path)[tool]
    async with WIRES["mcp-handshake"](asking) as peer:
        call = asyncio.create_task(peer.call(tool, **arguments))
        (request,) = await pending(asking)
        assert old.read_text() == "one\ntwo\n"
        assert str(old) in request["diff"]
        assert request["diff"].endswith(shown)
        await decide(asking, request["id"], "once")
        answer = await call
    assert not answer.is_error
    assert not old.exists() or old.read_text() == "one\n2\n"


@pytest.mark.parametrize("tool", ["fs_write", "fs_patch", "fs_delete", "fs_move"])
async def test_a_change_in_between_voids_the_approval(asking: Daemon, tool: str, tmp_path: Path) -> None:
    old = tmp_path / "old.txt"
    old.write_text("one\ntwo\n")
    async with WIRES["mcp-stateless"](asking) as peer:
        call = asyncio.create_task(peer.call(tool, **_cases(tmp_path)[tool][0]))
        (request,) = await pending(asking)
        old.write_text("one\ntwo\nthree, by somebody else\n")
        await decide(asking, request["id"], "once")
        answer = await call
    assert answer.object["error"]["code"] == "STALE_REV"
    assert "void" in answer.object["error"]["message"]
    assert old.read_text() == "one\ntwo\nthree, by somebody else\n"


async def test_what_cannot_be_done_or_changes_nothing_is_not_asked(asking: Daemon, tmp_path: Path) -> None:
    file = tmp_path / "there.txt"
    file.write_text("x\n")
    async with WIRES["mcp-handshake"](asking) as peer:
        missing = await peer.call("fs_delete", path=str(tmp_path / "missing"))
        no_match = await peer.call(
            "fs_patch",
            path=str(file),
            operations=[{"type": "replace_first", "pattern": "absent", "replacement": "y"}],
        )
        kept = await peer.call("fs_write", path=str(file), content="y", mode="create_if_missing")
        secret = await peer.call("fs_write", path=str(asking.ready["token_file"]), content="y")
    codes = [each.object["error"]["code"] for each in (missing, no_match, secret)]
    assert codes == ["NOT_FOUND", "NO_MATCH", "DENIED"]
    assert kept.object["bytes_written"] == 0
    assert await pending(asking, 0) == []


async def test_a_long_line_is_shown_whole(asking: Daemon, tmp_path: Path) -> None:
    line = "x" * 30_000 + "; rm -rf /"
    async with WIRES["mcp-handshake"](asking) as peer:
        call = asyncio.create_task(peer.call("fs_write", path=str(tmp_path / "long"), content=f"{line}\n"))
        (request,) = await pending(asking)
        assert f"+{line}\n" in request["diff"]
        await decide(asking, request["id"], "deny")
        assert (await call).object["error"]["code"] == "DENIED"
