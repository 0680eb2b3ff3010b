"""The guard in front of every route, spoken to over real sockets, often by hand."""

from __future__ import annotations

import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from mcp_agent import __version__
from tests.support.daemon import Daemon
from tests.support.raw import request, send

_ROUTES = [
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("DELETE", "/mcp"),
    ("POST", "/mcp/lean"),
    ("POST", "/mcp/nobody"),
    ("POST", "/rpc"),
    ("GET", "/rpc"),
    ("POST", "/health"),
    ("OPTIONS", "/health"),
    ("GET", "/api/status"),
    ("GET", "/api/profiles"),
    ("POST", "/api/switch"),
    ("POST", "/api/profiles/use"),
    ("POST", "/"),
    ("DELETE", "/"),
    ("POST", "/ui/index.html"),
    ("GET", "/nowhere"),
    ("OPTIONS", "/mcp"),
    ("PUT", "/nowhere"),
    ("GET", "//health"),
    ("GET", "/%2e%2e/health"),
]


@pytest.mark.parametrize(("method", "path"), _ROUTES)
@pytest.mark.parametrize(
    "credential",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic {token}", "{token}", "Bearer {token}x", "Bearer x{token}"],
)
def test_no_route_answers_without_the_token(
    shared_daemon: Daemon, method: str, path: str, credential: str | None
) -> None:
    told = None if credential is None else credential.format(token=shared_daemon.token)
    answer = request(shared_daemon, method, path, Authorization=told)
    assert (answer.status, answer.header("www-authenticate")) == (401, 'Bearer realm="mcp-agent"')
    assert "Bearer <token>" in answer.object["error"]["hint"]


@pytest.mark.parametrize("value", [b"Bearer \xff\xfe", "Bearer tökén".encode(), b"\xe9", b"Bearer \x01"])
@pytest.mark.parametrize("name", ["Authorization", "X-API-Key"])
def test_a_token_of_strange_bytes_is_a_wrong_token(shared_daemon: Daemon, name: str, value: bytes) -> None:
    headers: dict[str, Any] = {"Authorization": None, name: value}
    answer = request(shared_daemon, path="/api/status", **headers)
    # A control character in a header is no HTTP at all.
    assert answer.status == (400 if b"\x01" in value else 401)


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": ["Bearer {token}", "Bearer {token}"]},
        {"Authorization": ["Bearer {token}", "Bearer wrong"]},
        {"X-API-Key": "{token}"},
        {"Authorization": None, "X-API-Key": ["{token}", "{token}"]},
    ],
)
def test_more_than_one_credential_is_a_bad_request(shared_daemon: Daemon, headers: dict[str, Any]) -> None:
    filled: dict[str, Any] = {
        name: [each.format(token=shared_daemon.token) for each in ([value] if isinstance(value, str) else value or [])]
        for name, value in headers.items()
    }
    answer = request(shared_daemon, path="/api/status", **filled)
    assert (answer.status, answer.message) == (
        400,
        "send the token once: one Authorization or one X-API-Key header",
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Authorization", "Bearer {token}"),
        ("Authorization", "bearer   {token} "),
        ("Authorization", "Bearer Bearer {token}"),
        ("X-API-Key", "Bearer {token}"),
        ("X-API-Key", "{token}"),
    ],
)
def test_the_token_is_taken_from_either_header(shared_daemon: Daemon, name: str, value: str) -> None:
    headers: dict[str, Any] = {"Authorization": None, name: value.format(token=shared_daemon.token)}
    assert request(shared_daemon, path="/api/status", **headers).status == 200


@pytest.mark.parametrize("query", ["token={}", "access_token={}", "api_key={}", "Authorization=Bearer%20{}"])
def test_a_token_in_the_url_is_none(shared_daemon: Daemon, query: str) -> None:
    path = f"/api/status?{query.format(shared_daemon.token)}"
    assert request(shared_daemon, path=path, Authorization=None).status == 401


def test_health_has_two_fields_for_anyone_and_all_for_the_owner(shared_daemon: Daemon) -> None:
    assert request(shared_daemon, Authorization=None).object == {"status": "ok", "version": __version__}
    assert set(request(shared_daemon).object) == {
        "status",
        "version",
        "pid",
        "uptime_s",
        "registry",
        "search",
        "pruning",
        "sessions",
        "mounts",
        "refusals",
        "clients",
        "limits",
        "usage",
    }
    assert request(shared_daemon, Authorization="Bearer wrong").status == 401


def test_a_head_of_health_has_no_body(shared_daemon: Daemon) -> None:
    answer = request(shared_daemon, "HEAD", Authorization=None)
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:{port}", "LOCALHOST", "[::1]:{port}", "[::1]", "127.0.0.1:1"])
def test_a_name_of_this_machine_is_answered_to(shared_daemon: Daemon, host: str) -> None:
    port = str(urlsplit(shared_daemon.url).port)
    assert request(shared_daemon, Host=host.format(port=port)).status == 200


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("evil.example", "evil.example"),
        ("evil.example:8765", "evil.example"),
        ("Evil.Example:8765", "evil.example"),
        ("127.0.0.1.evil.example", "127.0.0.1.evil.example"),
        ("localhost.evil.example", "localhost.evil.example"),
        ("0.0.0.0", "0.0.0.0"),
        ("192.168.1.1:80", "192.168.1.1"),
        ("[fe80::1]:80", "fe80::1"),
    ],
)
@pytest.mark.parametrize("path", ["/health", "/mcp", "/nowhere"])
def test_a_foreign_name_is_misdirected_and_told_the_flag(
    shared_daemon: Daemon, host: str, name: str, path: str
) -> None:
    answer = request(shared_daemon, path=path, Host=host)
    assert (answer.status, answer.object) == (
        421,
        {
            "error": {
                "message": f"this daemon does not answer to the name {name!r}",
                "hint": f"if the name is meant, start it with: mcp-agent serve --allow-host {name}",
            }
        },
    )


