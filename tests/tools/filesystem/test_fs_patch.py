from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.bench import Bench
from tests.support.daemon import Daemon
from tests.support.waiting import eventually
from tools.filesystem.patch.regexes import find_all
from tools.kit.errors import TooLarge

CODE = "import os\n\n\ndef alpha(x):\n    return x + 1\n\n\ndef beta(x):\n    return x + 2\n"


def test_a_patch_shows_its_diff_and_applies_in_order(bench: Bench) -> None:
    path = bench.file("code.py", CODE)
    operations = [
        {"type": "replace_first", "pattern": "x + 1", "replacement": "x + one"},
        {"type": "insert_after", "match": "import os", "insert": "one = 1"},
        {"type": "replace_all", "pattern": r"def (\w+)\(x\)", "replacement": r"def \1(x: int)", "regex": True},
    ]
    done = bench.call("fs_patch", path="code.py", operations=operations)
    assert path.read_text() == (
        "import os\none = 1\n\n\ndef alpha(x: int):\n    return x + one\n\n\ndef beta(x: int):\n    return x + 2\n"
    )
    assert done["operations_applied"] == 3
    assert done["diff"] == (
        "@@ -1,9 +1,10 @@\n import os\n+one = 1\n \n \n-def alpha(x):\n-    return x + 1\n+def alpha(x: int):\n"
        "+    return x + one\n \n \n-def beta(x):\n+def beta(x: int):\n     return x + 2\n"
    )
    assert done["notes"] == ["operation 3 changed 2 places"]


def test_the_diff_is_one_that_patch_understands(bench: Bench, tmp_path: Path) -> None:
    lines = [f"line {n}\n" for n in range(200)]
    path = bench.file("file", "".join(lines))
    (tmp_path / "copy").write_text("".join(lines))
    operations = [
        {"type": "replace_all", "pattern": "5\n", "replacement": "five\nand more\n"},
        {"type": "insert_before", "match": "line 0", "insert": "top"},
        {"type": "replace_first", "pattern": "line 77\nline 78\n", "replacement": ""},
    ]
    done = bench.call("fs_patch", path="file", operations=operations)
    (tmp_path / "diff").write_text(f"--- copy\n+++ copy\n{done['diff']}")
    subprocess.run(["git", "apply", "--unsafe-paths", "diff"], check=True, cwd=tmp_path)
    assert (tmp_path / "copy").read_text() == path.read_text()


def test_all_operations_apply_or_none(bench: Bench) -> None:
    path = bench.file("code.py", CODE)
    operations = [
        {"type": "replace_first", "pattern": "alpha", "replacement": "gamma"},
        {"type": "replace_first", "pattern": "nowhere to be found", "replacement": "x"},
    ]
    error = bench.error("fs_patch", path="code.py", operations=operations)
    assert error.code == "NO_MATCH"
    assert "operation 2" in error.message
    assert (path.read_text(), bench.litter(), bench.journal.entries()) == (CODE, [], [])


@pytest.mark.parametrize(
    ("pattern", "number", "difference"),
    [
        ("def Alpha(x):", 4, "upper and lower case differ"),
        ("def  alpha(x):\n  return x + 1", 4, "white space differs"),
        ("def alpha(y):", 4, "differs from character 11 on"),
        ("def betta(x):", 8, "differs from character 8 on"),
    ],
)
def test_a_miss_shows_the_nearest_lines_and_what_differs(
    bench: Bench, pattern: str, number: int, difference: str
) -> None:
    bench.file("code.py", CODE)
    operation = {"type": "replace_first", "pattern": pattern, "replacement": "x"}
    near = bench.error("fs_patch", path="code.py", operations=[operation]).fields["nearest"]
    assert near.startswith("nearest lines:\n")
    assert f"\n{number}\tdef" in near
    assert f"line {number}: {difference}" in near


def test_a_dry_run_tells_and_writes_nothing(bench: Bench) -> None:
    path = bench.file("code.py", CODE)
    operations = [
        {"type": "replace_first", "pattern": "alpha", "replacement": "gamma"},
        {"type": "insert_before", "match": "nowhere", "insert": "x"},
    ]
    done = bench.call("fs_patch", path="code.py", operations=operations, dry_run=True)
    first, second = done["preview"]
    assert first == {
        "operation": "replace_first",
        "changed": True,
        "before_excerpt": "def alpha(x):",
        "after_excerpt": "def gamma(x):",
    }
    assert (second["operation"], second["changed"]) == ("insert_before", False)
    assert (done["operations_applied"], done["diff"]) == (0, ""), "all of them or none"
    assert "undo_id" not in done
    assert (path.read_text(), bench.journal.entries()) == (CODE, [])


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("end", ["", "ending"], ids=["no final newline", "final newline"])
@pytest.mark.parametrize("match", ["one", "two"])
def test_a_dry_run_shows_the_line_that_another_is_put_at(bench: Bench, match: str, end: str, ending: str) -> None:
    """Seen: for a line behind the last one, what was there before was told to be nothing."""
    bench.file("x", f"one{ending}two{end and ending}")
    for kind, lines in (("insert_before", ["new", match]), ("insert_after", [match, "new"])):
        operations = [{"type": kind, "match": match, "insert": "new"}]
        (preview,) = bench.call("fs_patch", path="x", operations=operations, dry_run=True)["preview"]
        assert (preview["before_excerpt"], preview["after_excerpt"]) == (match, ending.join(lines))


