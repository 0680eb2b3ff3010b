"""Help, old spellings, and completion."""

from __future__ import annotations

import argparse
import io
import json
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from mcp_agent.cli.declaration import PROGRAM, Command
from mcp_agent.cli.main import WORDS, every_command, find_command
from mcp_agent.cli.old_spellings import current_spelling
from registry.user_error import UsageError
from tests.cli.conftest import Run
from tests.support.daemon import COMMAND, environment
from tests.support.waiting import PATIENCE_S


def test_without_a_command_help_is_shown(run: Run) -> None:
    bare, asked, flag = run(), run("help"), run("--help")
    assert bare.code == asked.code == flag.code == 0
    assert bare.out == asked.out == flag.out
    assert (bare.err, asked.err) == ("", "")
    assert [word for word in WORDS if f"\n  {word} " not in bare.out] == []


def test_help_of_a_command_is_that_of_its_flag(run: Run) -> None:
    assert run("help", "token", "create").out == run("token", "create", "--help").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("conect",), "there is no command 'mcp-agent conect' (did you mean connect?)\n"),
        (("help", "teleport"), "there is no command 'mcp-agent teleport'; there are serve, stop, "),
        (("mount", "lst"), "there is no command 'mcp-agent mount lst' (did you mean list?)\n"),
        (("wrap", "remov"), "there is no command 'mcp-agent wrap remov' (did you mean remove?)\n"),
        (("token", "crate"), "there is no command 'mcp-agent token crate' (did you mean create?)\n"),
        (("token", "x"), "there is no command 'mcp-agent token x'; there are create, list, "),
    ],
)
def test_a_command_that_there_is_not_is_told_with_the_one_that_may_be_meant(
    run: Run, words: tuple[str, ...], message: str
) -> None:
    said = run(*words)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"mcp-agent: {message}")


@pytest.mark.parametrize("command", [pytest.param(each, id=each.prog) for each in every_command()])
def test_each_command_has_json_and_two_examples_that_can_be_typed(command: Command) -> None:
    flags = command.parser().format_help()
    assert "--json" in flags
    assert [setting.flag for setting in command.settings if f"\n  {setting.flag} " not in flags] == []
    with pytest.raises(UsageError, match=r"no flag --jsno in .* \(did you mean --json\?\)"):
        command.parser().read(["--jsno"], argparse.Namespace())
    assert len(command.examples) == 2
    for example in command.examples:
        if example.startswith(PROGRAM):
            own = shlex.split(example.partition(" > ")[0])[1:]
            assert find_command(own) is command
            own = own[: own.index("--")] if "--" in own else own
            command.parser().read(own[len(command.words) :], argparse.Namespace())


# What stays in the foreground, asks systemd of this user, or looks for another machine.
_NOT_RUN = ("serve", "stdio", "gateway", "fleet try", "service", "doctor https")


@pytest.mark.parametrize(
    "example",
    [
        pytest.param((command, example), id=example)
        for command in every_command()
        for example in command.examples
        if example.startswith(PROGRAM) and "--follow" not in example
        if not example.removeprefix(f"{PROGRAM} ").startswith(_NOT_RUN)
    ],
)
def test_an_example_with_json_prints_json_or_nothing(
    run: Run, monkeypatch: pytest.MonkeyPatch, example: tuple[Command, str]
) -> None:
    command, line = example
    words = shlex.split(line.partition(" > ")[0])[1:]
    place = words.index("--") if "--" in words else len(words)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setenv("EDITOR", "true")
    said = run(*words[:place], *(() if "--json" in words else ("--json",)), *words[place:])
    assert said.code in (0, 1, 2, 3)
    assert "Traceback" not in said.err
    if not command.streams and (said.out or said.code == 0):
        json.loads(said.out)


@pytest.mark.parametrize(
    "words",
    ["status", "stop", "restart", "open", "sessions list", "sessions tail x", "sessions stop x", "mount restart x"],
)
def test_without_a_daemon_the_exit_code_is_3(run: Run, words: str) -> None:
    assert run(*words.split()).code == 3
    assert run(*words.split(), "--json").code == 3


