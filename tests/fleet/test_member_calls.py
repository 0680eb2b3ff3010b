"""The member's end of a call, asked by the protocol itself: an id runs once, and nobody's call ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import orjson

from mcp_agent.app import compose_daemon
from mcp_agent.config import load
from mcp_agent.fleet.bus import Bus
from mcp_agent.fleet.member import Member
from mcp_agent.fleet.messages import (
    Ask,
    BoxAnswer,
    CallContext,
    CallerFacts,
    Cancel,
    NoResult,
    Ran,
    RunTool,
    StillRunning,
    encode,
    read_answer,
)
from mcp_agent.fleet.subjects import verb_subject
from tests.support.nats import nats_server
from tests.support.waiting import eventually
from tools.kit.rules import Rule

_CALLER = CallerFacts("alice", "http", "test", "json")
_ANSWER_S = 30.0


class _Asker:
    """A gateway that asks one member, as it likes."""

    def __init__(self, bus: Bus, member: Member, folder: Path) -> None:
        self.folder = folder
        self._bus = bus
        self._member = member

    async def ask(self, question: object) -> BoxAnswer:
        subject = verb_subject(self._member.box, self._member.boot, "call", "gw")
        return read_answer(await self._bus.request(subject, encode(question), _ANSWER_S))

    async def cancel(self, call_id: str) -> None:
        subject = verb_subject(self._member.box, self._member.boot, "cancel", "gw")
        await self._bus.publish(subject, encode(Cancel(call_id)))

    def lower_limit(self, limit: int) -> None:
        self._member.bus.max_payload = limit

    def ran(self) -> list[str]:
        log = self.folder / "ran.log"
        return log.read_text().split() if log.exists() else []


def _run(call_id: str, command: str) -> RunTool:
    return RunTool(call_id, "shell_exec", {"command": command}, CallContext(_CALLER))


@contextlib.asynccontextmanager
async def _member(folder: Path, lease_s: float = 60.0) -> AsyncIterator[_Asker]:
    with nats_server(folder) as server:
        flags = {
            "state_dir": str(folder / "state"),
            "tools_file": str(folder / "tools.json"),
            "fleet": server.url,
            "box": "one",
        }
        daemon = compose_daemon(load({"command_undo": False, **flags}, {}), working_directory=folder)
        member = Member(daemon, lease_s=lease_s)
        await member.join()
        bus = Bus(server.url, name="test", inbox_prefix="_INBOX.test")
        await bus.start()
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
        call = _run("call-0001", "echo x >> ran.log; sleep 0.2")
        answers = await asyncio.gather(*(asker.ask(call) for _ in range(5)))
        again = await asker.ask(Ask("call-0001"))
        assert [isinstance(answer, Ran) and answer.kind for answer in (*answers, again)] == ["success"] * 6
        assert asker.ran() == ["x"]


async def test_what_runs_longer_is_said_to_be_running_and_is_answered_later(tmp_path: Path) -> None:
    async with _member(tmp_path) as asker:
        assert (
            await asker.ask(_run("call-0002", "while ! test -e go; do sleep 0.02; done; echo done")) == StillRunning()
        )
        (tmp_path / "go").touch()
        answer = await asker.ask(Ask("call-0002"))
        assert isinstance(answer, Ran)
        assert (answer.kind, answer.exit_status) == ("success", 0)
        result = orjson.loads(answer.structured or b"")
        assert result["stdout"] == "done\n"
        assert orjson.loads(orjson.loads(answer.content)[0]["text"]) == result


async def test_a_call_that_is_cancelled_ends_and_is_not_run_again(tmp_path: Path) -> None:
    async with _member(tmp_path) as asker:
        call = _run("call-0003", "echo x >> ran.log; exec sleep 600")
        asked = asyncio.create_task(asker.ask(call))
        await eventually(asker.ran)
        await asker.cancel("call-0003")
        assert await asked == NoResult("cancelled")
        assert await asker.ask(call) == NoResult("cancelled")
        assert asker.ran() == ["x"]


async def test_a_cancellation_that_overtakes_its_call_keeps_it_from_running(tmp_path: Path) -> None:
    async with _member(tmp_path) as asker:
        await asker.cancel("call-0004")
        assert (await asker.ask(_run("call-0004", "echo x >> ran.log")), asker.ran()) == (NoResult("unknown"), [])


async def test_a_call_that_is_cancelled_at_once_is_over(tmp_path: Path) -> None:
    async with _member(tmp_path) as asker:
        call = _run("call-0012", "exec sleep 600")
        # Both are in one write, so that the member reads them together.
        asked = asyncio.create_task(asker.ask(call))
        cancelled = asyncio.create_task(asker.cancel("call-0012"))
        await cancelled
        assert await asked == NoResult("cancelled")
        assert await asker.ask(call) == NoResult("cancelled")


async def test_a_call_that_nobody_asks_for_any_more_is_cancelled(tmp_path: Path) -> None:
    async with _member(tmp_path, lease_s=0.2) as asker:
        asked = asyncio.create_task(asker.ask(_run("call-0005", "echo $$ >> ran.log; exec sleep 600")))
        (pid,) = await eventually(asker.ran)
        assert await asked in (StillRunning(), NoResult("cancelled"))
        await eventually(lambda: not Path(f"/proc/{pid}").exists())


async def test_a_result_that_fits_no_message_is_said_to_be_too_large(tmp_path: Path) -> None:
    """The budgets of results keep them below what a fleet needs of a server, so the limit is lowered for the test."""
    async with _member(tmp_path) as asker:
        asker.lower_limit(2_000)
        answer = await asker.ask(_run("call-0006", "seq 1000"))
        assert isinstance(answer, NoResult)
        assert (answer.why, "one to a gateway may have 2000" in answer.detail) == ("too large", True)
        assert await asker.ask(Ask("call-0006")) == answer


async def test_a_message_of_another_protocol_is_refused_and_nothing_runs(tmp_path: Path) -> None:
    call: dict[str, Any] = msgspec.to_builtins(_run("call-0007", "echo x >> ran.log"))
    caller = call["context"]["caller"]
    async with _member(tmp_path) as asker:
        messages: tuple[object, ...] = (
            {"type": "run", "tool": "fs_list"},
            {**call, "id": "short"},
            {**call, "context": None},
            {**call, "context": {"caller": {**caller, "transport": "carrier pigeon"}}},
            {**call, "context": {"caller": {**caller, "name": ""}}},
            {**call, "context": {"caller": caller, "deny_paths": [["broken"]]}},
            {**call, "type": "walk"},
            [],
        )
        for broken in messages:
            answer = await asker.ask(broken)
            assert (isinstance(answer, NoResult) and answer.why) == "misunderstood"
        assert asker.ran() == []
        assert isinstance(await asker.ask(_run("call-0008", "true")), Ran)


async def test_a_gateway_can_narrow_what_its_caller_may_do(tmp_path: Path) -> None:
    async with _member(tmp_path) as asker:
        (tmp_path / "secret.txt").write_text("x")
        rule = Rule("secrets", ("secret*",), "keep out", "tools.json of the gateway")
        context = CallContext(_CALLER, deny_paths=(rule,))
        answer = await asker.ask(RunTool("call-0009", "fs_read", {"path": "secret.txt"}, context))
        assert isinstance(answer, Ran)
        assert (answer.kind, answer.code, answer.rule) == ("failure", "DENIED", "secrets")
