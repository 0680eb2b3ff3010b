"""One connection and the answers on it: each goes to its own request, and none is mixed up with another."""

from __future__ import annotations

import asyncio
import gc
import re
import socket
import time
import weakref
from typing import Self
from urllib.parse import urlsplit

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from mcp_agent.transports.connection import Connection
from mcp_agent.transports.http import read_body, send_json
from tests.support.daemon import Daemon
from tests.support.waiting import PATIENCE_S

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


def test_requests_on_one_connection_are_answered_one_after_the_other(shared_daemon: Daemon) -> None:
    with _connected(shared_daemon) as connection:
        statuses = []
        for path in ("/health", "/nowhere", "/health"):
            connection.sendall(_asked(path))
            statuses += [answer.split(b" ", 2)[1] for answer in _answers(connection, 1)]
    assert statuses == [b"200", b"401", b"200"]


def test_a_pipelined_request_is_not_read_and_the_connection_closes_after_the_first_answer(
    shared_daemon: Daemon,
) -> None:
    with _connected(shared_daemon) as connection:
        connection.sendall(_asked("/health") + _asked("/nowhere") + _asked("/health"))
        received = _read_to_the_end(connection)
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"connection: close" in head
    assert body.startswith(b'{"status":"ok"')
    assert body.endswith(b"}")
    assert b"HTTP/1.1" not in body


def test_an_answer_to_head_has_no_body(shared_daemon: Daemon) -> None:
    with _connected(shared_daemon) as connection:
        connection.sendall(_asked("/health", "HEAD", "Connection: close"))
        head, _, body = _read_to_the_end(connection).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert body == b""


def test_a_client_that_wants_the_connection_closed_has_it_closed(shared_daemon: Daemon) -> None:
    with _connected(shared_daemon) as connection:
        connection.sendall(_asked("/health", "GET", "Connection: close"))
        received = _read_to_the_end(connection)
    assert b"connection: close" in received.partition(b"\r\n\r\n")[0]
    assert b'{"status":"ok"' in received


def test_who_brings_too_much_is_told_and_not_waited_for(shared_daemon: Daemon) -> None:
    token = f"Authorization: Bearer {shared_daemon.token}"
    with _connected(shared_daemon) as connection:
        connection.sendall(
            _asked("/mcp", "POST", token, "Content-Type: application/json", "Content-Length: 20000000") + b"{"
        )
        received = _read_to_the_end(connection)
    head = received.partition(b"\r\n\r\n")[0]
    assert head.startswith(b"HTTP/1.1 413 ")
    assert b"connection: close" in head


def _read_to_the_end(connection: socket.socket) -> bytes:
    received = b""
    while chunk := connection.recv(65_536):
        received += chunk
    return received


class _Served:
    """An application behind connections of ours, or of uvicorn's own, with what it was asked."""

    def __init__(self, app: ASGIApp, protocol: type[HttpToolsProtocol] = Connection, keep_alive_s: int = 5) -> None:
        self._config = Config(
            app, http=protocol, ws="none", lifespan="off", log_config=None, timeout_keep_alive=keep_alive_s
        )
        self._protocol = protocol
        self._state = ServerState()
        self.connections: list[HttpToolsProtocol] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.get_running_loop().create_server(self._connected, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    def _connected(self) -> HttpToolsProtocol:
        connection = self._protocol(self._config, self._state, {})
        self.connections.append(connection)
        return connection

    async def client(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(*self._server.sockets[0].getsockname())


async def _echo(scope: Scope, receive: Receive, send: Send) -> None:
    body = await read_body(receive)
    await send_json(send, 200, body)


async def _answer(reader: asyncio.StreamReader) -> bytes:
    """The body of the next answer."""
    async with asyncio.timeout(PATIENCE_S):
        head = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(head)
        assert length is not None
        return await reader.readexactly(int(length[1]))


async def test_an_idle_connection_is_closed_and_one_in_use_is_not() -> None:
    async with _Served(_echo, keep_alive_s=1) as served:
        reader, writer = await served.client()
        began = time.monotonic()
        while time.monotonic() - began < 1.5:
            writer.write(_posted(b"{}"))
            assert await _answer(reader) == b"{}"
            await asyncio.sleep(0.2)
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""
        writer.close()
    assert time.monotonic() - began > 2.0


async def test_a_head_that_has_begun_is_waited_for_longer_than_an_idle_client() -> None:
    async with _Served(_echo, keep_alive_s=1) as served:
        reader, writer = await served.client()
        writer.write(_posted(b"1"))
        assert await _answer(reader) == b"1"
        began, rest = _cut(_posted(b"2"), 10)
        writer.write(began)
        # Longer than an idle connection is kept.
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.5):
                await reader.read(1)
        writer.write(rest)
        assert await _answer(reader) == b"2"
        writer.close()


async def test_a_body_in_pieces_arrives_whole() -> None:
    async with _Served(_echo) as served:
        reader, writer = await served.client()
        for number in range(3):
            body = bytes([97 + number]) * 200_000
            for piece in _cut(_posted(body), 150, 30_000, 100_000):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.01)
            assert await _answer(reader) == body
        writer.close()


