"""The filesystem tools against what a person would do by hand on the same files.

The work is done by the tool's own function and includes writing its result as JSON; both sides run in this process
or in a child of it. The tree of 100,000 files and the file of 1 GB are made once and kept in the cache folder of the
tests; no row changes them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import orjson

from tests.benchmarks.daemon import processor_time
from tests.benchmarks.rows import Bench, Goal, Meter, Row
from tests.benchmarks.trees import NEEDLE, PATCHED, gigabyte, tree, write_fifty_megabytes
from tests.support import ROOT
from tools.context import ToolContext
from tools.files.lines import LineIndexes
from tools.files.paths import OpenPaths
from tools.filesystem.fs_grep import fs_grep
from tools.filesystem.fs_list import fs_list
from tools.filesystem.fs_patch import fs_patch
from tools.filesystem.fs_read_range import fs_read_range
from tools.filesystem.fs_search import fs_search
from tools.journal.journal import Journal
from tools.kit.spec import Tool
from tools.search.engine import find_engine

_LIBRARY = str(Path(os.__file__).parent)
_COMMON = "word1"
_RARE = "def _check_methods"
_AT = 9_000_000

Contest = Callable[[Bench], AbstractContextManager[tuple[Meter, Meter]]]


def rows() -> list[Row]:
    return [
        Row("grep-tree", "fs_grep, 100,000 files, 12 hits", "rg --json", "ms", Goal(1.15), _grep_tree),
        Row("grep-library", "fs_grep, the standard library", "rg --json", "ms", Goal(1.15), _grep_library, rounds=15),
        Row("grep-cut", "fs_grep cut at 200 of many", "rg --sort path, stopped", "ms", Goal(2.0), _grep_cut, rounds=15),
        Row(
            "search-first", "fs_search **/*.py, first 200", "rg --files -g, stopped", "ms", Goal(1.3), _search_first, 15
        ),
        Row("search-all", "fs_search **/*.py, all", "rg --files -g", "ms", Goal(1.3), _search_all),
        Row("search-new", "fs_search **/*.py, all, for the first time", "rg --files -g", "ms", Goal(3.5), _search_new),
        Row("list-first", "fs_list of 100,000 entries, first page", "scandir + stat", "ms", Goal(1.8), _list_first),
        Row("list-all", "fs_list of 100,000 entries, all", "scandir + stat", "ms", Goal(1.8), _list_all),
        Row("range-first", "100 lines at 9,000,000 of 1 GB, first", "sed -n", "ms", Goal(0.5), _range_first, rounds=3),
        Row("range-again", "100 lines at 9,000,000 of 1 GB, again", "sed -n", "ms", Goal(0.01), _range_again, rounds=3),
        Row("patch-large", "fs_patch of one line in 50 MB", "read-write-fsync-rename", "ms", Goal(1.5), _patch_large),
        Row(
            "patch-memory",
            "fs_patch of one line in 50 MB, peak",
            "the same by hand",
            "MB",
            Goal(100.0, of="ours"),
            _memory,
            1,
        ),
        Row("read-processor", "fs_read of 1 KB over /mcp", "a trivial tool", "µs", Goal(1.6), _read_processor),
    ]


@contextmanager
def _grep_tree(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    folder = _tree(bench)
    call = _caller(folder)
    hand = _run("--json", "-e", NEEDLE, folder=folder)
    yield _timed(lambda: call(fs_grep, base=".", pattern=NEEDLE)), _timed(hand)


@contextmanager
def _grep_library(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    call = _caller(Path(_LIBRARY))
    hand = _run("--json", "-e", _RARE, folder=Path(_LIBRARY))
    yield _timed(lambda: call(fs_grep, base=".", pattern=_RARE)), _timed(hand)


@contextmanager
def _grep_cut(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    folder = _tree(bench)
    call = _caller(folder)
    hand = _stopped(b'"type":"match"', "--json", "--sort", "path", "-e", _COMMON, folder=folder)
    yield _timed(lambda: call(fs_grep, base=".", pattern=_COMMON)), _timed(hand)


@contextmanager
def _search_first(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    folder = _tree(bench)
    call = _caller(folder)
    hand = _stopped(b"", "--files", "-g", "**/*.py", folder=folder)
    yield _timed(lambda: call(fs_search, base=".", glob="**/*.py")), _timed(hand)


@contextmanager
def _search_all(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    folder = _tree(bench)
    call = _caller(folder)
    hand = _run("--files", "-g", "**/*.py", folder=folder)
    yield _timed(lambda: call(fs_search, base=".", glob="**/*.py", max_results=1_000_000)), _timed(hand)


@contextmanager
def _search_new(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    folder = _tree(bench)
    hand = _run("--files", "-g", "**/*.py", folder=folder)
    # Kept to the end: a daemon does not forget a tree while it answers.
    fresh: list[Callable[..., None]] = []

    def ours() -> None:
        fresh.append(_caller(folder))
        fresh[-1](fs_search, base=".", glob="**/*.py", max_results=1_000_000)

    yield _timed(ours), _timed(hand)


@contextmanager
def _list_first(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    folder = _tree(bench)
    call = _caller(folder)
    yield _timed(lambda: call(fs_list, path=".", recursive=True, max_depth=9)), _timed(lambda: _scanned(str(folder)))


@contextmanager
def _list_all(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    folder = _tree(bench)
    call = _caller(folder)
    whole = {"path": ".", "recursive": True, "max_depth": 9, "max_entries": 1_000_000}
    yield _timed(lambda: call(fs_list, **whole)), _timed(lambda: _scanned(str(folder)))


@contextmanager
def _range_first(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    path = gigabyte()

    def read() -> None:
        _caller(path.parent)(fs_read_range, path=path.name, start_line=_AT, end_line=_AT + 99)

    yield _timed(read), _timed(_sed(path))


@contextmanager
def _range_again(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    path = gigabyte()
    call = _caller(path.parent)
    yield _timed(lambda: call(fs_read_range, path=path.name, start_line=_AT, end_line=_AT + 99)), _timed(_sed(path))


@contextmanager
def _patch_large(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    path = _fifty_megabytes(bench)
    call = _caller(bench.folder, bench.folder / "journal")

    def ours() -> None:
        call(fs_patch, path=path.name, operations=_operations())

    def by_hand() -> None:
        data = path.read_bytes().replace(PATCHED.encode(), PATCHED.upper().encode(), 1)
        new = path.with_suffix(".new")
        with open(new, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)

    def again(work: Callable[[], None]) -> Meter:
        measure = _timed(work)

        def restored() -> float:
            took = measure()
            write_fifty_megabytes(path)
            return took

        return restored

    yield again(ours), again(by_hand)


@contextmanager
def _memory(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    path = _fifty_megabytes(bench)

    def peak(work: str) -> Meter:
        def measure() -> float:
            write_fifty_megabytes(path)
            done = subprocess.run(
                [sys.executable, "-m", "tests.benchmarks.filesystem", work, str(path)],
                stdout=subprocess.PIPE,
                check=True,
                cwd=ROOT,
            )
            return float(done.stdout)

        return measure

    yield peak("ours"), peak("by hand")


@contextmanager
def _read_processor(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    (bench.folder / "1k").write_text("A line of a text file that is sixty-four bytes long, all told.\n\n" * 16)
    with ExitStack() as stack:
        echo = processor_time(stack, bench, "echo", [{"text": "hello"}])
        yield processor_time(stack, bench, "fs_read", [{"path": str(bench.folder / "1k")}]), echo


def _caller(folder: Path, journal: Path | None = None) -> Callable[..., None]:
    """What calls a tool in `folder` as the first call of a fresh daemon would, and the next ones after it."""
    ctx = ToolContext("bench", OpenPaths(folder), journal=Journal(journal), line_indexes=LineIndexes())

    def call(tool: Tool, **arguments: Any) -> None:
        orjson.dumps(tool.function(ctx, **tool.parse(arguments)).as_object())

    return call


def _timed(work: Callable[[], object]) -> Meter:
    def measure() -> float:
        started = time.perf_counter()
        work()
        return (time.perf_counter() - started) * 1000

    return measure


def _run(*options: str, folder: Path) -> Callable[[], object]:
    command = [find_engine().program, "--no-config", *options, "./"]
    return lambda: subprocess.run(command, stdout=subprocess.PIPE, cwd=folder, check=False)


def _stopped(mark: bytes, *options: str, folder: Path) -> Callable[[], object]:
    command = [find_engine().program, "--no-config", *options, "./"]

    def run() -> None:
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=folder) as process:
            assert process.stdout is not None
            left = 200
            for line in process.stdout:
                left -= mark in line
                if not left:
                    break
            process.kill()

    return run


def _sed(path: Path) -> Callable[[], object]:
    command = ["sed", "-n", f"{_AT},{_AT + 99}p;{_AT + 99}q", str(path)]
    return lambda: subprocess.run(command, stdout=subprocess.PIPE, check=True)


def _scanned(folder: str) -> int:
    count = 0
    with os.scandir(folder) as found:
        for entry in found:
            entry.stat()
            count += 1
            if entry.is_dir(follow_symlinks=False):
                count += _scanned(entry.path)
    return count


def _tree(bench: Bench) -> Path:
    return tree(5 if bench.is_quick else 100)


def _fifty_megabytes(bench: Bench) -> Path:
    path = bench.folder / "large"
    write_fifty_megabytes(path)
    return path


def _operations() -> list[dict[str, str]]:
    return [{"type": "replace_first", "pattern": PATCHED, "replacement": PATCHED.upper()}]


def _peak_mb(work: str, path: Path) -> float:
    """How far the memory of this process rises while it patches."""
    call = _caller(path.parent, path.parent / "journal")
    before = _resident_peak_mb()
    if work == "ours":
        call(fs_patch, path=path.name, operations=_operations())
    else:
        data = path.read_bytes()
        path.write_bytes(data.replace(PATCHED.encode(), PATCHED.upper().encode(), 1))
    return _resident_peak_mb() - before


def _resident_peak_mb() -> float:
    # Not ru_maxrss: that begins with what the parent had.
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 1024


if __name__ == "__main__":
    print(_peak_mb(sys.argv[1], Path(sys.argv[2])))
