"""The way in: metadata, registration, consent, a code, tokens, a call; and a grant is a token like any other."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.daemon import Daemon, running
from tests.support.oauth import PUBLIC_URL, OAuthPeer, public_daemon
from tests.support.waiting import within


async def test_the_metadata_say_what_clients_need(public: Daemon) -> None:
    async with httpx2.AsyncClient(base_url=public.url, headers={"Host": "box.example"}) as http:
        for path in ("", "/mcp", "/mcp/lean", "/sse"):
            resource = (await http.get(f"/.well-known/oauth-protected-resource{path}")).json()
            assert resource["resource"] == f"{PUBLIC_URL}{path}"
            assert resource["authorization_servers"] == [PUBLIC_URL]
        server = await http.get("/.well-known/oauth-authorization-server", headers={"Origin": "http://localhost:6274"})
        assert server.headers["access-control-allow-origin"] == "*"
        found = server.json()
    assert found["issuer"] == PUBLIC_URL
    assert {name: found[f"{name}_endpoint"] for name in ("authorization", "token", "registration", "revocation")} == {
        "authorization": f"{PUBLIC_URL}/authorize",
        "token": f"{PUBLIC_URL}/token",
        "registration": f"{PUBLIC_URL}/register",
        "revocation": f"{PUBLIC_URL}/revoke",
    }
    assert found["code_challenge_methods_supported"] == ["S256"]
    assert found["token_endpoint_auth_methods_supported"] == ["none"]
    assert found["scopes_supported"] == ["mcp"]
    assert found["client_id_metadata_document_supported"] is True
    assert found["authorization_response_iss_parameter_supported"] is True


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/mcp"), ("POST", "/mcp"), ("DELETE", "/mcp"), ("GET", "/sse"), ("POST", "/"), ("POST", "/mcp/lean")],
)
async def test_a_401_says_where_to_begin(public: Daemon, method: str, path: str) -> None:
    where = f"/.well-known/oauth-protected-resource{path.rstrip('/')}"
    for headers, error in (({}, ""), ({"Authorization": "Bearer wrong"}, ', error="invalid_token"')):
        for host, base in ((None, public.url), ("box.example", PUBLIC_URL)):
            async with httpx2.AsyncClient(base_url=public.url, headers={"Host": host} if host else {}) as http:
                answer = await http.request(method, path, headers=headers)
            assert answer.status_code == 401
            expected = f'Bearer resource_metadata="{base}{where}", scope="mcp"{error}'
            assert answer.headers["www-authenticate"] == expected


async def test_the_page_does_not_begin_a_login_of_clients(public: Daemon) -> None:
    async with httpx2.AsyncClient(base_url=public.url) as http:
        answer = await http.get("/ui/api/status")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, 'Bearer realm="mcp-agent"')


async def test_without_a_public_name_there_is_no_oauth(daemon: Daemon) -> None:
    """Neither a route nor a module of it."""
    async with httpx2.AsyncClient(base_url=daemon.url) as http:
        for path in ("/.well-known/oauth-protected-resource/mcp", "/mcp/.well-known/openid-configuration"):
            probed = await http.get(path)
            assert (probed.status_code, probed.json()["error"]) == (404, "not_found")
        registered = await http.post("/register", json={"redirect_uris": []})
        assert (registered.status_code, registered.json()["error"]) == (404, "not_found")
        for path in ("/token", "/revoke"):
            assert (await http.post(path, json={})).status_code in (401, 404)
        assert (await http.get("/authorize")).status_code in (401, 404)
        assert (await http.get("/ui/consent")).status_code == 404
        answer = await http.post("/mcp", json={})
        assert answer.headers["www-authenticate"] == 'Bearer realm="mcp-agent"'
        assert (await http.get("/api/oauth/request", headers=daemon.headers)).status_code == 404
    assert not (_state(daemon.home) / "oauth.json").exists()


def test_no_module_of_oauth_is_loaded_without_a_public_name(home: Path) -> None:
    """A daemon that writes down its modules at its end."""
    script = (
        "import sys, atexit, os\n"
        "from mcp_agent.cli import main\n"
        "from mcp_agent import server\n"
        "leave = server.leave\n"
        "def report(code):\n"
        f"    open({str(home / 'modules')!r}, 'w').write(' '.join(sys.modules))\n"
        "    leave(code)\n"
        "server.leave = report\n"
        "sys.exit(main.run(sys.argv[1:]))\n"
    )
    for flags, is_on in (((), False), (("--public-url", PUBLIC_URL), True)):
        with (
            running(home, *flags, start=(sys.executable, "-c", script)) as daemon,
            httpx2.Client(base_url=daemon.url, headers=daemon.headers) as http,
        ):
            assert http.get("/api/tokens").status_code == 200
        loaded = [name for name in (home / "modules").read_text().split() if "oauth" in name or "grants" in name]
        assert bool([name for name in loaded if name.startswith("mcp_agent.")]) == is_on


async def test_a_grant_is_listed_audited_bound_and_revoked_like_a_token(home: Path) -> None:
    with public_daemon(home) as daemon:
        async with OAuthPeer(daemon) as peer:
            _, tokens = await peer.granted()
            listed = json.loads(daemon.cli("token", "list", "--json").stdout)
            assert [(each["name"], each["profile"]) for each in listed[1:]] == [("local-tester@oauth", "read-only")]
            assert listed[1]["program"] == "Tester"
            shown = (await peer.http.get("/ui/api/tokens", headers={"X-MCP-Agent-Page": "1"})).json()["tokens"]
            assert [(each["name"], each["program"]) for each in shown] == [("local-tester@oauth", "Tester")]
            refused = await peer.call(
                tokens["access_token"], "tools/call", name="shell_exec", arguments={"command": "id"}
            )
            assert "TOOL_DISABLED" in refused.text
            events = _audited(daemon)
            assert [(each["event"], each["name"], each["profile"]) for each in events if "oauth" in each["event"]] == [
                ("oauth_allowed", "local-tester@oauth", "read-only")
            ]
            assert events[-1]["client"] == "local-tester@oauth"
            headers = {"Authorization": f"Bearer {tokens['access_token']}", "Accept": "text/event-stream"}
            session = (await peer.call(tokens["access_token"], "initialize", **_HANDSHAKE)).headers["mcp-session-id"]
            async with (
                within(),
                peer.http.stream("GET", "/mcp", headers={**headers, "Mcp-Session-Id": session}) as stream,
            ):
                assert stream.status_code == 200
                revoked = daemon.cli("token", "revoke", "local-tester@oauth")
                assert revoked.returncode == 0, revoked.stderr
                async for _ in stream.aiter_bytes():
                    pass
            assert (await peer.call(tokens["access_token"])).status_code == 401
            assert "local-tester@oauth" not in daemon.cli("token", "list").stdout


_HANDSHAKE: dict[str, Any] = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "tester", "version": "1"},
}


def _state(home: Path) -> Path:
    return home / ".local" / "state" / "mcp-agent"


def _audited(daemon: Daemon) -> list[dict[str, Any]]:
    lines = (_state(daemon.home) / "audit" / "audit.jsonl").read_text().splitlines()
    return [{"event": "call", **json.loads(line)} for line in lines]
