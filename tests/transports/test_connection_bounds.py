"""What one connection can make the daemon keep, hold, serve or wait for: bounds, each against a live socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.security.guard import MOST_REQUESTS_OF_ONE
from tests.support.daemon import Daemon
from tests.support.sockets import (
    Memory,
    Pair,
    address,
    answer,
    ask,
    authorised,
    connected,
    exchange,
    head,
    seconds_until_gone,
    statuses,
    to_the_end,
)
from tests.support.waiting import PATIENCE_S, eventually

_MB = 1024 * 1024
_MOST_GROWTH_MB = 10
_FLOOD_BYTES = 60 * _MB
_MOST_HEAD_BYTES = 64 * 1024
_STRANGERS = 560
_CHUNKED = head("POST /rpc HTTP/1.1", "Content-Type: application/json", "Transfer-Encoding: chunked")


def _call(tool: str, request_id: str = "1", **arguments: Any) -> bytes:
    params = {"name": tool, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}).encode()


def _post(daemon: Daemon, body: bytes, *fields: str, path: str = "/rpc") -> bytes:
    return _post_head(daemon, len(body), *fields, path=path) + body


def _post_head(daemon: Daemon, length: int, *fields: str, path: str = "/rpc") -> bytes:
    typed = ("Content-Type: application/json", "Accept: application/json", f"Content-Length: {length}")
    return authorised(daemon, f"POST {path} HTTP/1.1", *typed, *fields)


_FLOODS: dict[str, tuple[bytes, bytes]] = {
    "requests without a token": (b"", head("GET / HTTP/1.1")),
    "requests to /health": (b"", head("GET /health HTTP/1.1")),
    "posts without a token": (b"", head("POST /rpc HTTP/1.1", "Content-Length: 2") + b"{}"),
    "one header": (b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Some: ", b"x" * 4_096),
    "a header name": (b"GET / HTTP/1.1\r\nHost: localhost\r\nX-", b"x" * 4_096),
    "many headers": (b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X-Some: thing\r\n" * 64),
    "a target": (b"GET /", b"x" * 4_096),
    "a method": (b"", b"GET" * 1_000),
    "empty lines": (b"", b"\r\n" * 2_048),
    "a body without a token": (head("POST /rpc HTTP/1.1", "Content-Length: 99999999"), b"x" * 65_536),
    "chunks without a token": (_CHUNKED, b"1\r\nx\r\n" * 512),
    "a chunk extension": (_CHUNKED + b"1;", b"x" * 4_096),
    "a chunk size": (_CHUNKED, b"0" * 4_096),
    "trailers": (_CHUNKED + b"0\r\n", b"X-Some: thing\r\n" * 64),
    "one trailer": (_CHUNKED + b"0\r\nX-Some: ", b"x" * 4_096),
    "an upgrade": (head("GET / HTTP/1.1", "Upgrade: h2c", "Connection: Upgrade"), b"x" * 4_096),
    "a tunnel": (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"x" * 4_096),
}


# A body of tiny chunks that goes on behind a 401 is parsed for as long as it comes, a second at a time.


@pytest.mark.parametrize("reads", [True, False], ids=["reading", "not reading"])
@pytest.mark.parametrize("flood", _FLOODS.values(), ids=list(_FLOODS))
async def test_whatever_one_connection_sends_the_daemon_does_not_grow(
    shared_daemon: Daemon, flood: tuple[bytes, bytes], reads: bool
) -> None:
    await _withstands(shared_daemon, *flood, reads=reads)


async def test_what_is_sent_behind_a_call_under_way_is_not_kept(shared_daemon: Daemon) -> None:
    opening = _post(shared_daemon, _call("shell_exec", command="sleep 3"))
    await _withstands(shared_daemon, opening, head("GET /health HTTP/1.1"), reads=True)


async def _withstands(daemon: Daemon, opening: bytes, repeated: bytes, *, reads: bool) -> None:
    """Send without end, as fast as the daemon takes it, and ask for /health all the while."""
    piece = repeated * (65_536 // len(repeated))
    is_over = asyncio.Event()
    slowest_s = 0.0

    async def look() -> None:
        nonlocal slowest_s
        async with connected(daemon) as pair:
            while not is_over.is_set():
                began = time.monotonic()
                assert await ask(pair, head("GET /health HTTP/1.1")) == 200
                slowest_s = max(slowest_s, time.monotonic() - began)
                await asyncio.sleep(0.01)

    async def send(pair: Pair) -> None:
        with contextlib.suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(2.0):
                pair[1].write(opening)
                for _ in range(_FLOOD_BYTES // len(piece)):
                    pair[1].write(piece)
                    await pair[1].drain()

    async def read(pair: Pair) -> None:
        with contextlib.suppress(ConnectionError):
            while await pair[0].read(65_536):
                pass

    memory = Memory(daemon)
    async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as tasks:
        tasks.create_task(look())
        async with connected(daemon) as pair:
            reading = tasks.create_task(read(pair)) if reads else None
            await send(pair)
            if reading is not None:
                reading.cancel()
        is_over.set()
    assert memory.growth_mb <= _MOST_GROWTH_MB
    assert slowest_s < 1.0


_STRANGER_SAYS = {
    "nothing": b"",
    "a question": head("GET /health HTTP/1.1"),
    "half a head": b"GET /health HTTP/1.1\r\nHost: ",
    "half a body": head("POST /rpc HTTP/1.1", "Content-Length: 99", "Content-Type: application/json") + b"{",
}


@contextlib.asynccontextmanager
async def _strangers(daemon: Daemon, says: bytes) -> AsyncIterator[None]:
    """More connections without a token than the daemon holds; who can be answered has been."""
    pairs: list[Pair] = []
    try:
        for _ in range(_STRANGERS):
            reader, writer = await asyncio.open_connection(*address(daemon))
            pairs.append((reader, writer))
            if says:
                writer.write(says)
            if says.endswith(b"\r\n\r\n"):
                with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                    await answer(reader)
        yield
    finally:
        for _, writer in pairs:
            writer.transport.abort()


@pytest.mark.parametrize("says", _STRANGER_SAYS.values(), ids=_STRANGER_SAYS.keys())
async def test_strangers_on_many_connections_keep_no_holder_of_a_token_out(daemon: Daemon, says: bytes) -> None:
    status = authorised(daemon, "GET /api/status HTTP/1.1")
    async with connected(daemon) as older, connected(daemon) as stream:
        assert await ask(older, status) == 200
        stream[1].write(authorised(daemon, "GET /events HTTP/1.1"))
        assert (await answer(stream[0]))[0] == 200
        async with _strangers(daemon, says):
            assert await ask(older, status) == 200
            async with connected(daemon) as newer:
                assert await ask(newer, status) == 200
                assert await ask(newer, _post(daemon, _call("fs_list", path="."))) == 200
            assert await ask(older, status) == 200
            assert not stream[0].at_eof()


async def test_one_principal_has_a_share_of_the_requests_under_way(daemon: Daemon) -> None:
    token = daemon.cli("token", "create", "greedy").stdout.splitlines()[1]
    body = _call("fs_list", path=".")
    greedy = head(
        "POST /rpc HTTP/1.1",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    )
    async with asyncio.timeout(PATIENCE_S), contextlib.AsyncExitStack() as stack:
        async with connected(daemon) as pair:
            await eventually(lambda: ask(pair, greedy + body), lambda status: status != 401)
        held = [await stack.enter_async_context(connected(daemon)) for _ in range(MOST_REQUESTS_OF_ONE)]
        # A request is under way from its head on: the body of these does not come yet.
        for _, writer in held:
            writer.write(greedy + body[:1])
        async with connected(daemon) as pair:
            # The last of them are not read yet.
            await eventually(lambda: ask(pair, greedy + body), lambda status: status != 200)
        async with connected(daemon) as (reader, writer):
            writer.write(greedy + body)
            status, found, told = await answer(reader)
            assert (status, b"\r\nretry-after: " in found.lower()) == (503, True)
            assert json.loads(told)["error"]["message"]
        async with connected(daemon) as owner:
            assert await ask(owner, _post(daemon, body)) == 200
        async with connected(daemon) as stranger:
            assert await ask(stranger, head("GET /health HTTP/1.1")) == 200
        for pair in held:
            assert await ask(pair, body[1:]) == 200
        async with connected(daemon) as pair:
            assert await ask(pair, greedy + body) == 200


_UPGRADES = {
    "h2c": ("Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQAAP__"),
    "h2c alone": ("Upgrade: h2c", "Connection: Upgrade"),
    "a WebSocket": ("Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="),
    "TLS": ("Upgrade: TLS/1.0", "Connection: upgrade"),
    "two": ("Upgrade: h2c, websocket", "Connection: keep-alive, Upgrade"),
}


def _whole(data: bytes) -> list[bytes]:
    return [data]


def _head_and_body(data: bytes) -> list[bytes]:
    found, _, body = data.partition(b"\r\n\r\n")
    return [found + b"\r\n\r\n", body]


def _in_sevens(data: bytes) -> list[bytes]:
    return [data[start : start + 7] for start in range(0, len(data), 7)]


Pieces = Callable[[bytes], list[bytes]]


@pytest.mark.parametrize("pieces", [_whole, _head_and_body, _in_sevens])
@pytest.mark.parametrize("upgrade", _UPGRADES.values(), ids=_UPGRADES.keys())
async def test_an_upgrade_is_ignored_and_the_body_is_this_requests(
    shared_daemon: Daemon, upgrade: tuple[str, ...], pieces: Pieces
) -> None:
    plain = _post(shared_daemon, _call("fs_list", path="."), *upgrade)
    async with connected(shared_daemon) as (reader, writer):
        for piece in pieces(plain):
            writer.write(piece)
            await writer.drain()
        status, _, body = await answer(reader)
        assert (status, json.loads(body)["id"]) == (200, "1")
        # The connection is as good as before.
        assert await ask((reader, writer), head("GET /health HTTP/1.1")) == 200


@pytest.mark.parametrize("pieces", [_whole, _head_and_body, _in_sevens])
@pytest.mark.parametrize("upgrade", _UPGRADES.values(), ids=_UPGRADES.keys())
async def test_a_request_in_the_body_of_an_upgrade_is_not_served(
    shared_daemon: Daemon, upgrade: tuple[str, ...], pieces: Pieces, tmp_path: Path
) -> None:
    mark = tmp_path / "served"
    hidden = _post(shared_daemon, _call("fs_write", path=str(mark), content="x"), "Connection: close")
    async with connected(shared_daemon) as (reader, writer):
        for piece in pieces(_post(shared_daemon, hidden, *upgrade)):
            writer.write(piece)
            await writer.drain()
        assert (await answer(reader))[0] == 400
        writer.write(head("GET /health HTTP/1.1", "Connection: close"))
        assert statuses(await to_the_end(reader)) in ([200], [])
    assert not mark.exists()


@pytest.mark.parametrize("pieces", [_whole, _head_and_body, _in_sevens])
@pytest.mark.parametrize("name", ["Authorization: Bearer {}", "X-API-Key: {}"])
async def test_a_token_in_a_trailer_is_none(shared_daemon: Daemon, name: str, pieces: Pieces) -> None:
    body = _call("fs_list", path=".")
    chunks = b"%x\r\n%b\r\n0\r\n" % (len(body), body) + name.format(shared_daemon.token).encode() + b"\r\n\r\n"
    closing = _CHUNKED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert statuses(await exchange(shared_daemon, pieces(closing + chunks))) == [401]


@pytest.mark.parametrize("trailer", ["X-API-Key: wrong", "Host: evil.example", "Origin: http://evil.example"])
async def test_a_trailer_changes_nothing_about_who_asks(shared_daemon: Daemon, trailer: str) -> None:
    body = _call("fs_list", path=".")
    fields = ("Content-Type: application/json", "Transfer-Encoding: chunked", "Connection: close")
    asked = authorised(shared_daemon, "POST /rpc HTTP/1.1", *fields)
    chunks = b"%x\r\n%b\r\n0\r\n" % (len(body), body) + trailer.encode() + b"\r\n\r\n"
    assert statuses(await exchange(shared_daemon, [asked + chunks])) == [200]


_BEHIND = {
    "nothing": b"",
    "a request": head("GET /health HTTP/1.1"),
    "many requests": head("GET /health HTTP/1.1") * 20_000,
    "half a head": b"GET /health HT",
    "half a body": head("POST /rpc HTTP/1.1", "Content-Length: 99") + b"{",
    "junk": b"\x00\x01\x02 junk\r\n\r\n",
}


@pytest.mark.parametrize("path", ["/rpc", "/mcp"])
@pytest.mark.parametrize("behind", _BEHIND.values(), ids=_BEHIND.keys())
async def test_a_client_that_leaves_is_seen_whatever_it_sent_behind_its_call(
    shared_daemon: Daemon, path: str, behind: bytes, tmp_path: Path
) -> None:
    pid_file = tmp_path / "pid"
    command = f"echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; exec sleep 60"
    async with connected(shared_daemon) as (_, writer):
        writer.write(_post(shared_daemon, _call("shell_exec", command=command), path=path))
        await eventually(pid_file.exists)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                writer.write(behind)
                await writer.drain()
        assert (Path("/proc") / pid_file.read_text().strip()).exists()
    assert await seconds_until_gone(pid_file) < 1.0


def _long_heads() -> Iterator[Any]:
    more = _MOST_HEAD_BYTES + 1_000
    shapes = {
        "one header": ("GET /health HTTP/1.1", ["X-Some: " + "x" * more]),
        "many headers": ("GET /health HTTP/1.1", ["X-Some: thing"] * (more // 14)),
        "a long URL": (f"GET /health?{'x' * more} HTTP/1.1", []),
        "a long name": ("GET /health HTTP/1.1", ["X" * more + ": y"]),
        "empty headers": ("GET /health HTTP/1.1", ["X:"] * (more // 4)),
        "a megabyte": ("GET /health HTTP/1.1", ["X-Some: " + "x" * _MB]),
    }
    for name, (line, fields) in shapes.items():
        yield pytest.param(head(line, *fields), id=name)


def _in_kilobytes(data: bytes) -> list[bytes]:
    return [data[start : start + 1_024] for start in range(0, len(data), 1_024)]


@pytest.mark.parametrize("pieces", [_whole, _in_kilobytes])
@pytest.mark.parametrize("long_head", list(_long_heads()))
async def test_a_head_that_is_too_long_is_refused_however_it_arrives(
    shared_daemon: Daemon, long_head: bytes, pieces: Pieces
) -> None:
    assert statuses(await exchange(shared_daemon, pieces(long_head))) == [431]
    answered_before = head("GET /health HTTP/1.1")
    assert statuses(await exchange(shared_daemon, pieces(long_head), answered_before)) == [431]


async def test_a_head_that_is_just_short_enough_is_served(shared_daemon: Daemon) -> None:
    rest = _MOST_HEAD_BYTES - len(head("GET /health HTTP/1.1", "X-Some: ")) - 100
    async with connected(shared_daemon) as pair:
        assert await ask(pair, head("GET /health HTTP/1.1", "X-Some: " + "x" * rest)) == 200


async def test_a_body_that_comes_with_its_head_does_not_count_as_head(shared_daemon: Daemon) -> None:
    body = _call("fs_list", path=".") + b" " * 200_000
    async with connected(shared_daemon) as pair:
        assert await ask(pair, _post(shared_daemon, body)) == 200


_FOREIGN_TARGETS = [
    "http://evil.example/health",
    "http://evil.example:80/health",
    "HTTP://evil.example/health",
    "https://evil.example/health",
    "http://localhost@evil.example/health",
    "http://localhost:1@evil.example/health",
    "http://localhost.evil.example/health",
    "http://localhost:1/health",
    "http:///health",
    "ftp://localhost/health",
    "localhost:80",
]


@pytest.mark.parametrize("target", _FOREIGN_TARGETS)
async def test_a_target_on_another_host_is_refused(shared_daemon: Daemon, target: str) -> None:
    asked = authorised(shared_daemon, f"GET {target} HTTP/1.1", "Connection: close")
    assert statuses(await exchange(shared_daemon, [asked])) == [400]


async def test_a_target_on_this_host_is_served(shared_daemon: Daemon) -> None:
    async with connected(shared_daemon) as pair:
        assert await ask(pair, authorised(shared_daemon, "GET http://localhost/health HTTP/1.1")) == 200


_PLAIN = [
    ("GET", "/health"),
    ("GET", "/api/status"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("GET", "/nowhere"),
]


@pytest.mark.parametrize(("method", "path"), [*_PLAIN, ("POST", "/rpc"), ("POST", "/mcp")])
async def test_a_client_of_http_1_0_gets_a_length_and_no_chunks(shared_daemon: Daemon, method: str, path: str) -> None:
    body = _call("fs_list", path=".") if method == "POST" else b""
    accept = "Accept: application/json, text/event-stream"
    fields = (accept, "Content-Type: application/json", f"Content-Length: {len(body)}") if body else ()
    received = await exchange(shared_daemon, [authorised(shared_daemon, f"{method} {path} HTTP/1.0", *fields) + body])
    found, _, told = received.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in found.lower()
    assert b"\r\ncontent-length: %d\r\n" % len(told) in found.lower() + b"\r\n"


@pytest.mark.parametrize("path", ["/sse", "/events"])
async def test_a_stream_needs_http_1_1_and_says_so(shared_daemon: Daemon, path: str) -> None:
    asked = authorised(shared_daemon, f"GET {path} HTTP/1.0", "Accept: text/event-stream")
    received = await exchange(shared_daemon, [asked])
    assert statuses(received) == [505]
    assert "1.1" in json.loads(received.partition(b"\r\n\r\n")[2])["error"]["message"]


async def test_a_posted_stream_needs_http_1_1_too(shared_daemon: Daemon) -> None:
    body = _call("fs_list", path=".")
    fields = ("Accept: text/event-stream", "Content-Type: application/json", f"Content-Length: {len(body)}")
    asked = authorised(shared_daemon, "POST /mcp HTTP/1.0", *fields)
    assert statuses(await exchange(shared_daemon, [asked + body])) == [505]
