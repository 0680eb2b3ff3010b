"""When a client of /mcp counts as gone: by its own word, or when its stream has ended and it asks for nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp_agent.events.hub import EventHub
from mcp_agent.transports.exchange import Exchange
from mcp_agent.transports.http_sessions import HttpSession, HttpSessions
from tests.support.waiting import PATIENCE_S

_AWAY_S = 0.2


def _sessions() -> tuple[HttpSessions, asyncio.Queue[str]]:
    ended: asyncio.Queue[str] = asyncio.Queue()
    return HttpSessions(EventHub(), ended.put_nowait, _AWAY_S), ended


async def _never() -> Any:
    return await asyncio.Future()


async def _unsent(message: Any) -> None:
    raise AssertionError(f"nothing is sent here: {message}")


def _opened(sessions: HttpSessions) -> HttpSession:
    session = sessions.open("owner")
    assert session is not None
    return session


async def test_a_client_whose_stream_ended_and_who_asks_for_nothing_has_left() -> None:
    sessions, ended = _sessions()
    session = _opened(sessions)
    sessions.stream_ended(session)
    async with asyncio.timeout(PATIENCE_S):
        assert await ended.get() == session.id
    assert sessions.find(session.id, "owner", "2025-11-25") is session


async def test_a_client_that_is_back_or_waits_for_a_call_has_not_left() -> None:
    sessions, ended = _sessions()
    waiting, back, gone = _opened(sessions), _opened(sessions), _opened(sessions)
    waiting.in_flight[1] = Exchange({}, _never, _unsent, accepts_json=True, accepts_stream=False)
    back.open_streams = 1
    for session in (waiting, back, gone):
        sessions.stream_ended(session)
    async with asyncio.timeout(PATIENCE_S):
        assert await ended.get() == gone.id
    assert ended.empty()
    sessions.end(waiting)
    assert ended.get_nowait() == waiting.id


async def test_a_client_that_never_had_a_stream_is_not_judged_by_one() -> None:
    sessions, ended = _sessions()
    silent, gone = _opened(sessions), _opened(sessions)
    sessions.stream_ended(gone)
    async with asyncio.timeout(PATIENCE_S):
        assert await ended.get() == gone.id
    assert sessions.find(silent.id, "owner", "2025-11-25") is silent
    assert ended.empty()
