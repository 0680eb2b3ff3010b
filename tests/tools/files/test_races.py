"""Another process puts links to denied things in the place of checked ones, as fast as it can. No tool follows them."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.bench import Bench
from tools.kit.errors import Denied, ToolError
from tools.kit.rules import PathRules, Rule
from tools.pruning.confined import ConfinedRoot
from tools.pruning.grep import Search
from tools.pruning.read import read
from tools.search.engine import Engine

_SECONDS = 60.0 if os.environ.get("MCP_AGENT_TEST_LONG") else 2.5
_SECRET = "the secret needle"

# Three names take turns with links to what is denied: the folders `base` and `work/inner`, and the file `work/file`.
_SWAP = """
import os, sys
places = [(name, name + ".real", name + ".link") for name in ("base", "work/inner", "work/file")]
print("ready", flush=True)
parent = os.getppid()
while os.getppid() == parent:
    for first, second in ((1, 2), (2, 1)):
        for names in places:
            try:
                os.rename(names[0], names[first])
                os.rename(names[second], names[0])
            except OSError:
                # What a tool has moved away is put back.
                if not os.path.lexists(names[1]) and (os.path.islink(names[0]) or not os.path.lexists(names[0])):
                    if names[0] == "work/file":
                        open(names[1], "w").write("open needle\\n")
                    else:
                        os.mkdir(names[1])
