"""`mcp-agent connect`: what it writes for each client, and that it leaves everything else as it was."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import io
import json
import os
import shlex
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import httpx2
import pytest

from mcp_agent.cli import main as cli
from mcp_agent.cli.clients.known_clients import CLIENTS
from registry import jsonc
from tests.support.daemon import COMMAND, Daemon, environment


@pytest.fixture
def user(tmp_path: Path) -> Path:
    """The home of a user who has none of the clients on the PATH."""
    folder = tmp_path / "user"
    folder.mkdir()
    return folder


class _Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def _run(home: Path, *arguments: str, cwd: Path | None = None, path: str = "/usr/bin:/bin", **extra: str) -> _Done:
    """A command of that user, in this process: starting another takes longer than what it does."""
    with (
        mock.patch.dict(os.environ, environment(home, {"PATH": path, **extra}), clear=True),
        contextlib.chdir(cwd or home),
        contextlib.redirect_stdout(io.StringIO()) as out,
        contextlib.redirect_stderr(io.StringIO()) as error,
        mock.patch.object(sys, "stdin", io.StringIO()),
    ):
        code = cli.run(arguments)
    return _Done(code, out.getvalue(), error.getvalue())


def _connect(home: Path, *arguments: str, cwd: Path | None = None) -> _Done:
    return _run(home, "connect", *arguments, cwd=cwd)


def _token_file(home: Path) -> Path:
    return home / ".local/state/mcp-agent/token"


def _own_token(home: Path, client: str) -> str:
    return (home / ".local/state/mcp-agent/client-tokens" / client).read_text().strip()


_U = "http://127.0.0.1:8765/mcp/lean"


def _expected(home: Path) -> dict[str, tuple[str, tuple[str, ...], Any]]:
    helper = f"{COMMAND} token header"

    def bearer(client: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {_own_token(home, client)}"}

    bridge = ["stdio", "--attach", "--profile", "lean"]
    text = {"X-MCP-Agent-Form": "text"}
    return {
        "claude-code": (
            ".claude.json",
            ("mcpServers", "devbox"),
            lambda: {"type": "http", "url": _U, "headersHelper": helper, "alwaysLoad": True},
        ),
        "codex": (
            ".codex/config.toml",
            ("mcp_servers", "devbox"),
            lambda: {
                "url": _U,
                "http_headers_helper": helper,
                "supports_parallel_tool_calls": True,
            },
        ),
        "gemini-cli": (
            ".gemini/settings.json",
            ("mcpServers", "devbox"),
            lambda: {"httpUrl": _U, "headers": bearer("gemini-cli")},
        ),
        "copilot-cli": (
            ".copilot/mcp-config.json",
            ("mcpServers", "devbox"),
            lambda: {"type": "local", "command": COMMAND, "args": bridge, "tools": ["*"]},
        ),
        "opencode": (
            ".config/opencode/opencode.json",
            ("mcp", "devbox"),
            lambda: {
                "type": "remote",
                "url": _U,
                "headers": {"Authorization": f"Bearer {{file:{_token_file(home)}}}"},
            },
        ),
        "cline": (
            ".cline/data/settings/cline_mcp_settings.json",
            ("mcpServers", "devbox"),
            lambda: {"transport": {"type": "streamableHttp", "url": _U, "headers": bearer("cline")}},
        ),
        "qwen-code": (
            ".qwen/settings.json",
            ("mcpServers", "devbox"),
            lambda: {"httpUrl": _U, "headers": bearer("qwen-code"), "alwaysLoadTools": True},
        ),
        "vscode": (
            ".vscode/mcp.json",
            ("servers", "devbox"),
            lambda: {"type": "stdio", "command": COMMAND, "args": bridge, "cwd": "${workspaceFolder}"},
        ),
        "cursor": (
            ".cursor/mcp.json",
            ("mcpServers", "devbox"),
            lambda: {"url": _U, "headers": {**bearer("cursor"), **text}},
        ),
        "windsurf": (
            ".codeium/windsurf/mcp_config.json",
            ("mcpServers", "devbox"),
            lambda: {"serverUrl": _U, "headers": {**bearer("windsurf"), **text}},
        ),
        "zed": (
            ".config/zed/settings.json",
            ("context_servers", "devbox"),
            lambda: {"url": _U, "headers": {**bearer("zed"), **text}},
        ),
    }


def _read(path: Path) -> Any:
    return tomllib.loads(path.read_text()) if path.suffix == ".toml" else jsonc.read(path.read_text())


def test_each_client_is_given_its_entry_in_its_file_and_back(user: Path) -> None:
    names = [client.id for client in CLIENTS]
    assert names == list(_expected(user))
    done = _connect(user, *names)
    assert done.returncode == 0, done.stdout + done.stderr
    for file, keys, entry in _expected(user).values():
        assert jsonc.at(_read(user / file), keys) == entry(), file
        # A file of a project, which other people see, is readable, and has no secret.
        assert stat.S_IMODE((user / file).stat().st_mode) == (0o644 if file == ".vscode/mcp.json" else 0o600), file
    before = {file: (user / file).read_bytes() for file, _, _ in _expected(user).values()}
    again = _connect(user, *names)
    assert again.stdout.count(": nothing to do, it is in ") == len(names)
    assert {file: (user / file).read_bytes() for file in before} == before
    removed = _connect(user, "remove", *names)
    assert removed.returncode == 0, removed.stderr
    assert [file for file in before if (user / file).exists()] == []
    assert _run(user, "token", "list").stdout.count("\n") == 1


_COMMENTED = (
    '// mine\r\n{\r\n\t"theme": "dark", // keep\r\n\t"mcpServers": {\r\n\t\t"other": {"command": "x"},\r\n\t},\r\n}\r\n'
)


def test_comments_order_line_endings_and_mode_stay(user: Path) -> None:
    file = user / ".gemini/settings.json"
    file.parent.mkdir()
    file.write_bytes(_COMMENTED.encode())
    file.chmod(0o640)
    assert _connect(user, "gemini-cli").returncode == 0
    text = file.read_bytes().decode()
    start, end = text.index('\r\n\t\t"devbox"'), text.index("\r\n\t},\r\n}\r\n")
    assert text[:start] + text[end:] == _COMMENTED
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    (backup,) = file.parent.glob("*.mcp-agent-backup")
    assert backup.read_bytes().decode() == _COMMENTED
    assert _connect(user, "remove", "gemini-cli").returncode == 0
    assert file.read_bytes().decode() == _COMMENTED


def test_a_link_stays_a_link(user: Path) -> None:
    real = user / "dotfiles" / "codex.toml"
    real.parent.mkdir()
    real.write_text("model = 'x'\n")
    (user / ".codex").mkdir()
    (user / ".codex/config.toml").symlink_to(real)
    assert _connect(user, "codex").returncode == 0
    assert (user / ".codex/config.toml").is_symlink()
    assert real.read_text().startswith("model = 'x'\n\n[mcp_servers.devbox]\n")


@pytest.mark.parametrize(
    ("client", "file", "text"),
    [
        ("gemini-cli", ".gemini/settings.json", '{"a": 1'),
        ("gemini-cli", ".gemini/settings.json", '{"mcpServers": []}'),
        ("codex", ".codex/config.toml", "a = [\n"),
    ],
)
def test_a_file_that_cannot_be_read_is_left_alone_and_said_so(user: Path, client: str, file: str, text: str) -> None:
    (user / file).parent.mkdir()
    (user / file).write_text(text)
    done = _connect(user, client)
    assert done.returncode == 1
    assert f"{user / file} is left alone: " in done.stderr
    assert (user / file).read_text() == text
    assert not (user / ".local/state/mcp-agent/client-tokens").exists()


def test_a_dry_run_shows_a_diff_and_writes_nothing(user: Path) -> None:
    (user / ".codex").mkdir()
    (user / ".codex/config.toml").write_text("model = 'x'\n")
    done = _connect(user, "codex", "gemini-cli", "--dry-run")
    assert '+[mcp_servers.devbox]\n+url = "http://127.0.0.1:8765/mcp/lean"\n' in done.stdout
    assert '+        "Authorization": "Bearer <token of gemini-cli>"\n' in done.stdout
    assert (user / ".codex/config.toml").read_text() == "model = 'x'\n"
    assert not (user / ".gemini").exists()
    # Not even what a first start would write.
    assert sorted(path.name for path in user.rglob("*")) == [".codex", "config.toml"]


def test_without_a_name_it_finds_clients_and_shows_what_it_would_do(user: Path) -> None:
    for folder in (".codex", ".qwen"):
        (user / folder).mkdir()
    done = _connect(user)
    assert done.returncode == 0, done.stderr
    for file in (".codex/config.toml", ".qwen/settings.json"):
        assert f"+++ {user / file}\n" in done.stdout
    assert "Codex, Qwen Code: profile lean, 13 tools, about " in done.stdout
    assert done.stdout.endswith("Nothing was changed: nobody can be asked here. Name the clients, or add --yes.\n")
    for refused in (_connect(user, "--all"), _connect(user, "--all", "--json")):
        assert (refused.returncode, (user / ".codex/config.toml").exists()) == (1, False)
    assert _connect(user, "--all", "--yes").returncode == 0
    assert (user / ".codex/config.toml").exists()
    assert (user / ".qwen/settings.json").exists()
    again = _connect(user, "--all")
    assert (again.returncode, again.stdout.count(": nothing to do, it is in ")) == (0, 2)
    assert (_connect(user, "remove", "--all").returncode, (user / ".qwen/settings.json").exists()) == (1, True)
    assert _connect(user, "remove", "--all", "--yes").returncode == 0
    assert not (user / ".qwen/settings.json").exists()


@pytest.mark.parametrize("words", [("connect",), ("connect", "--all"), ("connect", "--all", "--json")])
def test_on_a_terminal_it_asks_and_does_what_is_ticked(user: Path, words: tuple[str, ...]) -> None:
    for folder in (".codex", ".qwen"):
        (user / folder).mkdir()
    codex, qwen = user / ".codex/config.toml", user / ".qwen/settings.json"
    shown = _on_a_terminal(user, *words, answers=b"n\n")
    assert "   1 [x] Codex      ~/.codex/config.toml\n   2 [x] Qwen Code  ~/.qwen/settings.json\n" in shown
    assert ("+[mcp_servers.devbox]" in shown) is True
    assert not codex.exists()
    assert not qwen.exists()
    shown = _on_a_terminal(user, *words, answers=b"1 7\n\n")
    assert "there is no number '7'" in shown
    assert "   1 [ ] Codex " in shown
    assert (codex.exists(), qwen.exists()) == (False, True)
    _on_a_terminal(user, *words, answers=b"\n")
    assert codex.exists()
    assert "1 [" not in _on_a_terminal(user, *words, answers=b"")
    removal = ("connect", "remove", *words[1:])
    assert "   2 [x] Qwen Code " in _on_a_terminal(user, *removal, answers=b"no\n")
    assert qwen.exists()
    _on_a_terminal(user, *removal, answers=b"1\ny\n")
    assert (codex.exists(), qwen.exists()) == (True, False)


def _on_a_terminal(home: Path, *words: str, answers: bytes) -> str:
    """What is printed to somebody who types `answers`."""
    terminal, ours = os.openpty()
    os.write(terminal, answers)
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin"}
    done = subprocess.run([COMMAND, *words], stdin=ours, capture_output=True, text=True, env=env, cwd=home, check=True)
    os.close(terminal)
    os.close(ours)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("client", "approve", "expected", "said"),
    [
        ("codex", "all", {"default_tools_approval_mode": "approve"}, "runs every tool unasked, commands too"),
        (
            "codex",
            "reads",
            {
                "tools": {
                    name: {"approval_mode": "approve"}
                    for name in ("fs_grep", "fs_list", "fs_read", "fs_read_range", "fs_search")
                }
            },
            "runs the 5 tools unasked that only read",
        ),
        ("codex", "none", {}, "`codex exec` refuses these"),
        ("gemini-cli", "all", {"trust": True}, "runs every tool unasked, commands too"),
        ("gemini-cli", "none", {}, "`gemini -p` offers its model none of them"),
        ("qwen-code", "all", {"trust": True}, "runs every tool unasked, commands too"),
        ("opencode", "all", {}, "runs every tool unasked, commands too"),
    ],
)
def test_what_is_approved_is_in_the_entry_and_said(
    user: Path, client: str, approve: str, expected: dict[str, Any], said: str
) -> None:
    assert _connect(user, client).returncode == 0
    file, keys, entry = _expected(user)[client]
    done = _connect(user, client, "--approve", approve)
    assert done.returncode == 0, done.stderr
    assert jsonc.at(_read(user / file), keys) == {**entry(), **expected}
    if expected:
        assert said in done.stdout
    # Off unless it is asked for.
    assert _connect(user, client).returncode == 0
    assert jsonc.at(_read(user / file), keys) == entry()
    shown = _connect(user, client, "--approve", approve, "--name", "other", "--dry-run")
    assert said in shown.stdout


@pytest.mark.parametrize(
    ("client", "approve", "reason"),
    [
        ("gemini-cli", "reads", "Gemini CLI has no rules for single tools in its file: --approve all or none"),
        ("copilot-cli", "all", "takes no approval from its file: start it with --allow-tool"),
        ("opencode", "reads", "opencode has no rules for single tools in its file: set `permission` in its file"),
        ("zed", "all", "Zed takes no approval from its file: see its settings"),
    ],
)
def test_an_approval_that_a_client_has_no_place_for_is_refused(
    user: Path, client: str, approve: str, reason: str
) -> None:
    done = _connect(user, client, "--approve", approve)
    assert (done.returncode, reason in done.stderr) == (1, True), done.stderr
    assert list(user.iterdir()) == []


def test_the_rules_of_claude_code_are_in_its_settings_beside_those_of_its_person(user: Path) -> None:
    settings = user / ".claude/settings.json"
    settings.parent.mkdir()
    own = '{\n  "permissions": {"allow": ["Bash(ls:*)"], "deny": []}\n}\n'
    settings.write_text(own)

    def allowed() -> list[str]:
        rules: list[str] = json.loads(settings.read_text())["permissions"]["allow"]
        return rules

    assert "`claude -p` refuses them all" in _connect(user, "claude-code").stdout
    assert json.loads(settings.read_text()) == json.loads(own)
    assert _connect(user, "claude-code", "--approve", "reads").returncode == 0
    assert allowed()[:2] == ["Bash(ls:*)", "mcp__devbox__fs_grep"]
    assert "mcp__devbox__shell_exec" not in allowed()
    assert _connect(user, "claude-code", "--approve", "all").returncode == 0
    assert allowed() == ["Bash(ls:*)", "mcp__devbox"]
    # What is said of it is what its settings say, also where they are left as they are.
    said = _connect(user, "claude-code", "--stdio").stdout
    assert "Claude Code runs unasked what its rules allow (mcp__devbox); --approve none ends it" in said
    assert _connect(user, "remove", "claude-code").returncode == 0
    assert json.loads(settings.read_text()) == json.loads(own)


_SECRETS = """{
  "mcpServers": {
    "a": {"command": "x", "args": ["--api-key", "s3kr1t-1", "--token=s3kr1t-2"], "env": {"A": "s3kr1t-3", "B": "true"}},
    "b": {"url": "https://me:s3kr1t-4@x/?key=s3kr1t-5", "headers": {"Authorization": "Bearer s3kr1t-6", "X": "${Y}"}}
  },
  "apiKey": "s3kr1t-7"
}
"""


def test_no_secret_is_in_a_diff(user: Path) -> None:
    """Neither our token nor what other programs have beside it, where it is put in, renewed and taken out."""
    file = user / ".gemini/settings.json"
    file.parent.mkdir()
    file.write_text(_SECRETS)

    def check(*words: str, shows: str) -> None:
        done = _connect(user, *words)
        assert shows in done.stdout, done.stdout
        tokens = user / ".local/state/mcp-agent/client-tokens/gemini-cli"
        ours = [tokens.read_text().strip()] if tokens.exists() else []
        assert [each for each in ("s3kr1t", *ours) if each in done.stdout] == []

    check("gemini-cli", "--dry-run", shows='"Bearer <token of gemini-cli>"')
    assert _connect(user, "gemini-cli").returncode == 0
    old = _own_token(user, "gemini-cli")
    check("gemini-cli", "--approve", "all", "--dry-run", shows='+      "trust": true')
    check("remove", "gemini-cli", "--dry-run", shows='-        "Authorization": "Bearer …"')
    check("remove", "gemini-cli", "--dry-run", "--json", shows="Bearer …")
    assert _run(user, "token", "rotate", "gemini-cli").returncode == 0
    assert old not in _connect(user, "gemini-cli", "--dry-run").stdout
    check("gemini-cli", "--dry-run", shows='+        "Authorization": "Bearer …"')
    assert '"s3kr1t-7"' in file.read_text()


async def test_a_profile_makes_a_token_of_its_own_that_works_at_once(daemon: Daemon) -> None:
    done = daemon.cli("connect", "claude-code", "codex", "--profile", "read-only")
    assert done.returncode == 0, done.stderr
    entry = jsonc.read((daemon.home / ".claude.json").read_text())["mcpServers"]["devbox"]
    assert entry["url"] == f"{daemon.url}/mcp"
    helper = await asyncio.create_subprocess_exec(
        *shlex.split(entry["headersHelper"]), stdout=subprocess.PIPE, env={"HOME": "/nonexistent"}
    )
    headers = json.loads((await helper.communicate())[0])
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with httpx2.AsyncClient(headers=headers) as http:
        listed = (await http.post(entry["url"], json=message)).json()["result"]["tools"]
    assert "fs_read" in {tool["name"] for tool in listed}
    assert "shell_exec" not in {tool["name"] for tool in listed}
    tokens = daemon.cli("token", "list").stdout
    assert "claude-code\tprofile read-only" in tokens
    removed = daemon.cli("connect", "remove", "claude-code")
    assert "revoked the token claude-code" in removed.stdout
    assert "claude-code" not in daemon.cli("token", "list").stdout


async def test_what_is_written_reaches_the_daemon_and_follows_its_switches(daemon: Daemon) -> None:
    """A client that was given the lean profile still obeys the switches of the active one."""
    assert daemon.cli("connect", "gemini-cli").returncode == 0
    entry = jsonc.read((daemon.home / ".gemini/settings.json").read_text())["mcpServers"]["devbox"]
    assert entry["httpUrl"] == f"{daemon.url}/mcp/lean"
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}

    async def names() -> set[str]:
        async with httpx2.AsyncClient(headers=entry["headers"]) as http:
            answer = await http.post(entry["httpUrl"], json=message)
        return {tool["name"] for tool in answer.json()["result"]["tools"]}

    before = await names()
    assert len(before) == 13
    assert daemon.cli("disable", "shell_exec").returncode == 0
    assert before - await names() == {"shell_exec"}


def test_an_unknown_profile_or_client_is_refused(user: Path) -> None:
    done = _connect(user, "codex", "--profile", "leen")
    assert (done.returncode, "leen" in done.stderr) == (2, True)
    done = _connect(user, "emacs")
    assert (done.returncode, "there is no client 'emacs'; there are: claude-code, codex, " in done.stderr) == (2, True)
    assert not (user / ".codex").exists()


def test_on_a_machine_without_a_daemon_it_takes_a_url_and_a_token_file(user: Path) -> None:
    token = user / "remote-token"
    token.write_text("a-token-of-the-other-machine\n")
    token.chmod(0o600)
    flags = ("--url", "https://box.example:8765", "--token-file", str(token))
    done = _connect(user, "codex", "opencode", "gemini-cli", *flags)
    assert done.returncode == 0, done.stderr
    codex = tomllib.loads((user / ".codex/config.toml").read_text())["mcp_servers"]["devbox"]
    assert codex["url"] == "https://box.example:8765/mcp/lean"
    shown = _run(user, *shlex.split(codex["http_headers_helper"])[1:])
    assert json.loads(shown.stdout)["Authorization"] == "Bearer a-token-of-the-other-machine"
    opencode = json.loads((user / ".config/opencode/opencode.json").read_text())["mcp"]["devbox"]
    assert opencode["headers"] == {"Authorization": f"Bearer {{file:{token}}}"}
    gemini = json.loads((user / ".gemini/settings.json").read_text())["mcpServers"]["devbox"]
    assert gemini["headers"] == {"Authorization": "Bearer a-token-of-the-other-machine"}
    copilot = _connect(user, "copilot-cli", *flags)
    assert f'it reads the token from the environment: export DEVBOX_TOKEN="$(cat {token})"' in copilot.stdout
    missing = _connect(user, "codex", "--url", "http://box", "--token-file", str(user / "none"))
    assert (missing.returncode, "none cannot be read" in missing.stderr) == (2, True)


@pytest.mark.parametrize(
    ("code", "printed", "said"),
    [
        (0, '{"url": "http://127.0.0.1:8765"}', "✓ box: its daemon runs at http://127.0.0.1:8765\n"),
        (3, "{}", "✓ box: no daemon runs there now; the client starts one, which stays\n"),
        (255, "", "ssh cannot log in to box without asking: a line of it. A key that needs no password"),
        (127, "", "there is no mcp-agent on the PATH that ssh has on box: a line of it. Install it there"),
        (2, "", "`mcp-agent status` on box has failed with exit code 2: a line of it"),
    ],
)
def test_a_box_is_tried_before_an_entry_is_written(
    user: Path, tmp_path: Path, code: int, printed: str, said: str
) -> None:
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(
        f"#!/bin/sh\necho \"$@\" > {tmp_path}/asked\necho '{printed}'\necho 'a line of it' >&2\nexit {code}\n"
    )
    ssh.chmod(0o755)
    path = f"{ssh.parent}:/usr/bin:/bin"
    done = _run(user, "connect", "codex", "--ssh", "box", path=path)
    is_well = code in (0, 3)
    assert said in (done.stdout if is_well else done.stderr)
    assert (done.returncode == 0, (user / ".codex/config.toml").exists()) == (is_well, is_well)
    asked = "-o BatchMode=yes -o ConnectTimeout=10 box mcp-agent status --json\n"
    assert (tmp_path / "asked").read_text() == asked
    # Nothing is asked there where nothing is written here.
    (tmp_path / "asked").unlink()
    assert _run(user, "connect", "codex", "--ssh", "box", "--dry-run", path=path).returncode == 0
    assert not (tmp_path / "asked").exists()


def test_what_is_printed_for_ssh_has_the_path_of_the_program_there(user: Path, tmp_path: Path) -> None:
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    for code, path, told in ((0, "/opt/there/mcp-agent", ""), (255, COMMAND, "box is taken to be this machine.")):
        ssh.write_text(f"#!/bin/sh\necho /opt/there/mcp-agent\nexit {code}\n")
        ssh.chmod(0o755)
        done = _run(user, "connect", "zed", "--ssh", "box", "--print", path=f"{ssh.parent}:/usr/bin:/bin")
        server = json.loads(done.stdout)["context_servers"]["devbox"]
        assert (server["command"], server["args"][:2]) == ("ssh", ["box", path])
        assert told in done.stderr
        assert r"(on Windows %APPDATA%\Zed\settings.json) on the machine of Zed" in done.stderr


@pytest.mark.parametrize("name", ["claude-agent-sdk", "codex-exec", "langchain", "openai-agents", "pydantic-ai"])
def test_frameworks_obey_the_way_to_the_daemon(user: Path, name: str) -> None:
    by_ssh = _connect(user, name, "--ssh", "box", "--profile", "lean").stdout
    assert "http" not in by_ssh
    words = by_ssh.replace('"', "").replace(",", "").replace("'", "")
    assert "box mcp-agent stdio --attach --profile lean" in words
    assert ("--form text" in words) is (name != "codex-exec")
    alone = _connect(user, name, "--stdio").stdout.replace('"', "").replace(",", "")
    assert f"{COMMAND}" in alone
    assert "--attach" not in alone
    refused = _connect(user, "open-webui", "--ssh", "box")
    assert (refused.returncode, "by its URL alone" in refused.stderr) == (2, True)


def test_stdio_entries_have_absolute_paths(user: Path) -> None:
    assert _connect(user, "claude-code", "copilot-cli", "opencode", "codex", "--stdio").returncode == 0
    arguments = ["stdio", "--profile", "lean"]
    claude = json.loads((user / ".claude.json").read_text())["mcpServers"]["devbox"]
    assert claude == {"type": "stdio", "command": COMMAND, "args": arguments, "alwaysLoad": True}
    copilot = json.loads((user / ".copilot/mcp-config.json").read_text())["mcpServers"]["devbox"]
    assert copilot == {"type": "local", "command": COMMAND, "args": arguments, "tools": ["*"]}
    opencode = json.loads((user / ".config/opencode/opencode.json").read_text())["mcp"]["devbox"]
    assert opencode == {"type": "local", "command": [COMMAND, *arguments]}
    codex = tomllib.loads((user / ".codex/config.toml").read_text())["mcp_servers"]["devbox"]
    assert (codex["command"], codex["args"]) == (COMMAND, arguments)


def test_a_token_that_is_no_longer_used_is_revoked(user: Path) -> None:
    assert _connect(user, "gemini-cli").returncode == 0
    assert "gemini-cli" in _run(user, "token", "list").stdout
    assert "revoked the token gemini-cli" in _connect(user, "gemini-cli", "--stdio").stdout
    assert "gemini-cli" not in _run(user, "token", "list").stdout


def test_a_project_has_files_of_its_own(user: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    assert _connect(user, "claude-code", "--project", cwd=project).returncode == 0
    assert set(json.loads((project / ".mcp.json").read_text())["mcpServers"]) == {"devbox"}
    refused = _connect(user, "codex", "--project", cwd=project)
    assert (refused.returncode, "Codex has no file for a project" in refused.stderr) == (1, True)


def test_the_shown_diff_is_what_happens_also_with_claude_on_the_path(user: Path, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho '{}' > \"$HOME/.claude.json\"\n")
    program.chmod(0o755)
    path = f"{program.parent}:/usr/bin:/bin"
    file = user / ".claude.json"
    file.write_text('{"numStartups": 7, "mcpServers": {}}\n')
    before = file.read_text()
    shown = _run(user, "connect", "claude-code", "--dry-run", path=path).stdout
    assert _run(user, "connect", "claude-code", path=path).returncode == 0
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), file.read_text().splitlines(keepends=True), str(file), str(file)
    )
    assert "".join(lines) in shown
    assert _run(user, "connect", "remove", "claude-code", path=path).returncode == 0
    assert file.read_text() == before


def test_connecting_after_a_rotation_renews_the_entry(user: Path) -> None:
    assert _connect(user, "gemini-cli", "qwen-code", "--profile", "read-only").returncode == 0
    for client in ("gemini-cli", "qwen-code"):
        token = json.loads(_run(user, "token", "rotate", client, "--json").stdout)["token"]
        assert _own_token(user, client) == token
    # One that was rotated elsewhere, as by a page: what was kept is no longer accepted.
    stale = user / ".local/state/mcp-agent/client-tokens/qwen-code"
    stale.write_text("stale\n")
    for client in ("gemini-cli", "qwen-code"):
        assert _connect(user, client, "--profile", "read-only").returncode == 0
        entry = jsonc.at(_read(user / _expected(user)[client][0]), ("mcpServers", "devbox"))
        assert entry["headers"] == {"Authorization": f"Bearer {_own_token(user, client)}"}
    assert stale.read_text() != "stale\n"


def test_the_header_is_printed_and_no_token_is_made_for_it(user: Path) -> None:
    none = _run(user, "token", "header")
    assert (none.returncode, none.stdout) == (2, "")
    assert not _token_file(user).exists()
    shown = _run(user, "token", "show").stdout.strip()
    headers = json.loads(_run(user, "token", "header").stdout)
    doubled = json.loads(_run(user, "token", "header", MCP_AGENT_TOKEN="from-the-environment").stdout)
    assert (headers["Authorization"], doubled["Authorization"]) == (f"Bearer {shown}", "Bearer from-the-environment")
    # One client is one conversation, however often it asks.
    assert headers["X-Session-Id"] == doubled["X-Session-Id"]


def test_what_frameworks_need_is_printed(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _run(user, "token", "show").returncode == 0
    for name in ("claude-agent-sdk", "langchain", "openai-agents", "pydantic-ai"):
        printed = _connect(user, name, "--print").stdout
        compile(printed, name, "exec")
        assert '"X-MCP-Agent-Form": "text"' in printed
        assert str(_token_file(user)) in printed
        assert '"http://127.0.0.1:8765/mcp"' in printed
    assert "client_session_timeout_seconds=120" in _connect(user, "openai-agents", "--print").stdout
    assert json.loads(_connect(user, "runner", "--print").stdout) == {}, "a runner has the pruner only if it is enabled"
    monkeypatch.setenv("JEEVES_PRUNER_ENABLED", "1")
    runner = json.loads(_connect(user, "runner", "--print").stdout)
    assert runner["pruner"]["command"] == str(Path(COMMAND).with_name("mcp-pruner"))
    assert runner["pruner"]["env"]["MCP_PRUNER_CWD"] == str(user)
    execute = shlex.split(_connect(user, "codex-exec", "--print").stdout.replace("\\\n", ""))
    assert execute[:4] == ["codex", "exec", "--config", 'mcp_servers.devbox.url="http://127.0.0.1:8765/mcp"']
    for_web = _connect(user, "open-webui", "--print")
    (web,) = json.loads(for_web.stdout)
    assert "add Open Terminal there: URL http://127.0.0.1:8765/open-terminal, with the same key" in for_web.stderr
    assert web == {
        "type": "mcp",
        "url": "http://127.0.0.1:8765/mcp",
        "auth_type": "bearer",
        "key": _own_token(user, "open-webui"),
        "headers": {
            "X-MCP-Agent-Form": "text",
            "X-OpenWebUI-Chat-Id": "{{CHAT_ID}}",
            "X-OpenWebUI-Message-Id": "{{MESSAGE_ID}}",
            "X-OpenWebUI-User-Id": "{{USER_ID}}",
        },
        "info": {
            "id": "devbox",
            "name": "devbox",
            "description": "Files and commands of this machine (mcp-agent)",
        },
        "config": {"enable": True, "access_grants": []},
    }


def test_eight_at_once_lose_no_entry(user: Path) -> None:
    """Seen: each read the file, and the last to write it took out what others had put in."""
    (user / ".gemini").mkdir()
    (user / ".gemini/settings.json").write_text('{ "theme": "dark" }\n')
    names = [f"box{number}" for number in range(8)]
    env = environment(user, {"PATH": "/usr/bin:/bin"})
    for words in (["connect", "gemini-cli"], ["connect", "remove", "gemini-cli"]):
        started = [
            subprocess.Popen([COMMAND, *words, "--name", name], env=env, cwd=user, stdout=subprocess.DEVNULL)
            for name in names
        ]
        assert [each.wait() for each in started] == [0] * len(names)
        settings = json.loads((user / ".gemini/settings.json").read_text())
        assert set(settings.get("mcpServers", {})) == ({*names} if words[1] != "remove" else set())
    assert settings["theme"] == "dark"


def test_no_diff_shows_a_token_neither_ours_nor_that_of_somebody_else(user: Path) -> None:
    """Seen: `connect remove --dry-run` printed it."""
    (user / ".gemini").mkdir()
    other = {
        "env": {"OTHER_API_KEY": "sk-of-somebody", "REGION": "eu"},
        "headers": {"Authorization": "Bearer abcdefgh"},
    }
    (user / ".gemini/settings.json").write_text(json.dumps({"mcpServers": {"other": other}}, indent=2))
    assert _connect(user, "gemini-cli").returncode == 0
    token = (user / ".local/state/mcp-agent/client-tokens/gemini-cli").read_text().strip()
    assert token in (user / ".gemini/settings.json").read_text()
    for words in (["remove", "gemini-cli"], ["gemini-cli", "--profile", "read-only"]):
        for flags in ([], ["--json"]):
            done = _connect(user, *words, "--dry-run", *flags)
            assert "Bearer …" in done.stdout
            assert not [each for each in (token, "sk-of-somebody", "abcdefgh", "of-an-argument") if each in done.stdout]
    assert "eu" in (user / ".gemini/settings.json").read_text()


def test_a_token_that_a_person_has_made_stays_and_the_client_gets_another(user: Path) -> None:
    """Seen: after `token create open-webui`, as its page says, `connect open-webui --print` left an empty file."""
    made = _run(user, "token", "create", "open-webui")
    assert made.returncode == 0, made.stderr
    printed = [_connect(user, "open-webui", "--print") for _ in range(2)]
    assert [each.returncode for each in printed] == [0, 0], printed[0].stderr
    assert json.loads(printed[0].stdout)[0]["key"] == _own_token(user, "open-webui-connect")
    assert printed[0].stdout == printed[1].stdout
    listed = _run(user, "token", "list").stdout
    assert "open-webui\t" in listed
    assert "open-webui-connect" in listed
