"""What a tool's signature becomes, and what callers are told whose arguments do not fit it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from tools.kit.errors import InvalidParams
from tools.kit.params import Field, Parameters


class _Edit(Struct, frozen=True):
    old: Annotated[str, Field(description="What to replace.", min_length=1)]
    new: str
    count: Annotated[int, Field(minimum=1)] = 1


def _everything(
    ctx: object,
    *,
    text: Annotated[str, Field(description="Some text.", min_length=2, max_length=5)],
    whole: Annotated[int, Field(minimum=1, maximum=10)] = 3,
    part: Annotated[float, Field(minimum=0)] = 0.5,
    on: bool = False,
    mode: Literal["fast", "slow"] = "fast",
    names: Annotated[list[str] | None, Field(min_length=1, max_length=3)] = None,
    env: dict[str, str] | None = None,
    edits: list[_Edit] | None = None,
) -> None: ...


_EVERYTHING = Parameters.of_function(_everything)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


def test_a_signature_is_told_as_json_schema() -> None:
    assert _EVERYTHING.schema() == {
        "type": "object",
        "properties": {
            "text": {"type": "string", "description": "Some text.", "minLength": 2, "maxLength": 5},
            "whole": {"type": "integer", "default": 3, "minimum": 1, "maximum": 10},
            "part": {"type": "number", "default": 0.5, "minimum": 0},
            "on": {"type": "boolean", "default": False},
            "mode": {"type": "string", "enum": ["fast", "slow"], "default": "fast"},
            "names": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
            "env": {"type": "object", "additionalProperties": {"type": "string"}},
            "edits": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "old": {"type": "string", "description": "What to replace.", "minLength": 1},
                        "new": {"type": "string"},
                        "count": {"type": "integer", "default": 1, "minimum": 1},
                    },
                    "required": ["old", "new"],
                    "additionalProperties": False,
                },
            },
        },
        "required": ["text"],
        "additionalProperties": False,
    }


def test_arguments_that_fit_are_converted_and_the_rest_take_their_defaults() -> None:
    assert _EVERYTHING.parse({"text": "abc", "edits": [{"old": "a", "new": "b"}], "part": 2}) == {
        "text": "abc",
        "whole": 3,
        "part": 2.0,
        "on": False,
        "mode": "fast",
        "names": None,
        "env": None,
        "edits": [_Edit("a", "b", 1)],
    }


def test_a_tool_without_arguments_says_so() -> None:
    def nothing(ctx: object) -> None: ...

    with pytest.raises(InvalidParams, match=r"there is no argument 'x' \(it takes no arguments\)"):
        Parameters.of_function(nothing).parse({"x": 1})


def test_every_problem_is_told_at_once_sorted_by_path_and_code() -> None:
    arguments = {
        "whole": 11,
        "part": -1,
        "on": "yes",
        "mode": "fsat",
        "names": ["ok", 5],
        "env": {"B": 1, "A": None},
        "edits": [{"old": "", "new": "x", "nwe": 1}, 7],
        "txt": "abc",
    }
    with pytest.raises(InvalidParams) as refused:
        _EVERYTHING.parse(arguments)
    assert [(issue["path"], issue["code"]) for issue in refused.value.issues] == [
        ("arguments", "unrecognized_keys"),
        ("arguments.edits.0", "unrecognized_keys"),
        ("arguments.edits.0.old", "too_small"),
        ("arguments.edits.1", "invalid_type"),
        ("arguments.env.A", "invalid_type"),
        ("arguments.env.B", "invalid_type"),
        ("arguments.mode", "invalid_enum_value"),
        ("arguments.names.1", "invalid_type"),
        ("arguments.on", "invalid_type"),
        ("arguments.part", "too_small"),
        ("arguments.text", "invalid_type"),
        ("arguments.whole", "too_big"),
    ]
    assert all(issue["message"] == issue["code"] for issue in refused.value.issues)
    assert refused.value.message == "; ".join(
        (
            "there is no argument 'txt' (did you mean text?)",
            "there is no argument 'nwe' (did you mean new?)",
            "edits.0.old must not be empty",
            "edits.1 must be an object, not 7",
            "env.A must be a string, not null",
            "env.B must be a string, not 1",
            "mode is 'fsat' and must be one of fast, slow",
            "names.1 must be a string, not 5",
            "on must be a boolean, not a string",
            "part is -1.0 and must be at least 0",
            "text is missing: Some text.",
            "whole is 11 and may be at most 10",
        )
    )


@pytest.mark.parametrize(
    ("arguments", "path", "code"),
    [
        ({"text": "a"}, "arguments.text", "too_small"),
        ({"text": "abcdef"}, "arguments.text", "too_big"),
        ({"text": 5}, "arguments.text", "invalid_type"),
        ({"text": None}, "arguments.text", "invalid_type"),
        ({"text": "abc", "whole": 0}, "arguments.whole", "too_small"),
        ({"text": "abc", "whole": 1.5}, "arguments.whole", "invalid_type"),
        ({"text": "abc", "whole": "3"}, "arguments.whole", "invalid_type"),
        ({"text": "abc", "whole": True}, "arguments.whole", "invalid_type"),
        ({"text": "abc", "part": True}, "arguments.part", "invalid_type"),
        ({"text": "abc", "part": "0.5"}, "arguments.part", "invalid_type"),
        ({"text": "abc", "on": 1}, "arguments.on", "invalid_type"),
        ({"text": "abc", "mode": 1}, "arguments.mode", "invalid_type"),
        ({"text": "abc", "names": "abc"}, "arguments.names", "invalid_type"),
        ({"text": "abc", "names": [None]}, "arguments.names.0", "invalid_type"),
        ({"text": "abc", "names": []}, "arguments.names", "too_small"),
        ({"text": "abc", "names": ["1", "2", "3", "4"]}, "arguments.names", "too_big"),
        ({"text": "abc", "env": []}, "arguments.env", "invalid_type"),
        ({"text": "abc", "edits": {}}, "arguments.edits", "invalid_type"),
        ({"text": "abc", "edits": [{"old": "a"}]}, "arguments.edits.0.new", "invalid_type"),
    ],
)
def test_each_problem_has_the_code_name_of_zod(arguments: dict[str, Any], path: str, code: str) -> None:
    with pytest.raises(InvalidParams) as refused:
        _EVERYTHING.parse(arguments)
    assert refused.value.issues == [{"path": path, "code": code, "message": code}]


def test_a_whole_number_may_be_written_as_a_float() -> None:
    whole = _EVERYTHING.parse({"text": "abc", "whole": 4.0})["whole"]
    assert (whole, type(whole)) == (4, int)


def test_null_for_an_optional_argument_means_absent() -> None:
    nulls = {name: None for name in _EVERYTHING.names if name != "text"}
    assert _EVERYTHING.parse({"text": "abc", **nulls}) == _EVERYTHING.parse({"text": "abc"})
    edits = _EVERYTHING.parse({"text": "abc", "edits": [{"old": "a", "new": "b", "count": None}]})["edits"]
    assert edits == [_Edit("a", "b", 1)]


def test_an_argument_of_several_types_cannot_be_declared() -> None:
    def wrong(ctx: object, *, value: int | str) -> None: ...

    with pytest.raises(TypeError, match="not one of several types"):
        Parameters.of_function(wrong)


@given(
    st.dictionaries(st.sampled_from([*_EVERYTHING.names, "txt"]) | st.text(max_size=5), _JSON)
    | st.fixed_dictionaries({}, optional=dict.fromkeys(_EVERYTHING.names, _JSON))
)
def test_any_object_either_fits_or_is_refused_with_reasons(arguments: dict[str, Any]) -> None:
    issues: list[dict[str, str]] = []
    parsed = dict.fromkeys(_EVERYTHING.names)
    try:
        parsed = _EVERYTHING.parse(arguments)
    except InvalidParams as refused:
        issues = refused.issues
    assert list(parsed) == list(_EVERYTHING.names)
    assert issues == sorted(issues, key=lambda issue: (issue["path"], issue["code"]))


@pytest.mark.parametrize(
    "number", [10**400, 10**5000, float("inf"), float("nan")], ids=["400 digits", "5000 digits", "inf", "nan"]
)
def test_a_number_beyond_all_measure_is_refused_like_any_other(number: float) -> None:
    for name in ("whole", "part", "text", "on", "names"):
        with pytest.raises(InvalidParams):
            _EVERYTHING.parse({"text": "abc", name: number})
