"""One HTTP connection: uvicorn's, with bounds on what a client may send before the guard has seen its token.

The guard runs when the head of a request is complete. Until then anybody who reaches the port can make us buffer bytes
and hold a connection open, and neither uvicorn nor httptools has a limit on that.

Pipelining is not served: a request that arrives before the previous one is answered is not read, and the connection
closes after that answer. Reading goes on, because only a transport that reads notices a client that leaves.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence
from typing import NamedTuple

import httptools
import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from mcp_agent.security.guard import PREVIEW_PATH, PROXY_PATH

MOST_HEAD_BYTES = 64 * 1024
MOST_HEAD_S = 10.0
MOST_CONNECTIONS = 512
# A request can be answered before its body has come. So much of it is still read, for the sake of the next request on
# the connection; of a longer one the rest is dropped unread for so long, and then the connection closes.
_MOST_DRAINED_BYTES = 256 * 1024
_CHUNK_COST_BYTES = 64
_LINGER_S = 1.0
# The paths under which a WebSocket is opened; anywhere else a request for one is a request without it.
TERMINAL_PATH = "/open-terminal/api/terminals/"
_WEBSOCKET_PATHS = tuple(path.encode() for path in (TERMINAL_PATH, PROXY_PATH, PREVIEW_PATH, "/api/terminals/"))
# The largest message of a WebSocket that is read; a person may paste a long text.
MOST_MESSAGE_BYTES = 1024 * 1024
_HEAD_TOO_LARGE = f"the head of a request may have {MOST_HEAD_BYTES} bytes"


class _HeadProblem(NamedTuple):
    status: int
    message: str


_FIRST_LINE = _HeadProblem(400, "the first line must be a method, a target and the version of HTTP, one space apart")
_TARGET = _HeadProblem(400, "the target must be a path, or a URL with the host of the Host header")
_CODING = _HeadProblem(501, "the only transfer encoding here is chunked")
_VERSION = _HeadProblem(505, "the versions of HTTP that are spoken here are 1.0 and 1.1")


class _Refused(Exception):
    """Stops the parser; the client has its answer already."""


class _Parser(httptools.HttpRequestParser):
    """Reads a request that offers an upgrade which we do not take as if it did not offer one. We take WebSockets.

    httptools stops at the end of such a head and leaves the body unread, and uvicorn would read it as the next request.
    Clients that offer `h2c` with every request exist: the HTTP client of Java does.
    """

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._connection = connection

    def feed_data(self, data: bytes | bytearray | memoryview[int] | array[int]) -> None:
        try:
            super().feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            if self._connection.is_websocket:
                self._connection.open_websocket()
            else:
                self._connection.read_without_upgrade(bytes(data)[upgrade.args[0] :])


class Connection(HttpToolsProtocol):
    """Bounds the size and the time of a head, the number of connections, and what is read ahead."""

    # Bytes since the last ones that completed something: a head, a piece of a body, a request.
    _unread_bytes = 0
    _quiet_since = 0.0
    _head_timer: asyncio.TimerHandle | None = None
    _ignores_input = False
    # A WebSocket protocol has the connection now.
    _is_handed_over = False
    # The bytes of a head up to its first line end; None where the head begins in the middle of a read.
    _first_line: bytes | None = b""
    _drained_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn declares it
        self.parser = _Parser(self)
        super().connection_made(transport)
        self._await_head()
        if len(self.connections) > MOST_CONNECTIONS:
            idle = (each for each in self.connections if isinstance(each, Connection) and each.is_idle)
            min(idle, key=Connection._eviction_rank).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_head_timer()
        super().connection_lost(exc)

    @property
    def is_idle(self) -> bool:
        """No request is under way: none has come yet, or the last one is answered."""
        return self.cycle is None or self.cycle.response_complete

    def _eviction_rank(self) -> tuple[bool, float]:
        """Connections that have shown no token go first, and among them the one that was quiet for longest."""
        return self.cycle is not None and self.cycle.scope["state"].get("principal") is not None, self._quiet_since

    def data_received(self, data: bytes) -> None:
        if self._ignores_input:
            return
        self._unread_bytes += len(data)
        if self.is_idle and b"\n" not in (self._first_line or b""):
            self._first_line = (self._first_line or b"") + data
        super().data_received(data)
        if self._is_handed_over:
            return
        if self._unread_bytes > MOST_HEAD_BYTES:
            self._refuse(431, _HEAD_TOO_LARGE)
        if self.is_idle and self._head_timer is None:
            self._await_head()

    def on_message_begin(self) -> None:
        if not self.is_idle:
            raise _Refused("pipelined")
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        # The bytes that were read may include the beginning of a body; only then the head itself is measured.
        if self._unread_bytes > MOST_HEAD_BYTES and self._head_bytes() > MOST_HEAD_BYTES:
            raise self._refuse(431, _HEAD_TOO_LARGE)
        self._unread_bytes = 0
        if self._head_timer is not None:
            self._cancel_head_timer()
        line, self._first_line = self._first_line, b""
        version = self.parser.get_http_version().encode()
        if problem := _head_problem(line, self.parser.get_method(), self.url, version, self.headers):
            raise self._refuse(*problem)
        if self.parser.should_upgrade():
            return
        # httptools reports trailers as headers too. They come after the body, and the request must not get them.
        self.scope["headers"] = self.headers.copy()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unread_bytes = 0
        if self.cycle.response_complete:
            self._drained_bytes += len(body) + _CHUNK_COST_BYTES
            if self._drained_bytes > _MOST_DRAINED_BYTES:
                # A lingering close: one at once could reset the connection before the client has read its answer.
                self._ignores_input = True
                self.loop.call_later(_LINGER_S, self.transport.close)
                raise _Refused("answered")
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread_bytes = self._drained_bytes = 0
        # A body that came after the answer may share its last read with the next head.
        self._first_line = None if self.is_idle else b""
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        self._quiet_since = self.loop.time()
        super().on_response_complete()

    def read_without_upgrade(self, rest: bytes) -> None:
        """Read the head that was just read again without its Upgrade header, and then `rest`, which followed it."""
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())]
        lines += [b"%b: %b" % (name, value) for name, value in self.headers if name != b"upgrade"]
        self._first_line = lines[0] + b"\r\n"
        self.parser = _Parser(self)
        self.parser.feed_data(b"\r\n".join(lines) + b"\r\n\r\n" + rest)

    @property
    def is_websocket(self) -> bool:
        """Whether the head that was just read asks for a WebSocket at a path that has them."""
        asks = any(name == b"upgrade" and value.lower() == b"websocket" for name, value in self.headers)
        return asks and self.parser.get_method() == b"GET" and self.url.startswith(_WEBSOCKET_PATHS)

    def open_websocket(self) -> None:
        """Hand the connection over to uvicorn's WebSocket protocol. Its head is read, so its bounds have held."""
        # Imported when the first one connects: it is slow to load, and few daemons need it.
        from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

        self.ws_protocol_class = WebSocketsSansIOProtocol
        self.scope["method"] = "GET"
        self._is_handed_over = True
        self.handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn when the parser has stopped, because of the client's bytes or of a refusal of ours."""
        if self._ignores_input:
            return
        if self.is_idle or self.cycle.more_body:
            self._refuse(400, msg)
        else:
            # The request under way is whole, so it is answered; what came behind it is not.
            self.cycle.keep_alive, self._ignores_input = False, True

    def _refuse(self, status: int, message: str) -> Exception:
        """Close the connection, with an answer unless one has begun. Returns an exception that stops the parser."""
        if not self.transport.is_closing():
            if self.is_idle or not self.cycle.response_started:
                body = orjson.dumps({"error": {"message": message}})
                head = b"content-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
                self.transport.write(STATUS_LINE[status] + head + body)
            self.transport.close()
        return _Refused(message)

    def _head_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _await_head(self) -> None:
        self._quiet_since = self.loop.time()
        self._head_timer = self.loop.call_later(MOST_HEAD_S, self.transport.close)

    def _cancel_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def _head_problem(
    line: bytes | None, method: bytes, target: bytes, version: bytes, headers: Sequence[tuple[bytes, bytes]]
) -> _HeadProblem | None:
    """Why a head is refused, or None. `line` has the bytes of its first line, if they are known.

    httptools reads some heads more loosely than others do. A proxy in between and the daemon must not see two different
    requests in the same bytes, so whatever a strict reader refuses is refused here.
    """
    if line is not None and not line.startswith(b"%b %b HTTP/%b\r\n" % (method, target, version)):
        return _FIRST_LINE
    if version not in (b"1.0", b"1.1"):
        return _VERSION
    if not target.startswith(b"/"):
        scheme, _, rest = target.partition(b"://")
        if scheme not in (b"http", b"https") or (b"host", rest.partition(b"/")[0]) not in headers:
            return _TARGET
    is_chunked = False
    for name, value in headers:
        if name == b"transfer-encoding":
            if is_chunked or value.lower() != b"chunked":
                return _CODING
            is_chunked = True
    return None
