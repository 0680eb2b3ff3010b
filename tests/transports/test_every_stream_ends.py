"""Every stream that there is ends soon after its token is revoked and after the daemon or gateway is told to stop.

The table below names the place in the product that writes each stream. A test finds all such places in the source, so
that a stream that is added later fails here until it is in the table.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import json
import re
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import mcp_agent
from mcp_agent.transports import sse_frames, sse_writer
from tests.support.daemon import Daemon, running
from tests.support.fleet import running_fleet
from tests.support.nats import nats_server
from tests.support.sockets import Pair, answer, ask, connected, head
from tests.support.waiting import PATIENCE_S, eventually

# It takes half a second; a busy machine takes longer, and a stream that is not ended lasts for ever.
_SOON_S = 10.0
_PRODUCT = Path(mcp_agent.__file__).parent
_WRITER = (sse_frames, sse_writer)
_WRITER_FILES = [Path(str(module.__file__)) for module in _WRITER]
_NAME = "watcher"
_SESSION = ("Mcp-Session-Id: " + "s" * 30, "MCP-Protocol-Version: 2025-11-25")
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
_BROKEN = ("Mcp-Session-Id: " + "b" * 30, "MCP-Protocol-Version: 2025-11-25")
_STREAM_ONLY = "Accept: text/event-stream"


def _get(path: str, *fields: str) -> Callable[[str], bytes]:
    return lambda token: head(f"GET {path} HTTP/1.1", f"Authorization: Bearer {token}", _STREAM_ONLY, *fields)


def _post(method: str, params: dict[str, Any], *fields: str) -> Callable[[str], bytes]:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    sized = ("Content-Type: application/json", f"Content-Length: {len(body)}")

    def asked(token: str) -> bytes:
        return head("POST /mcp HTTP/1.1", f"Authorization: Bearer {token}", _STREAM_ONLY, *sized, *fields) + body

    return asked


def _stateless(method: str, params: dict[str, Any]) -> Callable[[str], bytes]:
    fields = ["MCP-Protocol-Version: 2026-07-28", f"Mcp-Method: {method}"]
    if "name" in params:
        fields.append(f"Mcp-Name: {params['name']}")
    return _post(method, {**params, "_meta": _META}, *fields)


@dataclass(frozen=True)
class Stream:
    """A stream, what opens it, and the function of the product that writes it."""

    name: str
    asked: Callable[[str], bytes]
    written_by: str


_CALL = {"name": "shell_exec", "arguments": {"command": "sleep 60"}}
_LISTEN = {"notifications": {"toolsListChanged": True, "mcp-agent/shellSessions": True}}
STREAMS = [
    Stream("/sse", _get("/sse"), "Sse.stream"),
    Stream("/sse with named events", _get("/sse?events=named"), "Sse.stream"),
    Stream("the stream of a session", _get("/mcp", *_SESSION), "StreamableHttp._stream"),
    Stream("a call in a session", _post("tools/call", _CALL, *_SESSION), "Exchange._write_stream"),
    Stream("a call without a session", _post("tools/call", _CALL), "Exchange._write_stream"),
    Stream("a stateless call", _stateless("tools/call", _CALL), "Exchange._write_stream"),
    Stream("subscriptions/listen", _stateless("subscriptions/listen", _LISTEN), "StreamableHttp._stateless"),
    Stream("/events", _get("/events"), "EventsWire.__call__"),
]


# Only the owner may open it, so it has a test of its own.
_OF_THE_OWNER = Stream("the stream of the Tools page", _get("/ui/stream"), "PageStream.__call__")


def test_every_place_that_writes_a_stream_is_in_the_table() -> None:
    known = {each.written_by for each in (*STREAMS, _OF_THE_OWNER)}
    assert {place for path in _modules() for place in _writers_in(path)} == known


def test_no_stream_is_written_by_hand() -> None:
    for path in _modules():
        source = path.read_text()
        assert "sse_starlette" not in source, path
        assert not re.search(r'content-type"?,? ?:? ?b?"text/event-stream', source), path


def _modules() -> Iterator[Path]:
    """Every module of the product but the writer's own."""
    return (path for path in _PRODUCT.rglob("*.py") if path not in _WRITER_FILES)


def _writers_in(path: Path) -> Iterator[str]:
    """The functions of a module that use what writes a stream: a class or a coroutine function of the one writer."""
    tree = ast.parse(path.read_text())
    names = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for module in _WRITER
        if node.module == module.__name__
        for alias in node.names
        if _writes(getattr(module, alias.name))
    }
    return _uses(tree, names, "")


def _writes(found: object) -> bool:
    return found is sse_writer.EventStream or inspect.iscoroutinefunction(found)


def _uses(node: ast.AST, names: set[str], within: str) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Name) and child.id in names and within:
            yield within
        inner = within
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            inner = f"{within}.{child.name}".lstrip(".")
        yield from _uses(child, names, inner)


