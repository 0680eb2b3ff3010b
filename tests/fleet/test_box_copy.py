"""Files from one box to another: whole or not at all, under the rules of both."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mcp_agent.fleet.bus import Bus, NotPermitted
from mcp_agent.fleet.credentials import FleetKeys
from mcp_agent.fleet.member_files import ArrivingFile, OfferedFile
from mcp_agent.fleet.messages import (
    FilePiece,
    NotShown,
    PieceWritten,
    ReadPiece,
    WritePiece,
    encode,
    read_read_answer,
)
from tests.support.daemon import Daemon
from tests.support.fleet import Fleet, Program, call, running_fleet
from tests.support.nats import NatsServer, nats_server
from tests.support.waiting import PATIENCE_S, eventually
from tools.journal import copies

LONG = bool(os.environ.get("MCP_AGENT_TEST_LONG"))
MIB = 1024 * 1024
# How large a file is that the kill comes in the middle of; larger ones are tried if the copy was over before.
SIZES_MIB = (200, 800) if LONG else (60, 120, 240, 480)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("copies")
    with nats_server(folder) as server, running_fleet(folder, server.url) as fleet:
        fleet.member("one")
        fleet.member("two")
        yield fleet


@pytest.fixture(scope="module")
def gateway(fleet: Fleet) -> Daemon:
    return fleet.gateway().running


async def test_a_copied_file_is_the_same_and_can_be_taken_back(gateway: Daemon, tmp_path: Path) -> None:
    source, target = tmp_path / "program", tmp_path / "new folder" / "program"
    data = os.urandom(3_000_001)
    source.write_bytes(data)
    source.chmod(0o755)
    copied = await copy(gateway, source, target)
    assert copied["sha256"] == hashlib.sha256(data).hexdigest()
    assert (copied["from_box"], copied["to_box"], copied["bytes"]) == ("one", "two", len(data))
    assert target.read_bytes() == data
    assert os.access(target, os.X_OK)
    assert [path.name for path in target.parent.iterdir()] == ["program"]
    # The id finds the box on which the change was made.
    undone = await call(gateway, "fs_move", **{"from": f"undo://{copied['undo_id']}", "to": str(target)})
    assert undone.get("moved"), undone
    assert not target.exists()


async def test_a_copy_replaces_a_file_and_keeps_what_was_there(gateway: Daemon, tmp_path: Path) -> None:
    source, target = tmp_path / "new", tmp_path / "old"
    source.write_text("new")
    target.write_text("old")
    target.chmod(0o640)
    copied = await copy(gateway, source, target)
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("new", 0o640)
    await call(gateway, "fs_move", **{"from": f"undo://{copied['undo_id']}", "to": str(target)})
    assert target.read_text() == "old"


async def test_an_empty_file_is_copied(gateway: Daemon, tmp_path: Path) -> None:
    source, target = tmp_path / "empty", tmp_path / "copy"
    source.touch()
    assert (await copy(gateway, source, target))["bytes"] == 0
    assert target.read_bytes() == b""


async def test_both_boxes_put_a_copy_on_record(fleet: Fleet, gateway: Daemon, tmp_path: Path) -> None:
    source, target = tmp_path / "from", tmp_path / "to"
    source.write_text("recorded")
    copied = await copy(gateway, source, target)
    sent = await eventually(lambda: _audited(fleet, "one", "box_send", source))
    received = await eventually(lambda: _audited(fleet, "two", "box_receive", target))
    assert (sent["gateway"], sent["outcome"], sent["args"]["to_box"]) == ("gw", "ok", "two")
    assert (received["outcome"], received["args"]["from_box"], received["undo"]) == ("ok", "one", copied["undo_id"])


@pytest.mark.parametrize(("box", "closed"), [("one", "read"), ("two", "write")])
async def test_the_own_files_of_a_box_are_neither_sent_nor_replaced(
    fleet: Fleet, gateway: Daemon, tmp_path: Path, box: str, closed: str
) -> None:
    own, other = fleet.folder / box / "state" / "token", tmp_path / "other"
    other.write_text("other")
    answer = await (copy(gateway, own, other) if closed == "read" else copy(gateway, other, own))
    assert answer["error"]["code"] == "DENIED"
    assert answer["error"]["message"].startswith(f"{box}: ")
    assert (other.read_text(), own.read_text() == "other") == ("other", False)


@pytest.mark.parametrize("box", ["one", "two"])
async def test_the_deny_rules_of_both_boxes_hold(fleet: Fleet, gateway: Daemon, tmp_path: Path, box: str) -> None:
    source, target = tmp_path / "from", tmp_path / "to"
    source.write_text("secret")
    registry = fleet.folder / box / "tools.json"
    before = registry.read_text()
    rules = json.loads(before)
    denied = source if box == "one" else target
    for profile in rules["profiles"]:
        profile["deny"] = {"paths": [{"id": "own", "pattern": str(denied), "reason": "not this one"}]}
    registry.write_text(json.dumps(rules))
    try:
        answer = await eventually(lambda: copy(gateway, source, target), lambda answer: "error" in answer)
        assert answer["error"]["code"] == "DENIED"
        assert "not this one" in answer["error"]["message"]
    finally:
        registry.write_text(before)
    target.unlink(missing_ok=True)
    await eventually(lambda: copy(gateway, source, target), lambda answer: "error" not in answer)


async def test_a_box_that_lets_gateways_read_only_receives_nothing(fleet: Fleet, gateway: Daemon) -> None:
    home = fleet.folder / "three"
    fleet.member("three", "--no-listen", "--fleet-profile", "read-only")
    source = home / "from"
    source.write_text("text")
    await eventually(lambda: call(gateway, "boxes"), lambda found: "three" in {row["box"] for row in found["boxes"]})
    answer = await copy(gateway, source, home / "to", to_box="three")
    assert answer["error"]["code"] == "TOOL_DISABLED"
    assert (await copy(gateway, source, home / "to", from_box="three", to_box="one"))["bytes"] == 4


async def test_what_is_not_there_or_no_file_is_an_error_of_its_box(gateway: Daemon, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    missing = await copy(gateway, tmp_path / "missing", tmp_path / "to")
    assert (missing["error"]["code"], missing["error"]["message"][:5]) == ("NOT_FOUND", "one: ")
    folder = await copy(gateway, tmp_path / "folder", tmp_path / "to")
    assert folder["error"]["code"] == "NOT_A_FILE"
    unknown = await copy(gateway, tmp_path / "missing", tmp_path / "to", to_box="nine")
    assert unknown["error"]["code"] == "NOT_FOUND"
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


async def test_progress_is_reported_to_the_caller(gateway: Daemon, tmp_path: Path) -> None:
    source = tmp_path / "from"
    source.write_bytes(bytes(5_000_000))
    arguments = {"from_box": "one", "from": str(source), "to_box": "two", "to": str(tmp_path / "to")}
    params = {"name": "box_copy", "arguments": arguments, "_meta": {"progressToken": "copying"}}
    reported: list[dict[str, Any]] = []
    async with gateway.http() as client:
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}
        async with client.stream("POST", "/mcp", json=request, headers=headers) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: {"):
                    reported.append(json.loads(line.removeprefix("data: ")))
    progress = [each["params"] for each in reported if each.get("method") == "notifications/progress"]
    assert progress, reported
    # The answer may overtake the last one.
    assert {each["total"] for each in progress} == {5_000_000}
    assert 0 < progress[-1]["progress"] <= 5_000_000


async def test_many_small_files_are_copied_one_after_another(gateway: Daemon, tmp_path: Path) -> None:
    source = tmp_path / "small"
    source.write_text("small")
    places = asyncio.Semaphore(8)

    async def once(number: int) -> bool:
        async with places:
            return "undo_id" in await copy(gateway, source, tmp_path / f"target{number}")

    assert await asyncio.gather(*map(once, range(220))) == [True] * 220


def test_only_the_file_that_was_offered_is_read(tmp_path: Path) -> None:
    source, question = tmp_path / "source", ReadPiece("ticket", 0, MIB)
    source.write_bytes(b"offered")
    offered = OfferedFile(source, copies.identity(source.stat()))
    for _ in range(2):
        assert offered.piece(question) == FilePiece(7, b"offered", hashlib.sha256(b"offered").digest())
    source.rename(tmp_path / "elsewhere")
    (tmp_path / "another").write_bytes(b"another")
    source.symlink_to(tmp_path / "another")
    assert offered.piece(question) == NotShown("failed", "the file was changed while it was copied")


async def test_what_arrives_is_written_once_in_order_and_as_it_was_sent(tmp_path: Path) -> None:
    with (tmp_path / "target").open("w+b") as opened:
        arriving = ArrivingFile(opened.fileno(), 6)
        pieces = [
            WritePiece("ticket", at, data, hashlib.sha256(data).digest()) for at, data in ((0, b"abc"), (3, b"def"))
        ]
        assert arriving.take(pieces[1]) == NotShown("failed", "the next piece begins at 0, not at 3")
        damaged = arriving.take(msgspec.structs.replace(pieces[0], data=b"abd"))
        assert damaged == NotShown("failed", "what has arrived has another checksum than what was sent")
        for piece in (pieces[0], pieces[0], pieces[1], pieces[1]):
            assert arriving.take(piece) == PieceWritten()
        assert arriving.sha256 == hashlib.sha256(b"abcdef").hexdigest()
        assert (tmp_path / "target").read_bytes() == b"abcdef"


async def test_a_copy_to_or_from_a_box_that_is_gone_fails_at_once(tmp_path: Path) -> None:
    with _own_fleet(tmp_path) as (fleet, _):
        gateway, source = fleet.programs[2].running, tmp_path / "source"
        source.write_text("x")
        assert "sha256" in await copy(gateway, source, tmp_path / "target")
        fleet.programs[1].kill()
        for boxes in (("one", "two"), ("two", "one")):
            asked = {"from_box": boxes[0], "from": str(source), "to_box": boxes[1], "to": str(tmp_path / "other")}
            async with asyncio.timeout(PATIENCE_S):
                refused = await call(gateway, "box_copy", **asked)
            assert (refused["error"]["code"], refused["may_have_run"]) == ("BOX_UNREACHABLE", False)
            assert refused["error"]["message"] == "two is not connected; the call has not run"


@pytest.mark.parametrize("number", [0, 1])
async def test_a_copy_whose_box_is_killed_is_an_error_and_leaves_nothing(tmp_path: Path, number: int) -> None:
    """Of a restarted receiver, what had arrived is gone from its state folder, too; and a new copy succeeds."""
    with _own_fleet(tmp_path) as (fleet, _):
        gateway = fleet.programs[2].running
        copied, source, target = await _interrupted_copy(fleet, lambda: _restart(fleet.programs[number]))
        assert "error" in copied, copied
        assert not target.exists()
        assert not list(target.parent.glob(".mcp-agent-*"))
        again = await eventually(lambda: copy(gateway, source, target), lambda found: "error" not in found)
        assert _digest(target) == _digest(source) == again["sha256"]
        await eventually(lambda: not _staged(fleet))


async def test_a_copy_goes_on_when_the_nats_server_is_killed(tmp_path: Path) -> None:
    with _own_fleet(tmp_path) as (fleet, server):

        def restart() -> None:
            server.kill()
            server.start()

        copied, source, target = await _interrupted_copy(fleet, restart)
        assert "error" not in copied, copied
        assert _digest(target) == _digest(source) == copied["sha256"]


async def test_a_copy_whose_caller_leaves_ends_and_leaves_nothing(tmp_path: Path) -> None:
    with _own_fleet(tmp_path) as (fleet, _):
        source, target = _large_file(tmp_path, SIZES_MIB[0]), tmp_path / "target"
        copying = asyncio.create_task(copy(fleet.programs[2].running, source, target))
        await _begun(copying, fleet)
        copying.cancel()
        await asyncio.wait({copying})
        await eventually(lambda: not _staged(fleet))


async def test_a_file_that_changes_while_it_is_copied_is_not_put_in_its_place(tmp_path: Path) -> None:
    with _own_fleet(tmp_path) as (fleet, _):
        for size_mib in SIZES_MIB:
            source, target = _large_file(tmp_path, size_mib), tmp_path / f"target-{size_mib}"
            copying = asyncio.create_task(copy(fleet.programs[2].running, source, target))
            await _begun(copying, fleet)
            with source.open("r+b") as opened:
                opened.write(b"changed")
            copied = await copying
            if "error" in copied:
                assert "was changed while it was copied" in copied["error"]["message"]
                assert not target.exists()
                return
        raise AssertionError("every copy was over before the change")


async def test_with_credentials_nobody_reads_without_the_ticket_of_an_offer(tmp_path: Path) -> None:
    keys = FleetKeys(tmp_path / "keys")
    keys.create()
    files = {name: tmp_path / f"{name}.creds" for name in ("one", "two", "gw")}
    for name, file in files.items():
        file.write_text(keys.invite(name, "gateway" if name == "gw" else "member", None))
    source, target = tmp_path / "from", tmp_path / "to"
    source.write_bytes(os.urandom(2_000_000))
    with nats_server(tmp_path, keys.server_accounts()) as server, running_fleet(tmp_path, server.url) as fleet:
        for name in ("one", "two"):
            fleet.member(name, "--no-listen", "--creds", str(files[name]))
        gateway = fleet.gateway("gw", "--creds", str(files["gw"])).running
        assert (await copy(gateway, source, target))["bytes"] == 2_000_000
        assert target.read_bytes() == source.read_bytes()
        async with gateway.http() as client:
            boot = (await client.get("/api/boxes/one")).json()["boot"]
        for name, prefix in (("gw", "_INBOX.gateway.gw"), ("two", "_INBOX.box.two")):
            stranger = Bus(server.url, name=name, credentials=files[name], inbox_prefix=prefix)
            await stranger.start()
            try:
                asked = encode(ReadPiece("guessed", 0, 100)), PATIENCE_S
                if name == "gw":
                    answer = read_read_answer(await stranger.request(f"agent.one.{boot}.read.gw", *asked))
                    assert answer == NotShown("gone", "it has given the copy up")
                else:
                    with pytest.raises(NotPermitted):
                        await stranger.request(f"agent.one.{boot}.read.two", *asked)
            finally:
                await stranger.close()


async def copy(
    gateway: Daemon, source: Path, target: Path, *, from_box: str = "one", to_box: str = "two"
) -> dict[str, Any]:
    body = {"from_box": from_box, "from": str(source), "to_box": to_box, "to": str(target)}
    async with gateway.http() as client:
        answer: dict[str, Any] = (await client.post("/tools/box_copy", json=body, timeout=6 * PATIENCE_S)).json()
        return answer


async def _interrupted_copy(fleet: Fleet, interrupt: Callable[[], None]) -> tuple[dict[str, Any], Path, Path]:
    """What a copy gives during which `interrupt` was called, after some of the file had arrived and before all had."""
    gateway, folder = fleet.programs[2].running, fleet.folder
    for size_mib in SIZES_MIB:
        source, target = _large_file(folder, size_mib), folder / f"target-{size_mib}"
        copying = asyncio.create_task(copy(gateway, source, target))
        await _begun(copying, fleet)
        is_part = not copying.done()
        await asyncio.to_thread(interrupt)
        copied = await copying
        if is_part:
            return copied, source, target
    raise AssertionError("every copy was over before it could be interrupted")


async def _begun(copying: asyncio.Task[dict[str, Any]], fleet: Fleet) -> None:
    """Wait until something of the file has arrived, or all of it."""
    await eventually(lambda: copying.done() or _staged(fleet))


def _staged(fleet: Fleet) -> list[Path]:
    """What of copies the box two has that are not whole."""
    found = []
    for path in (fleet.folder / "two" / "state" / "copies").glob("*"):
        with contextlib.suppress(FileNotFoundError):
            found += [path] if path.stat().st_size else []
    return found


@contextlib.contextmanager
def _own_fleet(folder: Path) -> Iterator[tuple[Fleet, NatsServer]]:
    """Two boxes and a gateway that can be killed."""
    with nats_server(folder) as server, running_fleet(folder, server.url) as fleet:
        fleet.member("one")
        fleet.member("two")
        fleet.gateway()
        yield fleet, server


def _restart(program: Program) -> None:
    program.kill()
    program.start()


def _large_file(folder: Path, size_mib: int) -> Path:
    path = folder / f"source-{size_mib}"
    block = os.urandom(MIB)
    with path.open("wb") as opened:
        for number in range(size_mib):
            opened.write(number.to_bytes(8, "big") + block[8:])
    return path


def _digest(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _audited(fleet: Fleet, box: str, tool: str, path: Path) -> dict[str, Any]:
    """The line of the audit log of a box about a file; empty while there is none."""
    for log in (fleet.folder / box / "state" / "audit").glob("*.jsonl"):
        for text in log.read_text().splitlines():
            line: dict[str, Any] = json.loads(text)
            if line.get("tool") == tool and line["args"].get("path") == str(path):
                return line
    return {}
