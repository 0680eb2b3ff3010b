"""What a client on an MCP wire hears that opens its stream late, and what it costs until then."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

from mcp_agent.events.hub import EventHub, Subscription
from mcp_agent.events.types import Event, ResourceUpdated, SessionExit, SessionOutput
from tools.sessions.output_log import OutputLog


async def test_a_client_that_reads_late_hears_all_since_it_came_and_costs_no_offsets_until_then() -> None:
    hub = EventHub()
    ended, running = _log(hub, "ended"), _log(hub, "running")
    _print(hub, ended, "not heard\n")
    _print(hub, running, "not heard\n")
    hub.notify_exit(ended, 0, None)
    subscription = hub.subscribe(lambda: True)
    _print(hub, running, "of the old one\n")
    begun, gone, lasting = _log(hub, "begun"), _log(hub, "gone"), _log(hub, "lasting")
    for log in (begun, gone, lasting):
        _print(hub, log, f"of {log.session_id}\n")
    hub.notify_exit(begun, 3, None)
    hub.notify_exit(gone, 0, None)
    hub.drop_log(gone)
    assert not subscription.cursor.is_following
    successor = subscription.hand_over()
    assert not successor.cursor.is_following
    heard = await _hear(successor, 4)
    assert sorted(heard) == [
        ("begun", "exit 3"),
        ("begun", "of begun\n"),
        ("lasting", "of lasting\n"),
        ("running", "of the old one\n"),
    ]
    _print(hub, lasting, "more\n")
    assert await _hear(successor, 1) == [("lasting", "more\n")]


def _log(hub: EventHub, session_id: str) -> OutputLog:
    log = OutputLog(session_id, Path(), 0)
    hub.add_log(log)
    return log


def _print(hub: EventHub, log: OutputLog, text: str) -> None:
    log.append("stdout", text.encode())
    hub.notify_output(log)


async def _hear(subscription: Subscription, count: int) -> list[tuple[str, str]]:
    """The next `count` events of sessions. There may be no other one with the last of them."""
    heard: list[tuple[str, str]] = []

    def encode(event: Event) -> bytes | None:
        if isinstance(event, SessionOutput):
            heard.append((event.session_id, event.chunk))
        elif isinstance(event, SessionExit):
            heard.append((event.session_id, f"exit {event.exit_code}"))
        else:
            assert isinstance(event, ResourceUpdated)
        return b"."

    async with asyncio.timeout(10), contextlib.aclosing(subscription.stream(encode)) as bodies:
        async for _ in bodies:
            if len(heard) >= count:
                break
    assert len(heard) == count
    return heard
