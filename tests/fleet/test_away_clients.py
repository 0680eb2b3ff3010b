"""Clients on MCP wires of a gateway that were away for longer than it follows the boxes for them."""

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
    """A gateway of one box that follows it only while a client has its stream open."""
    with nats_server(folder) as server, running_fleet(folder, server.url) as fleet:
        fleet.member("one")
        gateway = Gateway(server.url, None, "gw", linger_s=0.0)
        flags = {"state_dir": str(folder / "state"), "tools_file": str(folder / "tools.json")}
        daemon = compose_daemon(load(flags, {}), working_directory=folder, gateway=gateway)
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


async def _known_sessions(daemon: Daemon) -> int:
    """Of the box, as it has last told: at once when one begins or ends, with the number of its newest event."""
    (row,) = (await _call(daemon, "boxes"))["boxes"]
    return int(row["sessions"])


async def test_a_client_that_comes_back_hears_a_gap_what_the_box_still_has_and_the_exit(tmp_path: Path) -> None:
    async with _gateway(tmp_path) as daemon:
        client = _Listener(daemon)
        async with client.stream() as heard:
            command = f"echo one; read go; head -c {8 * _MIB} /dev/zero | tr '\\0' x; exit 3"
            session = (await _call(daemon, "shell_start_session", command=command))["session_id"]
            assert (await _next(heard))["chunk"] == "one\n"
        await eventually(_is_unfollowed)
        waiting = {"input": "\n", "wait_ms": 20_000, "until": "never"}
        assert (await _call(daemon, "shell_send_input", session_id=session, **waiting))["running"] is False
        async with client.stream() as heard:
            gap = await _next(heard)
            assert gap == {
                "type": "gap",
                "session_id": session,
                "offset": 4,
                "next_offset": gap["next_offset"],
                "lost_bytes": gap["next_offset"] - 4,
            }
            end = gap["next_offset"]
            while (event := await _next(heard))["type"] == "shell_session_output":
                assert event["offset"] == end
                end += len(event["chunk"])
        assert end == 8 * _MIB + 4
        assert event == {"type": "shell_session_exit", "session_id": session, "exit_code": 3}


async def test_a_client_that_comes_back_loses_nothing_of_little_output(tmp_path: Path) -> None:
    async with _gateway(tmp_path) as daemon:
        client = _Listener(daemon)
        async with client.stream() as heard:
            old = (await _call(daemon, "shell_start_session", command="echo one; cat"))["session_id"]
            assert (await _next(heard))["chunk"] == "one\n"
        await eventually(_is_unfollowed)
        new = (await _call(daemon, "shell_start_session", command="echo new"))["session_id"]
        for line in ("two\n", "three\n"):
            waiting = {"input": line, "wait_ms": 20_000, "until": line.strip()}
            assert (await _call(daemon, "shell_send_input", session_id=old, **waiting))["matched"] is True
        async with client.stream() as heard:
            missed = [await _next(heard) for _ in range(3)]
        outputs = {each["session_id"]: (each["offset"], each["chunk"]) for each in missed if "chunk" in each}
        assert outputs == {old: (4, "two\nthree\n"), new: (0, "new\n")}
        assert [each["session_id"] for each in missed if each["type"] == "shell_session_exit"] == [new]


async def test_a_client_that_is_new_hears_nothing_of_the_time_when_nobody_listened(tmp_path: Path) -> None:
    async with _gateway(tmp_path) as daemon:
        first = _Listener(daemon)
        async with first.stream() as heard:
            session = (await _call(daemon, "shell_start_session", command="echo one; cat"))["session_id"]
            assert (await _next(heard))["chunk"] == "one\n"
        await eventually(_is_unfollowed)
        waiting = {"input": "two\n", "wait_ms": 20_000, "until": "two"}
        await _call(daemon, "shell_send_input", session_id=session, **waiting)
        ended = (await _call(daemon, "shell_start_session", command="cat"))["session_id"]
        await eventually(lambda: _known_sessions(daemon), lambda count: count == 2)
        await _call(daemon, "shell_stop_session", session_id=ended)
        await eventually(lambda: _known_sessions(daemon), lambda count: count == 1)
        second = _Listener(daemon)
        async with second.stream() as fresh, first.stream() as heard:
            assert (await _next_of(heard, session))["chunk"] == "two\n"
            assert (await _next_of(heard, ended))["type"] == "shell_session_exit"
            await _call(daemon, "shell_send_input", session_id=session, input="three\n")
            assert (await _next(fresh))["chunk"] == "three\n"
            assert (await _next_of(heard, session))["chunk"] == "three\n"
