"""Runs a script of ours on an open file, in a process of its own: what the file does to it stays there."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence

_LOOK_S = 0.1


def ask_worker(
    script: str, descriptor: int, check: Callable[[], None], *, deadline_s: float, arguments: Sequence[str] = ()
) -> tuple[bytes, str]:
    """What the script answers, and what it says is wrong. Both are empty where it was ended at its deadline.

    `check` may raise, and ends it.
    """
    ends = time.monotonic() + deadline_s
    worker = subprocess.Popen(
        [sys.executable, "-I", script, *arguments],
        stdin=descriptor,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        start_new_session=True,
    )
    with worker:
        try:
            while time.monotonic() < ends:
                check()
                try:
                    answer, problem = worker.communicate(timeout=_LOOK_S)
                except subprocess.TimeoutExpired:
                    continue
                said = problem.decode("utf-8", "replace").strip()
                # One that the system has ended says nothing, and what it has written is a part.
                return (b"", said) if worker.returncode else (answer, said)
        finally:
            worker.kill()
    return b"", ""
