"""Whether the public name leads to this daemon, as /health, the page and the log tell it."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.async_api import expect

from tests.support import consent
from tests.support.browser import chromium, opened
from tests.support.certificate import self_signed
from tests.support.daemon import Daemon, running
from tests.support.oauth import CALLBACK, OAuthPeer, with_query
from tests.support.reverse_proxy import ReverseProxy, reverse_proxy
from tests.support.serving_page import serving_page


@contextlib.contextmanager
def _behind(proxy: ReverseProxy, home: Path, *arguments: str) -> Iterator[Daemon]:
    home.mkdir(exist_ok=True)
    with running(home, "--public-url", proxy.url, *arguments, extra=proxy.trusted) as daemon:
        proxy.target = proxy.target or daemon.url
        yield daemon


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[ReverseProxy]:
    with reverse_proxy(tmp_path) as proxy:
        yield proxy


async def _checked(daemon: Daemon) -> dict[str, Any]:
    async with daemon.http() as http:
        answer = (await http.post("/api/public/check", json={})).json()
        shown = (await http.get("/health")).json()["public"]
    assert {**shown, "checked": 0}.items() <= {**answer, "checked": 0}.items()
    assert answer["resource"] == f"{answer['url']}/mcp"
    assert answer["callbacks"]["ChatGPT"] == ["https://chatgpt.com/connector_platform_oauth_redirect"]
    found: dict[str, Any] = answer
    return found


async def test_it_leads_here_and_a_client_gets_in_by_it(proxy: ReverseProxy, tmp_path: Path) -> None:
    with _behind(proxy, tmp_path / "home") as daemon:
        found = await _checked(daemon)
        assert (found["url"], found["leads_here"], found["problem"]) == (proxy.url, True, None)
        assert found["advice"][0].startswith("claude.ai connects to port 443 only")
        # In a real browser, by TLS: the login has a cookie, and the answer has our origin.
        async with chromium() as browser:
            context = await browser.new_context(ignore_https_errors=True)
            page = await context.new_page()
            async with OAuthPeer(daemon) as peer:
                await _walk(page, daemon, proxy, peer)
                cookies = await context.cookies()
                assert [(each["secure"], each["path"]) for each in cookies] == [(True, "/ui/")]


async def _walk(page: Any, daemon: Daemon, proxy: ReverseProxy, peer: OAuthPeer) -> None:
    client_id = await peer.register(client_name="Tester")
    answered: list[str] = []

    async def call_back(route: Any) -> None:
        answered.append(route.request.url)
        await route.fulfill(body="done")

    await page.route(f"{CALLBACK}?**", call_back)
    query = peer.query(client_id, resource=f"{proxy.url}/mcp")
    await page.goto(proxy.url + with_query("/authorize", query))
    await consent.answer(page, daemon)
    code = dict(httpx2.URL(answered[0]).params)["code"]
    tokens = (await peer.exchange(client_id, code)).json()
    assert (await peer.call(tokens["access_token"])).status_code == 200


async def test_nobody_answers_there(home: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with running(home, "--public-url", url) as daemon:
            found = await _checked(daemon)
            assert found["leads_here"] is False
            assert found["problem"].startswith(f"{url} cannot be reached from here")
            (logged, *_) = await daemon.logged("oauth.public_name")
            assert (logged["level"], logged["data"]["leads_here"]) == ("warn", False)
            async with chromium() as browser, opened(browser, daemon) as window:
                await window.view("health")
                await expect(window.page.locator(".view-health")).to_contain_text(found["problem"])
                await window.view("connect")
                await expect(window.page.locator(".view-connect")).to_contain_text("does not lead to this daemon")


async def test_another_site_or_another_daemon_answers_there(proxy: ReverseProxy, tmp_path: Path, home: Path) -> None:
    with serving_page("hello") as elsewhere:
        proxy.target = elsewhere
        with _behind(proxy, tmp_path / "one") as daemon:
            assert (await _checked(daemon))["problem"] == f"{proxy.url} answers 200, and is not this daemon"
    proxy.target = ""
    with _behind(proxy, tmp_path / "one") as first, _behind(proxy, tmp_path / "two") as second:
        assert (await _checked(first))["leads_here"] is True
        problem = (await _checked(second))["problem"]
        assert problem == f"another mcp-agent answers at {proxy.url}, and not this one"


async def test_a_proxy_that_changes_the_host_is_told_to_keep_it(proxy: ReverseProxy, tmp_path: Path) -> None:
    with _behind(proxy, tmp_path / "home", "--allow-host", "other.example") as daemon:
        for host, news in (("unknown.example", "must keep the name localhost"), ("other.example", "other.example/mcp")):
            proxy.host = host
            found = await _checked(daemon)
            assert found["leads_here"] is False
            assert "sends another Host on" in found["problem"]
            assert news in found["problem"]


async def test_what_comes_by_the_name_counts_where_this_machine_cannot_reach_it(home: Path) -> None:
    """As behind many routers at home."""
    with running(home, "--public-url", "https://box.invalid") as daemon:
        assert (await _checked(daemon))["leads_here"] is False
        async with httpx2.AsyncClient(base_url=daemon.url, headers={"Host": "box.invalid"}) as http:
            assert (await http.post("/mcp", json={})).status_code == 401
        found = await _checked(daemon)
        assert (found["leads_here"], found["last_request"] is None) == (True, False)
        assert "cannot be reached from here" in found["problem"]


async def test_strangers_are_not_told(home: Path) -> None:
    with running(home, "--public-url", "https://box.invalid") as daemon:
        async with httpx2.AsyncClient(base_url=daemon.url) as http:
            assert set((await http.get("/health")).json()) == {"status", "version"}
            assert (await http.post("/api/public/check", json={})).status_code == 401
            # A question of somebody else is no proof of anything.
            found = await http.get("/.well-known/oauth-protected-resource/mcp", params={"probe": "x"})
            assert found.status_code == 200
        async with daemon.http() as http:
            assert (await http.get("/health")).json()["public"]["leads_here"] in (None, False)


async def test_with_a_certificate_of_its_own_nothing_stands_in_between(tmp_path: Path, home: Path) -> None:
    self_signed(tmp_path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url, certificate = f"https://localhost:{port}", str(tmp_path / "cert.pem")
    flags = ("--port", str(port), "--tls-cert", certificate, "--tls-key", str(tmp_path / "key.pem"))
    with running(home, *flags, "--public-url", url, extra={"SSL_CERT_FILE": certificate}) as daemon:
        shown = daemon.cli("expose")
        assert f"Checked: {url} leads to this daemon." in shown.stdout, shown.stderr
        async with httpx2.AsyncClient(base_url=url, verify=ssl.create_default_context(cafile=certificate)) as http:
            for host, issuer in ((f"localhost:{port}", url), (f"127.0.0.1:{port}", f"https://127.0.0.1:{port}")):
                found = await http.get("/.well-known/oauth-authorization-server", headers={"Host": host})
                assert found.json()["issuer"] == issuer
