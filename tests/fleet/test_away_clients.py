"""Clients on MCP wires of a gateway that were away: they hear what they missed, and others do not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from mcp_agent.app import compose_daemon
from mcp_agent.calls.call import Call, Caller, Success
from mcp_agent.config import load
from mcp_agent.daemon import Daemon
from mcp_agent.events.hub import Subscription
from mcp_agent.events.types import Event, SessionEvent
from mcp_agent.fleet.gateway import Gateway
from mcp_agent.protocol.methods import new_call_id
from registry.gate import Access
from tests.support.fleet import running_fleet
from tests.support.nats import nats_server
from tests.support.waiting import eventually, within

_MIB = 1024 * 1024


class _Listener:
    """A client that keeps its place while its stream is closed, as one of MCP 2025 does."""

    def __init__(self, daemon: Daemon) -> None:
        self._subscription = daemon.hub.subscribe(lambda: True)

    def leave(self) -> None:
        self._subscription.close()

    @contextlib.asynccontextmanager
    async def stream(self) -> AsyncIterator[asyncio.Queue[dict[str, Any]]]:
        heard: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._subscription = self._subscription.hand_over()
        reading = asyncio.create_task(_read(self._subscription, heard))
        try:
            yield heard
        finally:
            reading.cancel()
            await asyncio.wait([reading])


async def _read(subscription: Subscription, heard: asyncio.Queue[dict[str, Any]]) -> None:
    def encode(event: Event) -> bytes | None:
        if isinstance(event, SessionEvent):
            heard.put_nowait(event.as_object())
        return b"."

    async with contextlib.aclosing(subscription.stream(encode)) as bodies:
        async for _ in bodies:
            pass


@contextlib.asynccontextmanager
async def _gateway(folder: Path) -> AsyncIterator[Daemon]:
    """A gateway of one box."""
    with nats_server(folder) as server, running_fleet(folder, server.url) as fleet:
        fleet.member("one")
        gateway = Gateway(server.url, None, "gw", look_every_s=0.02)
        flags = {"state_dir": str(folder / "state"), "tools_file": str(folder / "tools.json")}
        daemon = compose_daemon(load({"command_undo": False, **flags}, {}), working_directory=folder, gateway=gateway)
        await gateway.join(daemon)
        following = asyncio.create_task(gateway.follow())
        try:
            await eventually(lambda: "shell_exec" in daemon.gate.catalog.by_name)
            yield daemon
        finally:
            following.cancel()
            await asyncio.wait([following])
            await daemon.stop(1.0)
            daemon.close()


async def _call(daemon: Daemon, tool: str, **arguments: Any) -> dict[str, Any]:
    outcome = await daemon.dispatcher.call(Call(new_call_id(), Caller("owner", Access(), "rpc"), tool, arguments))
    assert isinstance(outcome, Success), outcome
    return outcome.reply.as_object()


async def _next(heard: asyncio.Queue[dict[str, Any]]) -> dict[str, Any]:
    async with within():
        return await heard.get()


async def _next_of(heard: asyncio.Queue[dict[str, Any]], session: str) -> dict[str, Any]:
    while (event := await _next(heard))["session_id"] != session:
        pass
    return event


def _is_unfollowed() -> bool:
    return not any("SessionTail._follow" in repr(task) for task in asyncio.all_tasks())


async def test_a_client_that_comes_back_hears_a_gap_what_the_box_still_has_and_the_exit(tmp_path: Path) -> None:
    async with _gateway(tmp_path) as daemon:
        client = _Listener(daemon)
        async with client.stream() as heard:
            command = f"echo one; read go; head -c {8 * _MIB} /dev/zero | tr '\\0' x; exit 3"
            session = (await _call(daemon, "shell_start_session", command=command))["session_id"]
            assert (await _next(heard))["chunk"] == "one\n"
        waiting = {"input": "\n", "wait_ms": 20_000, "until": "never"}
        assert (await _call(daemon, "shell_send_input", session_id=session, **waiting))["running"] is False
        async with client.stream() as heard:
            end, lost = 4, 0
            while (event := await _next(heard))["type"] != "shell_session_exit":
                assert event["offset"] == end
                end = event["next_offset"] if event["type"] == "gap" else end + len(event["chunk"])
                lost += event.get("lost_bytes", 0)
        assert (end, lost > 0) == (8 * _MIB + 4, True)
        assert event == {"type": "shell_session_exit", "session_id": session, "exit_code": 3}


async def test_a_client_that_comes_back_loses_nothing_of_little_output(tmp_path: Path) -> None:
    async with _gateway(tmp_path) as daemon:
        client = _Listener(daemon)
        async with client.stream() as heard:
            old = (await _call(daemon, "shell_start_session", command="echo one; cat"))["session_id"]
            assert (await _next(heard))["chunk"] == "one\n"
        new = (await _call(daemon, "shell_start_session", command="echo new"))["session_id"]
        for line in ("two\n", "three\n"):
            waiting = {"input": line, "wait_ms": 20_000, "until": line.strip()}
            assert (await _call(daemon, "shell_send_input", session_id=old, **waiting))["matched"] is True
        async with client.stream() as heard:
            missed = [await _next(heard)]
            while missed[-1].get("chunk", "")[-6:] != "three\n" or len(missed) < 3:
                missed.append(await _next(heard))
        outputs = {old: "", new: ""}
        for each in missed:
            outputs[each["session_id"]] += each.get("chunk", "")
        assert outputs == {old: "two\nthree\n", new: "new\n"}
        assert [each["session_id"] for each in missed if each["type"] != "shell_session_output"] == [new]


async def test_boxes_are_followed_until_no_client_is_left_that_may_come_back(tmp_path: Path) -> None:
    async with _gateway(tmp_path) as daemon:
        client = _Listener(daemon)
        assert _is_unfollowed()
        for _ in range(2):
            async with client.stream() as heard:
                started = await _call(daemon, "shell_start_session", command="echo one; cat")
                assert (await _next_of(heard, started["session_id"]))["chunk"] == "one\n"
            assert not _is_unfollowed()
        client.leave()
        await eventually(_is_unfollowed)
        assert daemon.hub.logs == ()
        async with _Listener(daemon).stream() as heard:
            started = await _call(daemon, "shell_start_session", command="echo two; cat")
            assert (await _next_of(heard, started["session_id"]))["chunk"] == "two\n"


async def test_a_client_that_is_new_hears_nothing_of_what_was_said_before(tmp_path: Path) -> None:
    async with _gateway(tmp_path) as daemon:
        first = _Listener(daemon)
        async with first.stream() as heard:
            session = (await _call(daemon, "shell_start_session", command="echo one; cat"))["session_id"]
            assert (await _next(heard))["chunk"] == "one\n"
        waiting = {"input": "two\n", "wait_ms": 20_000, "until": "two"}
        await _call(daemon, "shell_send_input", session_id=session, **waiting)
        ended = (await _call(daemon, "shell_start_session", command="cat"))["session_id"]
        await _call(daemon, "shell_stop_session", session_id=ended)
        # That is how far the gateway has heard.
        await eventually(lambda: any(log.exit for log in daemon.hub.logs))
        second = _Listener(daemon)
        async with second.stream() as fresh, first.stream() as heard:
            assert (await _next_of(heard, session))["chunk"] == "two\n"
            assert (await _next_of(heard, ended))["type"] == "shell_session_exit"
            await _call(daemon, "shell_send_input", session_id=session, input="three\n")
            assert (await _next(fresh))["chunk"] == "three\n"
            assert (await _next_of(heard, session))["chunk"] == "three\n"
