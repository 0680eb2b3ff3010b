from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
from msgspec.structs import asdict

from tests.support.bench import Bench
from tools.journal.journal_records import JournalEntry, JournalLimits, Records

_OTHER_DISK = Path("/dev/shm")
_needs_other_disk = pytest.mark.skipif(
    not _OTHER_DISK.is_dir() or _OTHER_DISK.stat().st_dev == Path("/tmp").stat().st_dev, reason="only one file system"
)


def test_every_change_is_undone_and_the_undo_undone(bench: Bench) -> None:
    path = bench.file("file", "old")
    changed = bench.call("fs_write", path="file", content="new")
    back = bench.undo(changed["undo_id"], "file")
    assert path.read_text() == "old"
    bench.undo(back["undo_id"], "file")
    assert path.read_text() == "new"


def test_a_created_file_is_taken_away_and_a_deleted_one_comes_back(bench: Bench) -> None:
    made = bench.call("fs_write", path="deep/er/file", content="x")
    gone = bench.undo(made["undo_id"], "deep/er/file")
    assert not (bench.folder / "deep/er/file").exists()
    bench.undo(gone["undo_id"], "deep/er/file")
    assert (bench.folder / "deep/er/file").read_text() == "x"


def test_a_deleted_folder_comes_back_whole(bench: Bench) -> None:
    bench.file("tree/a", "1")
    bench.file("tree/sub/b", "2").chmod(0o700)
    (bench.folder / "tree/link").symlink_to("a")
    assert bench.error("fs_delete", path="tree").code == "NOT_EMPTY"
    gone = bench.call("fs_delete", path="tree", recursive=True)
    assert bench.call("fs_read", path=f"undo://{gone['undo_id']}/sub/b")["content"] == "2"
    bench.undo(gone["undo_id"], "tree")
    assert (bench.folder / "tree/sub/b").read_text() == "2"
    assert (bench.folder / "tree/sub/b").stat().st_mode & 0o777 == 0o700
    assert (bench.folder / "tree/link").is_symlink()


def test_a_move_is_undone_with_what_it_replaced(bench: Bench) -> None:
    bench.file("a", "mover")
    bench.file("b", "replaced")
    assert bench.error("fs_move", from_="a", to="b").code == "ALREADY_EXISTS"
    moved = bench.call("fs_move", from_="a", to="b", overwrite=True)
    bench.undo(moved["undo_id"], "b")
    assert ((bench.folder / "a").read_text(), (bench.folder / "b").read_text()) == ("mover", "replaced")


def test_an_old_state_is_read_searched_and_put_elsewhere(bench: Bench) -> None:
    bench.file("file", "one\ntwo\n")
    changed = bench.patch("file", type="replace_all", pattern="o", replacement="0")
    reference = f"undo://{changed['undo_id']}"
    assert bench.call("fs_read", path=reference)["content"] == "one\ntwo\n"
    assert bench.call("fs_read_range", path=reference, start_line=2, end_line=2)["content"] == "two"
    assert bench.call("fs_grep", base=reference, pattern="tw")["matches"][0]["path"] == reference
    bench.call("fs_move", from_=reference, to="copy")
    assert ((bench.folder / "copy").read_text(), (bench.folder / "file").read_text()) == ("one\ntwo\n", "0ne\ntw0\n")


def test_a_file_that_has_changed_since_is_not_undone_by_accident(bench: Bench) -> None:
    path = bench.file("file", "old")
    changed = bench.call("fs_write", path="file", content="new")
    path.write_text("somebody else's")
    assert bench.error("fs_move", from_=f"undo://{changed['undo_id']}", to="file").code == "STALE_REV"
    bench.call("fs_move", from_=f"undo://{changed['undo_id']}", to="file", overwrite=True)
    assert path.read_text() == "old"


