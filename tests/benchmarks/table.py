"""The table that `make bench` prints."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.rows import Figures, Goal, Row

_HEADER = ("row", "what", "ours", "against", "", "ratio", "goal", "")


@dataclass(frozen=True, slots=True)
class Finding:
    """A row with what came out; without figures, `note` says why there are none."""

    row: Row
    figures: Figures | None
    note: str = ""


def machine() -> str:
    """The machine that the figures belong to, in a line."""
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cores} cores ({_processor()}), Python {platform.python_version()}, {platform.system()} {platform.release()}"
    )


def rendered(findings: Sequence[Finding]) -> str:
    lines = [_HEADER, *(_cells(finding) for finding in findings)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(_HEADER))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _cells(finding: Finding) -> tuple[str, ...]:
    row, figures = finding.row, finding.figures
    if figures is None:
        return row.name, row.what, "", "", row.against, "", _goal(row.goal, row.unit), finding.note
    return (
        row.name,
        row.what,
        f"{_short(figures.ours)} {row.unit}",
        f"{_short(figures.theirs)} {row.unit}",
        row.against,
        f"{figures.ratio:.2f}×",
        _goal(row.goal, row.unit),
        "ok" if figures.meet(row.goal) else "MISS",
    )


def _goal(goal: Goal, unit: str) -> str:
    return f"{'≤' if goal.is_ceiling else '≥'} {goal.limit:g}{'×' if goal.of == 'ratio' else f' {unit}'}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
