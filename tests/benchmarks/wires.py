"""The other wires: what a call costs on them beside /mcp, and what an event costs that goes to fifty clients."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Final
from urllib.parse import urlsplit

import orjson

from tests.benchmarks.http_client import HttpClient
from tests.benchmarks.mcp_messages import http_call, initialize, message, opened_http, unopened_http
from tests.benchmarks.processes import Program, running, subject
from tests.benchmarks.rows import Bench, Goal, Meter, Row

_TOKEN = "benchmark-token-of-32-characters"
_ERA: Final = "2025-11-25"
_CLIENTS = 50
_PATIENCE_S = 30.0

Call = Callable[[], object]


def rows() -> list[Row]:
    what = "processor time of a call of a trivial tool over"
    return [
        Row("call-sse", f"{what} /sse", "the same over /mcp", "µs", Goal(1.5), _against_mcp(_sse_call)),
        Row("call-tools", f"{what} /tools", "the same over /mcp", "µs", Goal(1.0), _against_mcp(_tools_call)),
        Row(
            "event-sse",
            f"processor time of an event to one of {_CLIENTS} clients of /sse",
            "bare Starlette stream",
            "µs",
            Goal(1.5),
            _events,
        ),
    ]


def _against_mcp(
    wire: Callable[[str, ExitStack], Call],
) -> Callable[[Bench], AbstractContextManager[tuple[Meter, Meter]]]:
    """Two daemons, one called over `wire` and the other over /mcp, so that each has its processor time to itself."""

    @contextmanager
    def contest(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
        with ExitStack() as stack:
            ours, theirs = (
                stack.enter_context(running([*subject("echo_daemon"), _TOKEN], bench.folder)) for _ in range(2)
            )
            call = wire(_base(ours), stack)
            yield _processor_time(ours, call, bench), _processor_time(theirs, _mcp_call(theirs), bench)

    return contest


def _mcp_call(program: Program) -> Call:
    client = opened_http(program.line().decode().strip(), _ERA, _TOKEN)
    request = http_call(client, _ERA, "echo", {"text": "hello"})
    return lambda: client.exchange(request)


def _tools_call(base: str, stack: ExitStack) -> Call:
    client = HttpClient(f"{base}/tools/echo", {"authorization": f"Bearer {_TOKEN}"})
    request = client.written(orjson.dumps({"text": "hello"}))
    return lambda: client.exchange(request)


def _sse_call(base: str, stack: ExitStack) -> Call:
    """Post the message and read its answer off the stream, as a client of that transport does."""
    stream = _Stream(base)
    stack.callback(stream.close)
    endpoint = stream.until(b"session_id=").split(b"data: ")[1].split(b"\r\n")[0].decode()
    client = HttpClient(f"{base}{endpoint}", {"authorization": f"Bearer {_TOKEN}"})
    client.exchange(client.written(initialize()))
    stream.until(b'"result"')
    request = http_call(client, _ERA, "echo", {"text": "hello"})

    def call() -> None:
        client.exchange(request)
        stream.until(b'"result"')

    return call


@contextmanager
def _events(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    with ExitStack() as stack:
        ours = stack.enter_context(running([*subject("announcing_daemon"), _TOKEN], bench.folder))
        theirs = stack.enter_context(running(subject("bare_sse"), bench.folder))
        yield _event_meter(ours, stack, bench), _event_meter(theirs, stack, bench)


def _event_meter(program: Program, stack: ExitStack, bench: Bench) -> Meter:
    base = _base(program)
    streams = [_Stream(base) for _ in range(_CLIENTS)]
    for stream in streams:
        stack.callback(stream.close)
        stream.until(b": open", b"session_id=")
    client = unopened_http(f"{base}/mcp", _ERA, _TOKEN)
    request = client.written(message("tools/call", {"name": "announce", "arguments": {}}, request_id=1))

    def announce() -> None:
        client.exchange(request)
        for stream in streams:
            stream.until(b"list_changed")

    measure = _processor_time(program, announce, bench)
    return lambda: measure() / _CLIENTS


def _processor_time(program: Program, call: Call, bench: Bench) -> Meter:
    """Microseconds of the server's processor time for a call, over as many calls as fit into a round."""

    def measure() -> float:
        before = program.processor_s()
        deadline = time.perf_counter() + bench.round_s
        calls = 0
        while time.perf_counter() < deadline:
            call()
            calls += 1
        return (program.processor_s() - before) / calls * 1e6

    return measure


def _base(program: Program) -> str:
    return program.line().decode().strip().removesuffix("/mcp")


class _Stream:
    """One open /sse, read only when asked."""

    def __init__(self, base: str) -> None:
        parts = urlsplit(base)
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=_PATIENCE_S)
        self._socket.sendall(
            f"GET /sse HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {_TOKEN}\r\n\r\n".encode()
        )
        self._unread = b""

    def until(self, *wanted: bytes) -> bytes:
        """Read up to and including the line in which one of `wanted` stands, and give what was read."""
        while not any(each in self._unread for each in wanted):
            data = self._socket.recv(65_536)
            if not data:
                raise RuntimeError(f"the stream ended: {self._unread.decode(errors='replace')}")
            self._unread += data
        read, self._unread = self._unread, b""
        return read

    def close(self) -> None:
        self._socket.close()
