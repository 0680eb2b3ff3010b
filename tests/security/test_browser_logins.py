"""The login of a browser: a one-time link, a cookie for the page alone, and what a change needs besides."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from http.cookies import SimpleCookie
from pathlib import Path

import httpx2
import pytest

from mcp_agent.security.browser_logins import LOGIN_S, BrowserLogins
from tests.support.browser import login_link
from tests.support.daemon import Daemon, command, running
from tests.support.waiting import PATIENCE_S

_PAGE = {"X-MCP-Agent-Page": "1"}


@pytest.fixture
async def visitor(shared_daemon: Daemon) -> AsyncIterator[httpx2.AsyncClient]:
    """Somebody without a token."""
    async with httpx2.AsyncClient(base_url=shared_daemon.url) as client:
        yield client


async def _cookie(daemon: Daemon, visitor: httpx2.AsyncClient) -> str:
    answer = await visitor.get(login_link(daemon))
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    name, morsel = next(iter(SimpleCookie(answer.headers["set-cookie"]).items()))
    return f"{name}={morsel.value}"


async def test_the_link_logs_a_browser_in_once(shared_daemon: Daemon, visitor: httpx2.AsyncClient) -> None:
    link = login_link(shared_daemon)
    answer = await visitor.get(link)
    name, morsel = next(iter(SimpleCookie(answer.headers["set-cookie"]).items()))
    assert name == f"mcp-agent-page-{httpx2.URL(shared_daemon.url).port}"
    assert (morsel["path"], morsel["httponly"], morsel["samesite"]) == ("/ui/", True, "Strict")
    again = await visitor.get(link)
    assert (again.status_code, again.headers["location"]) == (303, "/#/expired")
    assert "set-cookie" not in again.headers


async def test_the_page_itself_needs_no_login_and_its_data_do(visitor: httpx2.AsyncClient) -> None:
    page = await visitor.get("/", headers={"Accept": "text/html"})
    assert page.status_code == 200
    assert page.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    for name in re.findall(r'(?:href|src)="(/ui/[^"]+)"', page.text):
        assert (await visitor.get(name)).status_code == 200
    for path in ("/ui/api/status", "/ui/stream", "/ui/api/nothing"):
        answer = await visitor.get(path, headers=_PAGE)
        assert (answer.status_code, answer.json()["error"]["hint"]) == (
            401,
            "run `mcp-agent open` on the machine of the daemon",
        )


@pytest.mark.parametrize("path", ["/ui/../../etc/passwd", "/ui/%2e%2e/page.py", "/ui/", "/ui/static/index.html"])
async def test_only_files_of_the_page_are_served(visitor: httpx2.AsyncClient, path: str) -> None:
    answer = await visitor.get(path)
    assert answer.status_code in (200, 401, 404)
    if answer.status_code == 200:
        assert answer.text.startswith("<!doctype html>")


async def test_the_cookie_is_for_the_page_alone(shared_daemon: Daemon, visitor: httpx2.AsyncClient) -> None:
    cookie = {"Cookie": await _cookie(shared_daemon, visitor)}
    assert (await visitor.get("/ui/api/status", headers={**_PAGE, **cookie})).status_code == 200
    for path in ("/api/status", "/events", "/metrics", "/openapi.json"):
        assert (await visitor.get(path, headers={**_PAGE, **cookie})).status_code == 401
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for path in ("/mcp", "/", "/rpc"):
        assert (await visitor.post(path, json=call, headers={**_PAGE, **cookie})).status_code == 401


async def test_a_request_needs_the_header_and_a_change_needs_json(
    shared_daemon: Daemon, visitor: httpx2.AsyncClient
) -> None:
    cookie = {"Cookie": await _cookie(shared_daemon, visitor)}
    assert (await visitor.get("/ui/api/status", headers=cookie)).status_code == 403
    body = json.dumps({"profile": "default"})
    asked = {
        "no header": {**cookie, "Content-Type": "application/json"},
        "a form": {**cookie, **_PAGE, "Content-Type": "text/plain"},
        "another page": {**cookie, **_PAGE, "Content-Type": "application/json", "Origin": "http://127.0.0.1:9"},
    }
    found = {
        name: (await visitor.post("/ui/api/profiles/use", content=body, headers=headers)).status_code
        for name, headers in asked.items()
    }
    assert found == {"no header": 403, "a form": 415, "another page": 403}
    empty = await visitor.post("/ui/api/profiles/use", headers={**cookie, **_PAGE})
    assert empty.status_code == 415


async def test_a_login_outlives_a_restart_and_ends_with_the_token(home: Path) -> None:
    with running(home) as daemon:
        async with httpx2.AsyncClient(base_url=daemon.url) as client:
            cookie = await _cookie(daemon, client)
    with running(home) as daemon:
        async with httpx2.AsyncClient(base_url=daemon.url, headers={**_PAGE, "Cookie": cookie}) as client:
            assert (await client.get("/ui/api/status")).status_code == 200
    done = daemon.cli("token", "rotate")
    assert done.returncode == 0
    with running(home) as daemon:
        async with httpx2.AsyncClient(base_url=daemon.url, headers={**_PAGE, "Cookie": cookie}) as client:
            assert (await client.get("/ui/api/status")).status_code == 401


async def test_a_copy_of_the_cookie_is_worth_nothing_after_the_logout(tmp_path: Path) -> None:
    """Seen: it opened the page for a week."""
    with running(tmp_path) as daemon:
        async with httpx2.AsyncClient(base_url=daemon.url, headers=_PAGE) as client:
            left, kept = await _cookie(daemon, client), await _cookie(daemon, client)
            stream = client.stream("GET", "/ui/stream", headers={"Cookie": left})
            async with asyncio.timeout(PATIENCE_S), stream as copied:
                logout = await client.post("/ui/logout", json={}, headers={"Cookie": left})
                assert logout.status_code == 200
                async for _ in copied.aiter_bytes():
                    pass
            for cookie, status in ((left, 401), (kept, 200)):
                answer = await client.get("/ui/api/status", headers={"Cookie": cookie})
                assert answer.status_code == status
                assert answer.headers["cache-control"] == "no-store"
                assert answer.headers["x-content-type-options"] == "nosniff"
        events = [
            json.loads(line)["event"] for line in daemon.cli("audit", "--event", "page_*", "--json").stdout.splitlines()
        ]
        assert events == ["page_login", "page_login", "page_logout"]
    with running(tmp_path) as daemon:
        async with httpx2.AsyncClient(base_url=daemon.url, headers=_PAGE) as client:
            # Another port has cookies of another name; what is in them is the same.
            for cookie, status in ((left, 401), (kept, 200)):
                assert (await client.get("/ui/api/status", headers={"Cookie": cookie})).status_code == status


def test_a_ticket_and_a_cookie_get_too_old(tmp_path: Path) -> None:
    now = [1_000_000.0]
    logins = BrowserLogins(lambda: b"key", tmp_path / "logouts", lambda: now[0])
    ticket = logins.create_ticket()
    now[0] += 61
    assert logins.redeem(ticket) is None
    value = logins.redeem(logins.create_ticket())
    assert value is not None
    headers = {b"cookie": b"a=b; mcp-agent-page-8765=" + value.encode() + b"; c=d"}
    assert logins.login(headers)
    assert not BrowserLogins(lambda: b"other", tmp_path / "logouts", lambda: now[0]).login(headers)
    assert not logins.login({b"cookie": b"mcp-agent-page=" + value.replace("1", "2", 1).encode()})
    now[0] += LOGIN_S + 1
    assert not logins.login(headers)


def test_open_prints_the_link_and_the_way_there_without_a_display(shared_daemon: Daemon) -> None:
    done = shared_daemon.cli("open")
    port = httpx2.URL(shared_daemon.url).port
    assert f"  http://127.0.0.1:{port}/ui/login?ticket=" in done.stdout
    assert f"  ssh -L {port}:127.0.0.1:{port} " in done.stdout


def test_open_says_that_no_daemon_runs(home: Path) -> None:
    done = command(home, "open")
    assert (done.returncode, done.stderr) == (
        3,
        "mcp-agent: no daemon is running, so there is no page; start one with: mcp-agent serve\n",
    )