"""


@contextlib.contextmanager
def _swapping(bench: Bench) -> Iterator[None]:
    bench.file("denied/file", f"{_SECRET}\n")
    bench.file("denied/only-in-denied", f"{_SECRET}\n")
    bench.file("base/file", "open needle\n")
    bench.file("work/inner/file", "open needle\n")
    bench.file("work/file", "open needle\n")
    bench.file("work/other/file", "open needle\n")
    for place, target in (("base", "denied"), ("work/inner", "../denied"), ("work/file", "../denied/file")):
        (bench.folder / f"{place}.link").symlink_to(target)
    process = subprocess.Popen(
        [sys.executable, "-c", _SWAP], cwd=bench.folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert process.stdout is not None, "it is a pipe"
        assert process.stdout.readline() == b"ready\n"
        process.stdout.close()
        yield
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """Where the journal is on another disk, it keeps copies instead of second names."""
    with contextlib.ExitStack() as opened:
        if getattr(request, "param", "one disk") == "two disks":
            other_disk = opened.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm"))
            (tmp_path / "state").symlink_to(other_disk)
        yield _bench(tmp_path)


def _bench(folder: Path) -> Bench:
    bench = Bench(folder)
    rule = Rule("denied", (str(bench.folder / "denied"),), "a secret", "tools.json")
    paths = bench.ctx.paths.denying(PathRules((rule,)))
    bench.ctx = replace(bench.ctx, paths=paths, root=bench.folder / "work")
    return bench


def _grep(bench: Bench, path: str) -> Any:
    search = Search(
        bench.ctx,
        ConfinedRoot(bench.ctx.root),
        "needle",
        is_fixed=True,
        is_case_sensitive=True,
        timeout_ms=5_000,
        most_matches=100,
        bytes_left=100_000,
    )
    return search.run([path], None)


def _read(bench: Bench, path: str) -> Any:
    return read.function(bench.ctx, **read.own_parameters.parse({"file_path": path}))


_READING: list[Callable[[Bench], Any]] = [
    lambda bench: bench.call("fs_grep", base="base", pattern="needle"),
    lambda bench: bench.call("fs_grep", base="work", pattern="needle", context=1),
    lambda bench: bench.call("fs_grep", base="work/file", pattern="needle"),
    lambda bench: bench.call("fs_search", base="base"),
    lambda bench: bench.call("fs_search", base="work"),
    lambda bench: bench.call("fs_list", path="base"),
    lambda bench: bench.call("fs_list", path="work", recursive=True),
    lambda bench: bench.call("fs_read", path="base/file"),
    lambda bench: bench.call("fs_read_range", path="work/inner/file", start_line=1, end_line=2),
    lambda bench: bench.call("fs_read", path="work/file"),
    lambda bench: _read(bench, "file"),
    lambda bench: _read(bench, "inner/file"),
    lambda bench: _grep(bench, "."),
    lambda bench: _grep(bench, "inner"),
]


_PATCH = [{"type": "replace_all", "pattern": "needle", "replacement": "thread"}]
_WRITING: list[Callable[[Bench], Any]] = [
    lambda bench: bench.call("fs_write", path="base/file", content="open needle\n"),
    lambda bench: bench.call("fs_write", path="base/file", content="more\n", mode="append"),
    lambda bench: bench.call("fs_patch", path="base/file", operations=_PATCH),
    lambda bench: bench.call("fs_write", path="work/inner/new/deep/file", content="x", create_dirs=True),
    lambda bench: bench.call("fs_delete", path="work/inner/new", recursive=True),
    lambda bench: bench.call("fs_move", from_="base/file", to="moved", overwrite=True),
    lambda bench: bench.call("fs_move", from_="moved", to="base/file", overwrite=True),
    lambda bench: bench.call("fs_delete", path="base/file"),
    lambda bench: bench.call("fs_write", path="work/file", content="open needle\n", mode="overwrite"),
    lambda bench: bench.call("fs_write", path="work/file", content="more\n", mode="append"),
    lambda bench: bench.call("fs_patch", path="work/file", operations=_PATCH),
    lambda bench: bench.call("fs_write", path="base/file", content="open needle\n"),
]


@pytest.mark.parametrize("bench", ["one disk", "two disks"], indirect=True)
def test_nothing_denied_is_changed_while_links_take_the_place_of_what_was_checked(bench: Bench) -> None:
    def is_touched(_: str) -> bool:
        names = sorted(path.name for path in (bench.folder / "denied").iterdir())
        return names != ["file", "only-in-denied"] or (bench.folder / "denied" / "file").read_text() != f"{_SECRET}\n"

    assert _leaks(bench, _WRITING, _SECONDS / 2, is_touched) == []
    kept = [path.read_bytes() for path in (bench.state / "journal").rglob("*") if path.is_file()]
    assert kept
    assert not [data for data in kept if _SECRET.encode() in data]


@pytest.mark.parametrize("engine", ["rg", "grep"])
def test_nothing_denied_is_read_while_links_take_the_place_of_what_was_checked(bench: Bench, engine: str) -> None:
    if engine == "grep":
        bench.ctx = replace(bench.ctx, engine=Engine("grep", "grep", "fallback"))
    leaks = _leaks(bench, _READING, _SECONDS / 2, lambda answer: _SECRET in answer or "only-in-denied" in answer)
    assert leaks == []


def test_a_denied_file_that_is_replaced_while_it_is_open_stays_denied(bench: Bench) -> None:
    """Then the system shows its name with ` (deleted)` behind it, which no rule is about."""
    denied = bench.file("denied/file", _SECRET)
    rule = Rule("file", ("**/file",), "a secret", "tools.json")
    paths = bench.ctx.paths.denying(PathRules((rule,)))
    with denied.open("rb") as opened:
        denied.unlink()
        with pytest.raises(Denied):
            paths.check_open(opened.fileno(), denied)


def _leaks(
    bench: Bench, calls: list[Callable[[Bench], Any]], seconds: float, is_leak: Callable[[str], bool]
) -> list[str]:
    """What leaked. Every call is made in turn, and each of them must have succeeded now and then."""
    leaks: list[str] = []
    answers = [0] * len(calls)
    end = time.monotonic() + seconds
    with _swapping(bench):
        for number in itertools.cycle(range(len(calls))):
            if time.monotonic() > end and all(answers):
                break
            answer = ""
            with contextlib.suppress(ToolError):
                answer = str(calls[number](bench))
                answers[number] += 1
            if is_leak(answer):
                leaks.append(f"{number}: {answer}")
                break
    return leaks
