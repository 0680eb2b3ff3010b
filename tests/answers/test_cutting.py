from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_agent.answers.compact import FULL_SCALE, MOST_DEPTH, Cutter, scaled
from mcp_agent.answers.pages import MOST_ITEMS, MOST_LINES, MOST_STRING

_TEXTS = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=40),
    st.builds(lambda line, count: f"{line}\n" * count, st.text('ab "\\', max_size=90), st.integers(0, 60)),
    st.builds(lambda letter, count: letter * count, st.sampled_from("xé漢"), st.integers(0, 3_000)),
)
_JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        _TEXTS,
    ),
    lambda below: st.one_of(st.lists(below, max_size=30), st.dictionaries(_TEXTS, below, max_size=8)),
    max_leaves=60,
)


def _cut(value: Any) -> tuple[Any, bool]:
    cutter = Cutter({"value": value})
    return cutter.cut(FULL_SCALE)["value"], cutter.is_cut


@given(value=_JSON, scale=st.integers(1, FULL_SCALE))
def test_any_value_is_cut_to_its_limits_and_always_alike(value: Any, scale: int) -> None:
    cutter = Cutter({"value": value})
    shown = cutter.cut(scale)
    assert _depth(shown) <= MOST_DEPTH
    assert _longest(shown, list) <= max(scaled(MOST_ITEMS, scale), MOST_LINES // 2)
    assert _longest(shown, str) <= MOST_STRING
    assert Cutter({"value": value}).cut(scale) == shown
    assert orjson.loads(orjson.dumps(shown)) == shown


@given(value=_JSON)
def test_what_is_not_cut_is_all_there(value: Any) -> None:
    shown, is_cut = _cut(value)
    if not is_cut:
        assert _restored(shown, value) == value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("short\ntext\n", "short\ntext\n"),
        ("x" * 500, "x" * 500),
        ("x" * 501, "x" * 497 + "..."),
        ([1] * 10, [1] * 10),
        (list(range(57)), {"items": list(range(10)), "totalCount": 57, "hasMore": True}),
        ({"a": {"b": {}}}, {"a": {"b": {}}}),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": '{"c":1}'}}),
        ({"a": {"b": {f"k{n}": n for n in range(12)}}}, {"a": {"b": "{12 keys: k0, k1, k2, k3, ...}"}}),
        ({"a": {"b": [[1]] * 57}}, {"a": {"b": "[57 items]"}}),
        ({"a": [1] * 57}, {"a": "[57 items]"}),
        ({f"k{n}": n for n in range(1_000)}, {**{f"k{n}": n for n in range(40)}, "...": "960 more keys"}),
    ],
)
def test_each_kind_is_cut_in_its_way(value: Any, shown: Any) -> None:
    cut, is_cut = _cut(value)
    assert cut == shown
    assert is_cut == (orjson.dumps(cut) != orjson.dumps(value) and '{"c":1}' not in str(cut))


_LINES = [f"line {number}" for number in range(4_812)]
_LONG = ["a" * 200, "b" * 300, "c"]


@pytest.mark.parametrize(
    ("lines", "head", "omitted", "tail"),
    [
        (_LINES, _LINES[:10], 4_792, _LINES[-10:]),
        *((_LINES[:count], _LINES[:10], count - 20, _LINES[count - 10 : count]) for count in (21, 25, 30)),
        (_LONG, _LONG, 0, []),
    ],
    ids=lambda value: "",
)
def test_a_log_is_told_by_its_ends_and_the_count_between(
    lines: list[str], head: list[str], omitted: int, tail: list[str]
) -> None:
    shown, is_cut = _cut("\n".join(lines) + "\n")
    more = {"hasMore": True} if omitted else {}
    assert shown == {"head": head, "omittedLines": omitted, "tail": tail, "totalCount": len(lines), **more}
    assert is_cut is bool(omitted)


def _depth(value: Any) -> int:
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max((_depth(each) for each in below), default=0)


def _longest(value: Any, kind: type[str] | type[list[Any]]) -> int:
    below = [*value, *value.values()] if isinstance(value, dict) else value if isinstance(value, list) else ()
    own = len(value) if isinstance(value, kind) else 0
    return max([own, *(_longest(each, kind) for each in below)])


def _restored(shown: Any, like: Any) -> Any:
    """What was shown, in the form of what it was made from: logs as texts, flat JSON as what it says."""
    if isinstance(like, str) and isinstance(shown, dict):
        text = "\n".join([*shown["head"], *shown["tail"]])
        return f"{text}\n" if like.endswith("\n") else text
    if isinstance(like, list | dict) and isinstance(shown, str):
        return orjson.loads(shown)
    if isinstance(like, list):
        return [_restored(each, below) for each, below in zip(shown, like, strict=True)]
    if isinstance(like, dict):
        return {key: _restored(shown[key], below) for key, below in like.items()}
    return shown