async def test_the_head_of_a_stream_is_sent_before_its_first_bytes() -> None:
    has_head = asyncio.Event()

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await has_head.wait()
        await send({"type": "http.response.body", "body": b"hello"})

    async with _Served(stream) as served, asyncio.timeout(PATIENCE_S):
        reader, writer = await served.client()
        writer.write(_asked("/"))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK\r\n")
        has_head.set()
        assert await reader.readexactly(8) == b"5\r\nhello"
        writer.close()


async def test_a_client_that_asks_first_is_told_to_go_on() -> None:
    async with _Served(_echo) as served:
        reader, writer = await served.client()
        head, _, body = _posted(b'{"a":1}', "Expect: 100-continue").partition(b"\r\n\r\n")
        writer.write(head + b"\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(body)
        assert await _answer(reader) == body
        writer.close()


async def test_a_client_that_leaves_is_told_of() -> None:
    told = asyncio.Event()

    async def waiting(scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        assert (await receive())["type"] == "http.disconnect"
        told.set()

    async with _Served(waiting) as served:
        _, writer = await served.client()
        writer.write(_posted(b"{}"))
        await writer.drain()
        writer.close()
        async with asyncio.timeout(PATIENCE_S):
            await told.wait()


async def test_who_has_answered_and_goes_on_working_holds_up_nobody() -> None:
    over = asyncio.Event()

    async def lingering(scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        await send_json(send, 200, body)
        if body == b"1":
            await over.wait()

    async with _Served(lingering) as served:
        reader, writer = await served.client()
        for body in (b"1", b"2", b"3"):
            writer.write(_posted(body))
            assert await _answer(reader) == body
        over.set()
        for body in (b"4", b"5"):
            writer.write(_posted(body))
            assert await _answer(reader) == body
        writer.close()


async def test_an_application_that_fails_is_answered_for_and_its_connection_closed() -> None:
    async def failing(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/late":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
        if scope["path"] != "/good":
            raise ValueError("it went wrong")
        await send_json(send, 200, b"{}")

    async with _Served(failing) as served:
        for path, status, body in (("/bad", b"500", b"Internal Server Error"), ("/late", b"200", b"")):
            reader, writer = await served.client()
            writer.write(_asked("/good"))
            assert await _answer(reader) == b"{}"
            writer.write(_asked(path))
            async with asyncio.timeout(PATIENCE_S):
                head, _, rest = (await reader.read()).partition(b"\r\n\r\n")
            assert (head.split(b" ")[1], rest) == (status, body)
            writer.close()


async def test_a_request_that_is_answered_is_gone_without_the_garbage_collector() -> None:
    async with _Served(_echo) as served:
        reader, writer = await served.client()
        gc.disable()
        try:
            writer.write(_posted(b"{}"))
            await _answer(reader)
            first = weakref.ref(served.connections[0].cycle)
            for _ in range(2):
                writer.write(_posted(b"{}"))
                await _answer(reader)
            assert first() is None
        finally:
            gc.enable()
        writer.close()


_TARGETS = ["/", "/a", "/a?x=1&y=%20", "/a%20b%2Fc", "//a", "/a#b", "/a?b#c", "http://localhost/a/b?c", "/a%zz", "/?"]


@pytest.mark.parametrize("target", _TARGETS)
async def test_a_request_is_told_as_uvicorn_tells_it(target: str) -> None:
    scopes: list[Scope] = []

    async def noting(scope: Scope, receive: Receive, send: Send) -> None:
        scopes.append(scope)
        await send_json(send, 200, b"{}")

    for protocol in (Connection, HttpToolsProtocol):
        async with _Served(noting, protocol) as served:
            reader, writer = await served.client()
            writer.write(_asked(target, "GET", "X-Some: Thing"))
            await _answer(reader)
            writer.close()
    ours, theirs = ({**scope, "client": None, "server": None} for scope in scopes)
    assert ours == theirs


def _posted(body: bytes, *headers: str) -> bytes:
    return _asked("/", "POST", f"Content-Length: {len(body)}", *headers) + body


def _cut(data: bytes, *places: int) -> list[bytes]:
    """`data` in pieces, cut at `places`."""
    return [data[start:end] for start, end in zip((0, *places), (*places, len(data)), strict=True)]