def test_a_group_shows_its_commands_and_needs_one(run: Run) -> None:
    shown = run("mount", "--help")
    assert [line.split()[0] for line in shown.out.splitlines() if line.startswith("  ")][:5] == [
        "add",
        "list",
        "remove",
        "restart",
        "import",
    ]
    assert run("token").code == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["unmount", "x"], ["mount", "remove", "x"]),
        (["unwrap", "x"], ["wrap", "remove", "x"]),
        (["wrap", "git", "--block", "push"], ["wrap", "add", "git", "--block", "push"]),
        (["mount"], ["mount", "list"]),
        (["mount", "--json"], ["mount", "list", "--json"]),
        (["mount", "x", "--url", "http://y"], ["mount", "add", "x", "--url", "http://y"]),
        (["mount", "--restart", "x"], ["mount", "restart", "x"]),
        (["mount", "x", "--from", "file"], ["mount", "import", "file", "x"]),
        (["profile", "delete", "x"], ["profile", "remove", "x"]),
        (["artifacts", "rm", "x"], ["artifacts", "remove", "x"]),
        (["token", "create", "--name", "x", "--expires", "1d"], ["token", "create", "x", "--expires", "1d"]),
        (["connect", "codex", "--remove", "--dry-run"], ["connect", "remove", "codex", "--dry-run"]),
    ],
)
def test_an_old_spelling_works_and_says_the_new_one(old: list[str], new: list[str]) -> None:
    words, note = current_spelling(old, is_followed=False)
    assert words == new
    assert f"`mcp-agent {old[0]}" in note
    assert f"is now `mcp-agent {' '.join(new[:2])}" in note
    assert current_spelling(new, is_followed=False) == (new, "")


def test_the_old_name_of_the_flag_for_tools_json_works(run: Run, home: Path) -> None:
    run("disable", "shell", "--config", "own.json")
    assert "shell_exec" not in run("tools", "--json", "--tools-file", "own.json").out
    assert "--config" not in run("tools", "--help").out


def _script(shell: str) -> str:
    return subprocess.run(
        [COMMAND, "completion", shell], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    ).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_good(shell: str) -> None:
    script = _script(shell)
    if program := shutil.which(shell):
        checked = subprocess.run([program, "-n"], input=script, capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


def test_bash_completes_a_command(home: Path) -> None:
    asked = 'COMP_WORDS=(mcp-agent token cr); COMP_CWORD=2; _mcp_agent; echo "${COMPREPLY[@]}"'
    done = subprocess.run(
        ["bash", "-c", f"{_script('bash')}\n{asked}"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        env={**environment(home), "PATH": f"{Path(COMMAND).parent}:/usr/bin:/bin"},
    )
    assert done.stdout == "create\n"


def test_completion_knows_every_kind_of_name(run: Run) -> None:
    run("profile", "create", "mine")
    run("token", "create", "--name", "laptop")

    def offered(*words: str) -> list[str]:
        return run("__complete", *words).out.split()

    assert offered("dis") == ["disable"]
    assert offered("serve", "--tls") == ["--tls-cert", "--tls-key"]
    assert {"fs_patch", "filesystem"} <= set(offered("enable", "f"))
    assert offered("tools", "fs_pa") == ["fs_patch"]
    assert "mine" in offered("profile", "use", "")
    assert offered("tools", "--profile", "mi") == ["mine"]
    assert offered("connect", "claude-c") == ["claude-code"]
    assert offered("token", "revoke", "") == ["laptop"]
    assert "(did you mean laptop?)" in run("token", "revoke", "latop").err
    assert offered("completion", "b") == ["bash"]
    run("wrap", "add", "git")
    run("mount", "add", "small", "--", "true")
    assert offered("wrap", "remove", "") == ["git_run"]
    assert offered("mount", "restart", "") == ["small"]
    assert offered("teleport", "") == []
