"""The member's end of a call, asked by the protocol itself: an id runs once, and nobody's call ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson

from mcp_agent.app import compose_daemon
from mcp_agent.config import load
from mcp_agent.fleet.bus import Bus
from mcp_agent.fleet.call_protocol import MOST_PIECE_BYTES, pack, unpack
from mcp_agent.fleet.member import Member
from mcp_agent.fleet.subjects import verb_subject
from tests.support.nats import nats_server
from tests.support.waiting import eventually

_CALLER = {"name": "alice", "transport": "http", "client": "test", "form": "json"}
_ANSWER_S = 30.0


class _Asker:
    """A gateway that asks one member, as it likes."""

    def __init__(self, bus: Bus, member: Member, folder: Path) -> None:
        self.folder = folder
        self._bus = bus
        self._member = member

    async def ask(self, head: dict[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        subject = verb_subject(self._member.box, self._member.boot, "call", "gw")
        found, rest = unpack(await self._bus.request(subject, pack(head, body) if body else pack(head), _ANSWER_S))
        return found, bytes(rest)

    async def cancel(self, call_id: str) -> None:
        subject = verb_subject(self._member.box, self._member.boot, "cancel", "gw")
        await self._bus.publish(subject, pack({"id": call_id}))

    def ran(self) -> list[str]:
        log = self.folder / "ran.log"
        return log.read_text().split() if log.exists() else []


def _run(call_id: str, command: str, **more: Any) -> dict[str, Any]:
    return {"id": call_id, "tool": "shell_exec", "arguments": {"command": command}, "caller": _CALLER, **more}


@contextlib.asynccontextmanager
async def _member(folder: Path, lease_s: float = 60.0) -> AsyncIterator[_Asker]:
    with nats_server(folder) as server:
        flags = {
            "state_dir": str(folder / "state"),
            "tools_file": str(folder / "tools.json"),
            "fleet": server.url,
            "box": "one",
        }
        daemon = compose_daemon(load(flags, {}), working_directory=folder)
        member = Member(daemon, lease_s=lease_s)
        await member.join()
        bus = await Bus.connect(server.url, name="test", inbox_prefix="_INBOX.test")
        following = asyncio.create_task(member.follow())
        try:
            yield _Asker(bus, member, folder)
        finally:
            await bus.close()
            following.cancel()
            await asyncio.wait([following])
            await daemon.stop(1.0)
            daemon.close()


async def test_an_id_runs_once_however_often_it_is_asked_for(tmp_path: Path) -> None:
    async with _member(tmp_path) as asker:
        head = _run("call-0001", "echo x >> ran.log; sleep 0.2")
        answers = await asyncio.gather(*(asker.ask(head) for _ in range(5)))
        again = await asker.ask({"id": "call-0001"})
        assert [answer["kind"] for answer, _ in (*answers, again)] == ["success"] * 6
        assert asker.ran() == ["x"]


async def test_what_runs_longer_is_said_to_be_running_and_is_answered_later(tmp_path: Path) -> None:
    async with _member(tmp_path) as asker:
        head, _ = await asker.ask(_run("call-0002", "while ! test -e go; do sleep 0.02; done; echo done"))
        assert head["is"] == "running"
        (tmp_path / "go").touch()
        head, body = await asker.ask({"id": "call-0002"})
        assert (head["is"], head["kind"], head["exit"]) == ("done", "success", 0)
        content, structured = body[: head["sizes"][0]], body[head["sizes"][0] :]
        assert orjson.loads(structured)["stdout"] == "done\n"
        assert orjson.loads(orjson.loads(content)[0]["text"]) == orjson.loads(structured)


async def test_a_call_that_is_cancelled_ends_and_is_not_run_again(tmp_path: Path) -> None:
    async with _member(tmp_path) as asker:
        head = _run("call-0003", "echo x >> ran.log; exec sleep 600")
        asked = asyncio.create_task(asker.ask(head))
        await eventually(asker.ran)
        await asker.cancel("call-0003")
        assert (await asked)[0]["is"] == "cancelled"
        assert (await asker.ask(head))[0]["is"] == "cancelled"
        assert asker.ran() == ["x"]


async def test_a_cancellation_that_overtakes_its_call_keeps_it_from_running(tmp_path: Path) -> None:
    async with _member(tmp_path) as asker:
        await asker.cancel("call-0004")
        head, _ = await asker.ask(_run("call-0004", "echo x >> ran.log"))
        assert (head["is"], asker.ran()) == ("unknown", [])


async def test_a_call_that_is_cancelled_at_once_is_over(tmp_path: Path) -> None:
    async with _member(tmp_path) as asker:
        head = _run("call-0012", "exec sleep 600")
        # Both are in one write, so that the member reads them together.
        asked = asyncio.create_task(asker.ask(head))
        cancelled = asyncio.create_task(asker.cancel("call-0012"))
        await cancelled
        assert (await asked)[0]["is"] == "cancelled"
        assert (await asker.ask(head))[0]["is"] == "cancelled"


async def test_a_call_that_nobody_asks_for_any_more_is_cancelled(tmp_path: Path) -> None:
    async with _member(tmp_path, lease_s=0.2) as asker:
        asked = asyncio.create_task(asker.ask(_run("call-0005", "echo $$ >> ran.log; exec sleep 600")))
        (pid,) = await eventually(asker.ran)
        assert (await asked)[0]["is"] in ("running", "cancelled")
        await eventually(lambda: not Path(f"/proc/{pid}").exists())


async def test_a_large_call_comes_in_parts_and_runs_when_it_has_them_all(tmp_path: Path) -> None:
    async with _member(tmp_path) as asker:
        text = "x" * (2 * MOST_PIECE_BYTES)
        head = {
            "id": "call-0006",
            "tool": "fs_write",
            "arguments": {"path": "large.txt", "content": text},
            "caller": _CALLER,
        }
        data = pack(head)
        parts = [data[start : start + MOST_PIECE_BYTES] for start in range(0, len(data), MOST_PIECE_BYTES)]
        assert len(parts) == 3
        for number in (2, 0, 0):
            answer, _ = await asker.ask({"id": "call-0006", "part": number, "of": 3}, parts[number])
            assert answer["is"] == "taken"
        answer, _ = await asker.ask({"id": "call-0006", "part": 1, "of": 3}, parts[1])
        assert answer["kind"] == "success"
        assert (tmp_path / "large.txt").read_text() == text


async def test_a_message_of_another_protocol_is_refused_and_nothing_runs(tmp_path: Path) -> None:
    call = {"id": "call-0007", "tool": "fs_list", "arguments": {}, "caller": _CALLER}
    async with _member(tmp_path) as asker:
        for head in (
            {"tool": "fs_list"},
            {**call, "caller": None},
            {**call, "caller": {**_CALLER, "transport": "carrier pigeon"}},
            {**call, "caller": {**_CALLER, "name": ""}},
            {**call, "deny_paths": [["broken"]]},
            {"id": "call-0007", "part": 3, "of": 2},
        ):
            assert (await asker.ask(head))[0]["is"] == "bad"
        assert (await asker.ask(_run("call-0008", "true")))[0]["kind"] == "success"


async def test_a_gateway_can_narrow_what_its_caller_may_do(tmp_path: Path) -> None:
    async with _member(tmp_path) as asker:
        (tmp_path / "secret.txt").write_text("x")
        head = {
            "id": "call-0009",
            "tool": "fs_read",
            "arguments": {"path": "secret.txt"},
            "caller": _CALLER,
            "deny_paths": [["secrets", ["secret*"], "keep out", "tools.json of the gateway"]],
        }
        answer, _ = await asker.ask(head)
        assert (answer["kind"], answer["code"], answer["rule"]) == ("failure", "DENIED", "secrets")
