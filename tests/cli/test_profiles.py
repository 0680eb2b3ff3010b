"""`mcp-agent profile create|copy|edit|remove`, with a daemon and without."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support.daemon import Daemon, command


def _ids(run: Run) -> list[str]:
    return [each["id"] for each in json.loads(run("profile", "list", "--json").out)["profiles"]]


def test_a_profile_is_made_copied_and_deleted(run: Run, tools_json: Path) -> None:
    made = run("profile", "create", "reviewer", "--empty", "--description", "looks, and touches nothing")
    assert made.out.startswith("reviewer is a new profile; nothing is on in it.")
    assert f"changed: {tools_json}" in made.out
    assert run("tools", "--profile", "reviewer").out.startswith("profile reviewer: 0 tools")
    assert run("enable", "fs_read", "fs_list", "--profile", "reviewer").out.startswith("fs_read, fs_list are on")
    assert run("tools", "--profile", "reviewer").out.startswith("profile reviewer: 2 tools")
    assert run("profile", "copy", "reviewer", "second").code == 0
    assert run("tools", "--profile", "second").out.startswith("profile second: 2 tools")
    assert "second\tlooks, and touches nothing" in run("profile", "list").out
    assert run("profile", "remove", "reviewer").code == 0
    assert [name for name in _ids(run) if name in ("reviewer", "second")] == ["second"]


def test_a_built_in_profile_can_be_changed_and_brought_back(run: Run) -> None:
    before = run("tools", "--profile", "lean").out
    run("disable", "fs_read", "--profile", "lean")
    assert run("tools", "--profile", "lean").out != before
    assert run("profile", "remove", "lean").code == 0
    assert run("tools", "--profile", "lean").out == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("create", "lean"), "there is a profile lean already"),
        (("create", "a b"), "'a b' cannot name a profile"),
        (("copy", "nobody", "new"), "there is no profile 'nobody'"),
        (("remove", "nobody"), "there is no profile 'nobody'"),
        (("remove", "lean"), "lean is built in, and tools.json does not change it"),
        (("remove", "mine"), "mine is the active profile; make another one active first"),
        (("remove", "held"), "the profile held is that of the token laptop; revoke the token first"),
        (("edit", "nobody"), "there is no profile 'nobody'"),
        (("edit", "mine", "--file", "nowhere"), "nowhere cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said(run: Run, tools_json: Path, arguments: tuple[str, ...], message: str) -> None:
    run("profile", "create", "mine")
    run("profile", "use", "mine")
    run("profile", "create", "held")
    run("token", "create", "laptop", "--profile", "held")
    before = tools_json.read_bytes()
    answer = run("profile", *arguments)
    assert answer.code == (1 if "held" in arguments else 2)
    assert answer.err.startswith(f"mcp-agent: {message}")
    assert tools_json.read_bytes() == before


def test_a_profile_is_edited_in_the_editor(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("profile", "create", "mine", "--description", "first")
    monkeypatch.setenv("EDITOR", "sed -i s/first/second/")
    answer = run("profile", "edit", "mine")
    assert (answer.code, answer.err) == (0, "")
    assert "mine\tsecond" in run("profile", "list").out
    assert run("profile", "edit", "mine").out == "nothing has changed\n"


def test_what_cannot_be_used_is_kept_for_another_try(
    run: Run, tools_json: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(home))
    monkeypatch.setattr("tempfile.tempdir", None)
    run("profile", "copy", "lean", "mine")
    before = tools_json.read_bytes()
    monkeypatch.setenv("VISUAL", "sed -i s/fs_list/fs_lisst/")
    answer = run("profile", "edit", "mine")
    assert answer.code == 2
    assert "nothing was changed: " in answer.err
    assert "no tool named fs_lisst (did you mean fs_list?)" in answer.err
    (kept,) = home.glob("mcp-agent-mine-*.json")
    assert f"your text is in {kept}: correct it and pass it with --file" in answer.err
    assert tools_json.read_bytes() == before
    kept.write_text(kept.read_text().replace("fs_lisst", "fs_list").replace('"enabled": true', '"enabled": false'))
    assert run("profile", "edit", "mine", "--file", str(kept)).code == 0
    assert run("tools", "--profile", "mine").out.startswith("profile mine: 0 tools")


def test_the_running_daemon_makes_the_change(daemon: Daemon) -> None:
    made = daemon.cli("profile", "copy", "lean", "mine")
    assert f"in force at {daemon.url}" in made.stdout
    assert "mine" in [each["id"] for each in json.loads(daemon.cli("profile", "list", "--json").stdout)["profiles"]]
    refused = daemon.cli("profile", "create", "mine")
    assert refused.stderr == "mcp-agent: there is a profile mine already\n"
    assert daemon.cli("profile", "remove", "mine").returncode == 0
    assert command(daemon.home, "check", str(daemon.tools_json)).returncode == 0
