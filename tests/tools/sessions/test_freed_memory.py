"""What has ended leaves memory at once: the garbage collector may come thousands of commands later."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_agent.events.hub import EventHub
from tests.support.waiting import PATIENCE_S, eventually
from tools.sessions.crash_record import CrashRecord
from tools.sessions.manager import SessionLimits, SessionManager
from tools.sessions.origin import Origin
from tools.sessions.session import Session

_NOBODY = Origin(connection="")


@pytest.fixture(autouse=True)
def no_garbage_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
async def manager(tmp_path: Path) -> SessionManager:
    return SessionManager(EventHub(), CrashRecord(tmp_path / "sessions"), SessionLimits(keep_s=0.0), secret="")


def _sessions() -> int:
    return sum(isinstance(each, Session) for each in gc.get_objects())


@pytest.mark.parametrize("command", ["seq 1 10000", "exit 3", "sleep 0.2 & echo started"])
async def test_the_command_of_a_call(manager: SessionManager, tmp_path: Path, command: str) -> None:
    before = _sessions()
    for _ in range(3):
        session = manager.execute(command, tmp_path, origin=_NOBODY, captures={"stdout": 100_000}, reads_stderr=True)
        await session.wait_for_exit(PATIENCE_S)
        session.release(keeps_output=False)
    del session
    await eventually(_sessions, lambda count: count <= before)


@pytest.mark.parametrize("command", ["seq 1 10000", "cat"])
async def test_a_session(manager: SessionManager, tmp_path: Path, command: str) -> None:
    before = _sessions()
    for _ in range(3):
        session = manager.start(command, tmp_path, origin=_NOBODY)
        await session.stop(15)
    del session
    await eventually(_sessions, lambda count: count <= before)
