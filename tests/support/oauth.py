"""A daemon with a public name, a client of OAuth by hand, and the owner's browser without a window."""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx2

from tests.support.browser import login_link
from tests.support.daemon import Daemon, running
from tests.support.waiting import PATIENCE_S

PUBLIC_URL = "https://box.example"
CALLBACK = "http://localhost:39999/callback"
VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
PAGE = {"X-MCP-Agent-Page": "1"}


@contextlib.contextmanager
def public_daemon(home: Path, *arguments: str, **how: Any) -> Iterator[Daemon]:
    """A daemon with OAuth. By its address on this machine it is reached without the proxy that others come by."""
    with running(home, "--public-url", PUBLIC_URL, *arguments, **how) as daemon:
        yield daemon


class OAuthPeer:
    """A client, step by step, so that each step can be done wrongly; and its owner, who answers the consent."""

    def __init__(self, daemon: Daemon, **headers: str) -> None:
        self.daemon = daemon
        self.http = httpx2.AsyncClient(base_url=daemon.url, headers=headers, timeout=PATIENCE_S)

    async def __aenter__(self) -> OAuthPeer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()

    async def register(self, *redirects: str, **more: Any) -> str:
        answer = await self.http.post("/register", json={"redirect_uris": redirects or [CALLBACK], **more})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["client_id"])

    def query(self, client_id: str, **changed: str | None) -> dict[str, str]:
        usual = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": CALLBACK,
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "state": "x&y",
            "resource": f"{self.daemon.url}/mcp",
        }
        return {name: value for name, value in {**usual, **changed}.items() if value is not None}

    async def log_in(self) -> None:
        """Log the owner in; the cookie is kept for what follows."""
        answer = await self.http.get(login_link(self.daemon))
        assert answer.status_code == 303

    async def ask(self, **query: str) -> httpx2.Response:
        """What the page of the consent is told of a request."""
        begun = await self.http.get("/authorize", params=query)
        assert begun.status_code == 303
        path, _, passed_on = begun.headers["location"].partition("?")
        assert path == "/ui/consent"
        if "mcp-agent-page" not in str(self.http.cookies):
            await self.log_in()
        return await self.http.get(f"/ui/api/oauth/request?{passed_on}", headers=PAGE)

    async def answer(self, query: dict[str, str], **answer: Any) -> dict[str, str]:
        """What the client is sent when the owner has answered."""
        given = {"allow": True, "profile": "read-only", "days": 30, **answer}
        sent = await self.http.post("/ui/api/oauth/answer", json={"request": query, **given}, headers=PAGE)
        assert sent.status_code == 200, sent.text
        return sent_back(sent.json()["location"])

    async def code(self, client_id: str, *, given: dict[str, Any] | None = None, **changed: str | None) -> str:
        query = self.query(client_id, **changed)
        asked = await self.ask(**query)
        assert asked.status_code == 200, asked.text
        return (await self.answer(query, **given or {}))["code"]

    async def exchange(self, client_id: str, code: str, **changed: str) -> httpx2.Response:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "client_id": client_id,
            "code_verifier": VERIFIER,
            "redirect_uri": CALLBACK,
        }
        return await self.http.post("/token", data={**form, **changed})

    async def refresh(self, client_id: str, token: str) -> httpx2.Response:
        form = {"grant_type": "refresh_token", "client_id": client_id, "refresh_token": token}
        return await self.http.post("/token", data=form)

    async def granted(
        self, client_id: str = "", *, given: dict[str, Any] | None = None, **changed: str | None
    ) -> tuple[str, dict[str, Any]]:
        """A client id, and the tokens of a grant, all done rightly."""
        client_id = client_id or await self.register(client_name="Tester")
        code = await self.code(client_id, given=given, **changed)
        answer = await self.exchange(client_id, code)
        assert answer.status_code == 200, answer.text
        return client_id, answer.json()

    async def call(self, token: str, method: str = "tools/list", path: str = "/mcp", **params: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await self.http.post(path, json=message, headers=headers)


def sent_back(location: str) -> dict[str, str]:
    """The query of an address that a client is sent to."""
    return dict(parse_qsl(urlsplit(location).query))


def with_query(path: str, query: dict[str, str]) -> str:
    return f"{path}?{urlencode(query)}"
