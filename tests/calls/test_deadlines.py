"""Work that takes too long is ended, and nothing else is."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mcp_agent.calls.deadlines import Deadlines
from tests.support.waiting import within
from tools.context import ToolContext
from tools.files.paths import OpenPaths


@pytest.fixture
def context(tmp_path: Path) -> ToolContext:
    return ToolContext("test", OpenPaths(tmp_path))


async def _give(value: int) -> int:
    await asyncio.sleep(0)
    return value


async def test_work_in_time_gives_its_result(context: ToolContext) -> None:
    assert await Deadlines().within(60, context, _give(3)) == 3
    assert not context.is_cancelled


async def test_work_that_is_late_is_cancelled_and_its_task_goes_on(context: ToolContext) -> None:
    async with within():
        with pytest.raises(TimeoutError):
            await Deadlines().within(0.01, context, asyncio.sleep(3_600))
    task = asyncio.current_task()
    assert task is not None
    assert (context.is_cancelled, task.cancelling()) == (True, 0)
    assert await _give(1) == 1


async def test_a_short_deadline_is_kept_beside_a_long_one_and_before_it(context: ToolContext) -> None:
    deadlines = Deadlines()
    async with within():
        long = asyncio.create_task(deadlines.within(60, context, asyncio.sleep(3_600)))
        await asyncio.sleep(0)
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await deadlines.within(0.01, context, asyncio.sleep(3_600))
        assert not long.done()
        long.cancel()
        with pytest.raises(asyncio.CancelledError):
            await long


async def test_each_of_many_is_ended(context: ToolContext) -> None:
    deadlines, ended = Deadlines(), set[int]()

    async def wait(number: int) -> None:
        with pytest.raises(TimeoutError):
            await deadlines.within(0.01 * (number + 1), context, asyncio.sleep(3_600))
        ended.add(number)

    async with within():
        await asyncio.gather(*(wait(number) for number in (2, 0, 1)))
    assert ended == {0, 1, 2}


async def test_who_cancels_from_outside_is_not_told_of_a_deadline(context: ToolContext) -> None:
    task = asyncio.create_task(Deadlines().within(60, context, asyncio.sleep(3_600)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (task.cancelled(), context.is_cancelled) == (True, True)


def test_a_deadline_holds_in_a_second_event_loop(context: ToolContext) -> None:
    deadlines = Deadlines()
    assert asyncio.run(deadlines.within(60, context, _give(1))) == 1
    with pytest.raises(TimeoutError):
        asyncio.run(deadlines.within(0.01, context, asyncio.sleep(3_600)))
