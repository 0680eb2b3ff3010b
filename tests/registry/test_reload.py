"""tools.json while it is watched: every state that people and programs leave it in."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from registry.edits import UseProfile
from registry.profiles import BadRegistry, Problem, Profiles
from registry.tools_json_file import RegistryFile, watch
from tests.support.daemon import as_nobody
from tests.support.small_catalog import CATALOG, profile, switched
from tests.support.waiting import PATIENCE_S

Seen = Profiles | tuple[Problem, ...]
_BROKEN = '{"profiles": ['


def _text(active: str) -> str:
    return json.dumps({"activeProfile": active})


class _Watcher:
    """What a watch has told, in order."""

    def __init__(self) -> None:
        self._seen: asyncio.Queue[Seen] = asyncio.Queue()

    def put(self, seen: Seen) -> None:
        self._seen.put_nowait(seen)

    async def active(self, expected: str) -> None:
        """Wait for a good state with `expected` active. A writer in place may be seen half-way before it."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                seen = await self._seen.get()
                if isinstance(seen, Profiles) and seen.active == expected:
                    return

    async def problem(self) -> str:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                seen = await self._seen.get()
                if not isinstance(seen, Profiles):
                    return "; ".join(map(str, seen))

    @property
    def is_silent(self) -> bool:
        return self._seen.empty()


@contextlib.asynccontextmanager
async def _watching(path: Path) -> AsyncIterator[_Watcher]:
    watcher = _Watcher()
    reload = partial(RegistryFile(path, CATALOG).reload, watcher.put, watcher.put, asyncio.Lock())
    task = asyncio.create_task(watch(path, reload))
    try:
        await watcher.active("default")
        yield watcher
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "tools.json"
    path.write_text(_text("default"))
    return path


async def test_a_file_written_in_place_is_seen(path: Path) -> None:
    async with _watching(path) as watcher:
        path.write_text(_text("lean"))
        await watcher.active("lean")


async def test_a_file_that_an_editor_replaces_is_seen_again_and_again(path: Path) -> None:
    async with _watching(path) as watcher:
        for active in ("lean", "pruner", "compact"):
            fresh = path.with_name("tools.json~")
            fresh.write_text(_text(active))
            fresh.replace(path)
            await watcher.active(active)


async def test_a_broken_file_is_told_and_its_repair_is_seen(path: Path) -> None:
    async with _watching(path) as watcher:
        path.write_text(_BROKEN)
        assert await watcher.problem() == "/: no JSON: Expecting value at line 1, column 15"
        path.write_text(_text("lean"))
        await watcher.active("lean")


async def test_a_file_written_in_two_halves_is_seen_whole_in_the_end(path: Path) -> None:
    text = _text("lean")
    async with _watching(path) as watcher:
        with path.open("w") as file:
            file.write(text[:9])
            file.flush()
            await watcher.problem()
            file.write(text[9:])
        await watcher.active("lean")


async def test_a_deleted_file_is_told_and_its_return_is_seen(path: Path) -> None:
    async with _watching(path) as watcher:
        path.unlink()
        assert await watcher.problem() == f"/: {path} is not there"
        path.write_text(_text("lean"))
        await watcher.active("lean")


async def test_a_deleted_folder_is_told_and_its_return_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "tools.json"
    path.parent.mkdir()
    path.write_text(_text("default"))
    async with _watching(path) as watcher:
        path.unlink()
        path.parent.rmdir()
        assert await watcher.problem() == f"/: {path} is not there"
        path.parent.mkdir()
        path.write_text(_text("lean"))
        await watcher.active("lean")


async def test_a_file_restored_with_its_old_times_is_seen(path: Path) -> None:
    kept = path.with_name("kept.json")
    path.rename(kept)
    path.write_text(_text("default"))
    times = path.stat().st_atime_ns, path.stat().st_mtime_ns
    kept.write_text(_text("compact"))
    async with _watching(path) as watcher:
        assert len(_text("compact")) == len(_text("default"))
        os.utime(kept, ns=times)
        kept.replace(path)
        await watcher.active("compact")


async def test_a_file_behind_a_link_is_seen(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    real, path = tmp_path / "real" / "mine.json", tmp_path / "tools.json"
    real.write_text(_text("default"))
    path.symlink_to(real)
    async with _watching(path) as watcher:
        fresh = real.with_name("fresh")
        fresh.write_text(_text("lean"))
        fresh.replace(real)
        await watcher.active("lean")


async def test_a_link_that_is_set_to_another_file_is_seen(tmp_path: Path, path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x.json").write_text(_text("lean"))
    async with _watching(path) as watcher:
        path.unlink()
        path.symlink_to("other/x.json")
        await watcher.active("lean")
        (tmp_path / "other" / "x.json").write_text(_text("pruner"))
        await watcher.active("pruner")
        path.unlink()
        path.symlink_to("tools.json")
        await watcher.problem()
        path.unlink()
        path.write_text(_text("compact"))
        await watcher.active("compact")


async def test_a_file_whose_rights_are_taken_away_is_told_and_seen_again(tmp_path: Path, path: Path) -> None:
    path.chmod(0o644)
    with as_nobody(tmp_path):
        async with _watching(Path("tools.json")) as watcher:
            _as_owner(lambda: path.chmod(0))
            assert await watcher.problem() == "/: tools.json cannot be read: permission denied"
            _as_owner(lambda: path.chmod(0o644))
            await watcher.active("default")


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
async def test_what_is_no_file_in_its_place_is_told_and_its_end_is_seen(path: Path, make: Any) -> None:
    async with _watching(path) as watcher:
        path.unlink()
        make(path)
        while "is no regular file" not in await watcher.problem():
            pass
        path.rmdir() if path.is_dir() else path.unlink()
        path.write_text(_text("lean"))
        await watcher.active("lean")


async def test_a_save_of_our_own_is_seen_once(path: Path) -> None:
    async with _watching(path) as watcher:
        RegistryFile(path, CATALOG).edit(UseProfile(profile="lean"))
        await watcher.active("lean")
        RegistryFile(path, CATALOG).edit(UseProfile(profile="pruner"))
        await watcher.active("pruner")
        assert watcher.is_silent


async def test_one_who_is_told_and_fails_does_not_end_the_watch(path: Path) -> None:
    watcher = _Watcher()

    def loaded(profiles: Profiles) -> None:
        watcher.put(profiles)
        if profiles.active == "lean":
            raise BadRegistry([Problem("", "not this one")])
        if profiles.active == "pruner":
            raise ZeroDivisionError

    def failed(problems: tuple[Problem, ...]) -> None:
        watcher.put(problems)
        raise ZeroDivisionError

    task = asyncio.create_task(watch(path, partial(RegistryFile(path, CATALOG).reload, loaded, failed, asyncio.Lock())))
    await watcher.active("default")
    path.write_text(_text("lean"))
    assert await _problem_after_halves(watcher) == "/: not this one"
    path.write_text(_text("pruner"))
    await watcher.active("pruner")
    path.write_text(json.dumps({"activeProfile": "compact", "profiles": [profile("x", switched(fs_read=False))]}))
    await watcher.active("compact")
    task.cancel()


async def _problem_after_halves(watcher: _Watcher) -> str:
    """A file that is written in place can be seen empty first."""
    while (problem := await watcher.problem()).startswith("/: no JSON"):
        pass
    return problem


def _as_owner(change: Any) -> None:
    user = os.geteuid()
    os.seteuid(os.getuid())
    try:
        change()
    finally:
        os.seteuid(user)
