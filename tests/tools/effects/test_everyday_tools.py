"""Tools that people use every day, in a project with a history: what they do is told, and taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools.effects.conftest import Workshop
from tests.tools.effects.snapshots import differences, run, snapshot

_GIT = "git -c user.name=a -c user.email=a@b"


@pytest.fixture
def history(workshop: Workshop) -> Path:
    """Two branches that differ, a stash, a built folder, and a file that is ignored."""
    root = workshop.root
    (root / ".git").rmdir()
    (root / ".gitignore").write_text("*.o\n.env\n")
    (root / "Makefile").write_text("all:\n\tfor f in src/*.py; do cp $$f $$f.o; done\nclean:\n\trm -f src/*.o\n")
    (root / ".env").write_text("KEY=1\n")
    run(
        "git init -q -b main . && git add -A && git commit -qm one && git checkout -qb topic && "
        "echo topic > src/topic.py && rm src/b.py && git add -A && git commit -qm topic && git checkout -q main && "
        "echo main >> src/c.py && git commit -qam two && echo stashed >> src/a.py && git stash -q && make -s all",
        root,
    )
    assert (root / "src/a.py.o").exists()
    return root


@pytest.mark.parametrize(
    "command",
    [
        "git checkout -q topic",
        f"git checkout -q topic && {_GIT} rebase -q main",
        f"{_GIT} merge -q topic -m merged",
        "git stash pop -q",
        f"echo x >> src/a.py && {_GIT} stash -q && git checkout -q topic && {_GIT} stash pop -q",
        f"echo x >> src/c.py && {_GIT} commit -q --amend -am amended && git branch -D topic",
        "git reset -q --hard HEAD~1 && git clean -fdxq",
        "git rm -q --cached src/a.py && git mv src/b.py src/d.py",
        "make -s clean",
        "tar cf all.tar src && rm -r src && tar xf all.tar && rm all.tar",
        "find src -name '*.py' -exec perl -pi -e 's/1/one/' {} +",
    ],
)
async def test_what_an_everyday_tool_did_is_taken_back(workshop: Workshop, history: Path, command: str) -> None:
    await workshop.is_read()
    before = snapshot(history)
    done = await workshop.run(command)
    assert done["exit_code"] == 0, done
    assert "not_undoable" not in done["effects"], done
    undone = await workshop.undo(done["undo_id"])
    assert "error" not in undone, undone
    now = snapshot(history)
    assert now == before, differences(before, now)
    status = await workshop.run("git status --porcelain && git fsck --no-dangling")
    assert (status["exit_code"], status["stdout"]) == (0, ""), status
    assert "effects" not in status
