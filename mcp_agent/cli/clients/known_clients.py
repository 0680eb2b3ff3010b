"""The clients that `connect` knows: the file of each, what its entry looks like, and what it does with results."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from mcp_agent.cli.clients.approval import Approval, ApprovalRules
from mcp_agent.cli.clients.config_file import ConfigEntry, Format, project_file
from registry.user_error import UserError

# How an entry carries the token: as a command that prints the header, as the path of a file, as a variable of the
# environment, or as it is. Only the last puts a secret into the file.
Secret = Literal["helper", "file", "variable", "literal"]
VARIABLE = "DEVBOX_TOKEN"
# The profile for programs that read, search and run commands themselves.
LEAN = "lean"
# Elsewhere it is below the home folder on every system.
_ON_WINDOWS = {"zed": r"%APPDATA%\Zed\settings.json"}
_TEXT = {"X-MCP-Agent-Form": "text"}
# Of those that have no command which connects: they connect when they start, and the daemon says so.
_AUDIT = "start it; then `mcp-agent audit --event connect` names"
# Otherwise Codex makes one call after the other.
_PARALLEL = {"supports_parallel_tool_calls": True}


class Client(Struct, frozen=True):
    """A client. `http` makes the entry from the URL and the secret, `stdio` from the program and its arguments."""

    id: str
    title: str
    # Names of its program, and what it leaves in the home folder: either shows that it is installed.
    programs: tuple[str, ...]
    traces: tuple[str, ...]
    # Its file below the home folder: the first of these that exists, else the first.
    files: tuple[str, ...]
    keys: tuple[str, ...]
    secret: Secret
    http: Callable[[str, str], dict[str, Any]]
    stdio: Callable[[str, list[str]], dict[str, Any]]
    approval: Approval = Approval(
        "asks before each tool, unless its settings say otherwise", instead="see its settings"
    )
    aliases: tuple[str, ...] = ()
    # It takes a token from a variable of the environment alone, which nobody has set at the first start: on this
    # machine it reaches the daemon through a bridge that it starts.
    attaches: bool = False
    format: Format = "json"
    # Its file below the folder of a project.
    project_file: str | None = None
    # A variable that moves its folder, and the file in it.
    moved_by: tuple[str, str] | None = None
    # The profile that fits it; None for all tools.
    profile: str | None = LEAN
    # What it does with a long result, in a sentence.
    long_results: str = ""
    # How to see that it works.
    check: str = ""

    @property
    def usual_file(self) -> str:
        """Where its file is on any machine, as a person writes it."""
        if not self.files:
            return f"{self.project_file} of the project"
        on_windows = _ON_WINDOWS.get(self.id) or f"%USERPROFILE%/{self.files[0]}".replace("/", "\\")
        return f"~/{self.files[0]} (on Windows {on_windows})"

    def place(self, name: str, project: Path | None = None, backups: Path | None = None) -> ConfigEntry:
        """Where its entry `name` belongs: in the file of its user, or of a project. Raises UserError.

        `backups` is where the old files of a project are kept, which is not in it.
        """
        if project is not None:
            if self.project_file is None:
                raise UserError(f"{self.title} has no file for a project")
            return ConfigEntry(project_file(project, self.project_file), self.format, (*self.keys, name), backups)
        if self.moved_by is not None and (folder := os.environ.get(self.moved_by[0])):
            return ConfigEntry(Path(folder) / self.moved_by[1], self.format, (*self.keys, name))
        paths = [Path.home() / file for file in self.files]
        return ConfigEntry(next((path for path in paths if path.exists()), paths[0]), self.format, (*self.keys, name))

    @property
    def is_of_project(self) -> bool:
        """Whether it has no file but that of a project."""
        return not self.files

    @property
    def is_installed(self) -> bool:
        """Whether its program is on the PATH, or has left something in the home folder."""
        home = Path.home()
        return any(map(shutil.which, self.programs)) or any((home / trace).exists() for trace in self.traces)


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def _command(command: str, arguments: list[str]) -> dict[str, Any]:
    return {"command": command, "args": arguments}


CLIENTS: tuple[Client, ...] = (
    Client(
        id="claude-code",
        title="Claude Code",
        programs=("claude",),
        traces=(".claude.json", ".claude"),
        files=(".claude.json",),
        project_file=".mcp.json",
        moved_by=("CLAUDE_CONFIG_DIR", ".claude.json"),
        keys=("mcpServers",),
        secret="helper",
        # Without `alwaysLoad` it hides the tools behind a search of its own, and does not wait for a slow server.
        http=lambda url, helper: {"type": "http", "url": url, "headersHelper": helper, "alwaysLoad": True},
        stdio=lambda command, arguments: {"type": "stdio", **_command(command, arguments), "alwaysLoad": True},
        approval=Approval(
            "asks before each tool; `claude -p` refuses them all",
            rules=ApprovalRules(
                ".claude/settings.json", ("CLAUDE_CONFIG_DIR", "settings.json"), ("permissions", "allow")
            ),
        ),
        aliases=("claude",),
        long_results="takes up to 131 KB, because our tools say so; then it keeps the rest in a file",
        check="claude mcp get devbox",
    ),
    Client(
        id="codex",
        title="Codex",
        programs=("codex",),
        traces=(".codex",),
        files=(".codex/config.toml",),
        moved_by=("CODEX_HOME", "config.toml"),
        format="toml",
        keys=("mcp_servers",),
        secret="helper",
        http=lambda url, helper: {"url": url, "http_headers_helper": helper, **_PARALLEL},
        stdio=lambda command, arguments: {**_command(command, arguments), **_PARALLEL},
        approval=Approval(
            "asks before tools that write or run commands; `codex exec` refuses these",
            all={"default_tools_approval_mode": "approve"},
            tools=lambda names: {"tools": {name: {"approval_mode": "approve"} for name in names}},
        ),
        long_results="shows its model 12 KB, and cuts the middle out of what is longer",
        check=f"{_AUDIT} codex-mcp-client",
    ),
    Client(
        id="gemini-cli",
        title="Gemini CLI",
        programs=("gemini",),
        traces=(".gemini",),
        files=(".gemini/settings.json",),
        project_file=".gemini/settings.json",
        keys=("mcpServers",),
        secret="literal",
        http=lambda url, token: {"httpUrl": url, "headers": _bearer(token)},
        stdio=_command,
        approval=Approval("asks before each tool; `gemini -p` offers its model none of them", all={"trust": True}),
        aliases=("gemini",),
        long_results="passes on the whole result",
        check="gemini mcp list",
    ),
    Client(
        id="copilot-cli",
        title="GitHub Copilot CLI",
        programs=("copilot",),
        traces=(".copilot",),
        files=(".copilot/mcp-config.json",),
        moved_by=("COPILOT_HOME", "mcp-config.json"),
        keys=("mcpServers",),
        secret="variable",
        attaches=True,
        http=lambda url, variable: {
            "type": "http",
            "url": url,
            "headers": {**_bearer(f"${{{variable}}}"), **_TEXT},
            "tools": ["*"],
        },
        stdio=lambda command, arguments: {"type": "local", **_command(command, arguments), "tools": ["*"]},
        approval=Approval(
            "asks before each tool; `copilot -p` refuses them without --allow-tool",
            instead="start it with --allow-tool and the name of the server",
        ),
        aliases=("copilot",),
        long_results="shows its model up to 16 KB; of a longer result 500 characters",
        check=f"{_AUDIT} copilot-cli",
    ),
    Client(
        id="opencode",
        title="opencode",
        programs=("opencode",),
        traces=(".config/opencode",),
        files=(".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"),
        project_file="opencode.json",
        moved_by=("XDG_CONFIG_HOME", "opencode/opencode.json"),
        keys=("mcp",),
        secret="file",
        http=lambda url, path: {"type": "remote", "url": url, "headers": _bearer(f"{{file:{path}}}")},
        stdio=lambda command, arguments: {"type": "local", "command": [command, *arguments]},
        approval=Approval(
            "runs every tool unasked, commands too; `permission` in its file changes that",
            all={},
            instead="set `permission` in its file",
        ),
        long_results="shows its model up to 50 KB and 2,000 lines; the rest it keeps in a file",
        check="opencode mcp list",
    ),
    Client(
        id="cline",
        title="Cline",
        programs=("cline",),
        traces=(".cline",),
        files=(".cline/data/settings/cline_mcp_settings.json",),
        keys=("mcpServers",),
        secret="literal",
        http=lambda url, token: {"transport": {"type": "streamableHttp", "url": url, "headers": _bearer(token)}},
        stdio=lambda command, arguments: {"transport": {"type": "stdio", **_command(command, arguments)}},
        long_results="shows its model up to 8 KB of JSON, and cuts the middle out of what is longer",
        check=f"{_AUDIT} @cline/core",
    ),
    Client(
        id="qwen-code",
        title="Qwen Code",
        programs=("qwen",),
        traces=(".qwen",),
        files=(".qwen/settings.json",),
        project_file=".qwen/settings.json",
        keys=("mcpServers",),
        secret="literal",
        # Without the last one it hides the tools behind a search of its own.
        http=lambda url, token: {"httpUrl": url, "headers": _bearer(token), "alwaysLoadTools": True},
        stdio=lambda command, arguments: {**_command(command, arguments), "alwaysLoadTools": True},
        approval=Approval("asks before each tool; `qwen -p` refuses them all", all={"trust": True}),
        aliases=("qwen",),
        long_results="shows its model up to 25 KB and 1,000 lines; the rest it keeps in a file",
        check="qwen mcp list",
    ),
    Client(
        id="vscode",
        title="VS Code",
        programs=("code", "code-insiders", "codium"),
        traces=(".vscode",),
        files=(),
        project_file=".vscode/mcp.json",
        keys=("servers",),
        secret="variable",
        attaches=True,
        http=lambda url, variable: {"type": "http", "url": url, "headers": _bearer(f"${{env:{variable}}}")},
        stdio=lambda command, arguments: {
            "type": "stdio",
            **_command(command, arguments),
            "cwd": "${workspaceFolder}",
        },
        aliases=("vs-code", "code"),
        long_results="keeps a result over 8 KB in a file, which its model can read",
        check="the command *MCP: List Servers*",
    ),
    Client(
        id="cursor",
        title="Cursor",
        programs=("cursor", "cursor-agent"),
        traces=(".cursor",),
        files=(".cursor/mcp.json",),
        project_file=".cursor/mcp.json",
        keys=("mcpServers",),
        secret="literal",
        http=lambda url, token: {"url": url, "headers": {**_bearer(token), **_TEXT}},
        stdio=_command,
        check="Settings → MCP",
    ),
    Client(
        id="windsurf",
        title="Windsurf",
        programs=("windsurf",),
        traces=(".codeium/windsurf",),
        files=(".codeium/windsurf/mcp_config.json",),
        keys=("mcpServers",),
        secret="literal",
        http=lambda url, token: {"serverUrl": url, "headers": {**_bearer(token), **_TEXT}},
        stdio=_command,
        check="Settings → Cascade → MCP servers",
    ),
    Client(
        id="zed",
        title="Zed",
        programs=("zed", "zeditor"),
        traces=(".config/zed",),
        files=(".config/zed/settings.json",),
        keys=("context_servers",),
        secret="literal",
        http=lambda url, token: {"url": url, "headers": {**_bearer(token), **_TEXT}},
        stdio=_command,
        check="the agent panel's settings",
    ),
)


def find_client(name: str) -> Client | None:
    """The client of that name or alias."""
    return next((each for each in CLIENTS if name in (each.id, *each.aliases)), None)


def client_names() -> list[str]:
    """What `connect` takes: the clients, and what it prints for frameworks."""
    from mcp_agent.cli.clients.frameworks import PRINTED

    return [*(client.id for client in CLIENTS), *PRINTED]