def test_a_first_of_several_says_how_many_there_were(bench: Bench) -> None:
    bench.file("code.py", CODE)
    done = bench.patch("code.py", type="replace_first", pattern="return", replacement="yield")
    assert done["notes"] == ["operation 1 changed the first of 2 matches (lines 5, 9)"]


def test_an_expected_count_makes_a_surprise_an_error(bench: Bench) -> None:
    path = bench.file("code.py", CODE)
    for count, code in ((1, "COUNT_MISMATCH"), (3, "COUNT_MISMATCH")):
        operation = {"type": "replace_all", "pattern": "return", "replacement": "x", "expected_count": count}
        error = bench.error("fs_patch", path="code.py", operations=[operation])
        assert error.code == code
        assert "2 times (lines 5, 9)" in error.message
    assert path.read_text() == CODE
    bench.patch("code.py", type="replace_all", pattern="return", replacement="yield", expected_count=2)


def test_a_text_that_is_not_there_is_no_match_whatever_count_is_expected(bench: Bench) -> None:
    bench.file("code.py", CODE)
    operation = {"type": "replace_first", "pattern": "def alpha(y):", "replacement": "x", "expected_count": 1}
    error = bench.error("fs_patch", path="code.py", operations=[operation])
    assert error.code == "NO_MATCH"
    assert "\n4\tdef alpha(x):" in error.fields["nearest"]


def test_an_insert_is_at_the_first_matching_line_or_at_every(bench: Bench) -> None:
    path = bench.file("list", "item\nother\nitem")
    bench.patch("list", type="insert_before", match="item", insert="first")
    assert path.read_text() == "first\nitem\nother\nitem"
    bench.patch("list", type="insert_after", match="^i.*m$", insert="then\n", regex=True, every=True)
    assert path.read_text() == "first\nitem\nthen\nother\nitem\nthen"


@pytest.mark.parametrize(
    ("text", "pattern", "patched"),
    [
        ("a\nb\n", "$", "a;\nb;\n"),
        ("a\nb", "$", "a;\nb;"),
        ("a\n\n", "^", ";a\n;\n"),
        ("a\r\nb\r\n", "$", "a;\r\nb;\r\n"),
        ("a\n", r"\Z", "a\n;"),
    ],
)
def test_behind_the_last_line_feed_there_is_no_line_to_edit(
    bench: Bench, text: str, pattern: str, patched: str
) -> None:
    path = bench.file("x", text)
    bench.patch("x", type="replace_all", pattern=pattern, replacement=";", regex=True)
    assert path.read_bytes().decode() == patched


def test_an_insert_counts_the_lines_that_are_there(bench: Bench) -> None:
    path = bench.file("x", "one\ntwo\n")
    done = bench.patch("x", type="insert_before", match="^", insert="new", regex=True)
    assert done["notes"] == ["operation 1 changed the first of 2 matching lines (lines 1, 2)"]
    bench.patch("x", type="insert_after", match="$", insert="-", regex=True, every=True, expected_count=3)
    assert path.read_text() == "new\n-\none\n-\ntwo\n-\n"


@pytest.mark.parametrize(("put", "group"), [("$1!", "$1"), ("${2}", "${2}"), ("$<name>", "$<name>")])
def test_a_group_of_another_language_is_put_in_as_it_is_and_the_result_says_what_it_is_called_here(
    bench: Bench, put: str, group: str
) -> None:
    path = bench.file("x", "a = b\n")
    done = bench.patch("x", type="replace_first", pattern=r"(\w) = (\w)", replacement=put, regex=True)
    assert done["notes"] == [f"operation 1 put {group} in as it is: a group is \\1 or \\g<name> here"]
    assert path.read_text() == f"{put}\n"
    plain = bench.patch("x", type="replace_first", pattern=put, replacement="it costs $1")
    assert "notes" not in plain


