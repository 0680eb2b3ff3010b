"""Calls through a gateway while the NATS server, or the box, is killed: none runs twice, and none is lost."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon
from tests.support.fleet import running_fleet
from tests.support.nats import nats_cluster, nats_server

LONG = bool(os.environ.get("MCP_AGENT_TEST_LONG"))
CALLS = 1_000 if LONG else 150
AT_ONCE = 16


class _Runs:
    """Many calls, each of which writes its number into a file of the box, and what came of each."""

    def __init__(self, gateway: Daemon, log: Path, *, box: str | None = None) -> None:
        self._gateway = gateway
        self._box = {} if box is None else {"box": box}
        self._log = log
        self.outcomes: dict[int, dict[str, Any]] = {}
        self._has_more = asyncio.Condition()

    async def run_with_kills(self, times: int, kill: Callable[[], None]) -> None:
        """Run all calls, and kill `times` times, spread evenly over them."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._kill(times, kill))
            group.create_task(self._run_all())

    async def _run_all(self) -> None:
        numbers = iter(range(CALLS))
        async with self._gateway.http() as client, asyncio.TaskGroup() as group:

            async def work() -> None:
                for number in numbers:
                    body = {"command": f"echo {number} >> {self._log}; sleep 0.0{number % 5}", **self._box}
                    while True:
                        answer = (await client.post("/tools/shell_exec", json=body, timeout=120)).json()
                        if answer.get("may_have_run") is not False:
                            break
                        # As a client does that may try again.
                        await asyncio.sleep(0.05)
                    async with self._has_more:
                        self.outcomes[number] = answer
                        self._has_more.notify_all()

            for _ in range(AT_ONCE):
                group.create_task(work())

    async def _kill(self, times: int, kill: Callable[[], None]) -> None:
        for step in range(1, times + 1):
            async with self._has_more:
                await self._has_more.wait_for(lambda: len(self.outcomes) >= step * CALLS // (times + 1))  # noqa: B023
            await asyncio.to_thread(kill)

    def ran(self) -> Counter[int]:
        return Counter(map(int, self._log.read_text().split()))


async def test_no_call_is_lost_or_runs_twice_while_the_nats_server_is_killed(tmp_path: Path) -> None:
    with nats_server(tmp_path) as server, running_fleet(tmp_path, server.url) as fleet:
        fleet.member("one")
        runs = _Runs(fleet.gateway().running, tmp_path / "ran.log")

        def restart() -> None:
            server.kill()
            server.start()

        await runs.run_with_kills(12 if LONG else 3, restart)
    assert [number for number, answer in runs.outcomes.items() if answer.get("exit_code") != 0] == []
    assert runs.ran() == Counter(range(CALLS))


async def test_no_call_runs_twice_while_its_box_is_killed(tmp_path: Path) -> None:
    with nats_server(tmp_path) as server, running_fleet(tmp_path, server.url) as fleet:
        member = fleet.member("one")
        runs = _Runs(fleet.gateway().running, tmp_path / "ran.log")

        def restart() -> None:
            member.kill()
            member.start()

        await runs.run_with_kills(4 if LONG else 1, restart)
    answered = {number for number, answer in runs.outcomes.items() if answer.get("exit_code") == 0}
    ran = runs.ran()
    assert [number for number, count in ran.items() if count > 1] == []
    assert answered <= ran.keys()
    # A box that takes long to come back was silent before it was seen to be another start.
    codes = {runs.outcomes[number]["error"]["code"] for number in runs.outcomes.keys() - answered}
    assert codes <= {"OUTCOME_UNKNOWN", "BOX_UNREACHABLE"}
    assert len(answered) >= CALLS - AT_ONCE * (4 if LONG else 1)


@pytest.mark.skipif(not LONG, reason="long: MCP_AGENT_TEST_LONG=1")
async def test_no_call_is_lost_or_runs_twice_while_the_servers_of_a_cluster_are_killed_in_turn(tmp_path: Path) -> None:
    with nats_cluster(tmp_path) as servers, running_fleet(tmp_path, servers[0].url) as fleet:
        fleet.member("one")
        fleet.member("two")
        # The gateway begins on another server than the boxes.
        fleet.url = servers[1].url
        runs = _Runs(fleet.gateway().running, tmp_path / "ran.log", box="one")
        turns = itertools.cycle(servers)

        def restart_one() -> None:
            server = next(turns)
            server.kill()
            # The others carry on alone for a while.
            time.sleep(1)
            server.start()

        await runs.run_with_kills(9, restart_one)
    assert [number for number, answer in runs.outcomes.items() if answer.get("exit_code") != 0] == []
    assert runs.ran() == Counter(range(CALLS))
