"""Programs from the makers of the protocol, let in by the click of their owner in a real browser.

Those of others are in tests/clients/real.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
import pytest_asyncio
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from playwright.async_api import Page

from tests.support import consent, node, programs
from tests.support.browser import chromium
from tests.support.daemon import Daemon
from tests.support.oauth_login import LoginHome

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(180)]

# A document that is built in, so nothing is fetched.
_DOCUMENT = "https://claude.ai/oauth/claude-code-client-metadata"
_READ_ONLY = {"fs_list", "fs_read", "fs_grep"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def page() -> AsyncIterator[Page]:
    """One browser for all: the owner logs in once."""
    async with chromium() as browser:
        yield await (await browser.new_context()).new_page()


def _check(names: list[str]) -> None:
    assert set(names) > _READ_ONLY
    assert "shell_exec" not in names


class _Kept:
    """What the Python client keeps."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.mark.parametrize("document", [None, _DOCUMENT])
async def test_the_python_client(public: Daemon, page: Page, document: str | None) -> None:
    """By registration, and by its document."""
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def called_back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = (await reader.readline()).split()[1].decode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\ndone")
        await writer.drain()
        writer.close()
        if not answer.done():
            answer.set_result(target)

    async with await asyncio.start_server(called_back, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        shown = ""

        async def open_browser(url: str) -> None:
            nonlocal shown
            await page.goto(url)
            shown = await consent.answer(page, public)

        async def wait_for_answer() -> AuthorizationCodeResult:
            found = dict(parse_qsl(urlsplit(await answer).query))
            return AuthorizationCodeResult(code=found["code"], state=found["state"], iss=found["iss"])

        metadata: dict[str, Any] = {
            "redirect_uris": [f"http://localhost:{port}/callback"],
            "client_name": "A Python test",
            "token_endpoint_auth_method": "none",
        }
        kept = _Kept()
        provider = OAuthClientProvider(
            f"{public.url}/mcp",
            OAuthClientMetadata.model_validate(metadata),
            kept,
            open_browser,
            wait_for_answer,
            client_metadata_url=document,
        )
        async with (
            httpx2.AsyncClient(auth=provider, timeout=20) as http,
            Client(streamable_http_client(f"{public.url}/mcp", http_client=http)) as client,
        ):
            _check([tool.name for tool in (await client.list_tools()).tools])
    assert kept.client is not None
    assert (kept.client.client_id == document) == (document is not None)
    claimed = "It calls itself \u201cA Python test\u201d. Nobody vouches for that name."
    assert (claimed if document is None else "claude.ai says that this is Claude Code.") in shown
    assert f"localhost:{port}" in shown


@pytest.mark.parametrize(("generation", "document"), [(1, None), (1, _DOCUMENT), (2, None), (2, _DOCUMENT)])
async def test_the_typescript_clients(
    public: Daemon, page: Page, tmp_path: Path, generation: int, document: str | None
) -> None:
    home = LoginHome(tmp_path / "home")
    asked = {
        "modules": str(programs.typescript_sdk() if generation == 1 else programs.typescript_client()),
        "generation": generation,
        "document": document,
        "url": f"{public.url}/mcp",
    }
    script = Path(__file__).with_name("typescript_client.mjs")
    printed = await home.log_in(page, public, node.NODE, str(script), json.dumps(asked))
    found = json.loads(printed.splitlines()[-1])
    _check(found["names"])
    assert (found["client"] == document) == (document is not None)


async def test_the_inspector(public: Daemon, page: Page, tmp_path: Path) -> None:
    home = LoginHome(tmp_path / "home")
    inspector = str(programs.inspector() / ".bin" / "mcp-inspector")
    where = ["--server-url", f"{public.url}/mcp", "--transport", "http"]
    listing = [inspector, "--cli", "--format", "json", "--quiet", *where, "--method", "tools/list"]
    printed = await home.log_in(page, public, "env", "MCP_AUTO_OPEN_ENABLED=true", *listing)
    found = json.loads(printed[printed.index("{") :])
    _check([tool["name"] for tool in found["result"]["tools"]])
