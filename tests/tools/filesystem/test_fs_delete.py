"""Deleting: what cannot be brought back is refused before anything is touched, and so is what the daemon lives in."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import venv
from pathlib import Path

import pytest

from tests.support.bench import TOOLS, Bench
from tools.filesystem.changes import check_not_own
from tools.journal import trees
from tools.journal.journal import Journal
from tools.journal.journal_records import JournalLimits
from tools.kit.errors import Denied

_SHM = Path("/dev/shm")
_needs_other_disk = pytest.mark.skipif(
    not _SHM.is_dir() or _SHM.stat().st_dev == Path("/tmp").stat().st_dev, reason="only one file system"
)


def _deep(folder: Path, levels: int) -> None:
    """A tree so deep that its path is too long for the system, with a file at its end."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir("level", dir_fd=here)
        there = os.open("level", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = there
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def test_what_is_too_large_to_undo_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    bench = Bench(tmp_path, JournalLimits(total_bytes=100_000))
    for number in range(30):
        bench.file(f"tree/{number % 3}/{number}", "x" * 10_000)
    error = bench.error("fs_delete", path="tree", recursive=True)
    assert (error.code, error.hint) == ("NOT_UNDOABLE", "pass permanent=true to delete it for good")
    assert "nothing was deleted" in error.message
    assert "larger than the journal" in error.message
    assert "30 files with 0.2861 MB would be lost" in error.message
    assert len([path for path in bench.folder.rglob("*") if path.is_file()]) == 30
    assert bench.litter() == []
    gone = bench.call("fs_delete", path="tree", recursive=True, permanent=True)
    assert (gone["deleted"], gone["undoable"], "undo_id" in gone) == (True, False, False)
    assert list(bench.folder.iterdir()) == []


def test_permanent_keeps_what_can_be_kept(bench: Bench) -> None:
    bench.file("file", "x")
    gone = bench.call("fs_delete", path="file", permanent=True)
    bench.undo(gone["undo_id"], "file")
    assert (bench.folder / "file").read_text() == "x"


@_needs_other_disk
def test_on_another_disk_what_is_too_large_to_copy_is_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path, JournalLimits(copy_bytes=1_000))
    other = _SHM / f"mcp-agent-delete-{os.getpid()}"
    other.write_bytes(b"x" * 2_000)
    try:
        error = bench.error("fs_delete", path=str(other))
        assert (error.code, other.stat().st_size) == ("NOT_UNDOABLE", 2_000)
        assert "it has 2000 bytes" in error.message
        bench.call("fs_delete", path=str(other), permanent=True)
        assert not other.exists()
    finally:
        other.unlink(missing_ok=True)


def test_without_a_journal_a_deletion_needs_a_yes(bench: Bench) -> None:
    path = bench.file("file", "x")
    bench.ctx.journal = Journal(None)
    assert "no journal is kept" in bench.error("fs_delete", path="file").message
    assert path.exists()


@pytest.mark.parametrize("tool", ["fs_delete", "fs_move"])
def test_the_daemon_does_not_take_away_what_it_stands_on(bench: Bench, tool: str) -> None:
    link = bench.file("inner/file", "x").parent.parent / "link"
    link.symlink_to(bench.folder)
    for path, says in (
        (".", "is the working folder of the daemon itself"),
        ("..", f"holds {bench.folder}, the working folder"),
    ):
        named = {"path": path, "recursive": True, "permanent": True} if tool == "fs_delete" else {"from_": path}
        error = bench.error(tool, **named, **({} if tool == "fs_delete" else {"to": "elsewhere"}))
        assert (error.code, says in error.message) == ("DENIED", True), error.message
        assert error.message.endswith("and is not deleted" if tool == "fs_delete" else "and is not moved")
    # What is in the working folder is work, and a link to it is a link.
    bench.call("fs_delete", path="link")
    bench.call("fs_delete", path="inner", recursive=True)
    assert list(bench.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (Path(sys.prefix), "is the environment of the daemon itself"),
        (Path(sys.prefix).parent, "of the daemon itself"),
        (Path(sys.prefix) / "bin", "belongs to the environment of the daemon itself"),
    ],
)
@pytest.mark.parametrize("verb", ["deleted", "moved"])
def test_the_environment_of_the_daemon_is_refused(bench: Bench, path: Path, says: str, verb: str) -> None:
    """Asked of the check alone: a tool that got this wrong would delete the environment of the tests."""
    with pytest.raises(Denied, match=f"{says} and is not {verb}"):
        check_not_own(bench.ctx, path, verb)


@pytest.mark.parametrize("package", ["mcp_agent", "registry", "tools"])
def test_the_program_itself_is_refused(bench: Bench, package: str) -> None:
    """Asked of the check alone: a tool that got this wrong would delete the checkout."""
    folder = Path(trees.__file__).parents[2] / package
    assert folder.is_dir()
    with pytest.raises(Denied, match="is the program of the daemon itself and is not deleted"):
        check_not_own(bench.ctx, folder, "deleted")
    check_not_own(bench.ctx, folder / "__init__.py", "deleted")


def test_the_environment_that_is_refused_is_that_of_the_daemon_alone(bench: Bench) -> None:
    venv.create(bench.folder / ".venv", symlinks=True)
    assert bench.call("fs_delete", path=".venv", recursive=True)["deleted"]


def test_the_description_promises_no_more_than_holds() -> None:
    description = TOOLS["fs_delete"].description
    assert "What is too large is refused" in description
    assert "can be brought back" not in description


def test_a_tree_of_any_depth_is_deleted_brought_back_and_forgotten(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    (bench.folder / "tree").mkdir()
    _deep(bench.folder / "tree", 1_500)
    gone = bench.call("fs_delete", path="tree", recursive=True)
    bench.undo(gone["undo_id"], "tree")
    assert (bench.folder / "tree" / "level" / "level").is_dir()
    again = bench.call("fs_delete", path="tree", recursive=True)
    bench.journal._records.forget(again["undo_id"])
    assert not list((bench.state / "journal").glob("*.image"))
    assert bench.litter() == []


def test_a_tree_of_any_depth_is_deleted_for_good(bench: Bench) -> None:
    bench.ctx.journal = Journal(None)
    (bench.folder / "tree" / "1").mkdir(parents=True)
    _deep(bench.folder / "tree" / "1", 1_500)
    bench.file("tree/1/2/file")
    assert bench.call("fs_delete", path="tree", recursive=True, permanent=True)["deleted"]
    assert (list(bench.folder.iterdir()), bench.litter()) == ([], [])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user to be")
def test_folders_without_rights_are_removed_if_they_are_ours(request: pytest.FixtureRequest) -> None:
    # Not below pytest's own folder, which every run of pytest closes to others.
    top = Path(tempfile.mkdtemp())
    request.addfinalizer(lambda: shutil.rmtree(top))
    top.chmod(0o755)
    tree = top / "tree"
    (tree / "closed" / "inner").mkdir(parents=True)
    (tree / "closed" / "inner" / "file").touch()
    for path in (top, tree, tree / "closed", tree / "closed" / "inner", tree / "closed" / "inner" / "file"):
        os.chown(path, 65534, 65534)
    (tree / "closed" / "inner").chmod(0o500)
    (tree / "closed").chmod(0)
    child = os.fork()
    if child == 0:
        try:
            os.setuid(65534)
            trees.remove_tree(tree)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert not tree.exists()
