"""Changes whose process dies at each of its steps in turn, and what the next start makes of that."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bench import Bench
from tools.journal.journal import Journal

# For each step: makes ready, and lets a child make the change and die without a word at the system call of that number.
_KILLED = """
import os, sys
from pathlib import Path
from tests.support.bench import Bench
from tests.support.dying import dies_at

_, root, away, ready, change = sys.argv
for step in range(1, 200):
    bench, other = Bench(Path(root, str(step))), Path(away, str(step))
    other.mkdir()
    exec(ready)
    if not dies_at(step, lambda: exec(change)):
        print(step)
        break
"""
_KILLED_IN_FILL = """
import os, signal, sys
from pathlib import Path
from tools.files import disk
from tools.journal.journal import Journal

def fill(writing):
    os.write(writing, b"new")
    os.kill(os.getpid(), signal.SIGKILL)

path = Path(sys.argv[1])
Journal(None).write(path, fill, seen=disk.lstat(path))
"""
_READY = """
for place in (bench.folder, other):
    (place / "tree").mkdir()
    (place / "tree" / "a").write_text("1")
    (place / "file").write_text("old")
    (place / "taken").write_text("theirs")
    (place / "twin").write_text("old")
    os.link(place / "twin", place / "twin2")
"""
_ROUNDS = 200 if os.environ.get("MCP_AGENT_TEST_LONG") else 10
State = dict[str, str | None]


@pytest.fixture
def away() -> Iterator[Path]:
    """A folder on another file system than that of the tests."""
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == Path(tempfile.gettempdir()).stat().st_dev:
        pytest.skip("only one file system")
    folder = Path(tempfile.mkdtemp(prefix="mcp-agent-", dir=shared))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("change", "states"),
    [
        ('bench.call("fs_write", path="file", content="new")', [{"file": "old"}, {"file": "new"}]),
        ('bench.call("fs_write", path="twin", content="new")', [{"twin": "old"}, {"twin": "new"}]),
        ('bench.call("fs_write", path="made", content="new")', [{"made": None}, {"made": "new"}]),
        (
            'bench.call("fs_write", path="twin", content=" and new", mode="append")',
            [{"twin": "old", "twin2": "old"}, {"twin": "old and new", "twin2": "old and new"}],
        ),
        ('bench.call("fs_delete", path="file")', [{"file": "old"}, {"file": None}]),
        ('bench.call("fs_delete", path="tree", recursive=True)', [{"tree/a": "1"}, {"tree/a": None}]),
        ('bench.call("fs_move", from_="file", to="made")', [{"file": "old"}, {"file": None, "made": "old"}]),
        (
            'bench.call("fs_move", from_="file", to="taken", overwrite=True)',
            [{"file": "old", "taken": "theirs"}, {"file": None, "taken": "old"}],
        ),
        (
            'bench.patch("file", type="replace_first", pattern="ol", replacement="bol")',
            [{"file": "old"}, {"file": "bold"}],
        ),
        (
            'bench.tell("fs_patch", patch="*** Update File: file\\n-old\\n+new\\n*** Add File: made\\n+m\\n"'
            ' "*** Delete File: tree/a\\n*** Update File: taken\\n*** Move to: moved\\n-theirs\\n+ours\\n")',
            [
                {"file": "old", "made": None, "tree/a": "1", "taken": "theirs", "moved": None},
                {"file": "new", "made": "m\n", "tree/a": None, "taken": None, "moved": "ours"},
            ],
        ),
    ],
)
def test_killed_at_any_step_leaves_the_old_or_the_new(
    tmp_path: Path, away: Path, change: str, states: list[State]
) -> None:
    for step in _steps(tmp_path, away, _READY, change):
        _settled(step, tmp_path / str(step), away / str(step), [(state, {}) for state in states])


@pytest.mark.parametrize(
    ("change", "states"),
    [
        (
            'bench.call("fs_move", from_="file", to=str(other / "made"))',
            [({"file": "old"}, {"made": None}), ({"file": None}, {"made": "old"})],
        ),
        (
            'bench.call("fs_move", from_="file", to=str(other / "taken"), overwrite=True)',
            [({"file": "old"}, {"taken": "theirs"}), ({"file": None}, {"taken": "old"})],
        ),
        (
            'bench.call("fs_move", from_="tree", to=str(other / "made"))',
            [({"tree/a": "1"}, {"made/a": None}), ({"tree/a": None}, {"made/a": "1"})],
        ),
        (
            'bench.call("fs_move", from_=str(other / "tree"), to="made")',
            [({"made/a": None}, {"tree/a": "1"}), ({"made/a": "1"}, {"tree/a": None})],
        ),
        (
            'bench.call("fs_write", path=str(other / "file"), content="new")',
            [({}, {"file": "old"}), ({}, {"file": "new"})],
        ),
        (
            'bench.call("fs_delete", path=str(other / "tree"), recursive=True)',
            [({}, {"tree/a": "1"}), ({}, {"tree/a": None})],
        ),
    ],
)
def test_killed_between_two_file_systems_leaves_the_old_or_the_new(
    tmp_path: Path, away: Path, change: str, states: list[tuple[State, State]]
) -> None:
    for step in _steps(tmp_path, away, _READY, change):
        _settled(step, tmp_path / str(step), away / str(step), states)


def test_an_undo_of_an_append_that_is_killed_at_any_step_is_done_or_not(tmp_path: Path, away: Path) -> None:
    ready = """
