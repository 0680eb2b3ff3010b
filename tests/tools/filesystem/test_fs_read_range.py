from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.bench import Bench


def numbered(bench: Bench, name: str, count: int, *, ending: str = "\n") -> Path:
    return bench.file(name, "".join(f"line {n}{ending}" for n in range(1, count + 1)))


def lines(bench: Bench, path: str, start: int, end: int) -> dict[str, object]:
    return bench.call("fs_read_range", path=path, start_line=start, end_line=end)


def test_lines_are_given_without_the_last_ones_ending(bench: Bench) -> None:
    numbered(bench, "ten", 10)
    found = lines(bench, "ten", 3, 4)
    found.pop("rev")
    assert found == {
        "path": str(bench.folder / "ten"),
        "start_line": 3,
        "end_line": 4,
        "content": "line 3\nline 4",
        "total_lines": 10,
    }


def test_negative_lines_count_from_the_end_and_a_far_end_is_clamped(bench: Bench) -> None:
    numbered(bench, "ten", 10, ending="\r\n")
    assert lines(bench, "ten", -2, -1)["content"] == "line 9\r\nline 10"
    assert lines(bench, "ten", -99, 2)["content"] == "line 1\r\nline 2"
    assert (lines(bench, "ten", 9, 999)["start_line"], lines(bench, "ten", 9, 999)["end_line"]) == (9, 10)


def test_a_start_past_the_end_is_an_error_with_the_number_of_lines(bench: Bench) -> None:
    numbered(bench, "ten", 10)
    error = bench.error("fs_read_range", path="ten", start_line=11, end_line=12)
    assert (error.code, error.fields) == ("OUT_OF_RANGE", {"total_lines": 10})
    assert "has 10 lines" in error.message


def test_a_last_line_without_an_ending_counts_and_an_empty_file_has_none(bench: Bench) -> None:
    bench.file("open", "a\nb")
    bench.file("empty", "")
    assert lines(bench, "open", 2, 2)["content"] == "b"
    assert lines(bench, "open", 1, 9)["total_lines"] == 2
    assert (lines(bench, "empty", 1, 5)["content"], lines(bench, "empty", 1, 5)["total_lines"]) == ("", 0)


@pytest.mark.parametrize(("start", "end"), [(0, 3), (3, 0), (5, 4), (-1, -2)])
def test_lines_in_the_wrong_order_are_an_argument_error(bench: Bench, start: int, end: int) -> None:
    numbered(bench, "ten", 10)
    assert bench.error("fs_read_range", path="ten", start_line=start, end_line=end).code == "INVALID_PARAMS"


@pytest.mark.parametrize("codec", ["utf-8", "utf-16"])
def test_every_line_of_a_file_of_many_blocks_is_found(bench: Bench, codec: str) -> None:
    count = 60_000
    path = bench.folder / "many"
    path.write_bytes("".join(f"Zeile {n} ö\n" for n in range(1, count + 1)).encode(codec))
    for line in (1, 2, 17_777, 29_999, 45_000, count):
        assert lines(bench, "many", line, line)["content"] == f"Zeile {line} ö"
    assert lines(bench, "many", -3, -3)["content"] == f"Zeile {count - 2} ö"


def test_the_line_index_is_dropped_when_the_file_changes(bench: Bench) -> None:
    numbered(bench, "log", 50_000)
    assert lines(bench, "log", -1, -1)["content"] == "line 50000"
    with open(bench.folder / "log", "a") as log:
        log.write("appended\n")
    assert lines(bench, "log", -1, -1)["content"] == "appended"
    numbered(bench, "log", 3)
    assert lines(bench, "log", -1, -1)["content"] == "line 3"


def test_a_range_that_is_too_much_is_cut_at_a_line_and_says_where_to_go_on(bench: Bench) -> None:
    bench.file("wide", "".join(f"{n:06}{'x' * 993}\n" for n in range(1, 2_001)))
    first = lines(bench, "wide", 1, 2_000)
    assert first["truncated"] is True
    last = first["end_line"]
    assert isinstance(last, int)
    assert 300 < last < 500
    assert str(first["content"]).endswith(f"{last:06}{'x' * 993}")
    second = lines(bench, "wide", last + 1, 2_000)
    assert str(second["content"]).startswith(f"{last + 1:06}")


