"""The daemon as Open WebUI speaks to a terminal: a key for all users, and headers that say whom it asks for."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.support.daemon import Daemon
from tests.support.waiting import PATIENCE_S

PATH = "/open-terminal"


def terminal(daemon: Daemon, *, user: str = "u-1", chat: str = "c-1", token: str | None = None) -> httpx2.AsyncClient:
    """A client that sends what Open WebUI's own proxy sends for a user in a chat."""
    headers = {"Authorization": f"Bearer {token or daemon.token}"}
    headers |= {"X-User-Id": user} if user else {}
    headers |= {"X-Session-Id": chat} if chat else {}
    return httpx2.AsyncClient(base_url=f"{daemon.url}{PATH}", headers=headers, timeout=PATIENCE_S)


async def get(client: httpx2.AsyncClient, path: str, /, **query: Any) -> Any:
    """What a GET gives, which must be good."""
    answer = await client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def post(client: httpx2.AsyncClient, path: str, /, **body: Any) -> Any:
    answer = await client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def run_tool(client: httpx2.AsyncClient, name: str, /, **arguments: Any) -> httpx2.Response:
    return await client.post(f"/tools/{name}", json=arguments)
