"""Coroutines that begin before they have a task."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcp_agent.fleet.eager_start import begin


async def test_what_waits_for_nothing_is_over_at_once() -> None:
    steps: list[str] = []

    async def work() -> None:
        steps.append("ran")

    assert begin(work()) is None
    assert steps == ["ran"]


async def test_the_rest_goes_on_in_a_task_of_its_own() -> None:
    loop = asyncio.get_running_loop()
    first, second = loop.create_future(), loop.create_future()
    seen: list[Any] = []

    async def work() -> None:
        seen.append(await first)
        seen.append(asyncio.current_task())
        seen.append(await second)

    rest = begin(work())
    assert rest is not None
    task = asyncio.create_task(rest)
    first.set_result(1)
    await asyncio.sleep(0)
    second.set_result(2)
    await task
    assert seen == [1, task, 2]


async def test_after_a_turn_of_the_loop_a_deadline_is_that_of_the_task() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.Event().wait()

    rest = begin(work())
    assert rest is not None
    await asyncio.create_task(rest)


async def test_a_task_that_is_cancelled_before_its_first_step_ends_the_coroutine() -> None:
    ends: list[str] = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("ended")

    rest = begin(work())
    assert rest is not None
    task = asyncio.create_task(rest)
    task.cancel()
    await asyncio.wait([task])
    assert (task.cancelled(), ends) == (True, ["ended"])


async def test_a_cancellation_of_what_begins_does_not_reach_the_caller() -> None:
    async def work() -> None:
        raise asyncio.CancelledError

    assert begin(work()) is None


async def test_an_error_reaches_the_caller() -> None:
    async def work() -> None:
        raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        begin(work())
