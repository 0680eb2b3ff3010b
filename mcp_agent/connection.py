"""One HTTP connection: uvicorn's, with bounds on the head of a request, in bytes and in time.

The guard sees a request when its head is complete. Until then, whoever can reach the port can make us keep what it
sends and hold a place open without sending anything, and the parser has no limits of its own.
"""

from __future__ import annotations

import asyncio

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 64 * 1024
MOST_HEAD_S = 10.0
_BODY = orjson.dumps({"error": {"message": f"the head of a request may have {MOST_HEAD_BYTES} bytes"}})
_REFUSAL = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: " + str(len(_BODY)).encode() + b"\r\n\r\n" + _BODY
)


class Connection(HttpToolsProtocol):
    """Counts the bytes since the last that completed something: a head, or a piece of a body."""

    _kept = 0
    _head_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self._head_due = self.loop.call_later(MOST_HEAD_S, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_complete()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head_due is None and self.cycle is not None and self.cycle.response_complete:
            # The first bytes of a further request: it has as long for its head as the first one had.
            self._head_due = self.loop.call_later(MOST_HEAD_S, self.transport.close)
        self._kept += len(data)
        super().data_received(data)
        if self._kept > MOST_HEAD_BYTES and not self.transport.is_closing():
            if self.cycle is None or self.cycle.response_complete:
                self.transport.write(_REFUSAL)
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._kept = 0
        self._head_complete()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._kept = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._kept = 0
        super().on_message_complete()

    def _head_complete(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None
