from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.bench import Bench
from tools.filesystem.fs_grep import fs_grep
from tools.search.engine import Engine, find_engine

_GREP = Engine("grep", shutil.which("grep") or "grep", "fallback")


@pytest.fixture(params=["rg", "grep"])
def searcher(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """A bench for each engine: the same question has the same answer."""
    bench = Bench(tmp_path, engine=find_engine() if request.param == "rg" else _GREP)
    bench.file("src/b.py", "import os\nprint('grüße')\n")
    bench.file("src/a.ts", "import x from 'os'\n")
    bench.file("src/deep/er/c.py", "pass\nimport os, sys\n")
    bench.file(".hidden/d.py", "import os\n")
    bench.file("ignored/e.py", "import os\n")
    bench.file(".gitignore", "ignored/\n*.gen.py\n")
    bench.file("src/f.gen.py", "import os\n")
    bench.file(".git/config", "import os\n")
    bench.file("blob.bin", b"import os\0\1\2")
    return bench


def _found(bench: Bench, name: str, **arguments: Any) -> list[str]:
    prefix = f"{bench.folder}/"
    return [match["path"].removeprefix(prefix) for match in bench.call(name, base=".", **arguments)["matches"]]


def test_lines_are_found_in_the_order_of_paths(searcher: Bench) -> None:
    assert _found(searcher, "fs_grep", pattern="import os") == [".hidden/d.py", "src/b.py", "src/deep/er/c.py"]
    assert _found(searcher, "fs_grep", pattern="import os", ignored=True) == [
        ".git/config",
        ".hidden/d.py",
        "ignored/e.py",
        "src/b.py",
        "src/deep/er/c.py",
        "src/f.gen.py",
    ]


_MORE = "ignored files were left out: pass ignored: true"


@pytest.mark.parametrize(
    ("name", "arguments", "is_skipped"),
    [
        ("fs_grep", {"pattern": "import os"}, True),
        ("fs_grep", {"pattern": "import os", "files_only": True}, True),
        ("fs_grep", {"pattern": "import os", "base": "ignored"}, False),
        ("fs_grep", {"pattern": "import os", "glob": "*.gen.py"}, True),
        ("fs_grep", {"pattern": "import os", "glob": "src/*.gen.py", "count": True}, True),
        ("fs_grep", {"pattern": "nowhere"}, False),
        ("fs_grep", {"pattern": "import os", "glob": "*.ts"}, False),
        ("fs_grep", {"pattern": "import os", "base": "ignored/e.py"}, False),
        ("fs_grep", {"pattern": "import os", "ignored": True}, False),
        ("fs_grep", {"pattern": "import os", "max_matches": 1}, False),
        ("fs_search", {"glob": "*.gen.py"}, True),
        ("fs_search", {"glob": "e.py"}, True),
        ("fs_search", {"glob": "*.py", "sort": "mtime"}, True),
        ("fs_search", {"glob": "config"}, False),
        ("fs_search", {"glob": "*.ts"}, False),
        ("fs_search", {"glob": "*.py", "recursive": False}, False),
        ("fs_search", {"glob": "e.py", "ignored": True}, False),
    ],
)
def test_an_answer_says_that_ignored_files_would_be_in_it(
    searcher: Bench, name: str, arguments: dict[str, Any], is_skipped: bool
) -> None:
    """A model that looks for a line in a log must not read that there is none."""
    found = searcher.call(name, **{"base": ".", **arguments})
    assert found.get("ignored_skipped") == (True if is_skipped else None)
    assert (_MORE in found.get("notes", ())) == is_skipped


def test_a_glob_narrows_and_never_brings_back_what_is_ignored(searcher: Bench) -> None:
    assert _found(searcher, "fs_grep", pattern="os", glob="*.py") == [".hidden/d.py", "src/b.py", "src/deep/er/c.py"]
    assert _found(searcher, "fs_grep", pattern="os", glob="src/*.{py,ts}") == ["src/a.ts", "src/b.py"]
    assert _found(searcher, "fs_grep", pattern="os", glob="src/**/er/*") == ["src/deep/er/c.py"]


def test_a_glob_with_folders_never_brings_back_what_is_ignored(searcher: Bench) -> None:
    searcher.file("outside/g.py", "import os\n")
    (searcher.folder / "linked").symlink_to("outside")
    for glob in ("ignored/*.py", "linked/*.py", "missing/*.py", ".git/*", "src/deep/*.py"):
        assert _found(searcher, "fs_grep", pattern="os", glob=glob) == []
    assert _found(searcher, "fs_grep", pattern="os", glob=".hidden/*") == [".hidden/d.py"]
    assert _found(searcher, "fs_grep", pattern="os", glob="src/deep/er/*.py") == ["src/deep/er/c.py"]
    assert _found(searcher, "fs_grep", pattern="os", glob="ignored/*", ignored=True) == ["ignored/e.py"]
    assert _found(searcher, "fs_grep", pattern="os", glob="{src/deep/**,src/*.ts}") == ["src/a.ts", "src/deep/er/c.py"]


@pytest.mark.alone
@pytest.mark.parametrize("tool", ["fs_search", "fs_grep"])
@pytest.mark.parametrize(
    "glob",
    ["a/" * 100_000 + "b", "a" * 1_000_000, "{a,b}/" * 7 + "c" * 1_000, "{" * 2_000 + "a" + "}" * 2_000],
    ids=len,
)
def test_a_glob_that_would_take_seconds_to_read_is_refused(bench: Bench, tool: str, glob: str) -> None:
    wanted = {"pattern": "x"} if tool == "fs_grep" else {}
    began = time.process_time()
    refused = bench.error(tool, base=".", glob=glob, **wanted)
    assert (refused.code, len(refused.message) < 200) == ("INVALID_PATTERN", True)
    assert time.process_time() - began < 1.0


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[list[bytes]]:
    """Filled, at the end, with what the kernel says was opened in `folder`, itself included."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK)
    in_open = 0x20
    assert libc.inotify_add_watch(watch, os.fsencode(folder), in_open) >= 0
    events: list[bytes] = []
    try:
        yield events
        with contextlib.suppress(BlockingIOError):
            events.append(os.read(watch, 65_536))
    finally:
        os.close(watch)


def test_what_is_below_folders_in_which_the_glob_cannot_match_is_not_walked(searcher: Bench) -> None:
    # Ripgrep looks into a folder before it asks whether it may; what is below that stays closed.
    searcher.file("other/deep/g.py", "import os\n")
    with _opened(searcher.folder / "other" / "deep") as other, _opened(searcher.folder / "src") as source:
        assert _found(searcher, "fs_grep", pattern="os", glob="src/*.{py,ts}") == ["src/a.ts", "src/b.py"]
    assert (other, source != []) == ([], True)


@pytest.mark.parametrize("glob", ["?.md", "[^b].md", "[ü].md", "{?,x[€]}.md", "x?.md", "*?.md", "!?.md", "!x[€].md"])
def test_one_character_of_a_glob_is_one_letter_of_any_alphabet(searcher: Bench, glob: str) -> None:
    for name in ("a", "b", "ü", "x€", "xyz"):
        searcher.file(f"letters/{name}.md", "needle\n")
    everything = _found(searcher, "fs_search", glob="letters/*.md")
    named = set(_found(searcher, "fs_search", glob=glob.removeprefix("!")))
    wanted = [path for path in everything if (path in named) != glob.startswith("!")]
    assert _found(searcher, "fs_grep", pattern="needle", glob=glob) == wanted


def test_patterns_are_literal_or_without_case_when_asked(searcher: Bench) -> None:
    searcher.file("x.txt", "a.b\nA.B\naxb\n-e option\n")

    def lines(**more: Any) -> list[int]:
        return [match["line"] for match in searcher.call("fs_grep", base="x.txt", **more)["matches"]]

    assert lines(pattern="a.b") == [1, 3]
    assert lines(pattern="a.b", fixed=True) == [1]
    assert lines(pattern="a.b", ignore_case=True) == [1, 2, 3]
    assert lines(pattern="-e opt") == [4]
    assert lines(pattern="--files", fixed=True) == []


def test_a_cut_answer_is_the_beginning_of_the_whole(searcher: Bench) -> None:
    for number in range(60):
        searcher.file(f"many/{number:02}/x", "hit\nhit\n")
    whole = searcher.call("fs_grep", base="many", pattern="hit")["matches"]
    assert len(whole) == 120
    for _ in range(3):
        cut = searcher.call("fs_grep", base="many", pattern="hit", max_matches=25)
        assert (cut["matches"], cut["truncated"]) == (whole[:25], True)


def test_files_and_folders_are_found_by_name(searcher: Bench) -> None:
    assert _found(searcher, "fs_search", glob="**/*.py") == [".hidden/d.py", "src/b.py", "src/deep/er/c.py"]
    assert _found(searcher, "fs_search", glob="*e*") == [".gitignore", ".hidden", "src/deep", "src/deep/er"]
    assert _found(searcher, "fs_search", glob="deep/") == ["src/deep"]
    assert _found(searcher, "fs_search", glob="*", recursive=False) == [".gitignore", ".hidden", "blob.bin", "src"]
    assert "src/f.gen.py" in _found(searcher, "fs_search", glob="*.py", ignored=True)


def test_a_folder_with_nothing_to_find_in_it_is_found_itself(bench: Bench) -> None:
    bench.file(".gitignore", "*.log\nempty-too/\n")
    bench.file("logs.d/a.log")
    for folder in ("empty", "empty-too", "outer/inner"):
        (bench.folder / folder).mkdir(parents=True)
    assert _found(bench, "fs_search", glob="**/") == ["empty", "logs.d", "outer", "outer/inner"]
    assert _found(bench, "fs_search", glob="*", recursive=False) == [".gitignore", "empty", "logs.d", "outer"]


def test_a_search_leaves_out_what_a_grep_leaves_out(bench: Bench) -> None:
    """Every file has the same line, so that what is searched can be told from what is found."""
    rules = {
        ".gitignore": "*.log !keep.log /build/ docs/_out temp* *.py[co] \\#odd third/** secret/ !sub/secret/ [bad",
        "sub/.gitignore": "!b.log only-here /anchored.txt",
        "sub/.ignore": "c.txt",
        "other/.rgignore": "!*.log",
        "inner/.gitignore": "*.md",
        ".git/info/exclude": "excluded.txt",
    }
    names = "a.log b.log keep.log temporary x.pyc #odd c.txt only-here anchored.txt excluded.txt d.md"
    folders = ". build sub sub/build docs/_out sub/docs/_out third/a secret sub/secret other inner inner/deep"
    for path, text in rules.items():
        bench.file(path, "\n".join([*text.split(), "# line"]))
    for folder in folders.split():
        for name in names.split():
            bench.file(f"{folder}/{name}", "line\n")

    def same(folder: str) -> list[str]:
        found = bench.call("fs_search", base=folder, glob="**", max_results=1_000)["matches"]
        grepped = bench.call("fs_grep", base=folder, pattern="line", max_matches=1_000)["matches"]
        files = [match["path"] for match in found if match["type"] == "file"]
        assert files == [match["path"] for match in grepped]
        return files

    assert f"{bench.folder}/sub/b.log" in same(".")
    assert f"{bench.folder}/sub/secret/keep.log" in same("sub")
    assert f"{bench.folder}/inner/deep/d.md" not in same("inner/deep")


def test_a_search_is_cut_the_same_way_each_time_and_sorted_by_time_on_demand(searcher: Bench) -> None:
    for number in range(50):
        path = searcher.file(f"t/{number:02}.txt")
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    whole = _found(searcher, "fs_search", glob="t/*.txt")
    assert whole == [f"t/{number:02}.txt" for number in range(50)]
    assert _found(searcher, "fs_search", glob="t/*.txt", max_results=7) == whole[:7]
    assert _found(searcher, "fs_search", glob="t/*.txt", max_results=5_000) == whole
    assert _found(searcher, "fs_search", glob="t/*.txt", sort="mtime", max_results=3) == whole[:-4:-1]


def test_names_that_are_no_text_are_found_and_can_be_passed_back(searcher: Bench) -> None:
    (searcher.folder / os.fsdecode(b"odd\xff\nname.odd")).write_text("needle\n")
    (searcher.folder / r"back\x5cslash.odd").write_text("needle\n")
    for tool, more in (("fs_grep", {"pattern": "needle"}), ("fs_search", {"glob": "*.odd"})):
        found = [match["path"] for match in searcher.call(tool, base=".", **more)["matches"]]
        assert len(found) == 2
        assert [searcher.call("fs_read", path=path)["content"] for path in found] == ["needle\n", "needle\n"]


def test_context_column_and_long_lines(searcher: Bench) -> None:
    bench = searcher
    bench.file("x", f"one\n{'ü' * 3_000}needle{'y' * 9_000}\nthree\nfour\n")
    (match,) = bench.call("fs_grep", base="x", pattern="needle", context=1)["matches"]
    assert (match["line"], match["column"], match["before"], match["after"]) == (2, 3_001, ["one"], ["three"])
    assert "needle" in match["text"]
    assert len(match["text"]) == 2_002


def test_lines_around_several_matches_come_once(searcher: Bench) -> None:
    searcher.file("x/one", "".join(f"{number}{' hit' if number in (3, 5, 6, 12) else ''}\n" for number in range(1, 16)))
    searcher.file("x/two", "hit\n")
    result = fs_grep.function(searcher.ctx, **fs_grep.parse({"base": "x", "pattern": "h.t", "context": 2}))
    lines = [line for line in result.render().split("\n")[1:] if line not in ("one", "two")]
    assert [line.partition("\t")[0] for line in lines] == (
        ["1-", "2-", "3:", "4-", "5:", "6:", "7-", "8-", "10-", "11-", "12:", "13-", "14-", "1:"]
    )
    assert [line.partition("\t")[2] for line in lines[:4]] == ["1", "2", "3 hit", "4"]
    third = result.matches[2]
    assert (third["line"], third.get("before"), third["after"]) == (6, None, ["7", "8"])


def test_columns_are_true(searcher: Bench) -> None:
    searcher.file("x/one", "ü hit hit\nhit\n  HIT\n")
    searcher.file("x/two", "\thit")

    def columns(**more: Any) -> list[int | None]:
        return [match.get("column") for match in searcher.call("fs_grep", **{"base": "x", **more})["matches"]]

    assert columns(pattern="h.t") == [3, 1, 2]
    assert columns(pattern="hit", fixed=True, ignore_case=True) == [3, 1, 3, 2]
    assert columns(pattern="hit", base="x/one", context=3) == [3, 1]
    assert columns(pattern="hit", max_matches=2) == [3, 1]


def test_the_fallback_says_that_it_is_one_and_what_it_cannot_do(searcher: Bench) -> None:
    is_fallback = searcher.ctx.engine.kind == "grep"
    found = searcher.call("fs_grep", base="src/deep", pattern="import")
    assert ("notes" in found) == is_fallback
    if is_fallback:
        assert found["notes"] == [
            "searched with grep, because ripgrep is not installed: no match across lines, and files that are not UTF-8 "
            "may be left out"
        ]
        for pattern in ("os\nprint", r"os\nprint"):
            error = searcher.error("fs_grep", base=".", pattern=pattern)
            assert (error.code, "across lines" in error.message) == ("INVALID_PATTERN", True)
    else:
        assert [match["line"] for match in searcher.call("fs_grep", base=".", pattern=r"os\nprint")["matches"]] == [1]


@pytest.mark.parametrize("pattern", ["foo(", "a[", "*x"])
def test_a_pattern_that_is_no_regex_is_answered_with_how_to_search_for_it(searcher: Bench, pattern: str) -> None:
    searcher.file("x", f"{pattern}\n")
    if pattern == "*x" and searcher.ctx.engine.kind == "grep":
        pytest.skip("grep takes it for text by itself")
    error = searcher.error("fs_grep", base="x", pattern=pattern)
    assert (error.code, error.hint) == ("INVALID_PATTERN", "to search for it as plain text, pass fixed: true")
    assert len(searcher.call("fs_grep", base="x", pattern=pattern, fixed=True)["matches"]) == 1


@pytest.mark.parametrize(
    ("glob", "message", "hint"),
    [
        ("*.ts,*.js", "fits only names with a comma in them", 'for several globs write "{*.ts,*.js}"'),
        (
            "/usr/lib/*.ts",
            "can match nothing: it is about paths below the base",
            'pass base "/usr/lib" and glob "*.ts"',
        ),
        ("/usr/**/x.ts", "can match nothing", 'pass base "/usr" and glob "**/x.ts"'),
    ],
)
def test_a_glob_that_can_never_match_is_answered_with_what_would(
    searcher: Bench, glob: str, message: str, hint: str
) -> None:
    for tool, more in (("fs_grep", {"pattern": "os"}), ("fs_search", {})):
        error = searcher.error(tool, base=".", glob=glob, **more)
        assert (error.code, message in error.message, error.hint) == ("INVALID_PATTERN", True, hint)


def test_a_glob_that_leaves_out_is_for_fs_grep_alone(searcher: Bench) -> None:
    error = searcher.error("fs_search", base=".", glob="!*.ts")
    assert (error.code, error.hint) == ("INVALID_PATTERN", 'name what you want, such as "*.{py,ts}"')
    assert "src/a.ts" not in _found(searcher, "fs_grep", pattern="os", glob="!*.ts")


def test_an_absolute_glob_below_the_base_and_odd_names_match(searcher: Bench) -> None:
    searcher.file("a,b.md", "needle\n")
    assert _found(searcher, "fs_search", glob=f"{searcher.folder}/src/*.py") == ["src/b.py"]
    assert _found(searcher, "fs_search", glob=f"{searcher.folder}/*.md") == ["a,b.md"]
    assert _found(searcher, "fs_search", glob="/src/*.py") == ["src/b.py"]
    assert _found(searcher, "fs_search", glob="a,*.md") == ["a,b.md"]
    assert _found(searcher, "fs_grep", pattern="os", glob=f"{searcher.folder}/src/*.ts") == ["src/a.ts"]
    assert _found(searcher, "fs_grep", pattern="needle", glob="*.{md,ts}") == ["a,b.md"]


def test_an_invalid_regex_is_told_in_the_engines_words(bench: Bench) -> None:
    bench.file("x", "y")
    error = bench.error("fs_grep", base=".", pattern="(unclosed")
    assert error.code == "INVALID_PATTERN"
    assert error.message.endswith("error: unclosed group")


def test_a_configuration_of_ripgrep_has_no_say(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.file("x", "needle\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(bench.file("config", "--invert-match\n")))
    assert [match["line"] for match in bench.call("fs_grep", base="x", pattern="needle")["matches"]] == [1]


@pytest.mark.parametrize("glob", ["[a", "{a", "", "/"])
def test_a_glob_that_cannot_be_read_is_told(bench: Bench, glob: str) -> None:
    assert bench.error("fs_search", base=".", glob=glob).code == "INVALID_PATTERN"
