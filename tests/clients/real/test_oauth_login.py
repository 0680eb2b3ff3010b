"""Programs that people use, let in by OAuth with the click of their owner in a real browser."""

from __future__ import annotations

import json
import shlex
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from playwright.async_api import Page

from tests.support import programs
from tests.support.browser import chromium
from tests.support.daemon import Daemon
from tests.support.oauth import public_daemon
from tests.support.oauth_login import LoginHome

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with public_daemon(tmp_path_factory.mktemp("home")) as daemon:
        yield daemon


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page() -> AsyncIterator[Page]:
    async with chromium() as browser:
        yield await (await browser.new_context()).new_page()


@pytest.fixture
def home(tmp_path: Path) -> LoginHome:
    return LoginHome(tmp_path / "home")


def _granted(daemon: Daemon) -> dict[str, str]:
    """The profiles of the grants, by their names."""
    listed = json.loads(daemon.cli("token", "list", "--json").stdout)
    return {each["name"]: each["profile"] for each in listed if each["name"].endswith("@oauth")}


async def test_claude_code(public: Daemon, page: Page, home: LoginHome) -> None:
    claude = programs.claude_code()
    await home.run(*claude, "mcp", "add", "--transport", "http", "devbox", f"{public.url}/mcp")
    # It asks only at a terminal.
    login = shlex.join([*claude, "mcp", "login", "devbox"])
    printed = await home.log_in(page, public, "script", "-qefc", login, "/dev/null", profile="lean")
    assert 'Authenticated with "devbox"' in printed
    assert "Connected" in await home.run(*claude, "mcp", "list")
    assert _granted(public)["claude-code@oauth"] == "lean"


async def test_codex(public: Daemon, page: Page, home: LoginHome) -> None:
    codex = programs.codex()
    printed = await home.log_in(page, public, *codex, "mcp", "add", "devbox", "--url", f"{public.url}/mcp")
    assert "logged in" in printed
    assert "logged in" in await home.log_in(page, public, *codex, "mcp", "login", "devbox")
    assert "OAuth" in await home.run(*codex, "mcp", "list")
    assert _granted(public)["codex@oauth"] == "read-only"


async def test_opencode(public: Daemon, page: Page, home: LoginHome) -> None:
    server = {"type": "remote", "url": f"{public.url}/mcp"}
    (home.folder / "opencode.json").write_text(json.dumps({"mcp": {"devbox": server}}))
    await home.log_in(page, public, *programs.opencode(), "mcp", "auth", "devbox")
    assert "connected" in await home.run(*programs.opencode(), "mcp", "list")


async def test_mcp_remote(public: Daemon, page: Page, home: LoginHome) -> None:
    """The bridge that Claude Desktop and others start; a client speaks to it over stdio."""
    command, *arguments = [*programs.mcp_remote(), f"{public.url}/mcp"]
    server = StdioServerParameters(command=command, args=arguments, env=home.environment, cwd=home.folder)
    async with home.clicking(page, public), Client(stdio_client(server)) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert "fs_read" in names
        assert "shell_exec" not in names


_FASTMCP = """
import asyncio, sys
from fastmcp import Client

async def main():
    async with Client(sys.argv[1], auth="oauth") as client:
        print([tool.name for tool in await client.list_tools()])

asyncio.run(main())
"""


async def test_fastmcp(public: Daemon, page: Page, home: LoginHome) -> None:
    printed = await home.log_in(page, public, programs.fastmcp(), "-c", _FASTMCP, f"{public.url}/mcp")
    assert "'fs_read'" in printed
    assert "'shell_exec'" not in printed
