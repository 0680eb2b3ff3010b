"""What stands behind pruning: texts that are kept within bounds, and processes that may die."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mcp_agent.pruning_service.kept_texts import KeptTexts
from mcp_agent.pruning_service.worker_pool import WorkerPool
from tests.support.daemon import running
from tests.support.waiting import eventually
from tools.pruning.engine import GaveUp, Selection

CODE = "\n".join(f"def step_{n}(pool):\n    return pool.take({n})\n" for n in range(200))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_the_same_text_of_the_same_owner_is_kept_once(tmp_path: Path) -> None:
    store = KeptTexts(tmp_path, 3_600)
    first, again, other = store.keep("me", "text"), store.keep("me", "text"), store.keep("you", "text")
    assert (first == again, first == other, len(list(tmp_path.iterdir()))) == (True, False, 2)
    assert (store.find_text("me", first), store.find_text("you", first)) == ("text", None)


def test_no_more_is_kept_than_there_may_be_and_the_oldest_go_first(tmp_path: Path) -> None:
    store = KeptTexts(tmp_path, 3_600, most_bytes=100_000)
    ids = []
    for number in range(100):
        ids.append(store.keep("me", f"{number} " * 2_000))
        os.utime(tmp_path / ids[-1], (number + 4e9, number + 4e9))
        assert _size(tmp_path) <= 100_000
    kept = [prune_id for prune_id in ids if store.find_text("me", prune_id) is not None]
    assert kept == ids[-len(kept) :]
    assert len(kept) >= 5


def test_what_is_too_old_is_gone_even_before_it_is_swept(tmp_path: Path) -> None:
    store = KeptTexts(tmp_path, 60)
    prune_id = store.keep("me", "text")
    os.utime(tmp_path / prune_id, (1, 1))
    assert store.find_text("me", prune_id) is None
    store.sweep()
    assert list(tmp_path.iterdir()) == []


async def test_what_is_too_old_leaves_the_disk_by_itself(home: Path) -> None:
    with running(home, extra={"MCP_PRUNER_PRUNE_ID_TTL_S": "1"}) as daemon:
        (home / "code.py").write_text(CODE)
        arguments = {"path": "code.py", "context_focus_question": "where is step_7?"}
        read = await daemon.rpc("tools/call", name="fs_read", arguments=arguments)
        assert read["result"]["structuredContent"]["pruning"]["prune_id"].startswith("prn_")
        folder = home / ".local/state/mcp-agent/pruned"
        await eventually(lambda: list(folder.iterdir()), lambda left: not left)


def test_what_is_kept_is_for_its_owner_s_eyes(tmp_path: Path) -> None:
    folder = tmp_path / "pruned"
    prune_id = KeptTexts(folder, 60).keep("me", "text \ud800 with half a character")
    assert (folder.stat().st_mode & 0o777, (folder / prune_id).stat().st_mode & 0o777) == (0o700, 0o600)
    assert KeptTexts(folder, 60).find_text("me", prune_id) == "text \ud800 with half a character"


@pytest.mark.parametrize("prune_id", ["", "prn_", "../token", "prn_../../../x", "prn_" + "a" * 16 + "\n"])
def test_an_id_is_never_a_path(tmp_path: Path, prune_id: str) -> None:
    (tmp_path / "token").write_text("secret")
    assert KeptTexts(tmp_path / "pruned", 60).find_text("me", prune_id) is None


async def _selected(workers: WorkerPool, text: str = CODE, timeout_s: float = 10.0) -> Selection:
    def selected() -> Selection:
        with workers.borrow() as worker:
            worker.ask(
                text,
                "what does step_42 take?",
                source_type="code",
                max_prune_ratio=0.55,
                min_keep_lines=40,
                timeout_s=timeout_s,
            )
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
            worker.ask(CODE, "step_42", source_type=None, max_prune_ratio=0.5, min_keep_lines=1, timeout_s=10.0)
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
