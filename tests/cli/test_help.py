"""Help, and the completion scripts that are made from the same parser."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.cli.conftest import Run
from tests.support.daemon import COMMAND
from tests.support.waiting import PATIENCE_S


def test_without_a_command_help_is_shown(run: Run) -> None:
    bare, asked, flag = run(), run("help"), run("--help")
    assert bare.code == asked.code == flag.code == 0
    assert bare.out == asked.out == flag.out
    assert "find out why a client does not connect" in bare.out


def test_help_of_a_command_is_that_of_its_flag(run: Run) -> None:
    assert run("help", "token", "create").out == run("token", "create", "--help").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("conect",), "there is no command 'mcp-agent conect' (did you mean connect?)\n"),
        (("help", "teleport"), "there is no command 'mcp-agent teleport'; there are serve, stdio, "),
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


def _script(shell: str) -> str:
    return subprocess.run(
        [COMMAND, "completion", shell], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    ).stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_knows_the_commands_and_is_good(shell: str) -> None:
    script = _script(shell)
    for word in ("serve", "doctor", "completion"):
        assert word in script
    if program := shutil.which(shell):
        checked = subprocess.run([program, "-n"], input=script, capture_output=True, text=True, check=False)
        assert (checked.returncode, checked.stderr) == (0, "")


def test_bash_completes_a_command_and_its_flags() -> None:
    asked = """
    COMP_WORDS=(mcp-agent token cr); COMP_CWORD=2; _shtab_mcp_agent; echo "${COMPREPLY[@]}"
    COMP_WORDS=(mcp-agent serve --tls); COMP_CWORD=2; _shtab_mcp_agent; echo "${COMPREPLY[@]}"
    """
    done = subprocess.run(
        ["bash", "-c", _script("bash") + asked], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.stdout.split("\n")[:2] == ["create", "--tls-cert --tls-key"]
