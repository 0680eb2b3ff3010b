"""An undo of a command whose process dies at each of its system calls in turn, and what the next start makes of it."""

from __future__ import annotations

import os
import random
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.dying import dies_at
from tests.tools.effects.snapshots import differences, make_project, run, snapshot
from tools.effects.followed_project import FollowedProject
from tools.journal.journal import Journal
from tools.kit.errors import IoError

_COMMAND = """
rm -rf docs src/a
echo 1 > .env
mv src/b* ./
mv tracked moved
ln moved again
mkfifo src/pipe
rm link
mkdir link
chmod 600 .gitignore
mkdir -p new/deep
echo y > new/deep/file
git add -A
git commit -qm two
for f in $(ls *.txt | head -5); do echo changed > $f; done
"""


def _project_after_a_command(folder: Path) -> tuple[Path, Path, str, dict[str, Any]]:
    """A project, the folder of its journal, the id of a command that has changed it, and what it was before."""
    root, state = folder / "project", folder / "state"
    state.mkdir(parents=True)
    make_project(root, random.Random(7))
    project = FollowedProject(str(root), str(state))
    try:
        while not project.tree.look_on(1.0) or not project.read_on(1.0):
            pass
        before = snapshot(root)
        project.settle(["one"])
        run(_COMMAND, root)
        project.settle(["one"])
        answer = project.end("one", str(state / "entry"), 1 << 30)
    finally:
        project.close()
    undo_id = Journal(state / "journal").keep_command(state / "entry", str(root), _COMMAND, answer)
    assert undo_id is not None
    return root, state, undo_id, before


def test_an_undo_that_is_killed_is_finished_or_was_not_begun(tmp_path: Path) -> None:
    root, state, undo_id, before = _project_after_a_command(tmp_path)
    after = snapshot(root)
    outcomes = set()
    for step in range(1, 4_000, 7):
        has_died = dies_at(step, partial(Journal(state / "journal").undo, undo_id))
        journal = Journal(state / "journal")
        journal.recover()
        now = snapshot(root)
        where = f"killed at call {step}"
        is_undone = now == before
        assert is_undone or now == after, (where, differences(before, now), differences(after, now))
        assert not list(root.glob(".mcp-agent-*")), where
        outcomes.add(is_undone)
        entries = journal.entries()
        assert len(entries) == 1, where
        if is_undone:
            assert entries[0].undoes == undo_id, where
            undo_id = journal.undo(entries[0].id)[2].undo_id or ""
            assert snapshot(root) == after, where
        if not has_died:
            break
    else:
        raise AssertionError("the undo never came to its end")
    assert outcomes == {True, False}


def test_an_undo_that_fails_half_way_leaves_all_as_it_was(tmp_path: Path) -> None:
    """Seen with a full disk: the same error at each call that makes, moves or removes something."""
    root, state, undo_id, before = _project_after_a_command(tmp_path)
    after = snapshot(root)
    journal = Journal(state / "journal")
    failures = 0
    for step in range(1, 400, 3):
        failed = _undo_and_fail(journal, undo_id, step)
        now = snapshot(root)
        if not failed:
            assert now == before
            break
        failures += 1
        assert now == after, (step, differences(after, now))
        assert not list(root.glob(".mcp-agent-*")), step
        assert [entry.id for entry in journal.entries()] == [undo_id]
    assert failures > 5


def _undo_and_fail(journal: Journal, undo_id: str, step: int) -> bool:
    """Whether the undo has failed. The call of that number is refused, once, by the operating system's own words."""
    left = step
    names = ("replace", "symlink", "mkdir", "unlink", "rmdir")
    real = {name: getattr(os, name) for name in names}

    def failing(name: str) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal left
            if any("/project" in str(each) or "/proc/self/fd" in str(each) for each in arguments):
                left -= 1
                if left == 0:
                    raise OSError(28, "No space left on device")
            return real[name](*arguments, **named)

        return call

    for name in names:
        setattr(os, name, failing(name))
    try:
        journal.undo(undo_id)
    except (IoError, OSError):
        return True
    finally:
        for name in names:
            setattr(os, name, real[name])
    return False
