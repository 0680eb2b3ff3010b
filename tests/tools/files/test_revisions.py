"""The texts that are kept for revisions: bounded by their bytes and by their number."""

from __future__ import annotations

import tracemalloc

from tools.files.revisions import Revs


def test_very_many_small_texts_cost_bounded_memory() -> None:
    """They were counted by their bytes alone: a daemon grew for as long as small files were written."""
    revs = Revs()
    tracemalloc.start()
    for number in range(20_000):
        revs.of_bytes(b"%d" % number)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 1024 * 1024