def test_what_an_operation_lacks_is_told_for_all_of_them(bench: Bench) -> None:
    bench.file("f", "x")
    operations = [{"type": "replace_first", "pattern": "x"}, {"type": "insert_after", "insert": "y"}]
    error = bench.error("fs_patch", path="f", operations=operations)
    assert error.code == "INVALID_PARAMS"
    assert "operations.0: replace_first needs replacement" in error.message
    assert "operations.1: insert_after needs match" in error.message


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", r"(?P<x>a)\9"])
def test_a_regex_that_cannot_be_read_is_told(bench: Bench, pattern: str) -> None:
    bench.file("f", "aaa")
    operation = {"type": "replace_first", "pattern": pattern, "replacement": "x", "regex": True}
    assert bench.error("fs_patch", path="f", operations=[operation]).code == "INVALID_PATTERN"


@pytest.mark.alone
async def test_a_runaway_regex_is_stopped_and_never_blocks_the_event_loop(bench: Bench) -> None:
    path = bench.file("f", "a" * 40 + "b")
    operation = {"type": "replace_first", "pattern": "(a+)+$", "replacement": "x", "regex": True}
    started = time.monotonic()
    work = asyncio.get_running_loop().run_in_executor(
        None, lambda: bench.error("fs_patch", path="f", operations=[operation]).code
    )
    longest = 0.0
    while not work.done():
        before = time.monotonic()
        await asyncio.wait([work], timeout=0.05)
        longest = max(longest, time.monotonic() - before)
    assert await work == "TIMEOUT"
    assert time.monotonic() - started < 9
    assert longest < 2
    assert path.read_text() == "a" * 40 + "b"


async def test_a_runaway_regex_ends_also_if_the_daemon_was_killed() -> None:
    """Seen: it went on for ever. The system ends it when it has had its time of a processor."""
    search = partial(find_all, "a" * 40 + "b", "(a+)+$", None, expand_all=False, by_line=False)
    work = asyncio.get_running_loop().run_in_executor(None, lambda: search(deadline=time.monotonic() + 60))

    def limited() -> tuple[int, str] | None:
        for children in Path("/proc/self/task").glob("*/children"):
            for pid in children.read_text().split():
                with contextlib.suppress(OSError):
                    limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
                    (seconds,) = (line.split()[3] for line in limits if line.startswith("Max cpu time"))
                    if seconds != "unlimited":
                        return int(pid), seconds
        return None

    found = await eventually(limited)
    assert found is not None
    assert found[1] == "10"
    os.kill(found[0], signal.SIGKILL)
    with pytest.raises(TooLarge):
        await work


