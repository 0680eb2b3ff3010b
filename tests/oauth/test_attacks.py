"""What somebody might try who has not been let in, and that it gives him nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.async_api import Browser

from mcp_agent.oauth.consent import CODE_S, Codes
from mcp_agent.oauth.oauth_clients import KNOWN, OAuthClients, OAuthError, UnreadableDocument
from mcp_agent.security import addresses
from mcp_agent.security.wrong_logins import MOST_WRONG
from tests.support import raw
from tests.support.browser import chromium, login_link
from tests.support.daemon import Daemon, command, running
from tests.support.oauth import CALLBACK, PAGE, PUBLIC_URL, OAuthPeer, public_daemon, sent_back, with_query
from tests.support.serving_page import serving_page

_OTHER = "http://localhost:39999/other"
# As a proxy on this machine passes on what came by the public name.
_BY_NAME = {"Host": "box.example", "X-Forwarded-Proto": "https"}


async def _refused(peer: OAuthPeer, client_id: str, code: str, **changed: str) -> tuple[int, str]:
    answer = await peer.exchange(client_id, code, **changed)
    return answer.status_code, answer.json()["error"]


@pytest.mark.parametrize(
    "redirect",
    [
        _OTHER,
        "http://127.0.0.1:39999/callback",
        "http://localhost:39999/callback?more=1",
        "http://localhost:39999/callback/",
        "http://localhost:39999@evil.example/callback",
        "http://localhost.evil.example:39999/callback",
        "https://localhost:39999/callback",
        "HTTP://localhost:39999/callback#x",
    ],
)
async def test_an_answer_goes_to_no_other_redirect(peer: OAuthPeer, redirect: str) -> None:
    client_id = await peer.register()
    shown = await peer.ask(**peer.query(client_id, redirect_uri=redirect))
    assert shown.status_code == 400
    assert "location" not in shown.text
    body = {"request": peer.query(client_id, redirect_uri=redirect), "allow": True, "profile": "default"}
    assert (await peer.http.post("/ui/api/oauth/answer", json=body, headers=PAGE)).status_code == 400


async def test_a_program_on_its_users_machine_has_any_port(peer: OAuthPeer) -> None:
    local = await peer.register("http://localhost/callback", "http://127.0.0.1/callback")
    for host in ("localhost", "127.0.0.1"):
        shown = await peer.ask(**peer.query(local, redirect_uri=f"http://{host}:51234/callback"))
        assert (shown.json()["redirect_host"], shown.json()["is_local"]) == (f"{host}:51234", True)
    away = await peer.register("https://app.example/callback")
    assert (await peer.ask(**peer.query(away, redirect_uri="https://app.example:8443/callback"))).status_code == 400


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"resource": f"{PUBLIC_URL}.evil.example/mcp"}, "invalid_target"),
    ],
)
async def test_a_wrong_request_is_told_to_its_client_with_our_name(
    peer: OAuthPeer, changed: dict[str, str | None], error: str
) -> None:
    """The issuer is in every answer, so that a client of two servers cannot be mixed up."""
    location = (await peer.ask(**peer.query(await peer.register(), **changed))).json()["location"]
    assert location.startswith(f"{CALLBACK}?")
    assert sent_back(location) == {"error": error, "state": "x&y", "iss": peer.daemon.url}


async def test_every_answer_names_the_issuer_of_the_metadata(public: Daemon) -> None:
    async with OAuthPeer(public, **_BY_NAME) as peer:
        issuer = (await peer.http.get("/.well-known/oauth-authorization-server")).json()["issuer"]
        client_id = await peer.register("https://app.example/callback")
        query = peer.query(client_id, redirect_uri="https://app.example/callback", resource=f"{PUBLIC_URL}/mcp")
        link = login_link(public).replace(public.url, "")
        cookie = (await peer.http.get(link)).headers["set-cookie"]
        assert "; Secure" in cookie
        peer.http.headers["Cookie"] = cookie.partition(";")[0]
        shown = await peer.http.get(with_query("/ui/api/oauth/request", query), headers=PAGE)
        assert shown.json()["redirect_host"] == "app.example"
        for allow in (False, True):
            answered = await peer.answer(query, allow=allow)
            assert answered["iss"] == issuer == PUBLIC_URL
            assert ("code" in answered) == allow


async def test_a_code_is_for_its_client_verifier_redirect_and_resource(peer: OAuthPeer) -> None:
    client_id = await peer.register(client_name="Tester")
    other = await peer.register(CALLBACK, "https://x.example/")
    code = await peer.code(client_id)
    assert await _refused(peer, other, code) == (400, "invalid_grant")
    assert await _refused(peer, client_id, code, code_verifier="w" * 64) == (400, "invalid_grant")
    assert await _refused(peer, client_id, code, redirect_uri=_OTHER) == (400, "invalid_grant")
    assert await _refused(peer, client_id, code, resource=f"{peer.daemon.url}/sse") == (400, "invalid_target")
    assert await _refused(peer, client_id, code, grant_type="password") == (400, "unsupported_grant_type")
    assert await _refused(peer, f"{client_id[:-2]}xx", code) == (401, "invalid_client")
    assert await _refused(peer, "nobody", code) == (401, "invalid_client")
    answer = await peer.exchange(client_id, code)
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    assert answer.json()["scope"] == "mcp"
    assert answer.json()["expires_in"] == 3600


async def test_a_code_that_comes_twice_ends_what_came_of_it(peer: OAuthPeer) -> None:
    client_id = await peer.register(client_name="Tester")
    code = await peer.code(client_id)
    tokens = (await peer.exchange(client_id, code)).json()
    assert (await peer.call(tokens["access_token"])).status_code == 200
    assert await _refused(peer, client_id, code) == (400, "invalid_grant")
    assert (await peer.call(tokens["access_token"])).status_code == 401
    assert (await peer.refresh(client_id, tokens["refresh_token"])).json()["error"] == "invalid_grant"


def test_a_code_is_good_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1_000.0]
    monkeypatch.setattr("mcp_agent.oauth.consent.time.monotonic", lambda: clock[0])
    codes = Codes()
    request: Any = None
    code = codes.create(request, request)
    clock[0] += CODE_S - 1
    assert codes.find(code) is not None
    clock[0] += 1
    assert (CODE_S, codes.find(code)) == (60, None)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({**PAGE, "Origin": "https://evil.example"}, 403),
        ({**PAGE, "Origin": "null"}, 403),
        ({**PAGE, "Content-Type": "text/plain"}, 415),
        ({**PAGE, "Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({**PAGE, "Cookie": "mcp-agent-page=1.x.y"}, 401),
    ],
)
async def test_another_page_cannot_send_the_answer(peer: OAuthPeer, headers: dict[str, str], status: int) -> None:
    await peer.log_in()
    body = {"request": peer.query(await peer.register()), "allow": True, "profile": "default"}
    assert (await peer.http.post("/ui/api/oauth/answer", json=body, headers=headers)).status_code == status
    assert "code" not in (await peer.http.get("/ui/consent")).text


async def test_a_client_cannot_answer_for_the_owner(peer: OAuthPeer) -> None:
    _, tokens = await peer.granted()
    body = {"request": peer.query(await peer.register()), "allow": True, "profile": "default"}
    for path in ("/api/oauth/answer", "/ui/api/oauth/answer", "/api/ticket"):
        headers = {**PAGE, "Authorization": f"Bearer {tokens['access_token']}"}
        assert (await peer.http.post(path, json=body, headers=headers)).status_code in (401, 403), path


async def test_the_answer_is_a_profile_that_there_is_and_a_time(peer: OAuthPeer) -> None:
    query = peer.query(await peer.register())
    shown = (await peer.ask(**query)).json()
    assert shown["profiles"][0]["id"] == "read-only"
    for wrong in ({"profile": "nothing"}, {"profile": None}, {"days": 0}, {"days": 99_999}, {"days": True}):
        body = {"request": query, "allow": True, "profile": "default", "days": 1, **wrong}
        answer = await peer.http.post("/ui/api/oauth/answer", json=body, headers=PAGE)
        assert answer.status_code in (400, 404), wrong
    # Whatever is no plain yes is a no.
    for allow in (None, 0, "true", "false"):
        assert (await peer.answer(query, allow=allow))["error"] == "access_denied"


async def test_the_consent_is_held_in_no_frame(public: Daemon) -> None:
    """In a real browser: another page shows it in a frame to have it clicked, and gets nothing to click."""
    async with OAuthPeer(public) as peer, chromium() as browser:
        page = await _logged_in(browser, public)
        address = public.url + with_query("/ui/consent", peer.query(await peer.register()))
        await page.goto(address)
        await page.get_by_role("button", name="Allow").wait_for()
        with serving_page(f'<iframe src="{address}"></iframe>') as elsewhere:
            await page.goto(elsewhere)
            frame = page.frames[1]
            await frame.wait_for_load_state()
            assert await frame.locator("button").count() == 0


async def _logged_in(browser: Browser, daemon: Daemon) -> Any:
    page = await (await browser.new_context()).new_page()
    await page.goto(login_link(daemon))
    return page


async def test_the_page_of_the_consent_lets_its_opener_wait_and_its_answer_go(public: Daemon) -> None:
    """No COOP: claude.ai opens it in a window and waits. No form-action: it would hold for where an answer leads."""
    async with httpx2.AsyncClient(base_url=public.url) as http:
        headers = (await http.get("/ui/consent")).headers
        begun = await http.get("/authorize", params={"client_id": "x"})
        usual = (await http.get("/")).headers
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert "form-action" not in headers["content-security-policy"]
    assert "cross-origin-opener-policy" not in headers
    assert headers["referrer-policy"] == begun.headers["referrer-policy"] == "no-referrer"
    assert (begun.status_code, begun.headers["location"]) == (303, "/ui/consent?client_id=x")
    assert "form-action" in usual["content-security-policy"]


async def test_the_login_is_never_sent_to_where_other_sites_lead(public: Daemon) -> None:
    async with httpx2.AsyncClient(base_url=public.url) as http:
        cookie = (await http.get(login_link(public))).headers["set-cookie"]
    assert {"Path=/ui/", "HttpOnly", "SameSite=Strict"} < set(cookie.split("; "))


@pytest.mark.parametrize("name", ["X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-For", "Forwarded"])
async def test_a_header_of_a_stranger_changes_no_issuer(public: Daemon, name: str) -> None:
    """He comes by the public name, and what he writes is passed on by the proxy."""
    async with httpx2.AsyncClient(base_url=public.url, headers={"Host": "box.example"}) as http:
        for value in ("http", "evil.example", "host=evil.example;proto=http"):
            found = await http.get("/.well-known/oauth-authorization-server", headers={name: value})
            assert found.json()["issuer"] == PUBLIC_URL
            answer = await http.get("/mcp", headers={name: value})
            assert answer.headers["www-authenticate"].startswith(f'Bearer resource_metadata="{PUBLIC_URL}/')
        assert (await http.get("/authorize", headers={"Host": "evil.example"})).status_code == 421


async def test_only_a_proxy_on_this_machine_says_the_scheme(tmp_path: Path) -> None:
    address = next(iter(addresses.own_addresses()), None)
    if address is None:
        pytest.skip("this machine has no network")
    metadata = "/.well-known/oauth-authorization-server"
    with public_daemon(tmp_path, "--host", "0.0.0.0", "--allow-host", "lan.example") as daemon:
        port = daemon.url.rpartition(":")[2]
        for host, scheme in (("127.0.0.1", "https"), (f"[{address}]" if ":" in address else address, "http")):
            async with httpx2.AsyncClient(base_url=f"http://{host}:{port}") as http:
                headers = {"Host": "lan.example", "X-Forwarded-Proto": "https"}
                assert (await http.get(metadata, headers=headers)).json()["issuer"] == f"{scheme}://lan.example"


def test_a_path_cannot_write_into_the_challenge(public: Daemon) -> None:
    for path in ("/mcp/%0d%0aSet-Cookie:%20a=b", '/mcp/"x', "/mcp/%22,%20error=%22x", "/%E2%82%AC"):
        answer = raw.request(public, path=path, Authorization=None)
        assert answer.status == 401
        where = f"{public.url}/.well-known/oauth-protected-resource"
        assert answer.header("www-authenticate") == f'Bearer resource_metadata="{where}", scope="mcp"'
        assert answer.header("set-cookie") is None


@pytest.mark.parametrize(
    "redirect",
    [
        "http://evil.example/callback",
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "https://app.example/callback#x",
        "https://user@app.example/callback",
        "https:///callback",
        "https://app.example:99999/",
        "//app.example/",
        "https://app.example/\ncallback",
        "x" * 501,
        7,
    ],
)
async def test_a_redirect_that_a_browser_would_run_is_not_registered(peer: OAuthPeer, redirect: Any) -> None:
    answer = await peer.http.post("/register", json={"redirect_uris": [redirect]})
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_redirect_uri")


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"redirect_uris": []}', b'{"redirect_uris": "x"}', b"\xff"])
async def test_a_registration_that_is_none_is_refused(peer: OAuthPeer, body: bytes) -> None:
    answer = await peer.http.post("/register", content=body)
    assert (answer.status_code, answer.json()["error"][:8]) == (400, "invalid_")


async def test_a_body_has_a_bound_before_a_token_is_known(peer: OAuthPeer) -> None:
    for path in ("/register", "/token", "/revoke"):
        headers = {"Content-Type": "application/x-www-form-urlencoded"}
        assert (await peer.http.post(path, content=b"x" * 20_000, headers=headers)).status_code == 413


def _stored(home: Path) -> dict[str, int]:
    state = home / ".local" / "state" / "mcp-agent"
    return {each.name: each.stat().st_size for each in state.iterdir() if each.is_file() and "log" not in each.name}


async def test_registrations_fill_nothing(public: Daemon) -> None:
    """Ten thousand of them, of which the whole run of the tests sends all."""
    number = 10_000 if os.environ.get("MCP_AGENT_TEST_LONG") else 500
    async with OAuthPeer(public) as peer:
        first = await peer.register(client_name="First")
        before = _stored(public.home)
        names = {await peer.register(client_name=f"Client {each}") for each in range(number)}
        assert len(names) == number
        assert _stored(public.home) == before
        # And nobody is pushed out.
        assert (await peer.ask(**peer.query(first))).json()["client"] == "First"


async def test_ten_thousand_requests_push_no_other_out(public: Daemon) -> None:
    number = 10_000 if os.environ.get("MCP_AGENT_TEST_LONG") else 300
    async with OAuthPeer(public) as peer, OAuthPeer(public) as stranger:
        query = peer.query(await peer.register(client_name="First"))
        assert (await peer.ask(**query)).json()["client"] == "First"
        for _ in range(number):
            assert (await stranger.http.get("/authorize", params=query)).status_code == 303
        assert "code" in await peer.answer(query)


def test_known_clients_are_what_they_publish_and_are_not_fetched() -> None:
    """A client with a document never registers itself instead, and some documents are behind a check for browsers."""
    published = {
        "https://claude.ai/oauth/mcp-oauth-client-metadata": "https://claude.ai/api/mcp/auth_callback",
        "https://claude.ai/oauth/claude-code-client-metadata": "http://localhost/callback",
        "https://chatgpt.com/oauth/client.json": "https://chatgpt.com/connector_platform_oauth_redirect",
        "https://chatgpt.com/oauth/codex/client.json": "http://127.0.0.1/callback",
    }
    for client_id, redirect in published.items():
        assert redirect in KNOWN[client_id][1]


@pytest.mark.parametrize("client_id", KNOWN)
async def test_a_known_client_is_let_in_without_the_internet(client_id: str) -> None:
    async def read(url: str) -> dict[str, Any]:
        raise AssertionError(f"{url} was fetched")

    clients = OAuthClients(lambda: b"key", read)
    for redirect in KNOWN[client_id][1]:
        found = await clients.find(client_id, redirect)
        assert found.redirect(redirect) == redirect
        assert client_id.startswith(f"https://{found.voucher}/")
    with pytest.raises(OAuthError):
        found.redirect("https://evil.example/callback")


async def test_a_connector_of_chatgpt_with_an_address_of_its_own_is_let_in_without_the_internet() -> None:
    """Those that were made before August 2026 keep their document and their callback."""

    async def read(url: str) -> dict[str, Any]:
        raise UnreadableDocument("invalid_client", f"{url} was fetched")

    clients = OAuthClients(lambda: b"key", read)
    redirect = "https://chatgpt.com/connector/oauth/OUbdUMlL15Ct"
    found = await clients.find("https://chatgpt.com/oauth/OUbdUMlL15Ct/client.json", redirect)
    assert (found.name, found.voucher, found.redirect(redirect)) == ("ChatGPT", "chatgpt.com", redirect)
    for other in ("https://chatgpt.com/connector/oauth/another", "https://evil.example/connector/oauth/OUbdUMlL15Ct"):
        with pytest.raises(OAuthError):
            found.redirect(other)
    for strange in (
        "https://chatgpt.com/oauth/a/b/client.json",
        "https://chatgpt.com.evil.example/oauth/a/client.json",
    ):
        with pytest.raises(UnreadableDocument):
            await clients.find(strange, redirect)


@pytest.fixture(scope="module")
def guessed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    with public_daemon(tmp_path_factory.mktemp("home")) as daemon:
        yield daemon


async def test_who_tries_tokens_has_to_wait_and_nobody_else(guessed: Daemon) -> None:
    """By the proxy here, which adds the address of its client at the end."""
    async with OAuthPeer(guessed) as peer:
        _, granted = await peer.granted(resource=None)
    stranger = {**_BY_NAME, "X-Forwarded-For": "198.51.100.7, 203.0.113.9"}
    async with httpx2.AsyncClient(base_url=guessed.url, headers=stranger) as http:

        async def status(token: str, path: str = "/mcp", **headers: str) -> int:
            sent = {"Authorization": f"Bearer {token}", **headers}
            return (await http.post(path, json={}, headers=sent)).status_code

        assert {await status("wrong") for _ in range(MOST_WRONG)} == {401}
        answer = await http.post("/api/ticket", json={}, headers={"Authorization": f"Bearer {guessed.token}"})
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "60")
        assert await status("wrong", **{"X-Forwarded-For": "192.0.2.1, 203.0.113.9"}) == 429
        # Another address, a token that nobody can find by trying, and this machine itself.
        assert await status(guessed.token, "/api/ticket", **{"X-Forwarded-For": "203.0.113.10"}) == 200
        assert await status(granted["access_token"]) == 400
        assert await status(guessed.token, "/api/ticket", Host="localhost") == 429
    async with guessed.http() as here:
        assert (await here.post("/api/ticket", json={})).status_code == 200


async def test_who_tries_codes_has_to_wait(guessed: Daemon) -> None:
    async with OAuthPeer(guessed, **_BY_NAME, **{"X-Forwarded-For": "203.0.113.20"}) as peer:
        client_id = await peer.register()
        seen = [(await peer.refresh(client_id, f"wrong {each}")).status_code for each in range(MOST_WRONG + 1)]
        assert seen == [400] * MOST_WRONG + [429]


def test_a_short_token_is_not_made_public(home: Path) -> None:
    done = command(home, "serve", "--port", "0", "--public-url", PUBLIC_URL, MCP_AGENT_TOKEN="only-eight-and-more")
    assert done.returncode == 1
    assert "fewer than 24 characters" in done.stderr
    with running(home, extra={"MCP_AGENT_TOKEN": "only-eight-and-more"}) as daemon:
        assert daemon.url
