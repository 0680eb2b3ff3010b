"""The sessions of boxes as the clients of a gateway hear them: real processes on a real nats-server."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.fleet.bus import Bus, Message
from mcp_agent.fleet.credentials import FleetKeys, Role
from tests.support.daemon import Daemon
from tests.support.event_stream import EventStream, Heard, events, text
from tests.support.fleet import Fleet, Program, call, running_fleet
from tests.support.nats import NatsServer, nats_server
from tests.support.sockets import authorised, connected
from tests.support.waiting import PATIENCE_S, eventually

LONG = bool(os.environ.get("MCP_AGENT_TEST_LONG"))
_VERSION = "2025-11-25"
_MIB = 1024 * 1024
_ROLES: dict[str, Role] = {"one": "member", "main": "gateway"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_server(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, server: NatsServer) -> Iterator[Fleet]:
    with running_fleet(tmp_path_factory.mktemp("fleet"), server.url) as fleet:
        for box in ("one", "two"):
            fleet.member(box)
        yield fleet


@pytest.fixture(scope="module")
def gateways(fleet: Fleet) -> tuple[Daemon, Daemon]:
    """Two that tests change nothing in."""
    return fleet.gateway("gw1").running, fleet.gateway("gw2").running


@pytest.fixture(scope="module")
def gateway(gateways: tuple[Daemon, Daemon]) -> Daemon:
    return gateways[0]


async def _start(daemon: Daemon, box: str, command: str) -> str:
    started = await call(daemon, "shell_start_session", command=command, box=box)
    return str(started["session_id"])


async def _hear_all(stream: EventStream, sessions: set[str]) -> dict[str, list[Heard]]:
    """The events of these sessions, up to the exit of each."""
    heard: dict[str, list[Heard]] = {session: [] for session in sessions}
    left = set(sessions)
    while left:
        event = await stream.next()
        session = event.data.get("session_id")
        if session in heard:
            heard[session].append(event)
            if event.name == "shell_session_exit":
                left.remove(session)
    return heard


def _check_whole(heard: list[Heard], expected: str, since: int = 0) -> None:
    """All of the output, in order, each byte once, and the exit once, behind it."""
    assert [each.name for each in heard] == ["shell_session_output"] * (len(heard) - 1) + ["shell_session_exit"]
    end = since
    for each in heard[:-1]:
        assert each.data["offset"] == end
        end += len(each.data["chunk"].encode())
    assert text(heard) == expected


async def test_a_client_hears_the_sessions_of_every_box(gateway: Daemon) -> None:
    async with events(gateway) as stream:
        sessions = {box: await _start(gateway, box, f"echo {box}; echo bad >&2; exit 3") for box in ("one", "two")}
        heard = await _hear_all(stream, set(sessions.values()))
    for box, session in sessions.items():
        assert text(heard[session], "stdout") == f"{box}\n"
        assert text(heard[session], "stderr") == "bad\n"
        exits = [each.data for each in heard[session] if each.name == "shell_session_exit"]
        assert exits == [{"type": "shell_session_exit", "session_id": session, "exit_code": 3}]


async def test_one_session_can_be_read_from_a_byte_on(gateway: Daemon) -> None:
    session = await _start(gateway, "two", "printf 0123456789")
    for since, expected in ((0, "0123456789"), (4, "456789"), (-2, "89")):
        async with events(gateway, f"?session_id={session}&since={since}") as stream:
            _check_whole(await stream.rest(), expected, since if since >= 0 else 10 + since)


async def test_output_that_comes_later_is_heard_by_who_watches_one_session_or_one_box(gateway: Daemon) -> None:
    session, other = await _start(gateway, "one", "head -n1"), await _start(gateway, "two", "cat")
    async with (
        events(gateway, f"?session_id={session}") as of_session,
        events(gateway, "?box=one") as of_box,
    ):
        await call(gateway, "shell_send_input", session_id=other, input="other\n")
        await call(gateway, "shell_send_input", session_id=session, input="hello\n")
        for stream in (of_session, of_box):
            assert text((await _hear_all(stream, {session}))[session]) == "hello\n"
    await call(gateway, "shell_stop_session", session_id=other)


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ("?session_id=s00000000-one", 404, "there is no session 's00000000-one'"),
        ("?session_id=s00000000-nowhere", 404, "there is no session 's00000000-nowhere'"),
        ("?session_id=s00000000", 404, "there is no session 's00000000'"),
        ("?box=nowhere", 404, "there is no box 'nowhere'"),
        ("?since=3", 400, "since counts the bytes of one session"),
        ("?labels=gpu", 400, "there is no parameter 'labels'"),
    ],
)
async def test_a_question_that_makes_no_sense_is_refused(
    gateway: Daemon, query: str, status: int, message: str
) -> None:
    async with gateway.http() as http:
        answer = await http.get(f"/events{query}")
    assert (answer.status_code, message in answer.json()["error"]["message"]) == (status, True)


async def test_large_output_is_complete(gateway: Daemon) -> None:
    session = await _start(gateway, "one", "read go; seq 1 1000000")
    async with events(gateway, f"?session_id={session}&since=0") as stream:
        await call(gateway, "shell_send_input", session_id=session, input="\n")
        heard = await stream.rest()
    _check_whole(heard, "".join(f"{number}\n" for number in range(1, 1_000_001)))


async def test_control_characters_and_broken_text_come_as_on_one_box(gateway: Daemon) -> None:
    command = r"head -c 300000 /dev/zero; printf '\377\303\251'"
    session = await _start(gateway, "one", command)
    async with events(gateway, f"?session_id={session}&since=0") as stream:
        heard = await stream.rest()
    assert text(heard) == "\0" * 300_000 + "\ufffdé"


async def test_another_gateway_goes_on_after_the_last_event(gateways: tuple[Daemon, Daemon]) -> None:
    first, second = gateways
    async with events(first) as stream:
        sessions = {await _start(first, box, "echo one; read go; echo two") for box in ("one", "two")}
        before: dict[str, Heard] = {}
        # What a session of an earlier test printed last may come, too.
        while set(before) != sessions:
            heard = await stream.next("shell_session_output")
            before |= {heard.data["session_id"]: heard} if heard.data["session_id"] in sessions else {}
    last = [*before.values()][-1]
    for session in sessions:
        await call(second, "shell_send_input", session_id=session, input="\n")
    missed = await _start(second, "two", "echo new")
    async with events(second, Last_Event_ID=str(last.id)) as stream:
        after = await _hear_all(stream, {*sessions, missed})
    assert [text(after[session]) for session in (*sessions, missed)] == ["two\n", "two\n", "new\n"]


async def test_an_id_within_the_events_of_one_session_goes_on_there(gateways: tuple[Daemon, Daemon]) -> None:
    session = await _start(gateways[0], "one", "for n in 1 2 3 4 5; do echo $n; sleep 0.05; done")
    query = f"?session_id={session}&since=0"
    async with events(gateways[0], query) as stream:
        whole = await stream.rest()
    for number, last in enumerate(whole):
        async with events(gateways[1], query, Last_Event_ID=str(last.id)) as stream:
            if last.name == "shell_session_exit":
                break
            rest = await stream.rest()
        assert [each.data for each in rest] == [each.data for each in whole[number + 1 :]]


async def test_an_id_of_somebody_else_is_a_declared_gap(gateway: Daemon) -> None:
    async with events(gateway, Last_Event_ID="a1b2c3d4e5.17") as stream:
        gap = await stream.next()
    assert (gap.name, "no gateway of this fleet" in gap.data["reason"]) == ("gap", True)


async def test_an_id_of_an_earlier_start_of_a_box_is_a_declared_gap(gateway: Daemon) -> None:
    session = await _start(gateway, "one", "cat")
    query = f"?session_id={session}"
    async with events(gateway, query, Last_Event_ID="one.0123456789.5") as stream:
        (gap,) = await stream.rest()
    assert "one was restarted" in gap.data["reason"]
    async with events(gateway, Last_Event_ID="one.0123456789.5") as stream:
        gap = await stream.next("gap")
    assert "one was restarted" in gap.data["reason"]
    await call(gateway, "shell_stop_session", session_id=session)


async def test_a_session_that_nobody_watches_costs_no_traffic(tmp_path: Path) -> None:
    reads: list[str] = []

    async def note(message: Message) -> None:
        reads.append(message.subject)

    with nats_server(tmp_path) as server, running_fleet(tmp_path, server.url) as fleet:
        fleet.member("one")
        gateway = fleet.gateway().running
        spy = Bus(server.url, name="spy", inbox_prefix="_INBOX.spy")
        spy.serve("agent.*.*.read.*", note)
        await spy.start()
        try:
            session = await _start(gateway, "one", "seq 1 1000; read go")
            printed = {"session_id": session, "input": "", "wait_ms": 20_000, "until": "^1000$"}
            assert (await call(gateway, "shell_send_input", **printed))["matched"] is True
            assert reads == []
            async with events(gateway, f"?session_id={session}&since=0") as stream:
                await stream.next("shell_session_output")
            assert reads
        finally:
            await spy.close()


@pytest.mark.parametrize("wire", ["get", "sse", "named", "listen"])
async def test_mcp_streams_of_a_gateway_tell_of_sessions(gateway: Daemon, wire: str) -> None:
    async with _mcp_stream(gateway, wire) as hear:
        session = await _start(gateway, "two", "echo hello; exit 4")
        output = await hear("shell_session_output", session)
        ended = await hear("shell_session_exit", session)
    assert (output["chunk"], output["offset"], output["stream"]) == ("hello\n", 0, "stdout")
    assert ended["exit_code"] == 4


async def test_a_flood_on_an_mcp_stream_is_cut_with_gaps_that_add_up(gateway: Daemon) -> None:
    size = 8 * 1024 * 1024
    async with _mcp_stream(gateway, "named") as hear:
        session = await _start(gateway, "one", f"head -c {size} /dev/zero | tr '\\0' x")
        at = lost = 0
        while True:
            told = await hear(None, session)
            if told["type"] == "shell_session_exit":
                break
            assert told["offset"] == at
            if told["type"] == "gap":
                at, lost = told["next_offset"], lost + told["lost_bytes"]
            else:
                at += len(told["chunk"])
    assert at == size
    assert lost


async def test_each_conversation_has_its_own_place_in_a_session(gateway: Daemon) -> None:
    session = await _start(gateway, "one", "echo one; echo two; cat")
    arguments = {"session_id": session, "input": "", "wait_ms": 10_000, "until": "two"}
    async with gateway.http() as http:

        async def read(chat: str) -> str:
            headers = {"X-OpenWebUI-Chat-Id": chat}
            answer = (await http.post("/tools/shell_send_input", json=arguments, headers=headers)).json()
            return str(answer["output"])

        first = [await read(chat) for chat in ("a-chat-of-one", "a-chat-of-another")]
        arguments |= {"input": "three two\n"}
        second = await read("a-chat-of-one")
    await call(gateway, "shell_stop_session", session_id=session)
    assert (first, second) == (["one\ntwo\n"] * 2, "three two\n")


async def test_sessions_are_heard_with_credentials(tmp_path: Path) -> None:
    keys = FleetKeys(tmp_path / "keys")
    keys.create()
    for name, role in _ROLES.items():
        (tmp_path / f"{name}.creds").write_text(keys.invite(name, role, None))
    with (
        nats_server(tmp_path, keys.server_accounts()) as server,
        running_fleet(tmp_path, server.url) as fleet,
    ):
        fleet.member("one", "--no-listen", "--creds", str(tmp_path / "one.creds"))
        gateway = fleet.gateway("main", "--creds", str(tmp_path / "main.creds")).running
        session = await _start(gateway, "one", "echo hello; cat")
        async with events(gateway, f"?session_id={session}&since=0") as stream:
            assert (await stream.next()).data["chunk"] == "hello\n"


@contextlib.asynccontextmanager
async def _mcp_stream(daemon: Daemon, wire: str) -> AsyncIterator[Any]:
    """A function that gives the next event of a session, by its name, from a stream of that kind."""
    async with contextlib.AsyncExitStack() as stack:
        http = await stack.enter_async_context(daemon.http(Accept="application/json, text/event-stream"))
        if wire == "get":
            who = {"protocolVersion": _VERSION, "capabilities": {}, "clientInfo": {"name": "a-test", "version": "1"}}
            asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": who}
            session = (await http.post("/mcp", json=asked)).headers["mcp-session-id"]
            headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": _VERSION}
            opened = http.stream("GET", "/mcp", headers=headers)
        elif wire == "listen":
            meta = {
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": {"name": "a-test", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            params = {"notifications": {"mcp-agent/shellSessions": True}, "_meta": meta}
            asked = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
            headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen"}
            opened = http.stream("POST", "/mcp", json=asked, headers=headers)
        else:
            opened = http.stream("GET", "/sse" if wire == "sse" else "/sse?events=named")
        response = await stack.enter_async_context(opened)
        assert response.status_code == 200
        lines = response.aiter_lines()
        # Each of them says something at once, and then it listens.
        async with asyncio.timeout(PATIENCE_S):
            await anext(lines)

        async def hear(name: str | None, session: str) -> dict[str, Any]:
            async with asyncio.timeout(PATIENCE_S):
                async for line in lines:
                    if not line.startswith("data: {"):
                        continue
                    told = json.loads(line.removeprefix("data: "))
                    data: dict[str, Any] = told.get("params", told)
                    if data.get("session_id") == session and name in (None, data["type"]):
                        return data
            raise EOFError("the stream has ended")

        yield hear


async def test_a_gateway_that_is_asked_who_listens_names_the_client(gateway: Daemon) -> None:
    async with events(gateway), gateway.http() as http:
        health = await eventually(lambda: http.get("/health"), lambda found: found.json()["clients"]["streams"] > 0)
    assert health.status_code == 200


@pytest.mark.alone
async def test_a_client_that_stops_reading_delays_nobody_and_costs_little(tmp_path: Path) -> None:
    size = (1024 if LONG else 160) * _MIB
    with nats_server(tmp_path) as server, running_fleet(tmp_path, server.url) as fleet:
        programs = [fleet.member("one"), fleet.gateway()]
        gateway = programs[1].running
        session = await _start(gateway, "one", f"read go; yes | head -c {size}")
        query = f"?session_id={session}&since=0"
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(3):
                _, sleeper = await stack.enter_async_context(connected(gateway))
                sleeper.write(authorised(gateway, f"GET /events{query} HTTP/1.1"))
            stream = await stack.enter_async_context(events(gateway, query))
            before = [_resident_bytes(program) for program in programs]
            most = list(before)
            await call(gateway, "shell_send_input", session_id=session, input="\n")
            taken = 0
            while (heard := await stream.next()).name != "shell_session_exit":
                assert heard.name == "shell_session_output"
                taken += len(heard.data["chunk"])
                if taken // (16 * _MIB) != (taken - len(heard.data["chunk"])) // (16 * _MIB):
                    most = [max(old, _resident_bytes(each)) for old, each in zip(most, programs, strict=True)]
    assert taken == size
    assert [grown - at_first <= 64 * _MIB for grown, at_first in zip(most, before, strict=True)] == [True, True]


def _resident_bytes(program: Program) -> int:
    return int(Path(f"/proc/{program.running.process.pid}/statm").read_text().split()[1]) * 4_096
