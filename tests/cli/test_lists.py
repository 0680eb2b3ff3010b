"""What commands list: aligned and coloured on a terminal, tabs in a pipe, JSON for programs, and a word when empty."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.storage.artifact_store import ArtifactStore
from tests.cli.conftest import Run
from tests.support.terminal import on_a_terminal


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("undo",), "there is nothing to undo\n"), (("artifacts", "list"), "no artifacts\n")],
)
def test_an_empty_list_says_so_and_a_pipe_gets_nothing(run: Run, arguments: tuple[str, ...], said: str) -> None:
    answer = run(*arguments)
    assert (answer.code, answer.out, answer.err) == (0, "", said)
    assert json.loads(run(*arguments, "--json").out) == []


def _keep_one(home: Path) -> str:
    store = ArtifactStore(home / ".local" / "state" / "mcp-agent" / "artifacts")
    reference = store.keep("owner", "test", [b"12345"], "text/plain").reference
    store.close()
    return reference


def test_every_list_is_to_be_had_as_json(run: Run, home: Path) -> None:
    reference = _keep_one(home)
    run("call", "fs_write", "path=x", "content=one")
    run("token", "create", "laptop", "--profile", "lean")

    def listed(*arguments: str) -> Any:
        answer = run(*arguments, "--json")
        assert answer.code == 0, answer.err
        return json.loads(answer.out)

    assert [each["ref"] for each in listed("artifacts", "list")] == [reference]
    assert [(each["action"], each["path"]) for each in listed("undo")] == [("create", str(home / "x"))]
    assert [each["profile"] for each in listed("token", "list")] == [None, "lean"]
    profiles = listed("profile", "list")
    assert (profiles["active"], profiles["profiles"][1]["id"]) == ("default", "lean")
    assert listed("profile", "show", "lean")["id"] == "lean"
    assert "fs_read" in [tool["name"] for tool in listed("tools")["tools"]]
    assert listed("mount", "list") == {}
    assert listed("wrap", "list") == []
    assert listed("check") == {"file": str(home / ".config/mcp-agent/tools.json"), "good": True, "problems": []}
    (home / "bad.json").write_text('{"activeProfile": "nobody"}')
    bad = run("check", "bad.json", "--json")
    assert (bad.code, json.loads(bad.out)["good"]) == (2, False)
    assert json.loads(bad.out)["problems"][0]["pointer"] == "/activeProfile"
    assert run("audit", "--json", "--tool", "fs_write").out.count("\n") == 1


def test_in_a_pipe_fields_are_separated_by_tabs(run: Run, home: Path) -> None:
    reference = _keep_one(home)
    fields = run("artifacts", "list").out.rstrip("\n").split("\t")
    assert (fields[0], fields[2:]) == (reference, ["5 bytes", "text/plain", "owner"])


def test_on_a_terminal_columns_are_aligned_and_descriptions_wrapped_at_words(home: Path) -> None:
    with on_a_terminal(home, "tools", COLUMNS="90") as terminal:
        assert terminal.wait() == 0
    lines = terminal.shown.splitlines()[1:]
    assert max(map(len, lines)) <= 90
    start = lines[0].index("Delete a file")
    first = [line for line in lines if not line.startswith(" ")]
    # The first column begins each row; what does not fit the last one goes on below it, with whole words.
    assert {line[start - 2 : start].strip() for line in first} == {""}
    assert {line[:start].strip() for line in lines if line.startswith(" ")} == {""}
    words = " ".join(" ".join(line[start:] for line in lines).split())
    assert "Run a command on the daemon's machine and return its output when it ends." in words
    assert "\x1b[36mfs_read\x1b[0m" in terminal.raw


@pytest.mark.parametrize("extra", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_whoever_wants_no_colours_gets_none(home: Path, extra: dict[str, str]) -> None:
    with on_a_terminal(home, "profile", "list", **extra) as terminal:
        assert terminal.wait() == 0
    assert "\x1b" not in terminal.raw


def test_a_call_that_takes_longer_than_a_second_says_so_on_a_terminal(home: Path) -> None:
    with on_a_terminal(home, "call", "shell_exec", "command=sleep 1.5; echo done") as terminal:
        assert terminal.wait() == 0
    assert "calling shell_exec … 1 s" in terminal.shown
    assert terminal.shown.endswith("done\n\n")
