"""One connection and the answers on it: short ones go out in one piece, and none is mixed up with another."""

from __future__ import annotations

import re
import socket
from urllib.parse import urlsplit

from tests.daemon import PATIENCE_S, Daemon

_LENGTH = re.compile(rb"content-length: (\d+)")


def _asked(path: str, method: str = "GET", *headers: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", ""]).encode()


def _connected(daemon: Daemon) -> socket.socket:
    parts = urlsplit(daemon.url)
    return socket.create_connection((str(parts.hostname), parts.port or 0), PATIENCE_S)


def _answers(connection: socket.socket, count: int) -> list[bytes]:
    """So many answers with a body, each whole."""
    data, found = b"", list[bytes]()
    while len(found) < count:
        head, end, rest = data.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if end and length is not None and len(rest) >= int(length[1]):
            found.append(head + end + rest[: int(length[1])])
            data = rest[int(length[1]) :]
            continue
        received = connection.recv(65_536)
        assert received, f"closed after {data!r}"
        data += received
    assert not data
    return found


def test_a_short_answer_is_one_piece(shared_daemon: Daemon) -> None:
    with _connected(shared_daemon) as connection:
        connection.sendall(_asked("/health"))
        head, _, body = connection.recv(65_536).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert body.startswith(b'{"status":"ok"')


def test_requests_sent_at_once_are_answered_one_after_the_other(shared_daemon: Daemon) -> None:
    with _connected(shared_daemon) as connection:
        connection.sendall(_asked("/health") + _asked("/nowhere") + _asked("/health"))
        statuses = [answer.split(b" ", 2)[1] for answer in _answers(connection, 3)]
    assert statuses == [b"200", b"401", b"200"]


def test_an_answer_to_head_has_no_body(shared_daemon: Daemon) -> None:
    with _connected(shared_daemon) as connection:
        connection.sendall(_asked("/health", "HEAD") + _asked("/health"))
        first, second = connection.recv(65_536), b""
        while b'"status":"ok"' not in first + second:
            second += connection.recv(65_536)
    heads = (first + second).split(b"\r\n\r\n")
    assert [head.split(b"\r\n")[0] for head in heads[:2]] == [b"HTTP/1.1 200 OK", b"HTTP/1.1 200 OK"]
    assert len(heads) == 3


def test_a_client_that_wants_the_connection_closed_has_it_closed(shared_daemon: Daemon) -> None:
    with _connected(shared_daemon) as connection:
        connection.sendall(_asked("/health", "GET", "Connection: close"))
        received = b""
        while chunk := connection.recv(65_536):
            received += chunk
    assert b"connection: close" in received.partition(b"\r\n\r\n")[0]
    assert b'{"status":"ok"' in received
