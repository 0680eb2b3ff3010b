"""One HTTP connection: uvicorn's, with bounds on the head of a request and one write for a short answer.

The guard sees a request when its head is complete. Until then, whoever can reach the port can make us keep what it
sends and hold a place open without sending anything, and the parser has no limits of its own.

uvicorn writes the head of an answer and its body one after the other, and each write is a system call that wakes the
client. That was a third of what a short call costs, so the head waits here for the body.
"""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 64 * 1024
MOST_HEAD_S = 10.0
_BODY = orjson.dumps({"error": {"message": f"the head of a request may have {MOST_HEAD_BYTES} bytes"}})
_REFUSAL = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: " + str(len(_BODY)).encode() + b"\r\n\r\n" + _BODY
)
# A longer body is not copied to be joined with its head.
_MOST_JOINED_BYTES = 64 * 1024


class _Joined:
    """A transport that holds the head of an answer for the body that follows, until the loop's next turn at most."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""
        self.is_closing = transport.is_closing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        head = self._head
        if head:
            self._head = b""
            if len(data) <= _MOST_JOINED_BYTES:
                self._transport.write(head + data)
                return
            self._transport.write(head)
        elif data.startswith(b"HTTP/1."):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        head = self._head
        if head:
            self._head = b""
            self._transport.write(head)


class Connection(HttpToolsProtocol):
    """Counts the bytes since the last that completed something: a head, or a piece of a body."""

    _kept = 0
    _head_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self.transport = _Joined(transport, self.loop)  # type: ignore[assignment]  # all that is asked of it here
        self._head_due = self.loop.call_later(MOST_HEAD_S, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_complete()
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
