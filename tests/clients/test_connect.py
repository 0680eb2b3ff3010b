"""`mcp-agent connect`: what it writes for each client, and that it leaves everything else as it was."""

from __future__ import annotations

import asyncio
import contextlib
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
                "required": True,
                "default_tools_approval_mode": "approve",
            },
        ),
        "gemini-cli": (
            ".gemini/settings.json",
            ("mcpServers", "devbox"),
            lambda: {"httpUrl": _U, "headers": bearer("gemini-cli"), "trust": True},
        ),
        "copilot-cli": (
            ".copilot/mcp-config.json",
            ("mcpServers", "devbox"),
            lambda: {
                "type": "http",
                "url": _U,
                "headers": {"Authorization": "Bearer ${DEVBOX_TOKEN}", **text},
                "tools": ["*"],
            },
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
            lambda: {"type": "http", "url": _U, "headers": {"Authorization": "Bearer ${env:DEVBOX_TOKEN}"}},
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
        assert stat.S_IMODE((user / file).stat().st_mode) == 0o600, file
    before = {file: (user / file).read_bytes() for file, _, _ in _expected(user).values()}
    again = _connect(user, *names)
    assert again.stdout.count(" has it already\n") == len(names)
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
    lines = done.stdout.splitlines()
    assert [line.split() for line in lines[1:3]] == [
        ["codex", "~/.codex/config.toml", "not", "connected"],
        ["qwen-code", "~/.qwen/settings.json", "not", "connected"],
    ]
    assert "Codex, Qwen Code: profile lean, 13 tools, about " in done.stdout
    assert done.stdout.endswith("Nothing was written. `mcp-agent connect --all` does it, or name the clients.\n")
    assert not (user / ".codex/config.toml").exists()
    assert _connect(user, "--all").returncode == 0
    assert (user / ".codex/config.toml").exists()
    assert (user / ".qwen/settings.json").exists()
    assert "connected\n" in _connect(user).stdout
    assert _connect(user, "remove", "--all").returncode == 0
    assert not (user / ".qwen/settings.json").exists()


def test_on_a_terminal_it_asks(user: Path) -> None:
    (user / ".qwen").mkdir()
    for answer, is_written in ((b"n\n", False), (b"\n", True)):
        terminal, ours = os.openpty()
        os.write(terminal, answer)
        env = {"HOME": str(user), "PATH": "/usr/bin:/bin"}
        done = subprocess.run([COMMAND, "connect"], stdin=ours, capture_output=True, env=env, cwd=user, check=True)
        os.close(terminal)
        os.close(ours)
        assert b"Connect Qwen Code? [Y/n] " in done.stdout
        assert (user / ".qwen/settings.json").exists() is is_written


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
    assert json.loads(shown.stdout) == {"Authorization": "Bearer a-token-of-the-other-machine"}
    opencode = json.loads((user / ".config/opencode/opencode.json").read_text())["mcp"]["devbox"]
    assert opencode["headers"] == {"Authorization": f"Bearer {{file:{token}}}"}
    gemini = json.loads((user / ".gemini/settings.json").read_text())["mcpServers"]["devbox"]
    assert gemini["headers"] == {"Authorization": "Bearer a-token-of-the-other-machine"}
    missing = _connect(user, "codex", "--url", "http://box", "--token-file", str(user / "none"))
    assert (missing.returncode, "none cannot be read" in missing.stderr) == (2, True)


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


def test_claude_code_changes_its_file_itself_where_it_is_installed(user: Path, tmp_path: Path) -> None:
    """A stand-in that takes the same command line as the program, and writes the same file."""
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(
        "#!/usr/bin/env python3\n"
        "import json, pathlib, sys\n"
        "_, mcp, verb, s, user, name, *entry = sys.argv\n"
        "assert (mcp, s, user) == ('mcp', '-s', 'user')\n"
        "path = pathlib.Path.home() / '.claude.json'\n"
        "state = json.loads(path.read_text()) if path.exists() else {'mcpServers': {}}\n"
        "state['wrote'] = verb\n"
        "if verb == 'remove': del state['mcpServers'][name]\n"
        "else: state['mcpServers'][name] = json.loads(entry[0])\n"
        "path.write_text(json.dumps(state))\n"
    )
    program.chmod(0o755)
    path = f"{program.parent}:/usr/bin:/bin"
    done = _run(user, "connect", "claude-code", path=path)
    assert "`claude mcp add-json -s user devbox` changed ~/.claude.json" in done.stdout
    state = json.loads((user / ".claude.json").read_text())
    assert state["wrote"] == "add-json"
    assert state["mcpServers"]["devbox"]["alwaysLoad"] is True
    assert _run(user, "connect", "claude-code", "--stdio", path=path).returncode == 0
    assert json.loads((user / ".claude.json").read_text())["mcpServers"]["devbox"]["type"] == "stdio"
    assert _run(user, "connect", "remove", "claude-code", path=path).returncode == 0
    assert json.loads((user / ".claude.json").read_text()) == {"mcpServers": {}, "wrote": "remove"}


def test_the_header_is_printed_and_no_token_is_made_for_it(user: Path) -> None:
    none = _run(user, "token", "header")
    assert (none.returncode, none.stdout) == (2, "")
    assert not _token_file(user).exists()
    shown = _run(user, "token", "show").stdout.strip()
    assert json.loads(_run(user, "token", "header").stdout) == {"Authorization": f"Bearer {shown}"}
    doubled = _run(user, "token", "header", MCP_AGENT_TOKEN="from-the-environment")
    assert json.loads(doubled.stdout) == {"Authorization": "Bearer from-the-environment"}


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
