"""What is claimed of recorded calls holds for a small made-up set."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.replay.__main__ import table
from tests.replay.records import Records
from tests.replay.replays import REPLAYS

_SMALL = Path(__file__).parent / "small"


@pytest.fixture(scope="module")
def figures() -> dict[str, list[str]]:
    """The rows of the table by their names; those below a row have its name before theirs."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in table(Records(_SMALL), list(REPLAYS), _SMALL / "tree", is_alone=True)[2:]:
        name, *figures = (cell.strip() for cell in line.strip("| ").split(" | "))
        heading = heading if name.startswith("…") else name
        found[heading if name == heading else f"{heading} {name}"] = figures
    return found


def test_every_habit_is_taken(figures: dict[str, list[str]]) -> None:
    habits = {name: figure for name, figure in figures.items() if "as its client writes it" in name}
    assert len(habits) == 11
    assert {figure[0][:7] for figure in habits.values()} == {"100.0 %"}


def test_edits_are_made_as_recorded(figures: dict[str, list[str]]) -> None:
    assert figures["edits made as recorded"] == ["100.0 % of 3"]
    assert figures["edits refused there, text not found: put right … made wrong"] == ["0"]


def test_searches_find_the_same_for_fewer_tokens(figures: dict[str, list[str]]) -> None:
    for mode in ("content", "files_with_matches", "count"):
        row = f"searches, {mode}: same answer"
        assert figures[row][0].startswith("100.0 %")
        assert float(figures[f"{row} … tokens for one of theirs"][0]) <= 1.1


def test_a_file_costs_hardly_more_than_its_text(figures: dict[str, list[str]]) -> None:
    assert float(figures["whole reads: tokens for one of the file"][0]) <= 1.05


def test_what_was_shown_is_not_paid_for_again(figures: dict[str, list[str]]) -> None:
    for kind, least in (("reads", 25), ("commands", 30)):
        assert float(figures[f"{kind} seen before: tokens saved"][0].split()[0]) >= least


def test_a_wait_takes_one_call(figures: dict[str, list[str]]) -> None:
    row = "polls of running commands by their clients"
    assert [figures[row], figures[f"{row} … here, as long as Claude Code bears it"]] == [["2"], ["1"]]
