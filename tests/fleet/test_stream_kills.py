"""Watched sessions while a gateway, the NATS server or a box is killed: each byte once, or a gap that is declared."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from tests.support.daemon import Daemon
from tests.support.event_stream import EventStream, Heard, events, text
from tests.support.fleet import Fleet, call, running_fleet
from tests.support.nats import nats_server
from tests.support.waiting import PATIENCE_S, eventually

LONG = bool(os.environ.get("MCP_AGENT_TEST_LONG"))
SESSIONS = 10
LINES = 200_000 if LONG else 20_000


class _Watcher:
    """A client of /events that comes back to any of several gateways with the last id that it had."""

    def __init__(self, sessions: set[str]) -> None:
        self.heard: dict[str, list[Heard]] = {session: [] for session in sessions}
        self.others: list[Heard] = []
        self.last_id: str | None = None
        self.count = 0
        self.has_more = asyncio.Condition()

    @property
    def is_done(self) -> bool:
        return all(heard and heard[-1].name == "shell_session_exit" for heard in self.heard.values())

    async def watch(self, find_gateway: Callable[[], Daemon], query: str = "") -> None:
        """Until all sessions have ended, listen, and come back when the connection breaks."""
        while not self.is_done:
            headers = {} if self.last_id is None else {"Last_Event_ID": self.last_id}
            with contextlib.suppress(httpx2.HTTPError, EOFError):
                async with events(find_gateway(), query, **headers) as stream:
                    await self._listen(stream)
            await asyncio.sleep(0.02)

    async def _listen(self, stream: EventStream) -> None:
        while not self.is_done:
            event = await stream.next()
            self.last_id = event.id or self.last_id
            self.heard.get(event.data.get("session_id", ""), self.others).append(event)
            async with self.has_more:
                self.count += 1
                self.has_more.notify_all()

    async def wait_for(self, count: int) -> None:
        async with self.has_more, asyncio.timeout(2 * PATIENCE_S):
            await self.has_more.wait_for(lambda: self.count >= count or self.is_done)

    def check_whole(self, expected: str) -> None:
        """Each byte of each session once, in order, and the exit once, behind all of it."""
        for heard in self.heard.values():
            assert [each.name for each in heard].count("shell_session_exit") == 1
            assert {each.name for each in heard} == {"shell_session_output", "shell_session_exit"}
            end = 0
            for each in heard[:-1]:
                assert each.data["offset"] == end
                end += len(each.data["chunk"])
            assert text(heard) == expected
        assert self.others == []


async def _start_sessions(gateway: Daemon, boxes: tuple[str, ...]) -> set[str]:
    """Sessions that print slowly enough that a part of them is under way at any moment."""
    command = f"read go; for n in 1 2 3 4 5 6 7 8 9 10; do seq 1 {LINES // 10}; sleep 0.05; done"
    started = [
        await call(gateway, "shell_start_session", command=command, box=boxes[number % len(boxes)])
        for number in range(SESSIONS)
    ]
    return {each["session_id"] for each in started}


def _printed() -> str:
    return "".join(f"{number}\n" for number in range(1, LINES // 10 + 1)) * 10


async def _release(gateway: Daemon, sessions: set[str]) -> None:
    async with asyncio.TaskGroup() as group:
        for session in sessions:
            group.create_task(call(gateway, "shell_send_input", session_id=session, input="\n"))


@pytest.mark.parametrize("by", ["all sessions on one stream", "a stream for each session"])
async def test_a_gateway_that_is_killed_loses_no_byte_of_ten_sessions(tmp_path: Path, by: str) -> None:
    with nats_server(tmp_path) as server, running_fleet(tmp_path, server.url) as fleet:
        for box in ("one", "two"):
            fleet.member(box)
        first, second = fleet.gateway("gw1"), fleet.gateway("gw2")
        sessions = await _start_sessions(second.running, ("one", "two"))
        if by == "all sessions on one stream":
            watchers = {_Watcher(sessions): ""}
        else:
            watchers = {_Watcher({session}): f"?session_id={session}&since=0" for session in sessions}
        is_killed = False

        def find_gateway() -> Daemon:
            return second.running if is_killed else first.running

        async with asyncio.TaskGroup() as group:
            for watcher, query in watchers.items():
                group.create_task(watcher.watch(find_gateway, query))
            await eventually(lambda: _streams(first.running), lambda count: count == len(watchers))
            await _release(second.running, sessions)
            # In the middle of the output.
            for watcher in watchers:
                await watcher.wait_for(2)
            is_killed = True
            await asyncio.to_thread(first.kill)
        for watcher in watchers:
            watcher.check_whole(_printed())


async def test_a_nats_server_that_is_killed_loses_no_byte(tmp_path: Path) -> None:
    with nats_server(tmp_path) as server, running_fleet(tmp_path, server.url) as fleet:
        for box in ("one", "two"):
            fleet.member(box)
        gateway = fleet.gateway().running
        sessions = await _start_sessions(gateway, ("one", "two"))
        watcher = _Watcher(sessions)

        def restart() -> None:
            server.kill()
            server.start()

        async with asyncio.TaskGroup() as group:
            group.create_task(watcher.watch(lambda: gateway))
            await eventually(lambda: _streams(gateway), lambda count: count == 1)
            await _release(gateway, sessions)
            for step in range(1, 6 if LONG else 3):
                await watcher.wait_for(step * SESSIONS)
                await asyncio.to_thread(restart)
        watcher.check_whole(_printed())


async def test_a_box_that_is_killed_is_a_declared_gap_and_heard_again(tmp_path: Path) -> None:
    with nats_server(tmp_path) as server, running_fleet(tmp_path, server.url) as fleet:
        member = fleet.member("one")
        gateway = fleet.gateway().running
        session = (await call(gateway, "shell_start_session", command="echo hello; cat"))["session_id"]
        async with (
            events(gateway, f"?session_id={session}&since=0") as of_session,
            events(gateway, Last_Event_ID="gone.0123456789.1") as of_all,
        ):
            for stream in (of_session, of_all):
                assert (await stream.next("shell_session_output")).data["chunk"] == "hello\n"
            await asyncio.to_thread(member.kill)
            await asyncio.to_thread(member.start)
            for stream in (of_session, of_all):
                gap = await stream.next()
                assert (gap.name, gap.data["box"]) == ("gap", "one")
                assert "one was restarted" in gap.data["reason"]
            # There is no such session any more, but there are new ones.
            with pytest.raises(EOFError):
                await of_session.next()
            started = await eventually(
                lambda: call(gateway, "shell_start_session", command="echo again"), lambda found: "session_id" in found
            )
            heard: list[Heard] = []
            while not heard or heard[-1].name != "shell_session_exit":
                event = await of_all.next()
                # On a busy machine the answer to an earlier try may have come too late.
                assert event.data["session_id"] != session
                heard += [event] if event.data["session_id"] == started["session_id"] else []
    assert text(heard) == "again\n"


async def test_a_box_that_is_stopped_tells_the_exits_of_its_sessions_before(tmp_path: Path) -> None:
    with nats_server(tmp_path) as server, running_fleet(tmp_path, server.url) as fleet:
        member = fleet.member("one")
        fleet.member("two")
        gateway = fleet.gateway().running
        started = await call(gateway, "shell_start_session", command="echo hello; exec cat", box="one")
        session = started["session_id"]
        async with events(gateway, f"?session_id={session}&since=0") as of_session, events(gateway) as of_all:
            assert (await of_session.next()).data["chunk"] == "hello\n"
            await asyncio.to_thread(member.stop)
            for stream in (of_session, of_all):
                ended = await stream.next("shell_session_exit")
                assert (ended.data["session_id"], ended.data["ended_by"]) == (session, "shutdown")
            # The others go on.
            other = (await call(gateway, "shell_start_session", command="echo there", box="two"))["session_id"]
            heard = await of_all.rest()
    fleet.programs.remove(member)
    assert {each.data["session_id"] for each in heard} == {other}


async def _streams(daemon: Daemon) -> int:
    async with daemon.http() as http:
        return int((await http.get("/health")).json()["clients"]["streams"])


async def test_a_switch_or_a_revoked_token_ends_the_stream(tmp_path: Path) -> None:
    with nats_server(tmp_path) as server, running_fleet(tmp_path, server.url) as fleet:
        await _check_ends(fleet)


async def _check_ends(fleet: Fleet) -> None:
    box, gateway = fleet.member("one", "--port", "0").running, fleet.gateway().running
    session = (await call(gateway, "shell_start_session", command="cat"))["session_id"]
    query = f"?session_id={session}&since=0"
    token = gateway.cli("token", "create", "guest").stdout.splitlines()[1]
    async with (
        gateway.http(Authorization=f"Bearer {token}") as http,
        http.stream("GET", f"/events{query}") as response,
    ):
        revoked = await asyncio.to_thread(gateway.cli, "token", "revoke", "guest")
        assert revoked.returncode == 0
        with pytest.raises(EOFError):
            await EventStream(response).next()
    # At the box: a stream of this box ends and says why, one of all boxes goes on.
    async with events(gateway, query) as of_session, events(gateway) as of_all:
        assert (await asyncio.to_thread(box.cli, "disable", "shell")).returncode == 0
        for stream in (of_session, of_all):
            assert "switched off for gateways there" in (await stream.next("gap")).data["reason"]
        with pytest.raises(EOFError):
            await of_session.next()
        async with gateway.http() as client:
            refused = await client.get(f"/events{query}")
        assert refused.status_code == 403
        assert (await asyncio.to_thread(box.cli, "enable", "shell")).returncode == 0
        await eventually(
            lambda: call(gateway, "shell_send_input", session_id=session, input="hello\n"),
            lambda found: "error" not in found,
        )
        assert (await of_all.next("shell_session_output")).data["chunk"] == "hello\n"
    # At the gateway: every stream of the token ends.
    async with events(gateway, query) as of_session, events(gateway) as of_all:
        assert (await asyncio.to_thread(gateway.cli, "disable", "shell")).returncode == 0
        for stream in (of_session, of_all):
            with pytest.raises(EOFError):
                await stream.next("shell_session_exit")
