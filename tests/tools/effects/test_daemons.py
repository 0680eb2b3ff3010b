"""What commands did, with whole daemons: two clients at once, a daemon that is killed, and a disk that is full."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.broken_disk import small_disk
from tests.support.daemon import Daemon, running
from tests.support.peers import WIRES, Peer
from tests.support.waiting import eventually
from tests.tools.effects.snapshots import differences, snapshot

_ON = {"MCP_AGENT_COMMAND_UNDO": "true"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    for name in "abc":
        (root / name).write_text(f"{name}\n")
    return root


async def _run(peer: Peer, root: Path, command: str) -> dict[str, Any]:
    answer = await peer.call("shell_exec", command=command, cwd=str(root))
    assert not answer.is_error, answer
    return answer.object


async def _undo(peer: Peer, root: Path, undo_id: str, **arguments: Any) -> None:
    answer = await peer.call("fs_move", **{"from": f"undo://{undo_id}", "to": str(root), **arguments})
    assert not answer.is_error, answer


async def _is_read(peer: Peer, root: Path) -> None:
    async def knows() -> bool:
        return "effects" not in await _run(peer, root, "true")

    await eventually(knows)


@contextmanager
def _serving(home: Path) -> Iterator[Daemon]:
    with running(home, extra=_ON) as daemon:
        yield daemon


@asynccontextmanager
async def _two(daemon: Daemon, first: str, second: str) -> AsyncIterator[tuple[Peer, Peer]]:
    async with WIRES[first](daemon) as one, WIRES[second](daemon) as two:
        yield one, two


async def test_two_clients_see_what_each_did_and_share_what_both_may_have_done(tmp_path: Path, project: Path) -> None:
    go = tmp_path / "go"
    with _serving(tmp_path) as daemon:
        async with _two(daemon, "mcp-handshake", "rpc") as (one, two):
            await _is_read(one, project)
            before = snapshot(project)
            # One after the other: each has its own, and may take back that of the other.
            first, second = await _run(one, project, "echo 1 > a"), await _run(two, project, "echo 2 > b; rm c")
            assert first["effects"]["paths"] == [str(project / "a")]
            assert second["effects"]["paths"] == [str(project / "b"), str(project / "c")]
            assert not {"shared"} & {*first["effects"], *second["effects"]}
            await _undo(two, project, first["undo_id"])
            await _undo(one, project, second["undo_id"])
            assert snapshot(project) == before
            # At the same time: the first has changed a file before the second began.
            waits = asyncio.create_task(_run(one, project, f"echo 1 > a; until [ -e {go} ]; do sleep 0.02; done"))
            await eventually(lambda: (project / "a").read_text() == "1\n")
            second = await _run(two, project, "echo 2 > b")
            go.touch()
            first = await waits
            assert first["effects"]["shared"] == second["effects"]["shared"] == [str(project / "b")]
            refused = await one.call("fs_move", **{"from": f"undo://{second['undo_id']}", "to": str(project)})
            assert refused.is_error
            assert (project / "b").read_text() == "2\n"
            await _undo(one, project, second["undo_id"], overwrite=True)
            await _undo(two, project, f"{first['undo_id']}/a", to=str(project / "a"))
            assert snapshot(project) == before, differences(before, snapshot(project))


async def test_of_two_clients_at_once_each_is_told_its_own_and_what_else_it_is_told_is_shared(
    tmp_path: Path, project: Path
) -> None:
    with _serving(tmp_path) as daemon:
        async with _two(daemon, "mcp-stateless", "sse") as (one, two):
            await _is_read(one, project)

            async def work(peer: Peer, name: str) -> None:
                for number in range(12):
                    effects = (await _run(peer, project, f"echo {number} > {name}-{number}"))["effects"]
                    own = str(project / f"{name}-{number}")
                    assert own in effects["paths"], effects
                    assert {*effects["paths"]} - {own} <= {*effects.get("shared", ())}, effects

            await asyncio.gather(work(one, "one"), work(two, "two"))


def _helpers(state: Path) -> list[int]:
    """Helper processes of this state folder: its path is their argument."""
    found = []
    for each in Path("/proc").iterdir():
        try:
            words = (each / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(word.endswith(b"/effects/helper.py") for word in words) and os.fsencode(state) in b" ".join(words):
            found.append(int(each.name))
    return found


@pytest.mark.parametrize("moment", ["while it runs", "at its end"])
async def test_a_daemon_that_is_killed_leaves_no_torn_entry_and_no_helper(
    tmp_path: Path, project: Path, moment: str
) -> None:
    go = tmp_path / "go"
    with _serving(tmp_path) as daemon:
        async with WIRES["rpc"](daemon) as peer:
            await _is_read(peer, project)
            before = snapshot(project)
            recorded = await _run(peer, project, "echo 1 > a; rm b; ln c linked")
            helpers = _helpers(tmp_path)
            assert len(helpers) == 1
            line = f"echo 2 > new; until [ -e {go} ]; do sleep 0.02; done; rm {go}"
            waits = asyncio.create_task(_run(peer, project, line))
            await eventually(lambda: (project / "new").exists())
            if moment == "at its end":
                # The answer is on its way, or not yet.
                go.touch()
                await eventually(lambda: not go.exists())
            daemon.process.send_signal(signal.SIGKILL)
            daemon.process.wait()
            # The answer may have been sent.
            await asyncio.gather(waits, return_exceptions=True)
            await eventually(lambda: not _helpers(tmp_path))
    with _serving(tmp_path) as daemon:
        async with WIRES["rpc"](daemon) as peer:
            # The command was ended with its daemon. What it has written since the last look is nobody's.
            entries = [each for each in daemon.cli("undo").stdout.splitlines() if each.strip()]
            ours = [each for each in entries if recorded["undo_id"] in each]
            assert len(ours) == 1, entries
            assert len(entries) - len(ours) <= (moment == "at its end"), entries
            await _is_read(peer, project)
            # One that was recorded in the last moment is whole.
            undone = daemon.cli("undo", "--last", str(len(entries)))
            assert undone.returncode == 0, undone
            if len(entries) == 1:
                (project / "new").unlink()
            now = snapshot(project)
            now["."] = before["."]
            assert now == before, differences(before, now)
            assert len(_helpers(tmp_path)) == 1
            kept = [each.name for each in (tmp_path / ".local/state/mcp-agent/effects").iterdir()]
            assert kept == [str(daemon.process.pid)]
    await eventually(lambda: not _helpers(tmp_path))


async def test_a_full_disk_is_told_and_the_next_command_is_undone(tmp_path: Path, project: Path) -> None:
    with small_disk(tmp_path) as disk, running(tmp_path, *disk.arguments, start=disk.start, extra=_ON) as daemon:
        async with WIRES["rpc"](daemon) as peer:
            await _is_read(peer, project)
            before = snapshot(project)
            (project / "a").write_bytes(os.urandom(200_000))
            await _is_read(peer, project)
            with disk.fault("state", "full"):
                done = await _run(peer, project, "echo 1 > a; echo ok")
                assert (done["exit_code"], done["stdout"]) == (0, "ok\n")
                assert "undo_id" not in done, done
                assert done["effects"].get("unknown") or done["effects"]["not_undoable"], done
                assert (project / "a").read_text() == "1\n"
            await _is_read(peer, project)
            (project / "a").write_text("a\n")
            done = await _run(peer, project, "echo 2 > a; rm b")
            assert "not_undoable" not in done["effects"], done
            await _undo(peer, project, done["undo_id"])
            texts = {path.name: path.read_text() for path in project.iterdir() if path.is_file()}
            assert texts == {f"{name}": f"{name}\n" for name in "abc"}
            assert snapshot(project).keys() == before.keys()
