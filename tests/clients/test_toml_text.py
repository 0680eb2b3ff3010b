"""One table of a TOML file is changed, and every other byte stays."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_agent.cli.clients import toml_text

_PATH = ("mcp_servers", "devbox")
_ENTRY = {"url": "http://127.0.0.1:8765/mcp", "required": True, "env": {"A": 'b"'}}

_LINES = ["", "# a comment", "a{0} = 1 # one", 'b{0} = "x [y]"', "c{0} = [\n  1,\n  2,\n]", "  ", "d{0}.e = 'z'"]
_HEADERS = ["[t{0}]", "[[list{0}]]", "[mcp_servers.other{0}]", "[ mcp_servers . 'odd {0}' ]", '["q{0}".r]']


@st.composite
def _files(draw: st.DrawFn) -> str:
    line_end = draw(st.sampled_from(["\n", "\r\n"]))
    lines: list[str] = []
    for number in range(draw(st.integers(0, 4))):
        if number or draw(st.booleans()):
            lines.append(draw(st.sampled_from(_HEADERS)).format(number))
        lines += [draw(st.sampled_from(_LINES)).format(f"{number}_{each}") for each in range(draw(st.integers(0, 3)))]
    return line_end.join(lines).replace("\n", line_end).replace("\r\r", "\r") + draw(st.sampled_from(["", line_end]))


@given(_files())
def test_what_is_added_and_removed_leaves_the_original(text: str) -> None:
    added = toml_text.set_table(text, _PATH, _ENTRY)
    document = tomllib.loads(text)
    servers = {**document.get("mcp_servers", {}), "devbox": _ENTRY}
    assert tomllib.loads(added) == {**document, "mcp_servers": servers}
    # Byte for byte outside the entry, and it can be taken out again.
    assert added.startswith(text)
    assert toml_text.remove_table(added, _PATH) == text
    assert toml_text.set_table(added, _PATH, _ENTRY) == added
    changed = toml_text.set_table(added, _PATH, {"command": "x"})
    assert tomllib.loads(changed)["mcp_servers"]["devbox"] == {"command": "x"}
    assert toml_text.remove_table(changed, _PATH) == text


@pytest.mark.parametrize(
    "text",
    [
        "mcp_servers = {}\n",
        "mcp_servers = { other = { url = 'x' } } # mine\n",
        "mcp_servers.other.url = 'x'\nb = 1\n",
        "a = '''\n[mcp_servers.devbox]\nurl = 1\n'''\n",
        "[mcp_servers]\ndevbox = { url = 'old' } # ours\nother = { url = 'x' } # theirs\n",
    ],
)
def test_other_ways_to_write_a_table_are_understood(text: str) -> None:
    document = tomllib.loads(text)
    added = toml_text.set_table(text, _PATH, _ENTRY)
    assert tomllib.loads(added)["mcp_servers"]["devbox"] == _ENTRY
    left = tomllib.loads(toml_text.remove_table(added, _PATH))
    servers = {key: value for key, value in document.get("mcp_servers", {}).items() if key != "devbox"}
    assert left.get("mcp_servers", {}) == servers
    assert {key: value for key, value in left.items() if key != "mcp_servers"} == {
        key: value for key, value in document.items() if key != "mcp_servers"
    }
    assert [line for line in text.splitlines() if "#" in line and "ours" not in line and "mine" not in line] == [
        line for line in added.splitlines() if "# theirs" in line
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [("a = ", "Invalid value"), ("mcp_servers = 1\n", "mcp_servers holds something other than a table")],
)
def test_what_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(toml_text.NotToml, match=message):
        toml_text.set_table(text, _PATH, _ENTRY)