def test_what_is_appended_is_written_into_the_file_itself(bench: Bench) -> None:
    path = bench.file("log", "one\n")
    os.link(path, bench.folder / "twin")
    with open(path, "a") as writer:
        first = bench.call("fs_write", path="log", content="two\n", mode="append")
        second = bench.call("fs_write", path="log", content="three\n", mode="append")
        assert bench.call("fs_read", path=f"undo://{first['undo_id']}")["content"] == "one\n"
        assert bench.call("fs_read", path=f"undo://{second['undo_id']}")["content"] == "one\ntwo\n"
        back = bench.undo(second["undo_id"], "log")
        assert path.read_text() == "one\ntwo\n"
        assert bench.call("fs_read", path=f"undo://{back['undo_id']}")["content"] == "one\ntwo\nthree\n"
        bench.undo(back["undo_id"], "log")
        writer.write("four\n")
    assert (bench.folder / "twin").read_text() == "one\ntwo\nthree\nfour\n"
    assert bench.error("fs_move", from_=f"undo://{first['undo_id']}", to="log").code == "STALE_REV"


def test_appends_are_undone_one_after_the_other(bench: Bench) -> None:
    """Seen: to undo the second gave the file a new time, and the first was refused as changed since."""
    path = bench.file("log", "one\n")
    ids = [bench.call("fs_write", path="log", content=line, mode="append")["undo_id"] for line in ("two\n", "three\n")]
    file = path.stat().st_ino
    undone = [bench.undo(undo_id, "log")["undo_id"] for undo_id in reversed(ids)]
    assert path.read_text() == "one\n"
    for undo_id in reversed(undone):
        bench.undo(undo_id, "log")
    assert (path.read_text(), path.stat().st_ino) == ("one\ntwo\nthree\n", file)


def test_a_line_put_to_a_huge_log_copies_nothing(bench: Bench) -> None:
    path = bench.file("log")
    os.truncate(path, 1 << 30)
    written = bench.call("fs_write", path="log", content="a line\n", mode="append")
    # All but the line is a hole, and would not be one in a copy.
    assert path.stat().st_blocks * 512 <= 64 * 1024
    assert sum(file.stat().st_size for file in (bench.state / "journal").iterdir()) < 4_096
    unread = bench.error("fs_read", path=f"undo://{written['undo_id']}")
    assert unread.code == "NOT_FOUND"
    assert f"the first {1 << 30} bytes of {path}; no copy was kept" in unread.message
    # To make it again, all of the file would have to be kept.
    assert bench.undo(written["undo_id"], "log").get("undo_id") is None
    assert path.stat().st_size == 1 << 30


def test_an_unknown_id_is_not_found(bench: Bench) -> None:
    for reference in ("undo://nothing", "undo://../../etc/passwd", "undo://"):
        assert bench.error("fs_read", path=reference).code == "NOT_FOUND"


def test_the_journal_lets_the_oldest_go_and_keeps_within_its_size(tmp_path: Path) -> None:
    bench = Bench(tmp_path, JournalLimits(total_bytes=100_000))
    path = bench.file("file", "x" * 40_000)
    ids = [bench.call("fs_write", path="file", content=str(n) * 40_000)["undo_id"] for n in range(5)]
    assert [entry.id for entry in bench.journal.entries()] == ids[:2:-1]
    assert bench.error("fs_read", path=f"undo://{ids[0]}").code == "NOT_FOUND"
    path.write_text("y" * 200_000)
    large = bench.call("fs_write", path="file", content="")
    assert large["undoable"] is False
    assert "larger than the journal" in large["why"]


def test_a_full_journal_lets_a_tenth_go_at_once(tmp_path: Path) -> None:
    """All entries are read to find the oldest: done at every change, a write took half a second with 10,000 of them."""
    bench = Bench(tmp_path, JournalLimits(entries=20))
    bench.file("file", "x")
    counts = []
    for number in range(45):
        bench.call("fs_write", path="file", content=str(number))
        counts.append(len(bench.journal.entries()))
    assert counts[:20] == list(range(1, 21))
    assert counts[20:] == ([18, 19, 20] * 9)[:25]


