"""The processes of the pruning engine: any of them may die, or hang."""

from __future__ import annotations

import asyncio
import os

import pytest

from mcp_agent.pruning_service.worker_pool import WorkerPool
from tools.pruning.engine import GaveUp, Selection, SelectionRequest

CODE = "\n".join(f"def step_{n}(pool):\n    return pool.take({n})\n" for n in range(200))


def _request(question: str, timeout_s: float = 10.0) -> SelectionRequest:
    return SelectionRequest(
        question=question, source_type="code", max_prune_ratio=0.55, min_keep_lines=40, timeout_s=timeout_s
    )


async def _selected(workers: WorkerPool, text: str = CODE, timeout_s: float = 10.0) -> Selection:
    def selected() -> Selection:
        with workers.borrow() as worker:
            worker.ask(text, _request("what does step_42 take?", timeout_s))
            return worker.answer()

    return await workers.run(selected)


async def test_an_engine_that_dies_while_it_waits_costs_nothing() -> None:
    workers = WorkerPool()
    try:
        before = await _selected(workers)
        workers._idle[0].process.kill()
        workers._idle[0].process.wait()
        assert await _selected(workers) == before
    finally:
        workers.close()


async def test_an_engine_that_dies_over_a_text_costs_one_answer() -> None:
    def selected() -> Selection:
        with workers.borrow() as worker:
            worker.process.kill()
            worker.process.wait()
            worker.ask(CODE, _request("step_42"))
            return worker.answer()

    workers = WorkerPool()
    try:
        with pytest.raises(RuntimeError, match="is gone"):
            await workers.run(selected)
        assert (await _selected(workers)).dropped
    finally:
        workers.close()


async def test_an_engine_that_does_not_stop_in_time_is_ended() -> None:
    workers = WorkerPool()
    try:
        await _selected(workers)
        process = workers._idle[0].process
        os.kill(process.pid, 19)
        with pytest.raises(GaveUp):
            await _selected(workers, timeout_s=0.2)
        assert process.returncode == -9
    finally:
        workers.close()


async def test_many_questions_at_once_are_answered_alike() -> None:
    workers = WorkerPool()
    try:
        answers = await asyncio.gather(*(_selected(workers) for _ in range(12)))
        assert len(workers._idle) <= 2
        assert all(answer == answers[0] for answer in answers)
    finally:
        workers.close()
