from __future__ import annotations

import pytest

from registry.catalog import discover
from tests.repository.response_costs import PAGE, measured, written


def test_the_table_of_costs_is_current() -> None:
    """Paths, times and ids differ from run to run by a few tokens. `make docs` writes the table anew."""
    shown, now = written(PAGE.read_text("utf-8")), measured()
    assert [each[:2] for each in shown] == [each[:2] for each in now]
    assert sorted(each.tool for each in shown) == sorted(discover().names)
    for told, found in zip(shown, now, strict=True):
        assert found[2:] == pytest.approx(told[2:], rel=0.1, abs=12), told.tool