@pytest.mark.alone
def test_a_large_file_is_patched_in_bounded_memory(bench: Bench) -> None:
    count = 700_000
    path = bench.folder / "large"
    with open(path, "wb") as file:
        file.writelines(b"line %07d %s\r\n" % (n, b"y" * 60) for n in range(count))
    code = f"""
from pathlib import Path
from tests.support.bench import Bench, peak_kb
bench = Bench(Path({str(bench.folder.parent)!r}))
before = peak_kb()
operations = [
    {{"type": "replace_first", "pattern": "line 0350000 ", "replacement": "LINE "}},
    {{"type": "insert_after", "match": "line 0699999", "insert": "the end"}},
]
done = bench.call("fs_patch", path="large", operations=operations)
print(done["diff"].count("@@"), peak_kb() - before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    marks, growth = map(int, done.stdout.split())
    assert marks == 4
    assert growth < 100 * 1024
    with open(path, "rb") as file:
        lines = file.readlines()
    assert (len(lines), lines[350_000], lines[-1]) == (count + 1, b"LINE " + b"y" * 60 + b"\r\n", b"the end\r\n")
    assert lines[350_001] == b"line 0350001 " + b"y" * 60 + b"\r\n"
    operation = {"type": "replace_first", "pattern": "a\nb", "replacement": ""}
    assert bench.error("fs_patch", path="large", operations=[operation]).code == "TOO_LARGE"


# On the wire


async def patch_on_the_wire(daemon: Daemon, path: Path, *operations: dict[str, Any], **more: Any) -> dict[str, Any]:
    call = {"path": str(path), "operations": list(operations), **more}
    answer = await daemon.rpc("tools/call", name="fs_patch", arguments=call)
    told: dict[str, Any] = answer["result"]["structuredContent"]
    return told


@pytest.mark.parametrize(
    ("operations", "applied", "changed"),
    [
        ([("foo", "bar")], 1, [True]),
        ([("foo", "foo")], 1, [False]),
        ([("foo", "bar"), ("bar", "baz")], 2, [True, True]),
        ([("foo", "bar"), ("foo", "baz")], 0, [True, False]),
        ([("nowhere", "x")], 0, [False]),
    ],
)
async def test_a_dry_run_says_what_the_call_itself_would_do(
    shared_daemon: Daemon, tmp_path: Path, operations: list[tuple[str, str]], applied: int, changed: list[bool]
) -> None:
    path = tmp_path / "x"
    path.write_text("one foo\n")
    wanted = [{"type": "replace_first", "pattern": old, "replacement": new} for old, new in operations]
    dry = await patch_on_the_wire(shared_daemon, path, *wanted, dry_run=True)
    assert (dry["operations_applied"], [each["changed"] for each in dry["preview"]]) == (applied, changed)
    done = await patch_on_the_wire(shared_daemon, path, *wanted)
    assert ("error" in done) == (applied == 0)
    assert (done.get("operations_applied", 0), done.get("diff", "")) == (applied, dry["diff"])


@pytest.mark.parametrize(
    ("pattern", "is_told"), [(r"fo+\(\d", True), (r"f.o\(", True), ("f00(1", False), ("(a+)+$x", False), ("fo", None)]
)
async def test_a_text_that_would_match_as_a_regex_says_so(
    shared_daemon: Daemon, tmp_path: Path, pattern: str, is_told: bool | None
) -> None:
    path = tmp_path / "x"
    path.write_text("one foo(1)\n")
    operation = {"type": "replace_all", "pattern": pattern, "replacement": "y"}
    done = await patch_on_the_wire(shared_daemon, path, operation)
    if is_told is None:
        assert done["operations_applied"] == 1
        return
    assert (done["error"]["code"], "regex: true" in done["error"]["hint"]) == ("NO_MATCH", is_told)


async def test_an_expected_count_holds_in_a_large_file_behind_other_operations(
    shared_daemon: Daemon, tmp_path: Path
) -> None:
    """Seen: behind an operation with a regex, the matches beyond the first piece were not counted."""
    path = tmp_path / "large"
    line = "x" * 99
    before = "\n".join(["needle 1", *[line] * 100_000, "needle 2", *[line] * 100_000, "needle 3", "five 5"])
    path.write_text(before)
    assert path.stat().st_size > 16 * 1024 * 1024
    by_regex = {"type": "replace_first", "pattern": "five \\d", "replacement": "six", "regex": True}
    renamed = {"type": "replace_all", "pattern": "needle", "replacement": "pin"}

    def first(pattern: str, count: int) -> dict[str, Any]:
        return {"type": "replace_first", "pattern": pattern, "replacement": "z", "expected_count": count}

    for operations in ([by_regex, first("needle", 1)], [first("needle", 2)], [renamed, first("pin", 2)]):
        done = await patch_on_the_wire(shared_daemon, path, *operations)
        assert done["error"]["code"] == "COUNT_MISMATCH", done
        assert "3 times" in done["error"]["message"]
    assert path.read_text() == before
    done = await patch_on_the_wire(shared_daemon, path, renamed, first("pin", 3), by_regex)
    assert done["operations_applied"] == 3
    assert path.read_text() == before.replace("needle", "pin").replace("pin", "z", 1).replace("five 5", "six")


def test_a_model_is_shown_a_short_rev_and_may_pass_it(bench: Bench) -> None:
    path = bench.file("a", "one\n")
    rev = bench.tell("fs_read", path="a").split("rev ")[1].split("\n")[0]
    assert len(rev) == 8
    assert f"[STALE_REV] {path} has changed" in bench.tell(
        "fs_patch", path="a", old_string="one", new_string="", if_rev=rev[:7]
    )
    assert "line 1 changed" in bench.tell("fs_patch", path="a", old_string="one", new_string="two", if_rev=rev)
    stale = bench.error("fs_write", path="a", content="three\n", if_rev=rev)
    assert (stale.code, stale.fields["diff"]) == ("STALE_REV", "@@ -1 +1 @@\n-one\n+two\n")
    bench.call("fs_write", path="a", content="three\n", if_rev=stale.fields["rev"])


def test_a_text_of_many_lines_that_are_all_there_somewhere_is_given_up(bench: Bench) -> None:
    """Seen: 900,000 lines, each at fifty places of the file, took 40 s."""
    bench.file("many.txt", "\n".join(f"line{number % 4_000:04}" for number in range(200_000)))
    asked = "\n".join(f"line{number * 7 % 4_000:04}" for number in range(300_000))
    began = time.process_time()
    error = bench.error(
        "fs_patch", path="many.txt", operations=[{"type": "replace_first", "pattern": asked, "replacement": "x"}]
    )
    assert "nearest" in error.fields
    assert time.process_time() - began < 4
