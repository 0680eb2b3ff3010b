"""Memory that is free goes back to the system, and garbage is found once the start is over."""

from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

# Many blocks are freed and a few between them stay, as the results of calls do.
_FREES_MUCH = """
import asyncio, contextlib
from pathlib import Path
from mcp_agent.memory import limit_arenas, return_free_memory

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) // 256

async def main():
    blocks = [bytes(20_000) for _ in range(4_000)]
    kept = blocks[::100]
    del blocks
    before = resident_mib()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(return_free_memory(0.05), 1)
    print(len(kept), before - resident_mib())

limit_arenas()
asyncio.run(main())
"""


@pytest.mark.alone
@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="only glibc keeps what is freed")
def test_what_was_freed_between_what_is_kept_is_returned() -> None:
    run = subprocess.run([sys.executable, "-c", _FREES_MUCH], capture_output=True, text=True, check=True, timeout=60)
    kept, returned_mib = map(int, run.stdout.split())
    assert (kept, returned_mib >= 50) == (40, True), run.stdout


_STARTS = """
import contextlib, gc, io, sys, weakref
usual = gc.get_threshold()
from mcp_agent import entry, memory
sys.argv = ["mcp-agent", "help"]
with contextlib.redirect_stdout(io.StringIO()):
    entry.main()
assert gc.get_threshold()[0] > usual[0]
memory.collect_as_usual()
assert gc.get_threshold() == usual

class Ring:
    def __init__(self):
        self.own = self

seen = weakref.ref(Ring())
rings = [Ring() for _ in range(usual[0] + 1)]
print(seen() is None)
"""


def test_garbage_is_found_again_once_the_start_is_over() -> None:
    run = subprocess.run([sys.executable, "-c", _STARTS], capture_output=True, text=True, check=False, timeout=60)
    assert (run.stdout, run.stderr) == ("True\n", "")
