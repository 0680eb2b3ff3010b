"""The benchmarks can be run, whatever they measure."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.benchmarks.rows import Bench, Goal, Meter, Row, measured
from tests.benchmarks.table import Finding, rendered
from tests.support import ROOT


def test_a_quick_run_prints_a_row_with_its_verdict() -> None:
    command = [sys.executable, "-m", "tests.benchmarks", "--quick", "call-bare-2026"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert "command  python -m tests.benchmarks --quick call-bare-2026" in run.stdout
    last = run.stdout.splitlines()[-1]
    assert re.fullmatch(r"call-bare-2026 +processor .+ µs +.+ µs +bare .+× +≤ 1.6× +(ok|MISS)", last)


def test_a_row_that_does_not_exist_is_told() -> None:
    command = [sys.executable, "-m", "tests.benchmarks", "no-such-row"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, timeout=60).returncode == 2


@pytest.mark.parametrize(
    ("goal", "verdict"),
    [
        (Goal(0.5), "ok"),
        (Goal(0.4), "MISS"),
        (Goal(0.5, is_ceiling=False), "ok"),
        (Goal(0.6, is_ceiling=False), "MISS"),
        (Goal(9.0, of="ours"), "MISS"),
        (Goal(10.0, of="ours"), "ok"),
    ],
)
def test_the_verdict_compares_the_median_of_the_rounds_with_the_goal(goal: Goal, verdict: str, tmp_path: Path) -> None:
    @contextmanager
    def contest(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
        # The first of each is the warm-up; one later round is disturbed.
        ours, theirs = iter([500.0, 10.0, 900.0, 10.0]), iter([500.0, 20.0, 20.0, 20.0])
        yield lambda: next(ours), lambda: next(theirs)

    row = Row("name", "what", "other", "ms", goal, contest, rounds=3)
    table = rendered([Finding(row, measured(row, Bench(tmp_path)))])
    assert table.splitlines()[1].split()[-1] == verdict