@pytest.fixture(params=["serve", "gateway"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Daemon]:
    """A daemon, or a gateway with one box: their streams are written alike, and read from different places."""
    if request.param == "serve":
        with running(tmp_path) as daemon:
            yield daemon
        return
    with nats_server(tmp_path) as server, running_fleet(tmp_path, server.url) as fleet:
        fleet.member("one")
        gateway = fleet.gateway().daemon
        assert gateway is not None
        yield gateway


async def test_a_revoked_token_ends_every_stream(host: Daemon) -> None:
    async with _open_streams(host) as ends:
        revoked = await asyncio.to_thread(host.cli, "token", "revoke", _NAME)
        assert revoked.returncode == 0
        assert await _late(ends, time.monotonic()) == {}


async def test_a_rotated_token_of_the_owner_ends_the_stream_of_the_page(daemon: Daemon) -> None:
    async with connected(daemon) as pair:
        pair[1].write(_OF_THE_OWNER.asked(daemon.token))
        async with asyncio.timeout(PATIENCE_S):
            assert (await pair[0].readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        end = asyncio.create_task(_end(pair))
        assert (await asyncio.to_thread(daemon.cli, "token", "rotate")).returncode == 0
        assert await _late({_OF_THE_OWNER.name: end}, time.monotonic()) == {}


async def test_a_token_that_is_revoked_before_the_body_has_come_opens_no_stream(daemon: Daemon) -> None:
    token = await _new_token(daemon)
    opening = next(each for each in STREAMS if each.name == "subscriptions/listen").asked(token)
    first, _, body = opening.partition(b"\r\n\r\n")
    async with connected(daemon) as (reader, writer), connected(daemon) as other:
        writer.write(first + b"\r\nExpect: 100-continue\r\n\r\n")
        async with asyncio.timeout(PATIENCE_S):
            # The token has been checked by then.
            assert b" 100 " in await reader.readuntil(b"\r\n\r\n")
        assert (await asyncio.to_thread(daemon.cli, "token", "revoke", _NAME)).returncode == 0
        await eventually(lambda: ask(other, _get("/openapi.json")(token)), lambda status: status == 401)
        writer.write(body)
        status, _, refusal = await answer(reader)
    assert (status, json.loads(refusal)) == (401, {"error": {"message": "the token was revoked"}})


async def test_a_daemon_that_is_told_to_stop_ends_every_stream(host: Daemon) -> None:
    async with _open_streams(host) as ends:
        host.process.send_signal(signal.SIGTERM)
        assert await _late(ends, time.monotonic()) == {}


async def test_a_stream_of_shell_events_alone_ends_when_the_shell_is_disabled(host: Daemon) -> None:
    async with _open_streams(host) as ends:
        disabled = await asyncio.to_thread(host.cli, "disable", "shell")
        assert disabled.returncode == 0
        assert await _late({"/events": ends["/events"]}, time.monotonic()) == {}
        assert not ends["/sse"].done()


async def _new_token(daemon: Daemon) -> str:
    """A token of its own, once the daemon accepts it."""
    token = daemon.cli("token", "create", _NAME).stdout.splitlines()[1]
    async with connected(daemon) as pair:
        await eventually(lambda: ask(pair, _get("/openapi.json")(token)), lambda status: status != 401)
    return token


@contextlib.asynccontextmanager
async def _open_streams(daemon: Daemon) -> AsyncIterator[dict[str, asyncio.Task[float]]]:
    """Every stream, open, with a task each that gives the time at which it ends."""
    token = await _new_token(daemon)
    async with contextlib.AsyncExitStack() as stack:
        ends: dict[str, asyncio.Task[float]] = {}
        resumed = await _call_to_resume(daemon, token)
        for stream in [*STREAMS, resumed]:
            pair = await stack.enter_async_context(connected(daemon))
            pair[1].write(stream.asked(token))
            async with asyncio.timeout(PATIENCE_S):
                found = (await pair[0].readuntil(b"\r\n\r\n")).lower()
            assert found.startswith(b"http/1.1 200 "), (stream.name, found)
            assert b"content-type: text/event-stream" in found, stream.name
            ends[stream.name] = asyncio.create_task(_end(pair))
        try:
            yield ends
        finally:
            for end in ends.values():
                end.cancel()


async def _call_to_resume(daemon: Daemon, token: str) -> Stream:
    """What takes up the stream of a call whose connection is lost."""
    async with asyncio.timeout(PATIENCE_S), connected(daemon) as (reader, writer):
        writer.write(_post("tools/call", _CALL, *_BROKEN)(token))
        last = (await reader.readuntil(b"id: ") and await reader.readline()).decode().strip()
    return Stream("a call taken up again", _get("/mcp", *_BROKEN, f"Last-Event-ID: {last}"), "Exchange._write_stream")


async def _end(pair: Pair) -> float:
    """When the stream is over: its last chunk has come, or the connection is closed."""
    received = b"\r\n"
    with contextlib.suppress(ConnectionError):
        while chunk := await pair[0].read(65_536):
            received = (received + chunk)[-16:]
            if received.endswith(b"\r\n0\r\n\r\n"):
                break
    return time.monotonic()


async def _late(ends: dict[str, asyncio.Task[float]], since: float) -> dict[str, float]:
    """The streams that did not end soon after `since`, and how long they lasted."""
    await asyncio.wait(ends.values(), timeout=_SOON_S)
    lasted_s = {name: (end.result() if end.done() else time.monotonic()) - since for name, end in ends.items()}
    return {name: seconds for name, seconds in lasted_s.items() if seconds > _SOON_S}
