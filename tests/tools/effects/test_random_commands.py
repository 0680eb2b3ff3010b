"""Random commands in a small project: what is told is what changed, and the project is the same after the undo."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest

from tests.tools.effects.snapshots import differences, make_project, random_command, run, snapshot
from tools.effects.followed_project import FollowedProject
from tools.journal.journal import Journal

# Thousands of commands in `make test-long`.
_SEEDS = range(1, 40) if os.environ.get("MCP_AGENT_TEST_LONG") else range(1, 2)
_ROUNDS = 60 if os.environ.get("MCP_AGENT_TEST_LONG") else 30
_ROUNDS_OF_ONE_PROJECT = 15


class _Followed:
    """A project with the helper's own objects, in this process: so a thousand commands take seconds."""

    def __init__(self, folder: Path, rng: random.Random, *, has_watches: bool) -> None:
        self.root = folder / "project"
        make_project(self.root, rng)
        self._store = folder / "state"
        self._store.mkdir()
        self.journal = Journal(self._store / "journal")
        self.project = FollowedProject(str(self.root), str(self._store), has_watches=has_watches)
        while not self.project.tree.look_on(1.0):
            pass
        self.read_all()

    def read_all(self) -> None:
        while not self.project.read_on(1.0):
            pass

    def run(self, command: str) -> tuple[dict[str, Any], str | None]:
        self.project.settle([])
        self.project.settle(["one"])
        run(command, self.root)
        self.project.settle(["one"])
        answer = self.project.end("one", str(self._store / "entry"), self.journal.most_bytes)
        undo_id = None
        if "rows" in answer:
            undo_id = self.journal.keep_command(self._store / "entry", str(self.root), command, answer)
        self.read_all()
        return answer, undo_id

    def undo(self, undo_id: str) -> str | None:
        _, _, receipt = self.journal.undo(undo_id)
        assert receipt.left == ()
        self.project.settle([])
        self.read_all()
        return receipt.undo_id


@pytest.mark.parametrize("seed", _SEEDS)
@pytest.mark.parametrize("has_watches", [True, False], ids=["watched", "walked"])
def test_the_project_is_as_before_after_the_undo_of_any_command(tmp_path: Path, seed: int, has_watches: bool) -> None:
    rng = random.Random(seed * 2 + has_watches)
    for begin in range(0, _ROUNDS, _ROUNDS_OF_ONE_PROJECT):
        followed = _Followed(tmp_path / str(begin), rng, has_watches=has_watches)
        try:
            for number in range(begin, begin + _ROUNDS_OF_ONE_PROJECT):
                _check_one(followed, rng, f"round {number}, seed {seed}, watched {has_watches}")
        finally:
            followed.project.close()


def _check_one(followed: _Followed, rng: random.Random, where: str) -> None:
    command = random_command(followed.root, rng)
    where = f"{where}: {command}"
    before = snapshot(followed.root)
    answer, undo_id = followed.run(command)
    after = snapshot(followed.root)
    assert not answer["not_undoable"], (where, answer["not_undoable"])
    if undo_id is None:
        # Times alone are no change.
        changed = {path for path, (old, new) in differences(before, after).items() if _without_times(old, new)}
        assert not changed, (where, changed)
        return
    counts = _counts(before, after)
    assert {kind: answer[kind] for kind in counts} == counts, (where, answer)
    redo_id = followed.undo(undo_id)
    now = snapshot(followed.root)
    assert now == before, (where, differences(before, now))
    if rng.random() < 0.5:
        assert redo_id is not None
        followed.undo(redo_id)
        now = snapshot(followed.root)
        assert now == after, ("redo", where, differences(after, now))


def _without_times(old: Any, new: Any) -> bool:
    return old is None or new is None or old[:3] + old[4:] != new[:3] + new[4:]


def _counts(before: dict[str, Any], after: dict[str, Any]) -> dict[str, int]:
    """How many files are new and how many are gone: a folder counts where nothing in it does, a repository as one."""
    changed = {path for path, (old, new) in differences(before, after).items() if _without_times(old, new)}
    above = {os.path.dirname(path) for path in changed}

    def count(there: dict[str, Any], not_there: dict[str, Any]) -> int:
        paths = {path for path in changed if path in there and path not in not_there}
        in_repository = {path for path in paths if ".git" in path.split("/")[:-1]}
        return sum(path.endswith(".git") or path not in above for path in paths - in_repository)

    return {"created": count(after, before), "deleted": count(before, after)}
