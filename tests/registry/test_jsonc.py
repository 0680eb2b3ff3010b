"""One member of a file with comments is changed, and every other byte stays."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry import jsonc

_PATH = ("mcpServers", "devbox")
_ENTRY = {"type": "http", "url": "http://127.0.0.1:8765/mcp", "headers": {"Authorization": "Bearer x"}}


def _spaces(line_end: str) -> st.SearchStrategy[str]:
    """White space and comments, as people leave them between two tokens."""
    pieces = ["", " ", "\t", line_end, f"{line_end}    ", f" // it's a {{ comment, }}  {line_end}", "/* { */"]
    pieces.append(f"/* two{line_end} lines */")
    return st.sampled_from([first + second for first in pieces for second in pieces])


@st.composite
def _values(draw: st.DrawFn, line_end: str, depth: int = 0) -> str:
    if depth < 3 and draw(st.booleans()):
        return draw(_objects(line_end, depth))
    if depth < 3 and draw(st.integers(0, 4)) == 0:
        items = draw(st.lists(_values(line_end, depth + 1), max_size=3))
        return "[" + ",".join(draw(_spaces(line_end)) + each for each in items) + draw(_spaces(line_end)) + "]"
    return draw(st.sampled_from(["1", "-0.5e3", "null", "true", '"text // no comment"', '"\\u00e9\\""', '"é}"']))


@st.composite
def _objects(draw: st.DrawFn, line_end: str, depth: int = 0, keys: tuple[str, ...] = ("a", "b", "mcpServers")) -> str:
    members = []
    for key in draw(st.lists(st.sampled_from(keys), max_size=3, unique=True)):
        # On the way to the entry there are only objects; what else is there is refused.
        value = draw(_values(line_end, depth + 1))
        if key == "mcpServers":
            value = draw(_objects(line_end, depth + 1, ("x", "other")))
        space = [draw(_spaces(line_end)) for _ in range(4)]
        members.append(f"{space[0]}{json.dumps(key)}{space[1]}:{space[2]}{value}{space[3]}")
    has_tail = draw(st.booleans())
    tail = "," if members and has_tail else ""
    return "{" + ",".join(members) + tail + draw(_spaces(line_end)) + "}"


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    entries = st.fixed_dictionaries({"id": st.sampled_from(["x", "y"])}, optional={"a": inner})
    return st.lists(inner | entries, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "id"]), inner)


@st.composite
def _files(draw: st.DrawFn) -> str:
    line_end = draw(st.sampled_from(["\n", "\r\n"]))
    mark = draw(st.sampled_from(["", "\ufeff"]))
    return mark + draw(_spaces(line_end)) + draw(_objects(line_end)) + draw(_spaces(line_end))


def _kept(text: str) -> set[tuple[str, ...]]:
    return {_PATH[:1]} if jsonc.at(jsonc.read(text), _PATH[:1]) is not None else set()


@given(_files())
def test_what_is_added_and_removed_leaves_the_original(text: str) -> None:
    added = jsonc.set_member(text, _PATH, _ENTRY)
    document = jsonc.read(text)
    expected = {**document, "mcpServers": {**document.get("mcpServers", {}), "devbox": _ENTRY}}
    assert jsonc.read(added) == expected
    assert list(jsonc.read(added)) == list(expected)
    assert jsonc.remove_member(added, _PATH, _kept(text)) == text
    assert jsonc.set_member(added, _PATH, _ENTRY) == added


@given(_files())
def test_a_change_of_the_entry_changes_nothing_besides(text: str) -> None:
    added = jsonc.set_member(text, _PATH, _ENTRY)
    changed = jsonc.set_member(added, _PATH, {"command": "x"})
    assert jsonc.at(jsonc.read(changed), _PATH) == {"command": "x"}
    assert jsonc.remove_member(changed, _PATH, _kept(text)) == text
    # The text before and behind our entry is in both.
    start = added.index('"devbox"')
    assert changed.startswith(added[:start])


@given(_files(), st.sampled_from(["a", "b", "mcpServers"]))
def test_any_member_can_be_removed_and_the_rest_means_the_same(text: str, key: str) -> None:
    document: dict[str, Any] = jsonc.read(text)
    left = jsonc.read(jsonc.remove_member(text, (key,)))
    assert left == {name: value for name, value in document.items() if name != key}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_plain_json_is_read_as_json(value: Any) -> None:
    assert jsonc.read(json.dumps(value)) == value
    assert jsonc.read(json.dumps(value, indent=2, ensure_ascii=False)) == value


@given(_files(), st.recursive(st.booleans() | st.integers(0, 1), _containers), st.sampled_from(["a", "mcpServers"]))
def test_a_text_is_rewritten_to_mean_any_document(text: str, value: Any, key: str) -> None:
    document = {**jsonc.read(text), key: value}
    document.pop("b", None)
    assert json.dumps(jsonc.read(jsonc.rewrite(text, document)), sort_keys=True) == json.dumps(document, sort_keys=True)
    assert jsonc.rewrite(text, jsonc.read(text)) == text
    nested = jsonc.rewrite(text, {"a": document, "b": [document]})
    assert jsonc.read(jsonc.rewrite(nested, {"b": [value, document], "a": value})) == {
        "b": [value, document],
        "a": value,
    }


def test_elements_of_an_array_are_known_by_their_id() -> None:
    text = """{
  "tools": [ // all of them
    { "id": "a", "on": true }, // the first
    /* loud */ { "id": "b", "on": true },
    { "id": "c" } // the last
  ],
}
"""
    tools = [{"id": "a", "on": False}, {"id": "c", "note": 1}, {"id": "d"}]
    assert (
        jsonc.rewrite(text, {"tools": tools})
        == """{
  "tools": [ // all of them
    { "id": "a", "on": false }, // the first
    /* loud */
    { "id": "c", "note": 1 }, // the last
    {
      "id": "d"
    }
  ],
}
"""
    )
    assert jsonc.read(jsonc.rewrite(text, {"tools": tools[::-1]})) == {"tools": tools[::-1]}


@pytest.mark.parametrize("piece", ['"', '\\"', "/*", "//", ",", "[ ", '{"a":1,', " \n", "/"])
def test_any_text_is_read_or_refused_in_linear_time(piece: str) -> None:
    begun = time.process_time()
    for text in (piece * 100_000, f'"{piece * 100_000}', f"[{piece * 100_000}"):
        with pytest.raises(jsonc.NotJson):
            jsonc.read(text)
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{}\n", '{\n  "mcpServers": {\n    "devbox": {\n      "command": "x"\n    }\n  }\n}\n'),
        ('{"a": 1}', '{"a": 1, "mcpServers": {"devbox": {"command": "x"}}}'),
        (
            '{\n\t"mcpServers": {\n\t\t"one": {} // mine\n\t}\n}',
            '{\n\t"mcpServers": {\n\t\t"one": {}, // mine\n\t\t"devbox": {\n\t\t\t"command": "x"\n\t\t}\n\t}\n}',
        ),
        (
            '{\r\n    "a": 1,\r\n}\r\n',
            '{\r\n    "a": 1,\r\n    "mcpServers": {\r\n        "devbox": {\r\n            "command": "x"\r\n'
            "        }\r\n    },\r\n}\r\n",
        ),
        ("", '{\n  "mcpServers": {\n    "devbox": {\n      "command": "x"\n    }\n  }\n}\n'),
    ],
)
def test_a_new_entry_is_written_as_the_file_is(before: str, after: str) -> None:
    assert jsonc.set_member(before, _PATH, {"command": "x"}) == after


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1', "line 1, column 8: Expecting ',' delimiter"),
        ("{\n  'a': 1}", "line 2, column 3: Expecting property name enclosed in double quotes"),
        ('{"a": }', "line 1, column 7: Expecting value"),
        ('{"a" 1}', "line 1, column 6: Expecting ':' delimiter"),
        ("[1 2]", "line 1, column 4: Expecting ',' delimiter"),
        ("{} x", "line 1, column 4: Extra data"),
        ("{ /* never closed", "line 1, column 3: Expecting property name enclosed in double quotes"),
        ("[,]", "line 1, column 2: Expecting value"),
        ("[1,,]", "line 1, column 4: Expecting value"),
        ('{"a":,}', "line 1, column 6: Expecting value"),
        ('{"a": NaN}', "NaN is no JSON"),
        ('{"a": "\\', "line 1, column 7: Unterminated string starting at"),
        ("[" * 100_000, "it is nested too deeply"),
    ],
)
def test_what_cannot_be_read_is_refused_with_the_place(text: str, message: str) -> None:
    with pytest.raises(jsonc.NotJson) as problem:
        jsonc.set_member(text, _PATH, {})
    assert str(problem.value) == message


def test_a_list_where_the_servers_belong_is_left_alone() -> None:
    with pytest.raises(jsonc.WrongShape, match="mcpServers holds something other than an object"):
        jsonc.set_member('{"mcpServers": []}', _PATH, {})