def test_a_journal_is_cut_back_in_little_memory(tmp_path: Path) -> None:
    """Seen: ten thousand entries were in memory at once each minute, and the daemon kept the room for them."""
    journal = Records(tmp_path, JournalLimits(entries=1_000))
    for number in range(1_001):
        entry = JournalEntry(
            f"{number:06}", "write", f"/home/user/project/{number}", time.time(), None, 500, [1 << 40] * 5
        )
        (tmp_path / f"{entry.id}.json").write_text(json.dumps(asdict(entry)))
    tracemalloc.start()
    journal.prune(is_first=False)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [each.id for each in journal.entries()] == [f"{number:06}" for number in range(1_000, 100, -1)]
    assert most < 300 * 1024


def test_old_entries_go_with_time(tmp_path: Path) -> None:
    bench = Bench(tmp_path, JournalLimits(age_s=0.0))
    bench.file("file", "old")
    bench.call("fs_write", path="file", content="new")
    bench.journal.recover()
    assert bench.journal.entries() == []


@_needs_other_disk
def test_across_file_systems_a_move_copies_and_an_image_is_a_copy(bench: Bench) -> None:
    other = _OTHER_DISK / f"mcp-agent-{os.getpid()}"
    other.mkdir()
    try:
        bench.file("tree/a", "1")
        moved = bench.call("fs_move", from_="tree", to=str(other / "tree"))
        assert (other / "tree/a").read_text() == "1"
        assert not (bench.folder / "tree").exists()
        bench.undo(moved["undo_id"], str(other / "tree"))
        assert (bench.folder / "tree/a").read_text() == "1"
        (other / "file").write_text("old")
        changed = bench.call("fs_write", path=str(other / "file"), content="new")
        bench.undo(changed["undo_id"], str(other / "file"))
        assert (other / "file").read_text() == "old"
        gone = bench.call("fs_delete", path=str(other / "file"))
        bench.undo(gone["undo_id"], str(other / "file"))
        assert (other / "file").read_text() == "old"
        assert list(other.glob(".mcp-agent-*")) == []
    finally:
        shutil.rmtree(other)


@_needs_other_disk
def test_what_is_too_large_to_copy_is_changed_and_said_so(tmp_path: Path) -> None:
    bench = Bench(tmp_path, JournalLimits(copy_bytes=1_000))
    other = _OTHER_DISK / f"mcp-agent-large-{os.getpid()}"
    other.write_bytes(b"x" * 2_000)
    try:
        changed = bench.call("fs_write", path=str(other), content="new")
        assert (changed["undoable"], other.read_text()) == (False, "new")
        assert "another file system" in changed["why"]
    finally:
        other.unlink()


def test_a_change_under_way_in_another_process_is_left_alone(bench: Bench) -> None:
    bench.file("file", "old")
    code = f"""
import sys
from pathlib import Path
from tests.support.bench import Bench
bench = Bench(Path({str(bench.folder.parent)!r}))
def fill(descriptor):
    print("filling", flush=True)
    sys.stdin.readline()
    __import__("os").write(descriptor, b"new")
target = bench.folder / "file"
bench.journal.write(target, fill, seen=target.stat())
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "filling\n"
        assert bench.journal.recover() == []
        assert len(bench.litter()) == 1
        child.communicate("\n")
    assert ((bench.folder / "file").read_text(), bench.litter()) == ("new", [])


def test_a_hard_link_is_moved_onto_another_of_its_file(bench: Bench) -> None:
    """A rename of one onto the other does nothing, and says nothing."""
    first = bench.file("first", "text")
    second = bench.folder / "second"
    os.link(first, second)
    error = bench.error("fs_move", from_="first", to="second")
    assert (error.code, error.message) == ("ALREADY_EXISTS", f"{second} and {first} are two names of one file")
    assert error.hint == f"pass overwrite=true to remove the name {first}"
    moved = bench.call("fs_move", from_="first", to="second", overwrite=True)
    assert (first.exists(), second.read_text(), bench.litter()) == (False, "text", [])
    bench.undo(moved["undo_id"], "second")
    assert first.samefile(second)
    assert "the same path" in bench.error("fs_move", from_="first", to="first", overwrite=True).message
    assert first.read_text() == "text"
