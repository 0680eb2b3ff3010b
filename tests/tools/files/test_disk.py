"""A file is replaced whole or not at all, and its folder's lock lets one process in at a time."""

from __future__ import annotations

import os
import stat
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tools.files import disk


def test_a_file_is_private_and_so_is_the_folder_that_is_made_for_it(tmp_path: Path) -> None:
    path = tmp_path / "state" / "token"
    disk.replace_file(path, b"one")
    disk.replace_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)] == [0o600, 0o700]
    assert _names(path.parent) == ["token"]


@pytest.mark.parametrize("temporary", [None, "being-written"])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, temporary: str | None) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def fail_half_way() -> None:
        with disk.replacing(path, temporary=None if temporary is None else tmp_path / temporary) as descriptor:
            disk.write_all(descriptor, b"new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert (path.read_bytes(), _names(tmp_path)) == (b"old", ["file"])


def test_what_a_killed_writer_left_is_replaced(tmp_path: Path) -> None:
    left = tmp_path / "file.new"
    left.write_bytes(b"half of something")
    with disk.replacing(tmp_path / "file", temporary=left) as descriptor:
        disk.write_all(descriptor, b"new")
    assert ((tmp_path / "file").read_bytes(), _names(tmp_path)) == (b"new", ["file"])


def test_a_folder_has_one_lock(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    count = folder / "count"

    def add_one(_: int) -> None:
        with disk.folder_lock(folder):
            before = int(count.read_text()) if count.exists() else 0
            count.write_text(str(before + 1))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(add_one, range(200)))
    assert count.read_text() == "200"


def test_a_lock_that_is_held_is_not_waited_for(tmp_path: Path) -> None:
    with disk.folder_lock(tmp_path):
        descriptor = os.open(tmp_path, os.O_RDONLY)
        try:
            assert not disk.lock(descriptor, wait=False)
        finally:
            os.close(descriptor)


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize(
    ("limit", "expected", "found"),
    [(100, 10, b"0123456789"), (100, 3, b"0123456789"), (100, 0, b"0123456789"), (4, 10, b"0123"), (4, 2, b"0123")],
)
def test_a_file_is_read_to_its_end_whatever_its_size_was(
    tmp_path: Path, limit: int, expected: int, found: bytes
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    with disk.open_descriptor(path) as descriptor:
        assert disk.read_up_to(descriptor, limit, expected) == found


def test_a_small_file_is_read_into_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"text")
    tracemalloc.start()
    assert disk.read_small_file(path) == b"text"
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 64 * 1024