def test_one_endless_line_is_cut_too(bench: Bench) -> None:
    bench.file("endless", "ab" * 1_000_000)
    found = lines(bench, "endless", 1, 1)
    assert (found["truncated"], found["end_line"]) == (True, 1)
    assert len(str(found["content"])) == 400_000


def test_a_truncated_read_says_from_which_line_to_go_on(bench: Bench) -> None:
    numbered(bench, "ten", 10)
    read = bench.call("fs_read", path="ten", max_bytes=16)
    assert (read["content"], read["truncated"], read["next_line"]) == ("line 1\nline 2\nli", True, 3)


@pytest.mark.alone
def test_a_large_file_is_not_read_into_memory(bench: Bench) -> None:
    path = bench.folder / "large"
    with open(path, "wb") as file:
        block = b"0123456789abcde\n" * 65_536
        for _ in range(200):
            file.write(block)
    code = f"""
from tests.support.bench import Bench, peak_kb
from pathlib import Path
bench = Bench(Path({str(bench.folder.parent)!r}))
bench.call("fs_read_range", path="large", start_line=100_000, end_line=100_001)
before = peak_kb()
found = bench.call("fs_read_range", path="large", start_line=13_000_000, end_line=13_000_001)
assert found["content"] == "0123456789abcde\\n0123456789abcde", found
print(peak_kb() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert int(done.stdout) < 20 * 1024


def test_a_file_that_grows_while_it_is_read_gives_whole_lines(bench: Bench) -> None:
    path = numbered(bench, "growing", 20_000)
    stop = threading.Event()

    def grow() -> None:
        with open(path, "a") as file:
            number = 20_001
            while not stop.is_set():
                file.write(f"line {number}\n")
                file.flush()
                number += 1

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        for _ in range(20):
            found = lines(bench, "growing", 19_999, 20_000)
            assert found["content"] == "line 19999\nline 20000"
    finally:
        stop.set()
        writer.join()


def test_a_revision_names_the_content_and_not_the_time(bench: Bench) -> None:
    path = bench.file("same", "text")
    first = bench.call("fs_read", path="same")["rev"]
    path.write_text("other")
    assert bench.call("fs_read", path="same")["rev"] != first
    path.write_text("text")
    assert bench.call("fs_read_range", path="same", start_line=1, end_line=1)["rev"] == first


@pytest.mark.parametrize(
    ("tool", "more"),
    [
        ("fs_write", {"path": "file", "content": "x"}),
        ("fs_patch", {"path": "file", "operations": [{"type": "replace_first", "pattern": "o", "replacement": "x"}]}),
        ("fs_delete", {"path": "file"}),
        ("fs_move", {"from": "file", "to": "elsewhere"}),
    ],
)
def test_a_stale_revision_stops_a_change_and_shows_what_happened(
    bench: Bench, tool: str, more: dict[str, object]
) -> None:
    path = bench.file("file", "one\ntwo\nthree\n")
    seen = bench.call("fs_read", path="file")["rev"]
    path.write_text("one\nTWO\nthree\n")
    error = bench.error(tool, if_rev=seen, **more)
    assert error.code == "STALE_REV"
    assert error.fields["diff"] == "@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n"
    assert path.read_text() == "one\nTWO\nthree\n"
    bench.call(tool, if_rev=error.fields["rev"], **more)


def test_a_result_of_a_write_has_the_revision_for_the_next(bench: Bench) -> None:
    first = bench.call("fs_write", path="file", content="one\n")
    second = bench.call("fs_write", path="file", content="two\n", mode="append", if_rev=first["rev"])
    third = bench.call(
        "fs_patch",
        path="file",
        operations=[{"type": "replace_first", "pattern": "two", "replacement": "2"}],
        if_rev=second["rev"],
    )
    assert bench.call("fs_read", path="file")["rev"] == third["rev"]


def test_a_file_too_large_to_hash_still_has_a_revision(bench: Bench) -> None:
    path = bench.file("large", b"x\n" * 1_000_000)
    rev = bench.call("fs_read", path="large")["rev"]
    with open(path, "ab") as file:
        file.write(b"y\n")
    assert bench.error("fs_write", path="large", content="", if_rev=rev).code == "STALE_REV"
