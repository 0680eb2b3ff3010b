"""What a benchmark is: one row of the table, measured in rounds that take turns between us and the other side.

A machine that is busy with other things slows both sides of a round alike, so it is the ratio that counts: the
median of the rounds' ratios. The figures beside it are medians too.

A family of rows is a module with a function `rows() -> list[Row]`, named in `__main__.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

# Takes one measurement, in the row's unit.
Meter = Callable[[], float]


class PeerMissing(Exception):
    """The program to compare with is not here and cannot be installed; the message says why."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What a figure must hold to: `of` says which one, the ratio or ours alone."""

    limit: float
    is_ceiling: bool = True
    of: Literal["ratio", "ours"] = "ratio"

    def holds(self, value: float) -> bool:
        return value <= self.limit if self.is_ceiling else value >= self.limit


@dataclass(frozen=True, slots=True)
class Bench:
    """What a row may use while it is measured: an empty folder, and how much patience there is."""

    folder: Path
    is_quick: bool = False

    @property
    def round_s(self) -> float:
        """How long a round goes on where it makes as many calls as it can."""
        return 0.25 if self.is_quick else 0.5


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `contest` starts both sides and gives a meter for each; on leaving it ends them."""

    name: str
    what: str
    against: str
    unit: str
    goal: Goal
    contest: Callable[[Bench], AbstractContextManager[tuple[Meter, Meter]]]
    rounds: int = 15


@dataclass(frozen=True, slots=True)
class Figures:
    """What came out: medians of all rounds."""

    ours: float
    theirs: float
    ratio: float

    def meet(self, goal: Goal) -> bool:
        return goal.holds(self.ratio if goal.of == "ratio" else self.ours)


def measured(row: Row, bench: Bench) -> Figures:
    """Run a row's rounds, after one that warms both sides up and does not count. Raises PeerMissing."""
    rounds = 1 if bench.is_quick else row.rounds
    pairs: list[tuple[float, float]] = []
    with row.contest(bench) as (ours, theirs):
        ours()
        theirs()
        for index in range(rounds):
            # Who goes first alternates, so that neither always follows on what the other left behind.
            if index % 2 == 0:
                own, other = ours(), theirs()
            else:
                other, own = theirs(), ours()
            pairs.append((own, other))
    return Figures(
        median(own for own, _ in pairs),
        median(other for _, other in pairs),
        median(own / other for own, other in pairs),
    )
