"""The programs of others that the tests run, each at one version.

`python -m tests.support.programs` installs those that are missing and says so, before the clock of any test runs.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from mcp_agent.page import terminal_component
from tests.support import cache, node

_SYSTEM = f"linux-{'arm64' if platform.machine() in ('aarch64', 'arm64') else 'x64'}"


def typescript_sdk() -> Path:
    return node.installed("@modelcontextprotocol/sdk", "1.32.2")


def typescript_client() -> Path:
    return node.installed("@modelcontextprotocol/client", "2.4.0")


def inspector() -> Path:
    return node.installed("@modelcontextprotocol/inspector", "2.12.0")


def conformance_suite() -> Path:
    return node.installed("@modelcontextprotocol/conformance", "0.1.16")


def next_conformance_suite() -> Path:
    return node.installed("@modelcontextprotocol/conformance", "0.2.0-alpha.12")


def biome() -> Path:
    """The formatter and linter of the page's JavaScript, as a script for Node."""
    return node.installed("@biomejs/biome", "2.6.7") / "@biomejs" / "biome" / "bin" / "biome"


def typescript() -> Path:
    """The compiler, which checks the types of the page's JavaScript; a script for Node."""
    return node.installed("typescript", "7.0.2") / "typescript" / "bin" / "tsc"


def claude_code() -> list[str]:
    """The command line that starts it; so for each of the coding clients. Their binaries are inside the packages."""
    return [str(node.installed("@anthropic-ai/claude-code", "2.1.326") / f"@anthropic-ai/claude-code-{_SYSTEM}/claude")]


def codex() -> list[str]:
    folder = node.installed("@openai/codex", "0.169.0") / f"@openai/codex-{_SYSTEM}"
    return [str(next(folder.glob("vendor/*/bin/codex")))]


def gemini_cli() -> list[str]:
    return [node.NODE, str(node.installed("@google/gemini-cli", "0.61.0") / "@google/gemini-cli/bundle/gemini.js")]


def copilot_cli() -> list[str]:
    return [str(node.installed("@github/copilot", "1.0.102") / f"@github/copilot-{_SYSTEM}/copilot")]


def opencode() -> list[str]:
    return [str(node.installed("opencode-ai", "1.18.33") / f"opencode-{_SYSTEM}/bin/opencode")]


def cline() -> list[str]:
    return [str(node.installed("cline", "3.0.65") / f"@cline/cli-{_SYSTEM}/bin/cline")]


def qwen_code() -> list[str]:
    return [node.NODE, str(node.installed("@qwen-code/qwen-code", "0.24.4") / "@qwen-code/qwen-code/cli-entry.js")]


def mcp_remote() -> list[str]:
    """The bridge from stdio to HTTP that Claude Desktop and others start."""
    return [node.NODE, str(node.installed("mcp-remote", "0.15.1") / "mcp-remote" / "dist" / "proxy.js")]


def fastmcp() -> str:
    """The interpreter that has it."""
    return cache.python("fastmcp-slim[client]==4.1.6")


def frameworks() -> str:
    """The interpreter that has them."""
    others = ("langchain-mcp-adapters==0.3.2", "pydantic-ai-slim[mcp]==2.66.0", "claude-agent-sdk==0.2.183")
    return cache.python("openai-agents==0.24.0", *others)


def mcpo() -> str:
    """The interpreter that has it. It needs the first generation of the official client, and ours is the second."""
    return cache.python("mcpo==0.0.20", "mcp<2", "fastapi==0.128.0")


def first_python_sdk() -> str:
    """An interpreter with the first generation of the official Python client; ours has the second."""
    return mcpo()


def schemathesis() -> str:
    """The interpreter that has it."""
    return cache.python("schemathesis==4.32.5")


def everything_server() -> Path:
    """The reference server with a tool for each feature of MCP, as a script for Node."""
    return _server_script("@modelcontextprotocol/server-everything", "2026.8.31")


def filesystem_server() -> Path:
    return _server_script("@modelcontextprotocol/server-filesystem", "2026.8.31")


def desktop_commander() -> Path:
    """For `make replay` alone."""
    return _server_script("@wonderwhy-er/desktop-commander", "0.2.52")


def memory_server() -> Path:
    return _server_script("@modelcontextprotocol/server-memory", "2026.8.31")


def browser_server() -> Path:
    """Playwright's server, which drives the system's Chromium."""
    return node.installed("@playwright/mcp", "0.0.83") / "@playwright" / "mcp" / "cli.js"


def git_server() -> str:
    """The interpreter that has it: `-m mcp_server_git`."""
    return cache.python("mcp-server-git==2026.10.19")


def open_webui() -> str:
    """The interpreter that has it: several gigabytes, so only `make test-openwebui` asks for it."""
    return cache.python("open-webui==0.12.4", "torch==2.13.0")


def _server_script(package: str, version: str) -> Path:
    return node.installed(package, version) / package / "dist" / "index.js"


def terminal() -> None:
    """The terminal of the Tools page, as `make serve` and wheels have it."""
    terminal_component.fetch()


# For `make test-clients` alone: together they have 2 GB.
CODING_CLIENTS: Mapping[str, Callable[[], list[str]]] = {
    "claude-code": claude_code,
    "codex": codex,
    "gemini-cli": gemini_cli,
    "copilot-cli": copilot_cli,
    "opencode": opencode,
    "cline": cline,
    "qwen-code": qwen_code,
}
_ALL: tuple[Callable[[], object], ...] = (
    typescript_sdk,
    typescript_client,
    inspector,
    conformance_suite,
    next_conformance_suite,
    mcpo,
    schemathesis,
    terminal,
    everything_server,
    filesystem_server,
    memory_server,
    browser_server,
    git_server,
)

if __name__ == "__main__":
    programs = (*CODING_CLIENTS.values(), frameworks, mcp_remote, fastmcp) if sys.argv[1:] == ["clients"] else _ALL
    for number, program in enumerate(programs, 1):
        name = program.__name__.replace("_", " ")
        print(f"    {number} of {len(programs)}: {name}", flush=True)
        program()
