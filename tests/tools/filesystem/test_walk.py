"""The walk behind fs_search: alone, from the middle, and shared with a helper process."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.tools.filesystem.bench import Bench
from tools.filesystem import shared_walk as sharing
from tools.filesystem.engines import find_engine
from tools.filesystem.globs import read_glob
from tools.filesystem.shared_walk import shared_walk
from tools.filesystem.walk import Run, Walk, question

if TYPE_CHECKING:
    from tools.filesystem.walk import Question

_GLOBS = ["**", "**/*.py", "*.d", "**/", "*e*", "p1*/**/*.py", "p1*/m?", "{p01,p02}/*.py", "p03/m1/*", "nowhere/**"]


@pytest.fixture
def tree(bench: Bench) -> Path:
    """400 folders: some empty, some ignored, some with rules of their own, with names that are hard to print."""
    for outer in range(20):
        for inner in range(20):
            folder = f"p{outer:02}/m{inner}"
            (bench.folder / folder).mkdir(parents=True)
            if inner % 4:
                for name in ("a.py", "b.txt", ".hidden.py", "z.gen.py"):
                    bench.file(f"{folder}/{name}")
        (bench.folder / f"p{outer:02}" / "empty.d").mkdir()
        bench.file(f"p{outer:02}/m1.py")
        bench.file(f"p{outer:02}/build/left.py")
    bench.file(".gitignore", "build/\n*.gen.py\n")
    bench.file(".git/config.py")
    bench.file("p05/.gitignore", "!z.gen.py\nm3/\n")
    bench.file("p15/.ignore", "*.txt\n!build/\n")
    bench.file("p16/.git", "gitdir: elsewhere\n")
    for name in (os.fsdecode(b"odd\xff.py"), "new\nline.py", "grüße.py", "back\\x5cslash.py"):
        for place in (bench.folder, bench.folder / "p02" / "m1", bench.folder / "p18" / "m1"):
            (place / name).touch()
            (place / f"{name}.d").mkdir()
    (bench.folder / "p17" / "link.py").symlink_to("m1.py")
    (bench.folder / "p17" / "link.d").symlink_to("m1")
    os.mkfifo(bench.folder / "p17" / "pipe.py")
    return bench.folder


def _asked(tree: Path, glob: str, *, include_ignored: bool = False) -> Question:
    return question(tree, read_glob(glob), include_ignored=include_ignored)


def _paths(runs: Iterable[Run]) -> list[str]:
    return [f"{prefix}{name}{'/' if is_folder else ''}" for prefix, names, is_folder in runs for name in names]


def _nothing() -> None:
    """Nobody wants the walk to stop."""


@pytest.mark.parametrize("include_ignored", [False, True])
@pytest.mark.parametrize("glob", _GLOBS)
def test_a_walk_finds_what_is_there(tree: Path, glob: str, include_ignored: bool) -> None:
    """Against every path of the tree that fits, found and put in order in another way."""
    pattern = read_glob(glob)
    everything = _paths(Walk(_asked(tree, "**", include_ignored=include_ignored), _nothing))
    fitting = [
        path
        for path in everything
        if pattern.matches(path.rstrip("/")) and (path.endswith("/") or not pattern.only_folders)
    ]
    assert _paths(Walk(_asked(tree, glob, include_ignored=include_ignored), _nothing)) == fitting
    assert everything == sorted(everything, key=lambda path: path.rstrip("/").split("/"))


def test_everything_is_all_but_links_and_what_is_no_file(tree: Path) -> None:
    really = {
        f"{path.relative_to(tree)}{'/' if path.is_dir() else ''}"
        for path in tree.rglob("*")
        if not path.is_symlink() and (path.is_dir() or path.is_file())
    }
    assert set(_paths(Walk(_asked(tree, "**", include_ignored=True), _nothing))) == really


@pytest.mark.parametrize("include_ignored", [False, True])
def test_the_files_are_those_of_ripgrep(tree: Path, include_ignored: bool) -> None:
    rules = ["--no-ignore"] if include_ignored else ["--no-require-git", "--no-ignore-global", "--glob", "!.git"]
    command = [find_engine().program, "--no-config", "--files", "--hidden", "--null", "--sort", "path", *rules]
    listed = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, check=True).stdout
    walked = _paths(Walk(_asked(tree, "**", include_ignored=include_ignored), _nothing))
    assert [path for path in walked if not path.endswith("/")] == os.fsdecode(listed).removesuffix("\0").split("\0")


@pytest.mark.parametrize("glob", ["**", "**/*.py"])
def test_a_walk_from_the_middle_is_the_end_of_the_whole(tree: Path, glob: str) -> None:
    asked = _asked(tree, glob)
    whole = _paths(Walk(asked, _nothing))
    for index in range(0, len(whole), 7):
        assert _paths(Walk(asked, _nothing, whole[index].rstrip("/"))) == whole[index:]


def test_the_halves_of_a_walk_make_the_whole_wherever_it_is_divided(tree: Path) -> None:
    asked = _asked(tree, "**")
    whole = _paths(Walk(asked, _nothing))
    for steps in range(0, len(whole) // 2, 11):
        walk = Walk(asked, _nothing)
        runs = iter(walk)
        before = [next(runs) for _ in range(steps)]
        start = walk.without_later_half()
        assert start is not None
        assert _paths([*before, *runs]) + _paths(Walk(asked, _nothing, start)) == whole


@pytest.mark.parametrize("include_ignored", [False, True])
@pytest.mark.parametrize("glob", _GLOBS)
def test_a_shared_walk_finds_the_same(
    tree: Path, glob: str, include_ignored: bool, caplog: pytest.LogCaptureFixture
) -> None:
    asked = _asked(tree, glob, include_ignored=include_ignored)
    with caplog.at_level(logging.WARNING):
        found = _paths(shared_walk(asked, _nothing, time.monotonic() + 30, None, alone_s=0))
    assert found == _paths(Walk(asked, _nothing))
    # Were the helper of no use, this would say so.
    assert caplog.messages == []


def test_a_helper_that_fails_is_made_up_for(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = _asked(tree, "**")
    whole = _paths(Walk(asked, _nothing))
    broken = tmp_path / "broken.py"
    broken.write_text("import sys; sys.stdout.write('no such thing'); sys.exit(1)")
    for program in (tmp_path / "missing.py", broken):
        monkeypatch.setattr(sharing, "_HELPER", program)
        assert _paths(shared_walk(asked, _nothing, time.monotonic() + 30, None, alone_s=0)) == whole
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    assert _paths(shared_walk(asked, _nothing, time.monotonic() + 30, None, alone_s=0)) == whole
    assert [message.partition(":")[0] for message in caplog.messages] == ["walk.helper_failed"] * 3


def test_folders_in_which_nothing_can_match_are_not_entered(tree: Path) -> None:
    """Seen: docs/*.md looked into every folder of the project."""

    def looked(glob: str) -> int:
        times = 0

        def check() -> None:
            nonlocal times
            times += 1

        list(Walk(_asked(tree, glob), check))
        return times

    assert looked("**/*.py") >= 4
    assert [looked(glob) for glob in ("p01/*.py", "p0[1-3]/*.py", "p04/**", "{p05/m1,p06}/*.py")] == [0, 0, 0, 0]
