"""What only shows something changes nothing: `--help`, `--dry-run`, `--list`, and `undo` without an id or a count.

`--json` changes the form of the output and not what is done.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_agent.cli.declaration import Command
from mcp_agent.cli.main import every_command
from tests.cli.conftest import Run


@pytest.fixture
def used(run: Run, home: Path) -> Run:
    """A command line of somebody who has changed a file, made a token and connected a client."""
    (home / ".gemini").mkdir()
    for text in ("one", "two"):
        assert run("call", "fs_write", "path=file", f"content={text}").code == 0
    assert run("token", "create", "laptop").code == 0
    assert run("connect", "gemini-cli", "--url", "http://127.0.0.1:1", "--token-file", "token").code in (0, 1, 2)
    assert run("artifacts", "list").code == 0
    return run


def _contents(home: Path) -> dict[str, bytes]:
    """Every file of the home folder; what SQLite keeps beside a database while it is open is not one."""
    files = [path for path in home.rglob("*") if path.is_file() and not path.name.endswith(("-wal", "-shm"))]
    return {str(path.relative_to(home)): path.read_bytes() for path in files}


@pytest.mark.parametrize("command", [pytest.param(each, id=each.prog) for each in every_command()])
def test_help_changes_nothing(run: Run, home: Path, command: Command) -> None:
    assert run(*command.words, "--help").code == 0
    assert _contents(home) == {}


# With `--print`, `connect` makes the token that it prints; `open` asks a daemon.
_FLAGS = {"--dry-run", "--list"}
_SHOWN = [
    ("undo",),
    ("undo", "--list"),
    ("undo", "--json"),
    ("undo", "--list", "--json", "--force"),
    ("connect", "--dry-run"),
    ("connect", "gemini-cli", "--dry-run", "--json"),
    ("connect", "--all", "--dry-run", "--yes"),
    ("connect", "remove", "--dry-run"),
    ("connect", "remove", "--dry-run", "--json"),
    ("uninstall", "--dry-run"),
    ("uninstall", "--dry-run", "--yes", "--json"),
]


def test_every_command_with_a_flag_that_only_shows_is_tried_here() -> None:
    for command in every_command():
        for flag in _FLAGS & {name for each in command.arguments for name in each.names}:
            assert [words for words in _SHOWN if words[: len(command.words)] == command.words and flag in words]


@pytest.mark.parametrize("words", _SHOWN)
def test_what_only_shows_changes_nothing(used: Run, home: Path, words: tuple[str, ...]) -> None:
    before = _contents(home)
    said = used(*words)
    assert said.code == 0, said.err
    assert _contents(home) == before
    if "--json" in words:
        assert json.loads(said.out) is not None


@pytest.mark.parametrize(
    "words",
    [
        ("tools",),
        ("tools", "fs_read"),
        ("profile", "list"),
        ("profile", "show"),
        ("mount", "list"),
        ("wrap", "list"),
        ("token", "list"),
        ("artifacts", "list"),
        ("audit",),
        ("logs",),
        ("status",),
        ("service", "status"),
        ("version",),
        ("check",),
    ],
)
def test_json_is_another_form_of_the_same(used: Run, home: Path, words: tuple[str, ...]) -> None:
    before = _contents(home)
    text, data = used(*words), used(*words, "--json")
    assert text.code == data.code
    assert _contents(home) == before
    assert all(
        json.loads(part) is not None for part in ([data.out] if words[0] != "audit" else data.out.splitlines()) if part
    )


def test_undo_with_json_takes_back_as_it_does_without(used: Run, home: Path) -> None:
    """Seen: `undo --json` undid, and listed nothing."""
    listed = json.loads(used("undo", "--json").out)
    assert (home / "file").read_text() == "two"
    undone = json.loads(used("undo", "--last", "1", "--json").out)
    assert [each["undone"] for each in undone] == [listed[0]["id"]]
    assert (home / "file").read_text() == "one"


@pytest.mark.parametrize(
    "words",
    [
        ("disable", "shell"),
        ("profile", "use", "lean"),
        ("profile", "create", "mine"),
        ("wrap", "add", "git", "--block", "push"),
        ("mount", "add", "gone", "--", "no-such-program"),
    ],
)
def test_what_changes_something_does_the_same_with_json(run: Run, tools_json: Path, words: tuple[str, ...]) -> None:
    assert run("enable", "shell").code == 0
    start = tools_json.read_bytes()
    done = run(*words)
    changed = tools_json.read_bytes()
    tools_json.write_bytes(start)
    flags = [*words, "--json"] if "--" not in words else [*words[:2], "--json", *words[2:]]
    as_json = run(*flags)
    assert (as_json.code, tools_json.read_bytes()) == (done.code, changed)
    assert changed != start or done.code != 0
    assert json.loads(as_json.out) is not None