(bench.folder / "log").write_text("old")
undo_id = bench.call("fs_write", path="log", content="er", mode="append")["undo_id"]
"""
    for step in _steps(tmp_path, away, ready, 'bench.undo(undo_id, "log")'):
        bench = Bench(tmp_path / str(step))
        bench.journal.recover()
        path = bench.folder / "log"
        was = path.read_text()
        assert was in ("old", "older"), step
        bench.journal.undo(bench.journal.entries()[0].id)
        assert {was, path.read_text()} == {"old", "older"}, step


def test_killed_at_any_moment_no_file_is_torn_and_every_undo_is_whole(tmp_path: Path) -> None:
    code = f"from {__name__} import change_and_die; change_and_die({str(tmp_path)!r}, {_ROUNDS})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def change_and_die(root: str, rounds: int) -> None:
    """Let a child change files until it is killed, and look at what the next start makes of them, again and again."""
    for number in range(rounds):
        child = os.fork()
        if not child:
            try:
                _change_without_end(Path(root), number)
            finally:
                os._exit(1)
        time.sleep(random.uniform(0.01, 0.15))
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        bench = Bench(Path(root))
        bench.journal.recover()
        _are_whole(bench)
        for entry in bench.journal.entries()[:5]:
            bench.journal.undo(entry.id)
            _are_whole(bench)


def _change_without_end(root: Path, seed: int) -> None:
    bench, chance = Bench(root), random.Random(seed)
    while True:
        text = f"{chance.choice('abc') * chance.choice([1, 9_000, 900_000])}\n"
        for name in ("file", "twin"):
            bench.call("fs_write", path=name, content=text)
        if not (bench.folder / "twin2").exists():
            os.link(bench.folder / "twin", bench.folder / "twin2")
        bench.call("fs_write", path="log", content=f"{'d' * 200}\n", mode="append")
        bench.patch("file", type="replace_all", pattern=text[0], replacement=text[0].upper())
        bench.call("fs_move", from_="file", to="moved", overwrite=True)
        bench.call("fs_delete", path="moved")


def _are_whole(bench: Bench) -> None:
    assert bench.litter() == []
    for path in bench.folder.iterdir():
        lines = path.read_text().splitlines(keepends=True)
        lengths = [len(line) for line in lines]
        assert all(line == f"{line[0] * (len(line) - 1)}\n" for line in lines), (path, lengths)
        if path.name == "log":
            assert set(lengths) == {201}, lengths
        else:
            assert lengths in ([2], [9_001], [900_001]), (path, lengths)


@pytest.mark.parametrize("old", [None, "old"])
def test_a_kill_leaves_the_old_file_where_no_journal_can_be_kept(tmp_path: Path, old: str | None) -> None:
    path = tmp_path / "file"
    if old is not None:
        path.write_text(old)
    done = subprocess.run(
        [sys.executable, "-c", _KILLED_IN_FILL, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert (path.read_text() if path.exists() else None) == old


def _steps(root: Path, away: Path, ready: str, change: str) -> range:
    """Make the change, once for each of its steps, each time in folders of that number."""
    command = [sys.executable, "-c", _KILLED, str(root), str(away), ready, change]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return range(1, int(done.stdout) + 1)


def _settled(step: int, root: Path, other: Path, states: list[tuple[State, State]]) -> None:
    """After the next start there is the old or the new, nothing else, and what can be undone leads back to the old."""
    bench = Bench(root)
    bench.journal.recover()
    assert any(_holds(bench, other, state) for state in states), (
        step,
        sorted(bench.folder.iterdir()),
        sorted(other.iterdir()),
    )
    assert [*bench.litter(), *other.rglob(".mcp-agent-*")] == [], step
    entries = bench.journal.entries()
    kept = {path.name for path in (bench.state / "journal").glob("*.*")}
    assert kept - {f"{entry.id}.image" for entry in entries} == {f"{entry.id}.json" for entry in entries}, step
    for entry in entries[-1:]:
        # The first one of a change of several files.
        assert len(entry.parts or [entry.id]) == len(entries), step
        bench.journal.undo(entry.id)
        assert _holds(bench, other, states[0]), step


def _holds(bench: Bench, other: Path, state: tuple[State, State]) -> bool:
    return all(
        (path.read_text() if path.exists() else None) == text
        for place, files in zip((bench.folder, other), state, strict=True)
        for name, text in files.items()
        for path in [place / name]
    )


def test_a_change_that_cannot_be_settled_now_is_left_for_the_next_start(tmp_path: Path) -> None:
    folder, target = tmp_path / "journal", tmp_path / "gone" / "file"
    folder.mkdir()
    # As of a write in place that was interrupted; the disk with the file is not there now.
    facts = {"id": "abc", "action": "write", "path": str(target), "in_place": True, "phase": "verified"}
    (folder / "abc.begun").write_text(json.dumps(facts) + "\n")
    (folder / "abc.image").write_text("old")
    os.mkfifo(folder / "def.begun")
    (told,) = Journal(folder).recover()
    reason = "no such file or directory; the next start tries again"
    assert told == f"could not settle an interrupted write of {target}: {reason}"
    target.parent.mkdir()
    target.write_text("half of the new")
    assert Journal(folder).recover() == [f"took back an interrupted write of {target}"]
    assert target.read_text() == "old"
    assert not (folder / "abc.begun").exists()


def test_a_change_that_is_done_is_not_taken_back_though_its_record_is_there(tmp_path: Path) -> None:
    """A record that could not be removed says so: what was written since then is not lost."""
    folder, target = tmp_path / "journal", tmp_path / "file"
    folder.mkdir()
    target.write_text("written since")
    facts = {"id": "abc", "action": "write", "path": str(target), "in_place": True, "phase": "verified"}
    (folder / "abc.begun").write_text(f'{json.dumps(facts)}\n{{"done": true}}\n')
    (folder / "abc.image").write_text("old")
    assert Journal(folder).recover() == []
    assert target.read_text() == "written since"
    assert list(folder.iterdir()) == []


def test_a_record_that_could_not_be_removed_goes_at_the_next_start(tmp_path: Path) -> None:
    folder, away, target = tmp_path / "journal", tmp_path / "away", tmp_path / "file"
    journal = Journal(folder)

    def fill(descriptor: int) -> None:
        folder.rename(away)
        folder.touch()
        os.write(descriptor, b"new")

    receipt = journal.write(target, fill, seen=None)
    assert (target.read_bytes(), receipt.undo_id) == (b"new", None)
    folder.unlink()
    away.rename(folder)
    (left,) = folder.glob("*.begun")
    assert json.loads(left.read_text().splitlines()[-1]) == {"done": True}
    assert Journal(folder).recover() == []
    assert list(folder.iterdir()) == []
    assert target.read_bytes() == b"new"


def test_a_file_that_only_the_journal_has_comes_back(tmp_path: Path) -> None:
    """Its entry is lost: a power cut, for example, after a deletion."""
    folder, target = tmp_path / "journal", tmp_path / "file"
    target.write_text("precious")
    folder.mkdir()
    facts = {"id": "abc", "action": "delete", "path": str(target)}
    (folder / "abc.begun").write_text(f"{json.dumps(facts)}\n")
    target.rename(folder / "abc.image")
    journal = Journal(folder)
    assert journal.recover() == [f"finished an interrupted delete of {target}"]
    journal.undo("abc")
    assert target.read_text() == "precious"
