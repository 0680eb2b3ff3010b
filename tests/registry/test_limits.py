"""A tools.json of any size is read in linear time, or refused with the limit that it exceeds."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from registry.profiles import BadRegistry
from registry.tools_json import load_document, read
from tests.support.small_catalog import CATALOG, profile

_MANY = {f"key-{number}": 1 for number in range(20_000)}


def _rule(number: int, patterns: int = 1) -> dict[str, Any]:
    return {"id": f"r{number}", "reason": "x", "pattern": [f"a{number}/b{each}*" for each in range(patterns)]}


def _deny(rules: int, patterns: int = 1) -> dict[str, Any]:
    return {"paths": [_rule(number, patterns) for number in range(rules)]}


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        (_MANY, "an object in it has 20,000 keys, and may have 1,000"),
        ({"profiles": [{"id": "x", **_MANY}]}, "an object in it has 20,001 keys, and may have 1,000"),
        ({"profiles": [profile("x", deny=_MANY)]}, "an object in it has 20,000 keys, and may have 1,000"),
        (
            {"profiles": [{"id": f"p{n}"} for n in range(5_000)]},
            "an array in it has 5,000 elements, and may have 1,000",
        ),
        ({"x": [[1] * 999] * 200}, "it has more than 100,000 keys and array elements"),
        ({"profiles": [profile("x", deny=_deny(3_000))]}, "an array in it has 3,000 elements, and may have 1,000"),
        ({"profiles": [profile("x", deny=_deny(501))]}, "it has 501 deny rules, and may have 500"),
        (
            {"profiles": [profile("x", deny=_deny(2, 501))]},
            "it has 1,002 patterns in deny rules, and may have 1,000",
        ),
        (
            {"profiles": [profile("x", deny={"paths": [{"id": "a", "reason": "x", "pattern": "x" * 2_001}]})]},
            "a pattern has 2,001 characters, and may have 2,000",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_too_much_is_refused_at_once_and_the_limit_is_told(document: dict[str, Any], problem: str) -> None:
    text = json.dumps(document)
    begun = time.process_time()
    with pytest.raises(BadRegistry) as refused:
        read(load_document(text.encode()), CATALOG)
    # It took four to eight seconds. Processor time, because the machine may have other things to do.
    assert time.process_time() - begun < 0.5
    assert [each.message for each in refused.value.problems] == [problem]


def test_a_thousand_problems_are_cut_short() -> None:
    with pytest.raises(BadRegistry) as refused:
        read({"profiles": list(range(1_000))}, CATALOG)
    assert len(refused.value.problems) == 101
    assert refused.value.problems[-1].message == "there are more problems"


def test_examples_that_take_too_long_together_are_a_problem() -> None:
    slow = {"id": "slow", "reason": "x", "pattern": "(a|aa)+$", "not_match": [f"{'a' * 60}{n}" for n in range(100)]}
    begun = time.monotonic()
    with pytest.raises(BadRegistry) as refused:
        read({"profiles": [profile("x", deny={"commands": [slow]})]}, CATALOG)
    assert time.monotonic() - begun < 10
    assert refused.value.problems[-1].message == "the examples of this profile take longer than 2 s together"


def test_what_is_within_the_limits_is_read_in_linear_time() -> None:
    read({"profiles": [profile("x", deny=_deny(2))]}, CATALOG)
    begun = time.process_time()
    profiles = read(
        {"profiles": [profile("x", deny=_deny(500, 2)), {"id": "y", **dict(list(_MANY.items())[:900])}]}, CATALOG
    )
    assert time.process_time() - begun < 3
    assert profiles["x"].deny.paths is not None
    assert profiles["x"].deny.paths.match("/home/a499/b1x") is not None
    assert profiles["x"].deny.paths.match("/home/a500/b1x") is None
