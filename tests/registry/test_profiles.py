"""tools.json as people write it: what it means, and every way in which it can be wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.profiles import BadRegistry, Profiles, default_document
from registry.tools_json import load_document, read
from tests.support.small_catalog import ALL, CATALOG, parse, profile, switched

_KEYS = st.sampled_from(
    [
        "version",
        "activeProfile",
        "profiles",
        "id",
        "label",
        "enabled",
        "unlisted",
        "response",
        "form",
        "categories",
        "tools",
        "deny",
        "paths",
        "commands",
        "pattern",
        "reason",
        "match",
    ]
)
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["default", "filesystem", "fs_read", "\ud800", "(", "~x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS | st.text(max_size=3), inner, max_size=5),
    max_leaves=25,
)


def _read(*profiles: dict[str, Any], **keys: Any) -> Profiles:
    return read({"profiles": list(profiles), **keys}, CATALOG)


def _allowed(profiles: Profiles, profile_id: str = "default") -> tuple[str, ...]:
    return tuple(tool.name for tool in CATALOG.tools if profiles[profile_id].allows(tool))


def _problems(document: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(BadRegistry) as refused:
        read(document, CATALOG)
    return [(problem.pointer, problem.message) for problem in refused.value.problems]


def test_ten_lines_by_hand_are_enough() -> None:
    text = """\
    {
      "activeProfile": "mine",
      "profiles": [
        { "id": "mine", "categories": [
          { "id": "shell", "enabled": false },
          { "id": "filesystem", "tools": [{ "id": "fs_write", "enabled": false }] }
        ]}
      ]
    }
    """
    profiles = parse(text, CATALOG)
    assert profiles.active == "mine"
    assert _allowed(profiles, "mine") == ("fs_list", "fs_read", "prune_text", "browser_click")
    assert (profiles["mine"].label, profiles["mine"].form, profiles.warnings) == ("mine", "auto", ())


def test_an_empty_object_is_every_tool_on() -> None:
    profiles = parse("{}", CATALOG)
    assert profiles.active == "default"
    assert _allowed(profiles) == ALL


@pytest.mark.parametrize(
    ("profile_id", "allowed"),
    [
        ("default", ALL),
        ("lean", ("fs_list", "fs_read", "fs_write", "shell_exec", "browser_click")),
        ("read-only", ("fs_list", "fs_read", "prune_text")),
        ("browser-only", ("browser_click",)),
        ("pruner", ("prune_text",)),
        ("compact", ALL),
    ],
)
def test_a_shipped_profile_is_there_without_a_file(profile_id: str, allowed: tuple[str, ...]) -> None:
    assert _allowed(parse("{}", CATALOG), profile_id) == allowed


def test_a_profile_of_the_file_takes_the_place_of_a_shipped_one_of_its_id() -> None:
    profiles = _read(profile("read-only", switched("shell", shell_exec=True), unlisted="disabled"))
    assert _allowed(profiles, "read-only") == ("shell_exec",)
    assert profiles["read-only"].is_shipped is False
    assert _allowed(profiles, "lean") == ("fs_list", "fs_read", "fs_write", "shell_exec", "browser_click")


@pytest.mark.parametrize(
    ("unlisted", "allowed"),
    [(None, ("fs_list", "fs_read", "shell_exec", "prune_text", "browser_click")), ("disabled", ("fs_read",))],
)
def test_what_is_not_named_follows_unlisted(unlisted: str | None, allowed: tuple[str, ...]) -> None:
    profiles = _read(profile("default", switched(fs_read=True, fs_write=False), unlisted=unlisted))
    assert _allowed(profiles) == allowed


def test_a_category_that_is_off_keeps_its_tools_off_whatever_they_say() -> None:
    profiles = _read(profile("default", switched(enabled=False, fs_read=True)))
    assert _allowed(profiles) == ("shell_exec", "prune_text", "browser_click")


def test_a_profile_that_is_off_allows_nothing() -> None:
    assert _allowed(_read(profile("default", switched(fs_read=True), enabled=False))) == ()


def test_the_file_that_is_written_where_there_is_none_allows_everything() -> None:
    document = default_document(CATALOG)
    assert _allowed(read(document, CATALOG)) == ALL
    (written,) = document["profiles"]
    assert {tool["id"]: tool["enabled"] for category in written["categories"] for tool in category["tools"]} == (
        dict.fromkeys(ALL, True)
    )
    assert written["categories"][0]["tools"][0] == {
        "id": "fs_list",
        "name": "fs_list",
        "description": "What fs_list does.",
        "category": "filesystem",
        "enabled": True,
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    }


def test_a_schema_in_the_file_is_for_people_and_changes_nothing() -> None:
    document = default_document(CATALOG)
    document["profiles"][0]["categories"][0]["tools"][0].update(inputSchema=5, description=[], name=None)
    assert _allowed(read(document, CATALOG)) == ALL


def test_every_problem_is_told_with_its_pointer() -> None:
    assert _problems(
        {
            "version": 2,
            "activeProfile": "defualt",
            "profiles": [
                {"id": "default", "enabled": "yes", "unlisted": "disbled", "label": 5, "response": {"form": "html"}},
                {
                    "id": "mine",
                    "categories": [
                        {"id": "filesytem"},
                        {"id": "filesystem", "tools": [{"id": "fs_raed"}, {"id": "shell_exec"}, {"enabled": True}, 7]},
                        {"id": "filesystem"},
                        {"id": "shell", "enabled": None, "tools": {}},
                        "browser",
                    ],
                },
                {"id": "mine", "response": []},
                {"id": ""},
                {},
            ],
        }
    ) == [
        ("/version", "must be 1, not 2"),
        ("/profiles/0/label", "must be a string, not 5"),
        ("/profiles/0/enabled", 'must be true or false, not "yes"'),
        ("/profiles/0/unlisted", 'must be one of enabled, disabled, not "disbled" (did you mean disabled?)'),
        ("/profiles/0/response/form", 'must be one of auto, json, text, not "html"'),
        ("/profiles/1/categories/1/tools/2/id", "a tool needs an id"),
        ("/profiles/1/categories/1/tools/3", "a tool must be an object, not 7"),
        ("/profiles/1/categories/2/id", "a category with the id 'filesystem' stands above already"),
        ("/profiles/1/categories/3/enabled", "must be true or false, not null"),
        ("/profiles/1/categories/3/tools", "must be an array, not {}"),
        ("/profiles/1/categories/4", 'a category must be an object, not "browser"'),
        ("/profiles/2/response", "response must be an object, not []"),
        ("/profiles/2/id", "a profile with the id 'mine' stands above already"),
        ("/profiles/3/id", 'must be a string that is not empty, not ""'),
        ("/profiles/4/id", "a profile needs an id"),
        ("/profiles/1/categories/0/id", "no category named filesytem (did you mean filesystem?)"),
        ("/profiles/1/categories/1/tools/0/id", "no tool named fs_raed (did you mean fs_read?)"),
        ("/profiles/1/categories/1/tools/1/id", "shell_exec is a tool of shell, not of filesystem"),
        ("/activeProfile", "there is no profile 'defualt' (did you mean default?)"),
    ]


def test_a_tool_that_stands_twice_is_a_problem() -> None:
    twice = {"id": "filesystem", "tools": [{"id": "fs_read"}, {"id": "fs_read", "enabled": False}]}
    assert _problems({"profiles": [profile("default", twice)]}) == [
        ("/profiles/0/categories/0/tools/1/id", "a tool with the id 'fs_read' stands above already")
    ]


@pytest.mark.parametrize("version", [0, 2, "1", True, None, [1]])
def test_another_version_is_a_problem(version: Any) -> None:
    assert _problems({"version": version}) == [("/version", f"must be 1, not {json.dumps(version)}")]


@pytest.mark.parametrize("active", [5, None, True, ["default"]])
def test_an_active_profile_is_named_by_a_text(active: Any) -> None:
    expected = f"must be a string, not {json.dumps(active)}"
    assert _problems({"activeProfile": active}) == [("/activeProfile", expected)]


@pytest.mark.parametrize("name", ["teleport", "fs_read_range"])
def test_a_tool_that_nothing_is_like_is_a_warning_and_survived(name: str) -> None:
    profiles = _read(profile("default", {"id": "filesystem", "tools": [{"id": name, "enabled": False}]}))
    assert [str(warning) for warning in profiles.warnings] == [
        f"/profiles/0/categories/0/tools/0/id: no tool named {name}; the switch has no effect"
    ]
    assert _allowed(profiles) == ALL


def test_a_category_that_is_not_there_yet_is_kept() -> None:
    assert _read(profile("default", switched("gui", gui_click=False))).warnings == ()


@pytest.mark.parametrize("form", ["auto", "json", "text", None])
def test_a_profile_says_how_results_are_written(form: Any) -> None:
    assert _read(profile("default", response={"form": form}))["default"].form == (form or "auto")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no JSON: Expecting value at line 1, column 1"),
        ('{"profiles": [', "no JSON: Expecting value at line 1, column 15"),
        ("{\n  'a': 1}", "no JSON: Expecting property name enclosed in double quotes at line 2, column 3"),
        ("[]", "the file must hold one JSON object"),
        ("null", "the file must hold one JSON object"),
        ('{"a": 1, "b": {"x": 1, "x": 2}}', "the key 'x' stands twice in one object"),
        ('{"a": "\\ud800"}', "no JSON: half a surrogate pair in a text, or a number that is not finite"),
        ('{"a": NaN}', "no JSON: half a surrogate pair in a text, or a number that is not finite"),
        ('{"a": 1e999}', "no JSON: half a surrogate pair in a text, or a number that is not finite"),
        ('{"a": ' + "[" * 64 + "]" * 64 + "}", "it is nested more than 64 levels deep"),
        ('{"a": ' + "[" * 990 + "]" * 990 + "}", "it is nested more than 64 levels deep"),
        ("[" * 100_000, "it is nested more than 64 levels deep"),
    ],
)
def test_a_text_that_is_no_registry_is_told_why(text: str, message: str) -> None:
    with pytest.raises(BadRegistry) as refused:
        load_document(text.encode())
    assert [str(problem) for problem in refused.value.problems] == [f"/: {message}"]


def test_profiles_that_are_no_list_are_one_problem() -> None:
    # It was told three times: once by each pass over the file.
    assert _problems({"profiles": 5}) == [("/profiles", "must be an array, not 5")]


def test_a_number_of_five_thousand_digits_is_refused() -> None:
    with pytest.raises(BadRegistry, match="no JSON: Exceeds the limit"):
        load_document(b'{"a": ' + b"9" * 5_000 + b"}")


@given(st.dictionaries(_KEYS, _VALUES) | _VALUES)
def test_any_document_is_read_or_refused(document: Any) -> None:
    try:
        profiles = parse(json.dumps(document), CATALOG)
    except BadRegistry as refused:
        json.dumps([problem.as_object() for problem in refused.problems], ensure_ascii=False).encode()
    else:
        assert profiles.active in profiles.by_id


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text, CATALOG)
    except BadRegistry as refused:
        problems = refused.problems
        assert all(str(problem).startswith("/") for problem in problems)
