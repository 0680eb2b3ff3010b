"""The token: made once, kept to its owner, and never handed on."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import ROOT
from tests.support.daemon import command, environment, running
from tests.support.raw import request
from tests.support.waiting import PATIENCE_S

_MAKES_A_TOKEN = """
import sys
from pathlib import Path
from mcp_agent.security import auth_tokens
print(auth_tokens.from_file(Path(sys.argv[1])))
"""
_TAKES_THE_TOKEN = """
import subprocess
from mcp_agent.security import auth_tokens
print(auth_tokens.from_environment(), flush=True)
subprocess.run(["env"])
"""


def _refused(home: Path, *arguments: str, **extra: Any) -> str:
    """What `serve` says that does not start."""
    ended = command(home, "serve", "--port", "0", "--tools-file", str(home / "tools.json"), *arguments, **extra)
    assert (ended.returncode, ended.stdout) == (2, "")
    return ended.stderr


def test_the_token_is_made_at_the_first_start_for_its_owner_alone(home: Path) -> None:
    with running(home) as first:
        file = Path(first.ready["token_file"])
        assert file == home / ".local" / "state" / "mcp-agent" / "token"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
        assert len(first.token) == 43
        assert request(first, path="/api/status").status == 200
    with running(home) as second:
        assert second.token == first.token


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_token_that_others_can_read_is_refused(home: Path, mode: int) -> None:
    file = home / "token"
    file.write_text("a-good-token\n")
    file.chmod(mode)
    assert _refused(home, "--token-file", str(file)) == (
        f"mcp-agent: others can read the token file {file}; run: chmod 600 {file}\n"
    )


@pytest.mark.parametrize("content", ["", "short", "with a space", "tökén-of-letters"])
def test_a_file_without_a_usable_token_is_refused(home: Path, content: str) -> None:
    file = home / "token"
    file.write_text(content)
    file.chmod(0o600)
    assert _refused(home, "--token-file", str(file)) == (
        f"mcp-agent: the token file {file} has no usable token; delete it, and a new one is created\n"
    )


def test_a_token_file_that_is_no_file_is_refused(home: Path) -> None:
    (home / "folder").mkdir(mode=0o700)
    assert _refused(home, "--token-file", str(home / "folder")).startswith(
        f"mcp-agent: the token file {home / 'folder'} cannot be read: "
    )


def test_a_token_of_the_environment_is_used_and_no_file_is_made(home: Path) -> None:
    with running(home, extra={"MCP_AGENT_TOKEN": "a-token-of-my-own"}) as daemon:
        assert daemon.ready["token_file"] is None
        assert request(daemon, path="/api/status").status == 200
        assert request(daemon, path="/api/status", Authorization="Bearer a-token-of-my-ow").status == 401
    assert not (home / ".local" / "state" / "mcp-agent" / "token").exists()


@pytest.mark.parametrize("token", ["", "short", "with a space in it"])
def test_a_token_of_the_environment_that_is_none_is_refused(home: Path, token: str) -> None:
    assert _refused(home, MCP_AGENT_TOKEN=token) == (
        "mcp-agent: MCP_AGENT_TOKEN must be 8 to 4096 visible characters, without spaces\n"
    )


def test_children_never_see_the_token_of_the_environment(home: Path) -> None:
    extra = {"MCP_AGENT_TOKEN": "a-token-of-my-own", "KEPT": "yes"}
    done = subprocess.run(
        [sys.executable, "-c", _TAKES_THE_TOKEN],
        capture_output=True,
        text=True,
        env=environment(home, extra),
        cwd=ROOT,
        timeout=PATIENCE_S,
        check=True,
    )
    token, *seen = done.stdout.splitlines()
    assert token == "a-token-of-my-own"
    assert "KEPT=yes" in seen
    assert not [line for line in seen if "TOKEN" in line or token in line]


def test_the_environment_of_the_daemon_does_not_show_the_token(home: Path) -> None:
    """`/proc/<pid>/environ` has what a process was started with, whatever it has removed since."""
    with running(home, extra={"MCP_AGENT_TOKEN": "a-token-of-my-own", "KEPT": "yes"}) as daemon:
        assert request(daemon, path="/api/status").status == 200
        seen = Path(f"/proc/{daemon.process.pid}/environ").read_bytes().split(b"\0")
        arguments = Path(f"/proc/{daemon.process.pid}/cmdline").read_bytes().split(b"\0")
    assert b"KEPT=yes" in seen
    assert b"serve" in arguments
    assert not [entry for entry in seen if b"a-token-of-my-own" in entry or entry.startswith(b"MCP_AGENT_TOKEN=")]


def test_daemons_that_start_at_once_agree_on_one_token(home: Path) -> None:
    starting = [
        subprocess.Popen(
            [sys.executable, "-c", _MAKES_A_TOKEN, str(home / "state" / "token")], stdout=subprocess.PIPE, cwd=ROOT
        )
        for _ in range(8)
    ]
    told = {child.communicate(timeout=PATIENCE_S)[0] for child in starting}
    assert [child.returncode for child in starting] == [0] * 8
    assert told == {(home / "state" / "token").read_bytes()}
    assert [each.name for each in (home / "state").iterdir()] == ["token"]


def test_the_token_is_in_no_argument_log_or_answer(home: Path) -> None:
    with running(home, "--log-level", "debug") as daemon:
        answers = [request(daemon, path=path).body for path in ("/health", "/api/status", "/api/profiles", "/nowhere")]
        request(daemon, path="/api/status", Authorization=f"Bearer {daemon.token}x")
        runtime = (home / ".local" / "state" / "mcp-agent" / "daemon.json").read_bytes()
        arguments = Path(f"/proc/{daemon.process.pid}/cmdline").read_bytes()
    for seen in (*answers, runtime, arguments, daemon.stderr.read_bytes(), json.dumps(daemon.ready).encode()):
        assert daemon.token.encode() not in seen
