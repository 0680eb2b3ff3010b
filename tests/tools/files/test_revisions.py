"""The texts that are kept for revisions: bounded by their bytes and by their number."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

from tools.files import disk
from tools.files.revisions import HASHED_BYTES, Revs, rev_of_bytes, rev_of_open


def test_very_many_small_texts_cost_bounded_memory() -> None:
    """They were counted by their bytes alone: a daemon grew for as long as small files were written."""
    revs = Revs()
    tracemalloc.start()
    for number in range(20_000):
        revs.of_bytes(b"%d" % number)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 1024 * 1024


def test_a_small_file_is_read_into_little_memory(tmp_path: Path) -> None:
    """Its text is kept. Where room for the largest file is asked for, and given back but for a small text, thousands of
    those stand in the way of everything large.
    """
    path = tmp_path / "file"
    path.write_bytes(b"text\n" * 200)
    with disk.open_descriptor(path) as descriptor:
        tracemalloc.start()
        rev, data = rev_of_open(descriptor)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert data == b"text\n" * 200
    assert rev == rev_of_bytes(data)
    assert most < 16 * 1024


def test_a_file_of_proc_has_a_revision_of_its_content() -> None:
    """Its size is 0, whatever it holds."""
    with disk.open_descriptor(Path("/proc/self/status")) as descriptor:
        assert os.fstat(descriptor).st_size == 0
        _, data = rev_of_open(descriptor)
    assert data is not None
    assert b"VmRSS" in data


def test_a_large_file_has_a_revision_of_its_times(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * (HASHED_BYTES + 1))
    with disk.open_descriptor(path) as descriptor:
        assert rev_of_open(descriptor)[1] is None
