"""Command rules of the owner, in every tool that runs something."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from registry.catalog import discover
from registry.tools_json import read
from tests.support import ROOT
from tests.support.shell_host import ShellHost, shell_host
from tests.support.small_catalog import parse
from tools.kit.errors import Denied
from tools.kit.rules import CommandRules, Rule

_DENY = {
    "commands": [
        {"id": "no-rm", "pattern": r"\brm\s+-\w*[rR]\w*f|\brm\s+-\w*f\w*[rR]", "reason": "deletes for good"},
        {"id": "no-force", "pattern": r"git\s+push\b.*(--force|-f)\b", "reason": "history is shared"},
    ],
    "paths": [{"id": "no-env", "pattern": ".env", "reason": "secrets"}],
}


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[ShellHost]:
    (tmp_path / ".env").write_text("needle\n")
    (tmp_path / "plain").write_text("needle\n")
    (tmp_path / "link").symlink_to(".env")
    async with shell_host(tmp_path) as started:
        _deny(started, _DENY)
        yield started


def _deny(host: ShellHost, deny: dict[str, Any]) -> None:
    document = {"profiles": [{"id": "default", "deny": deny}]}
    host.daemon.gate.swap(read(document, host.daemon.gate.catalog, "tools.json"))


@pytest.mark.parametrize("tool", ["shell_exec", "shell_start_session", "bash"])
@pytest.mark.parametrize(
    "command",
    [
        "rm -rf x",
        "cd / && rm -fr x",
        "true\nrm -rf x",
        'r"m" -rf x',
        "r\\m -r'f' x",
        "rm \\\n -rf x",
        "git push origin main --force",
    ],
)
async def test_a_denied_command_is_not_started(host: ShellHost, tool: str, command: str) -> None:
    (host.folder / "x").write_text("still here")
    answer = await host.call(tool, command=command)
    assert answer["error"]["code"] == ("spawn_error" if tool == "bash" else "DENIED")
    rule = "no-force" if "git" in command else "no-rm"
    assert f"denied by the rule {rule}: " in answer["error"]["message"]
    told = answer["error"]["message"] + answer["error"].get("hint", "")
    assert f"tools.json, profile default, at /profiles/0/deny/commands/{int('git' in command)}" in told
    assert (host.folder / "x").exists()
    assert host.processes() == set()


@pytest.mark.parametrize("command", ["rm x", "git push", "echo 'git pull -f'", "true"])
async def test_other_commands_run(host: ShellHost, command: str) -> None:
    assert "exit_code" in await host.call("shell_exec", command=command)


async def test_what_is_typed_into_a_session_is_bound_too(host: ShellHost) -> None:
    session = await host.start("cat")
    refused = await host.call("shell_send_input", session_id=session, input="rm -rf x\n")
    assert refused["error"]["rule"] == "no-rm"
    await host.call("shell_send_input", session_id=session, input="fine\n")
    assert (await host.read(session, "fine", since=0))["output"] == "fine\n"


async def test_a_line_typed_in_pieces_is_looked_at_as_a_whole(host: ShellHost) -> None:
    session = await host.start("cat")
    for piece in ("true; r", "m -r"):
        assert "error" not in await host.call("shell_send_input", session_id=session, input=piece)
    refused = await host.call("shell_send_input", session_id=session, input="f x\n")
    assert refused["error"]["rule"] == "no-rm"
    # What was sent is there, and can be ended as something else.
    await host.call("shell_send_input", session_id=session, input=" x\nrm \\\n")
    refused = await host.call("shell_send_input", session_id=session, input="-rf x\n")
    assert refused["error"]["rule"] == "no-rm"
    assert (await host.read(session, r"rm \\", since=0))["output"] == "true; rm -r x\nrm \\\n"


async def test_the_next_line_begins_anew(host: ShellHost) -> None:
    session = await host.start("cat")
    await host.call("shell_send_input", session_id=session, input="echo rm\n")
    assert "error" not in await host.call("shell_send_input", session_id=session, input=" -rf\n")


@pytest.mark.parametrize("path", [".env", "link", "./x/../.env"])
async def test_read_and_grep_are_bound_by_path_rules(host: ShellHost, path: str) -> None:
    (host.folder / "x").mkdir()
    read_ = await host.call("read", file_path=path)
    assert read_["error"]["code"] == "permission_denied"
    assert "denied by the rule no-env: secrets" in read_["error"]["message"]
    found = await host.call("grep", pattern="needle", path=path)
    assert found["error"]["code"] == "invalid_path"
    assert "denied by the rule no-env: secrets" in found["error"]["message"]


@pytest.mark.parametrize("folder", [".env-folder", "folder-link"])
async def test_no_command_is_started_in_a_denied_folder(host: ShellHost, folder: str) -> None:
    _deny(host, {"paths": [{"id": "no-env", "pattern": ".env*", "reason": "secrets"}]})
    (host.folder / ".env-folder").mkdir()
    (host.folder / "folder-link").symlink_to(".env-folder")
    for tool, code in (("shell_exec", "DENIED"), ("shell_start_session", "DENIED"), ("bash", "invalid_cwd")):
        answer = await host.call(tool, command="pwd", cwd=folder)
        assert answer["error"]["code"] == code


async def test_grep_leaves_denied_files_out(host: ShellHost) -> None:
    (host.folder / ".hidden").mkdir()
    found = await host.call("grep", pattern="needle", paths=[".", "plain"])
    assert {match["path"] for match in found["matches"]} == {str(host.folder / "plain")}


async def test_a_rule_that_goes_lets_the_next_call_pass(host: ShellHost) -> None:
    assert "error" in await host.call("fs_read", path=".env")
    _deny(host, {})
    assert (await host.call("fs_read", path=".env"))["content"] == "needle\n"


@pytest.mark.parametrize(
    "command",
    [
        "x=rm; $x -rf /",
        "$(printf r)m -rf /",
        "python3 -c 'import shutil; shutil.rmtree(\"/\")'",
        "echo cm0gLXJmIC8= | base64 -d | sh",
        "find / -delete",
        "cp $(command -v rm) ./x && ./x -rf /",
    ],
)
def test_rules_are_no_boundary_and_the_page_says_so(command: str) -> None:
    """What the documentation names as ways around are ways around: nobody should take rules for more than they are."""
    example = ROOT / "examples" / "guarded.json"
    rules = parse(example.read_text(), discover())["guarded"].deny.commands
    assert rules is not None
    assert rules.match("rm -rf /") is not None
    assert rules.match(command) is None


def test_a_pattern_that_takes_for_ever_refuses_within_its_limit() -> None:
    rules = CommandRules((Rule("slow", ("(a|aa)+$",), "x", "tools.json"),))
    began = time.process_time()
    with pytest.raises(Denied, match="the deny rule slow took longer than 100 ms over this command"):
        rules.check("a" * 60 + "b")
    # Of this process, whatever else the machine does: the limit is 0.1 s, and it may be tried twice.
    assert time.process_time() - began < 1
