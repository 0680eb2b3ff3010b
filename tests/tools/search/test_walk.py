"""The walk behind fs_search, and what it remembers of folders."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.bench import Bench
from tools.files import disk
from tools.search.engine import find_engine
from tools.search.globs import read_glob
from tools.search.listings import Listing, Listings
from tools.search.walk import Run, Walk

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


def _walk(tree: Path, glob: str, *, check: Callable[[], None] = lambda: None, **options: Any) -> Iterator[Run]:
    with disk.open_descriptor(tree, disk.FOLDER_FLAGS) as folder:
        yield from Walk(tree, read_glob(glob), folder=folder, check=check, **options)


def _listing(listings: Listings, folder: Path, device: int | None) -> Listing:
    with disk.open_descriptor(folder.parent, disk.FOLDER_FLAGS) as place:
        return listings.of(str(folder), folder.name, place, device)


def _in_an_hour() -> float:
    """By this clock, nothing has changed for a while."""
    return time.time() + 3_600


def _wait_for_a_tick(folder: Path) -> None:
    """Until what changes from now on has another time than what changed before."""
    mark = folder.with_name("mark")
    mark.touch()
    before = mark.stat().st_mtime_ns
    while mark.stat().st_mtime_ns == before:
        mark.touch()


def _paths(runs: Iterable[Run]) -> list[str]:
    return [f"{prefix}{name}{'/' if is_folder else ''}" for prefix, names, is_folder in runs for name in names]


@pytest.mark.parametrize("include_ignored", [False, True])
@pytest.mark.parametrize("glob", _GLOBS)
def test_a_walk_finds_what_is_there(tree: Path, glob: str, include_ignored: bool) -> None:
    """Against every path of the tree that fits, found and put in order in another way."""
    pattern = read_glob(glob)
    everything = _paths(_walk(tree, "**", include_ignored=include_ignored))
    fitting = [
        path
        for path in everything
        if pattern.matches(path.rstrip("/")) and (path.endswith("/") or not pattern.only_folders)
    ]
    assert _paths(_walk(tree, glob, include_ignored=include_ignored)) == fitting
    assert everything == sorted(everything, key=lambda path: path.rstrip("/").split("/"))


def test_everything_is_all_but_links_and_what_is_no_file(tree: Path) -> None:
    really = {
        f"{path.relative_to(tree)}{'/' if path.is_dir() else ''}"
        for path in tree.rglob("*")
        if not path.is_symlink() and (path.is_dir() or path.is_file())
    }
    assert set(_paths(_walk(tree, "**", include_ignored=True))) == really


@pytest.mark.parametrize("include_ignored", [False, True])
def test_the_files_are_those_of_ripgrep(tree: Path, include_ignored: bool) -> None:
    rules = ["--no-ignore"] if include_ignored else ["--no-require-git", "--no-ignore-global", "--glob", "!.git"]
    command = [find_engine().program, "--no-config", "--files", "--hidden", "--null", "--sort", "path", *rules]
    listed = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, check=True).stdout
    walked = _paths(_walk(tree, "**", include_ignored=include_ignored))
    assert [path for path in walked if not path.endswith("/")] == os.fsdecode(listed).removesuffix("\0").split("\0")


@pytest.mark.parametrize("glob", _GLOBS)
def test_a_walk_that_remembers_finds_the_same(tree: Path, glob: str) -> None:
    listings, device = Listings(clock=_in_an_hour), tree.stat().st_dev
    whole = _paths(_walk(tree, glob))
    for _ in range(2):
        assert _paths(_walk(tree, glob, listings=listings, device=device)) == whole


def test_a_walk_that_remembers_sees_every_change(tree: Path) -> None:
    listings, device = Listings(clock=_in_an_hour), tree.stat().st_dev

    def found() -> list[str]:
        paths = _paths(_walk(tree, "**", listings=listings, device=device))
        assert paths == _paths(_walk(tree, "**"))
        return paths

    before = found()
    place = tree / "p01" / "m1"
    changes: list[Callable[[], object]] = [
        (place / "new.py").touch,
        (place / "new.d").mkdir,
        lambda: (place / "new.py").rename(place / "newer.py"),
        lambda: (place / "newer.py").rename(tree / "p02" / "newer.py"),
        (place / "new.d").rmdir,
        (place / "new.d").touch,
        lambda: (place / "new.d").rename(place / "file.d"),
        (place / "file.d").unlink,
        lambda: (tree / "p05" / ".gitignore").write_text("*.txt\n"),
        (tree / "p15" / ".ignore").unlink,
        lambda: (tree / "p03" / ".gitignore").write_text("a.py\n"),
        lambda: (tree / "p04").rename(tree / "other"),
        lambda: shutil.copytree(tree / "p06", tree / "p04"),
    ]
    for change in changes:
        _wait_for_a_tick(tree)
        change()
        after = found()
        assert after != before
        before = after
    _wait_for_a_tick(tree)
    (place / "a.py").unlink()
    (place / "a.py").symlink_to("b.txt")
    assert found() == [path for path in before if path != "p01/m1/a.py"]


def test_what_was_changed_a_moment_ago_is_read_again(tree: Path) -> None:
    """Within one tick of the clock a folder can change twice and look the same."""
    listings, device = Listings(), tree.stat().st_dev
    for number in range(200):
        (tree / f"new-{number}").touch()
        assert f"new-{number}" in _paths(_walk(tree, "new-*", listings=listings, device=device))


def test_only_so_much_is_remembered(tree: Path) -> None:
    device, folder = tree.stat().st_dev, tree / "p01" / "m1"
    for most_names, is_kept in ((10_000, True), (50, False)):
        listings = Listings(most_names, _in_an_hour)
        first = _listing(listings, folder, device)
        assert _listing(listings, folder, device) is first
        for number in range(20):
            _listing(listings, tree / f"p{number:02}", device)
        assert (_listing(listings, folder, device) is first) == is_kept
        assert _listing(listings, folder, device) == first


def test_another_device_is_always_read(tree: Path) -> None:
    listings, folder = Listings(clock=_in_an_hour), tree / "p01"
    assert _listing(listings, folder, -1) is not _listing(listings, folder, -1)
    assert _listing(listings, folder, None) is not _listing(listings, folder, None)


def test_folders_in_which_nothing_can_match_are_not_entered(tree: Path) -> None:
    """Seen: docs/*.md looked into every folder of the project."""

    def looked(glob: str) -> int:
        times = 0

        def check() -> None:
            nonlocal times
            times += 1

        list(_walk(tree, glob, include_ignored=True, check=check))
        return times

    assert looked("**/*.py") >= 4
    assert [looked(glob) for glob in ("p01/*.py", "p0[1-3]/*.py", "p04/**", "{p05/m1,p06}/*.py")] == [0, 0, 0, 0]
