from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_agent.compact.whole import Whole


@pytest.mark.parametrize("count", [0, 1, 2, 50, 51, 999, 1_000, 1_001, 5_432, 70_001])
@pytest.mark.parametrize("others", [{}, {"path": "/srv", "truncated": True}])
def test_an_object_is_kept_as_it_is_and_can_be_searched_by_lines(count: int, others: dict[str, Any]) -> None:
    value = {**others, "rows": [{"id": number, "text": '},{"id":'} for number in range(count)]}
    whole = Whole.of_object(value, "rows")
    written = b"".join(whole.parts())
    assert json.loads(written) == value
    assert whole.size == len(written)
    assert written.count(b"\n") <= 1_002
    if 0 < count < 1_000:
        assert len(written.splitlines()) == count + 2


def test_a_text_is_kept_as_it_is_whatever_is_in_it() -> None:
    text = "é漢😀\n" * 200_000 + "\ud800"
    whole = Whole.of_text(text)
    written = b"".join(whole.parts())
    assert written == text.encode("utf-8", "replace")
    assert whole.size == len(written)


def test_the_size_is_known_before_it_is_written_too() -> None:
    assert Whole.of_object({"rows": [1, 2]}, None).size == len(b'{"rows":[1,2]}')
