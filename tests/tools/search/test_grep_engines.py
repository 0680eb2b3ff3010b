"""`grep` answers alike whichever program searches, and neither can be talked into anything else."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import PATIENCE_S
from tools.context import ToolContext
from tools.files.paths import OpenPaths
from tools.kit.errors import InvalidPattern
from tools.pruning.confined import ConfinedRoot
from tools.pruning.grep import Search
from tools.search.engine import Engine, find_engine

_GREP = Engine("grep", shutil.which("grep") or "grep", "fallback")


@pytest.fixture(params=["rg", "grep"])
def ctx(request: pytest.FixtureRequest, tmp_path: Path) -> ToolContext:
    engine = find_engine() if request.param == "rg" else _GREP
    if engine.kind != request.param:
        pytest.skip("no ripgrep for this machine")
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "one.txt").write_text("alpha beta\nBETA gamma\n")
    (root / "sub" / "a:b.txt").write_text("x: beta\n")
    (root / "link").symlink_to("/etc")
    os.mkfifo(root / "pipe")
    return ToolContext("", OpenPaths(root), engine=engine, root=root)


def _found(ctx: ToolContext, pattern: str, path: str = ".", **changes: Any) -> list[tuple[str, int, int | None, str]]:
    options = {"is_fixed": False, "is_case_sensitive": True, "most_matches": 100, "bytes_left": 100_000, **changes}
    root = ConfinedRoot(ctx.root, ctx.paths.working_directory)
    search = Search(ctx, root, pattern, timeout_ms=int(PATIENCE_S * 1000), **options)
    matches, _ = search.run([path], None)
    return sorted(
        (
            str(Path(match["path"]).relative_to(ctx.paths.working_directory)),
            match["line"],
            match["column"],
            match["text"],
        )
        for match in matches
    )


def test_a_literal_is_found_with_its_column(ctx: ToolContext) -> None:
    assert _found(ctx, "beta", is_fixed=True) == [("one.txt", 1, 7, "alpha beta"), ("sub/a:b.txt", 1, 4, "x: beta")]
    assert _found(ctx, "b.ta", is_fixed=True) == []


def test_case_counts_unless_it_is_told_not_to(ctx: ToolContext) -> None:
    found = _found(ctx, "Beta", "one.txt", is_fixed=True, is_case_sensitive=False)
    assert found == [("one.txt", 1, 7, "alpha beta"), ("one.txt", 2, 1, "BETA gamma")]


def test_a_regex_is_found(ctx: ToolContext) -> None:
    assert [match[:2] for match in _found(ctx, "(alpha|BETA) +[a-z]+")] == [("one.txt", 1), ("one.txt", 2)]


@pytest.mark.parametrize("pattern", ["--pre=touch made", "-f/etc/passwd", "--hostname-bin=touch", "-e"])
def test_a_pattern_that_looks_like_an_option_is_a_pattern(ctx: ToolContext, pattern: str) -> None:
    assert _found(ctx, pattern, is_fixed=True) == []
    assert sorted(path.name for path in ctx.paths.working_directory.iterdir()) == ["link", "one.txt", "pipe", "sub"]


def test_links_out_of_the_root_and_pipes_are_passed_over(ctx: ToolContext) -> None:
    assert _found(ctx, "root:", is_fixed=True) == []


def test_a_bad_pattern_is_an_error(ctx: ToolContext) -> None:
    with pytest.raises(InvalidPattern):
        _found(ctx, "(")


def test_the_configuration_of_ripgrep_is_not_read(ctx: ToolContext, monkeypatch: pytest.MonkeyPatch) -> None:
    (ctx.paths.working_directory / "ripgreprc").write_text("--pre=false\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(ctx.paths.working_directory / "ripgreprc"))
    assert [match[:2] for match in _found(ctx, "gamma")] == [("one.txt", 2)]