@pytest.mark.parametrize(
    "host",
    [
        "",
        " ",
        ":8765",
        "localhost:",
        "localhost:0",
        "localhost:99999",
        "localhost:+1",
        "localhost:1:2",
        "localhost:1/x",
        "localhost/x",
        "localhost@evil.example",
        "127.0.0.1:1@evil.example",
        "127.0.0.1:8765.evil.example",
        "::1:80:90",
        "::1",
        "[::1",
        "[::1].evil.example",
        "[::1]evil.example",
        "[localhost]",
        "localhost,evil.example",
        "localhost evil.example",
        b"localh\xf6st",
    ],
)
def test_a_host_that_is_no_name_with_perhaps_a_port_is_refused(shared_daemon: Daemon, host: str | bytes) -> None:
    answer = request(shared_daemon, Host=host)
    assert answer.status == 400
    assert answer.message == "the Host header must be a name or an address, and perhaps a port"


def test_a_request_has_exactly_one_host(shared_daemon: Daemon) -> None:
    for hosts in (None, ["localhost", "localhost"], ["localhost", "evil.example"]):
        assert request(shared_daemon, Host=hosts).status == 400
    assert send(shared_daemon, b"GET /health HTTP/1.0\r\n\r\n").status == 400


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "http://evil.example",
        "https://evil.example",
        "http://localhost",
        "http://127.0.0.1:1",
        "http://127.0.0.1:{port}.evil.example",
        "file://",
        "",
        "chrome-extension://abc",
    ],
)
@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/health"), ("POST", "/mcp"), ("GET", "/nowhere"), ("OPTIONS", "/rpc")]
)
def test_a_foreign_page_is_refused(shared_daemon: Daemon, method: str, path: str, origin: str) -> None:
    port = urlsplit(shared_daemon.url).port
    answer = request(shared_daemon, method, path, Origin=origin.format(port=port))
    assert (answer.status, answer.message) == (403, "requests from other web pages are refused")


def test_our_own_page_is_let_through_and_two_origins_are_not(shared_daemon: Daemon) -> None:
    assert request(shared_daemon, Origin=shared_daemon.url).status == 200
    assert request(shared_daemon, Origin=shared_daemon.url.replace("http:", "https:")).status == 200
    assert request(shared_daemon, Origin=[shared_daemon.url, shared_daemon.url]).status == 403


@pytest.mark.parametrize(("method", "path"), _ROUTES)
def test_no_answer_speaks_of_the_server_or_to_other_pages(shared_daemon: Daemon, method: str, path: str) -> None:
    for headers in ({}, {"Authorization": None}, {"Host": "evil.example"}, {"Origin": "http://evil.example"}):
        answer = request(shared_daemon, method, path, Access_Control_Request_Method="POST", **headers)
        names = {name for name, _ in answer.headers}
        assert not {name for name in names if name.startswith("access-control-")} | (names & {"server", "set-cookie"})


@pytest.mark.parametrize("path", ["/mcp", "/", "/rpc"])
def test_an_upgrade_to_a_websocket_is_refused(shared_daemon: Daemon, path: str) -> None:
    answer = request(
        shared_daemon,
        path=path,
        Connection="close, Upgrade",
        Upgrade="websocket",
        Sec_WebSocket_Key="dGhlIHNhbXBsZSBub25jZQ==",
        Sec_WebSocket_Version="13",
    )
    assert answer.status in (400, 404, 405, 406)


@pytest.mark.parametrize("version", ["HTTP/0.9", "HTTP/1.2", "HTTP/2.0", "HTTP/3.0"])
def test_another_version_of_http_is_refused(shared_daemon: Daemon, version: str) -> None:
    """Seen: `GET / HTTP/2.0` was answered as if it were 1.1."""
    answer = send(shared_daemon, f"GET / {version}\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    assert answer.status in (400, 505)


@pytest.mark.parametrize("path", [b"/caf\xe9", b"/%00%0a%1b", b"*", b"/" + b"x" * 60_000])
def test_a_strange_path_is_answered_and_the_daemon_lives_on(shared_daemon: Daemon, path: bytes) -> None:
    assert request(shared_daemon, path=path).status in (400, 404)
    assert request(shared_daemon).status == 200


def test_a_client_that_leaves_in_the_middle_is_nobodys_trouble(shared_daemon: Daemon) -> None:
    parts = urlsplit(shared_daemon.url)
    for data in (b"", b"POST /rpc HT", b"POST /rpc HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"):
        with socket.create_connection((str(parts.hostname), parts.port or 0)) as leaving:
            leaving.sendall(data)
    assert request(shared_daemon).object["status"] == "ok"


@pytest.mark.parametrize("path", ["/api/status", "/api/no-such-thing"])
def test_no_answer_of_the_api_is_stored_or_guessed_at(shared_daemon: Daemon, path: str) -> None:
    answer = request(shared_daemon, path=path)
    assert (answer.header("cache-control"), answer.header("x-content-type-options")) == ("no-store", "nosniff")


async def test_the_lock_of_the_state_folder_is_closed_to_the_filesystem_tools(shared_daemon: Daemon) -> None:
    """Seen: it was deleted, and a second daemon started on the same folder."""
    lock = next(shared_daemon.home.rglob("serve.lock"))
    answer = await shared_daemon.rpc("tools/call", name="fs_delete", arguments={"path": str(lock)})
    assert answer["result"]["structuredContent"]["error"]["code"] == "DENIED"
    assert lock.exists()
