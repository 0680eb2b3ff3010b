"""One HTTP connection: uvicorn's, with bounds on the head of a request and less to do for a short call.

The guard sees a request when its head is complete. Until then, whoever can reach the port can make us keep what it
sends and hold a place open without sending anything, and the parser has no limits of its own.

Most calls are over in a fraction of a millisecond, and two thirds of what such a call cost was uvicorn's share: two
writes for an answer, a task and two timers for a request, and facts put together that nobody asks for. Here a short
answer is one write, the requests of a connection share a task and a timer, and the rest is made when it is needed.
What is not so plain (a stream, a slow client, one that wants the connection closed) goes uvicorn's own way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

import httptools
import orjson
from starlette.types import Message
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, service_unavailable
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

MOST_HEAD_BYTES = 64 * 1024
MOST_HEAD_S = 10.0
_BODY = orjson.dumps({"error": {"message": f"the head of a request may have {MOST_HEAD_BYTES} bytes"}})
_REFUSAL = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: " + str(len(_BODY)).encode() + b"\r\n\r\n" + _BODY
)
# A longer body is not copied to be joined with its head.
_MOST_JOINED_BYTES = 64 * 1024
_ASGI = {"version": "3.0", "spec_version": "2.3"}

Headers = Sequence[tuple[bytes, bytes]]


class Cycle(RequestResponseCycle):
    """One request and its answer.

    `send` holds a head that says how long the body is until the body comes, right after it. Who has the whole answer
    at hand gives it to `answer` instead, for less than two messages cost.
    """

    # As every request begins. Only what changes is kept with the request itself.
    disconnected = False
    more_body = True
    response_started = False
    response_complete = False
    chunked_encoding = None
    expected_content_length = 0
    # Rung for who waits in `receive`; there once somebody does.
    bell: asyncio.Event | None = None
    _is_read = False
    _head: Message | None = None
    _length: int | None = None

    def __init__(self, connection: Connection, scope: dict[str, Any], keep_alive: bool) -> None:
        self.scope = scope  # type: ignore[assignment]  # uvicorn has a type of its own for it
        self.transport = connection.transport
        self.flow = connection.flow
        self.logger = connection.logger
        self.access_logger = connection.access_logger
        self.access_log = connection.access_log
        self.default_headers = connection.server_state.default_headers
        self.on_response = connection.on_response_complete
        self.waiting_for_100_continue = connection.expect_100_continue
        self.keep_alive = keep_alive
        self.body = bytearray()

    @property
    def message_event(self) -> asyncio.Event:  # type: ignore[override]  # made when somebody has to wait
        """Set while there is something that `receive` has not told yet."""
        if self.bell is None:
            self.bell = asyncio.Event()
            if (self.body or not self.more_body) and not self._is_read:
                self.bell.set()
        return self.bell

    async def receive(self) -> Any:
        if self.more_body or self._is_read or self.disconnected or self.bell is not None:
            return await super().receive()
        # All of it has come before anybody asked.
        self._is_read = True
        body, self.body = bytes(self.body), bytearray()
        if self.flow.read_paused:
            self.flow.resume_reading()
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:  # type: ignore[override]  # the same messages
        if message["type"] == "http.response.start":
            # Also in place of one that was held, should what was to follow it have failed.
            self._length = _declared_length(message)
            self._head = None if self._length is None else message
            if self._head is not None:
                return
        elif self._head is not None:
            head, self._head = self._head, None
            body = message.get("body", b"")
            is_whole = len(body) == self._length and not message.get("more_body")
            if is_whole and self.answer(head["status"], head["headers"], body):
                return
            await super().send(head)  # type: ignore[arg-type]
        await super().send(message)  # type: ignore[arg-type]

    def answer(self, status: int, headers: Headers, body: bytes) -> bool:
        """Write a whole answer, with `headers` that say how long it is; False if it has to be sent as messages."""
        if (
            not self.keep_alive
            or len(body) > _MOST_JOINED_BYTES
            or self.disconnected
            or self.flow.write_paused
            or self.response_started
            or self.scope["method"] == "HEAD"
        ):
            return False
        lines = b"".join([b"%b: %b\r\n" % pair for pair in headers])
        if lines.count(b"\n") != len(headers):
            raise RuntimeError("a header has a line break in it")
        self.response_started = self.response_complete = True
        self.waiting_for_100_continue = False
        self.transport.write(b"%b%b\r\n%b" % (_opening(status, self.default_headers), lines, body))
        if self.bell is not None:
            self.bell.set()
        self.on_response()
        return True


def _declared_length(head: Message) -> int | None:
    """How long the body is that follows a head; None if it does not say, or says that the connection ends with it."""
    length = None
    for name, value in head["headers"]:
        if name == b"connection":
            return None
        if name == b"content-length":
            length = int(value)
    return length


# The first lines of an answer by its status, with the headers that every answer has, which change every second.
_openings: dict[int, tuple[Headers, bytes]] = {}


def _opening(status: int, defaults: Headers) -> bytes:
    known = _openings.get(status)
    if known is None or known[0] is not defaults:
        lines = b"".join([STATUS_LINE[status], *(b"%b: %b\r\n" % pair for pair in defaults)])
        known = _openings[status] = defaults, lines
    return known[1]


class Connection(HttpToolsProtocol):
    """Counts the bytes since the last that completed something: a head, or a piece of a body."""

    cycle: Cycle
    _kept = 0
    _head_due: asyncio.TimerHandle | None = None
    _idle_since = 0.0
    _idle_due: asyncio.TimerHandle | None = None
    # What a task waits for that has answered a request and is there for the next.
    _vacancy: asyncio.Future[tuple[Cycle, Any]] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._head_due = self.loop.call_later(MOST_HEAD_S, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        for due in (self._head_due, self._idle_due):
            if due is not None:
                due.cancel()
        self._head_due = self._idle_due = None
        if self._vacancy is not None:
            self._vacancy.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        is_between = self.cycle is not None and self.cycle.response_complete
        self._kept += len(data)
        super().data_received(data)
        if is_between and self._head_due is None and self._kept:
            # The first bytes of a further request: it has as long for its head as the first one had.
            self._head_due = self.loop.call_later(MOST_HEAD_S, self.transport.close)
        if self._kept > MOST_HEAD_BYTES and not self.transport.is_closing():
            if self.cycle is None or self.cycle.response_complete:
                self.transport.write(_REFUSAL)
            self.transport.close()

    def on_message_begin(self) -> None:
        self.url = b""
        self.expect_100_continue = False
        self.headers = []

    def on_headers_complete(self) -> None:
        self._kept = 0
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None
        parser = self.parser
        version = parser.get_http_version()
        raw_path, query = self.url, b""
        if not raw_path.startswith(b"/") or b"?" in raw_path or b"#" in raw_path:
            url = httptools.parse_url(self.url)
            raw_path, query = url.path, url.query or b""
        path = raw_path.decode("ascii")
        scope = {
            "type": "http",
            "asgi": _ASGI,
            "http_version": version,
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,
            "root_path": "",
            "headers": self.headers,
            "state": {},
            "method": parser.get_method().decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
        }
        app = self.app
        most = self.limit_concurrency
        if most is not None and (len(self.connections) >= most or len(self.tasks) >= most):
            app = service_unavailable
            self.logger.warning("Exceeded concurrency limit.")
        former = self.cycle
        self.cycle = cycle = Cycle(self, scope, version != "1.0" and parser.should_keep_alive())
        if former is None or former.response_complete:
            self._start_asgi_task(cycle, app)
        else:
            # It came before the one in front of it was answered.
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, app))

    def on_body(self, body: bytes) -> None:
        self._kept = 0
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.body += body
            if len(cycle.body) > HIGH_WATER_LIMIT:
                self.flow.pause_reading()
            if cycle.bell is not None:
                cycle.bell.set()

    def on_message_complete(self) -> None:
        self._kept = 0
        cycle = self.cycle
        if not cycle.response_complete:
            cycle.more_body = False
            if cycle.bell is not None:
                cycle.bell.set()

    def on_response_complete(self) -> None:
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        if self.flow.read_paused:
            self.flow.resume_reading()
        self._idle_since = self.loop.time()
        if self._idle_due is None:
            self._idle_due = self.loop.call_later(self.timeout_keep_alive, self._close_if_idle)

    def _close_if_idle(self) -> None:
        self._idle_due = None
        if not self.cycle.response_complete or self._head_due is not None:
            # A request is under way, or its head has begun, which has a time of its own.
            return
        left_s = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left_s > 0:
            self._idle_due = self.loop.call_later(left_s, self._close_if_idle)
        else:
            self.timeout_keep_alive_handler()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        vacancy = self._vacancy
        if vacancy is None:
            self.loop.create_task(self._work(cycle, app))
        else:
            self._vacancy = None
            vacancy.set_result((cycle, app))

    async def _work(self, cycle: Cycle, app: Any) -> None:
        """Run a request, and those that come after it."""
        task = asyncio.current_task()
        assert task is not None, "it is started as one"
        while True:
            self.tasks.add(task)
            try:
                await cycle.run_asgi(app)
            finally:
                self.tasks.discard(task)
            # The next request did not wait for the end of this one if its answer was there before.
            if self._vacancy is not None or task.cancelling() or self.transport.is_closing():
                return
            self._vacancy = self.loop.create_future()
            cycle, app = await self._vacancy
