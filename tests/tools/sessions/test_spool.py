"""The spool of a session: what is old goes, what stays is where it was, and the disk has the room back."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tools.sessions.spool import HEAD_BYTES, Spool

_MIB = 1024 * 1024


@contextmanager
def _mounted(folder: Path, *options: str) -> Iterator[Path]:
    """Another file system, for as long as it takes; only root can have one."""
    folder.mkdir()
    mounted = subprocess.run(["mount", *options, "none", folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def _fill(spool: Spool, size: int) -> bytes:
    """Write so much, and let go what must go. What was written."""
    blocks = [bytes([65 + index % 26]) * 65_536 for index in range(size // 65_536)]
    for block in blocks:
        assert spool.append(block)
        if to := spool.excess():
            spool.free(to)
    return b"".join(blocks)


def _size(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.iterdir())


def test_freed_blocks_are_given_back_to_the_disk_and_offsets_stay(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s1.log", 8 * _MIB)
    written = _fill(spool, 40 * _MIB)
    assert spool.path.stat().st_size == len(written)
    assert _size(tmp_path) <= 9 * _MIB
    with spool.path.open("rb") as file:
        file.seek(39 * _MIB)
        assert file.read() == written[39 * _MIB :]
    spool.remove()


def test_where_no_part_of_a_file_can_be_freed_there_are_several_named_by_their_offset(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s1.log", 8 * _MIB, frees_in_place=False)
    written = _fill(spool, 40 * _MIB)
    assert spool.path.read_bytes() == written[: spool.path.stat().st_size]
    assert HEAD_BYTES <= spool.path.stat().st_size <= HEAD_BYTES + _MIB // 4
    others = sorted((int(path.suffix[1:]), path.read_bytes()) for path in tmp_path.iterdir() if path != spool.path)
    assert [start for start, _ in others] == [start for start, _ in others if start >= 32 * _MIB]
    for start, data in others:
        assert data == written[start : start + len(data)]
    assert sum(len(data) for _, data in others) == len(written) - others[0][0]
    assert _size(tmp_path) <= 9 * _MIB
    spool.remove()
    assert list(tmp_path.iterdir()) == []


def test_a_read_goes_on_from_one_file_to_the_next(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s1.log", 8 * _MIB, frees_in_place=False)
    written = _fill(spool, 6 * _MIB)
    for is_sealed in (False, True):
        if is_sealed:
            spool.seal()
        assert spool.read(0, len(written)) == written
        assert spool.read(2 * _MIB - 10, 20) == written[2 * _MIB - 10 : 2 * _MIB + 10]


def test_a_file_system_that_cannot_free_a_part_of_a_file_is_found_out(tmp_path: Path) -> None:
    with _mounted(tmp_path / "ramfs", "-t", "ramfs") as folder:
        spool = Spool(folder / "s1.log", 8 * _MIB)
        written = _fill(spool, 40 * _MIB)
        assert not spool.is_full
        assert sum(path.stat().st_size for path in folder.iterdir()) <= 9 * _MIB
        assert spool.read(39 * _MIB, _MIB) == written[39 * _MIB :]
        spool.remove()


def test_up_to_its_bound_all_of_a_calls_output_stays_in_one_file(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "s1.log", 8 * _MIB, 20 * _MIB)
    written = _fill(spool, 20 * _MIB)
    assert [spool.sole_file] == [spool.path]
    assert spool.path.read_bytes() == written
    _fill(spool, _MIB)
    assert spool.sole_file is None
    assert _size(tmp_path) <= 9 * _MIB
    assert spool.kept_bytes <= 9 * _MIB
    spool.remove()


def test_a_disk_that_takes_no_more_leaves_what_there_is_readable(tmp_path: Path) -> None:
    with _mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=1m") as folder:
        spool = Spool(folder / "s1.log", 8 * _MIB)
        assert spool.append(b"first")
        while spool.append(bytes(65_536)):
            pass
        assert spool.is_full
        assert spool.read(0, 5) == b"first"
        assert [spool.sole_file, spool.excess()] == [None, 0]
        spool.remove()
