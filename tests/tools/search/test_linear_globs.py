"""Whatever a caller or a file of a project may write as a glob, one search costs little and stops nobody."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Any

import pytest

from tests.support.daemon import Daemon
from tests.support.waiting import within
from tools.kit.path_patterns import path_pattern
from tools.search.globs import read_glob

_LONG_NAME = "a" * 250
_MANY_STARS = "*a" * 30 + "b"
_MANY_FOLDERS = "**/" * 30 + "b"
_ATTACKS = {
    "many folders": ("fs_search", {"glob": "a/" + "**/a/" * 30 + "b"}, ""),
    "many folders in a row": ("fs_search", {"glob": _MANY_FOLDERS}, ""),
    "many stars": ("fs_search", {"glob": _MANY_STARS}, ""),
    "many stars in a grep": ("fs_grep", {"pattern": "x", "glob": _MANY_STARS}, ""),
    "an ignored folder": ("fs_search", {"glob": "*.py"}, "**/" * 30 + "a/" + "**/a/" * 30 + "x.py"),
    "an ignored name": ("fs_search", {"glob": "*.py"}, _MANY_STARS + "*.py"),
    "blanks": ("fs_search", {"glob": "*.py"}, "x" + " " * 150_000 + "y"),
    "many lines": ("fs_search", {"glob": "*.py"}, "a*b*c?[d]\n" * 400_000),
}


@pytest.mark.parametrize("attack", _ATTACKS)
async def test_no_glob_of_a_caller_or_a_project_stops_the_daemon(daemon: Daemon, attack: str) -> None:
    """Seen: /health was dead and SIGTERM ignored, by one call, or by one file of a repository."""
    tool, arguments, ignore_lines = _ATTACKS[attack]
    root = daemon.home / "project"
    deep = root / "/".join("a" * 60)
    deep.mkdir(parents=True)
    for folder in (root, deep):
        for name in (f"{_LONG_NAME}", "one.py"):
            (folder / name).write_text("x\n")
    (root / ".gitignore").write_text(ignore_lines)
    slowest = 0.0
    async with within(30), daemon.http() as client:
        search = asyncio.create_task(client.post(f"/tools/{tool}", json={"base": str(root), **arguments}))
        while not search.done():
            began = time.monotonic()
            assert (await client.get("/health")).status_code == 200
            slowest = max(slowest, time.monotonic() - began)
            await asyncio.wait([search], timeout=0.05)
        assert search.result().status_code == 200
    assert slowest < 1.0


async def test_the_ignore_file_of_a_project_costs_a_search_no_gigabytes(daemon: Daemon) -> None:
    """Seen: ripgrep took 2.3 GB and 23 s for two megabytes of such lines."""
    if (await health(daemon))["search"]["engine"] != "rg":
        pytest.skip("only ripgrep reads ignore files by itself")
    root = daemon.home / "project"
    root.mkdir()
    (root / "one.py").write_text("x\n")
    (root / ".gitignore").write_text(("!" + "*?" * 2_000 + "\n") * 1_000)
    async with daemon.http() as client:
        refused = await client.post("/tools/fs_grep", json={"base": str(root), "pattern": "x"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "TOO_LARGE")
        assert "pass ignored: true" in refused.json()["error"]["hint"]
        found = await client.post("/tools/fs_grep", json={"base": str(root), "pattern": "^x", "ignored": True})
        assert [each["text"] for each in found.json()["matches"]] == ["x"]


async def health(daemon: Daemon) -> dict[str, Any]:
    async with daemon.http() as client:
        found: dict[str, Any] = (await client.get("/health")).json()
        return found


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        (_MANY_STARS, _LONG_NAME + "c"),
        (_MANY_FOLDERS, "a/" * 2_000 + "c"),
        ("**/a/" * 30 + "b", "a/" * 2_000 + "c"),
        ("a?" * 20 + "*?a*" * 20 + "b", _LONG_NAME),
    ],
)
def test_a_glob_is_matched_in_time_linear_in_the_path(glob: str, path: str) -> None:
    wanted = read_glob(glob)
    began = time.process_time()
    assert not wanted.matches(path)
    assert time.process_time() - began < 0.25


@pytest.mark.parametrize(
    ("parts", "fitting", "other"),
    [
        (["**"], ["a", "a/b", "a\nb"], [""]),
        (["a", "**"], ["a/b", "a/b/c"], ["a", "b/a/c"]),
        (["a", "**", "b"], ["a/b", "a/c/b", "a/b/b"], ["a", "a/bb", "a/b/c"]),
        (["**", "a", "b*", "**", "c"], ["a/b/c", "x/a/bb/c", "a/a/a/b/x/c"], ["a/c", "a/xb/c"]),
        (["*a*b"], ["ab", "xabab", "aab"], ["aba", "a/b"]),
        (["*a?"], ["ab", "aab", "aaa"], ["a", "ba"]),
        (["[a-c][!x]", "[.-0]"], ["ab/.", "c]/0"], ["ax/.", "ab//", "da/."]),
    ],
)
def test_the_first_fit_of_each_piece_is_enough(parts: list[str], fitting: list[str], other: list[str]) -> None:
    pattern = re.compile(path_pattern(parts), re.DOTALL)
    assert [path for path in fitting if not pattern.match(path)] == []
    assert [path for path in other if pattern.match(path)] == []
