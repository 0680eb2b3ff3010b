"""The guard's bounds on what a request may carry: plain JSON, and not too much of anything."""

from __future__ import annotations

import json
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.daemon import Daemon
from tests.support.raw import request, send
from tests.support.waiting import PATIENCE_S

_PING = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"Content-Type": "text/plain"}, "a body must have the content type application/json"),
        ({"Content-Type": "application/x-www-form-urlencoded"}, "a body must have the content type application/json"),
        ({"Content-Type": "multipart/form-data; boundary=x"}, "a body must have the content type application/json"),
        ({"Content-Type": "application/jsonp"}, "a body must have the content type application/json"),
        ({"Content-Type": None}, "a body must have the content type application/json"),
        ({"Content-Encoding": "gzip"}, "a body must not be compressed"),
        ({"Content-Encoding": "identity, gzip"}, "a body must not be compressed"),
    ],
)
@pytest.mark.parametrize("path", ["/mcp", "/rpc", "/api/switch", "/nowhere"])
def test_a_body_must_be_plain_json(shared_daemon: Daemon, path: str, headers: dict[str, Any], message: str) -> None:
    answer = request(shared_daemon, "POST", path, _PING, **headers)
    assert (answer.status, answer.message) == (415, message)


@pytest.mark.parametrize("kind", ["application/json", "application/json; charset=utf-8", "Application/JSON ;x=y"])
def test_json_may_have_parameters(shared_daemon: Daemon, kind: str) -> None:
    answer = request(shared_daemon, "POST", "/rpc", _PING, Content_Type=kind)
    assert answer.object == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.parametrize(("path", "most"), [("/mcp", 16 << 20), ("/api/switch", 16 << 20), ("/rpc", 16 << 20)])
def test_a_body_declared_too_large_is_refused_before_it_is_sent(shared_daemon: Daemon, path: str, most: int) -> None:
    answer = request(shared_daemon, "POST", path, b"{", Content_Length=str(most + 1))
    assert (answer.status, answer.message) == (413, f"a body may have at most {most} bytes")


@pytest.mark.parametrize(("path", "most"), [("/mcp", 16 << 20), ("/api/switch", 16 << 20), ("/rpc", 16 << 20)])
def test_a_body_that_grows_too_large_is_cut_off(shared_daemon: Daemon, path: str, most: int) -> None:
    # One byte more than the limit in whole chunks, and no end: an answer must not wait for one.
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    chunks = chunk * (most // 0x100000) + b"1\r\n \r\n"
    answer = request(shared_daemon, "POST", path, chunks, Content_Length=None, Transfer_Encoding="chunked")
    assert (answer.status, answer.message) == (413, f"a body may have at most {most} bytes")


def test_a_streamed_body_within_the_limit_is_read(shared_daemon: Daemon) -> None:
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in _PING) + b"0\r\n\r\n"
    answer = request(shared_daemon, "POST", "/rpc", chunks, Content_Length=None, Transfer_Encoding="chunked")
    assert answer.object == {"jsonrpc": "2.0", "id": 1, "result": {}}


@pytest.mark.parametrize("length", ["-1", "x", "1_0", "99999999999999999999999"])
def test_a_length_that_is_no_number_is_a_bad_request(shared_daemon: Daemon, length: str) -> None:
    assert request(shared_daemon, "POST", "/rpc", _PING, Content_Length=length).status == 400


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"x" * 4_000_000,
        b"GET / HTTP/1.1\r\nX: " + b"x" * 4_000_000,
        b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 500_000,
        b"POST /rpc HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * 500_000,
    ],
    ids=["a path", "a header", "many headers", "many headers behind a body"],
)
def test_a_head_without_end_is_cut_off(shared_daemon: Daemon, head: bytes) -> None:
    """What was seen: anyone, without a token, could make the daemon keep any number of bytes."""
    parts = urlsplit(shared_daemon.url)
    with (
        socket.create_connection((str(parts.hostname), parts.port or 0), PATIENCE_S) as connection,
        pytest.raises((ConnectionResetError, BrokenPipeError)),
    ):
        connection.sendall(head * 5)
    assert request(shared_daemon).object["status"] == "ok"


def test_a_head_that_is_too_large_is_told_so(shared_daemon: Daemon) -> None:
    answer = send(shared_daemon, b"GET / HTTP/1.1\r\nX: " + b"x" * 65_600)
    assert (answer.status, answer.message) == (431, "the head of a request may have 65536 bytes")


def test_a_head_that_never_comes_is_not_waited_for(shared_daemon: Daemon) -> None:
    """Neither by who sends nothing, nor by who stops half-way, nor by who has had an answer before that."""
    address = (urlsplit(shared_daemon.url).hostname, urlsplit(shared_daemon.url).port)
    whole = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    clients = []
    for sent in (b"", whole[:20], whole + whole[:20]):
        client = socket.create_connection(address, 3 * PATIENCE_S)
        client.sendall(sent)
        clients.append(client)
    received = []
    for client in clients:
        with client:
            parts = []
            while part := client.recv(65_536):
                parts.append(part)
            received.append(b"".join(parts))
    assert received[:2] == [b"", b""]
    assert received[2].count(b"HTTP/1.1 200") == 1
