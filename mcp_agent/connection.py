"""One HTTP connection: uvicorn's, with bounds on the head of a request and one write for a short answer.

The guard sees a request when its head is complete. Until then, whoever can reach the port can make us keep what it
sends and hold a place open without sending anything, and the parser has no limits of its own.

uvicorn writes the head of an answer and its body one after the other, and each write is a system call that wakes the
client. That was a third of what a short call costs, so the head waits here for the body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import orjson
from starlette.types import Message
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


class Answer:
    """The `send` of one request: holds a head that says how long the body is until the body comes, right after it.

    Who has the whole answer at hand gives it to `whole` instead, for a fraction of the price of two messages. What is
    not plain (a stream, a client that is slow or wants the connection closed) goes uvicorn's own way.
    """

    __slots__ = ("_cycle", "_head", "_length")

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle
        self._head: Message | None = None
        self._length: int | None = None

    async def __call__(self, message: Message) -> None:
        head = self._head
        if head is None:
            if message["type"] == "http.response.start":
                self._length = _declared_length(message)
                if self._length is not None:
                    self._head = message
                    return
        else:
            self._head = None
            body = message.get("body", b"")
            if len(body) == self._length and not message.get("more_body") and self._is_plain(body):
                self._write(head["status"], head["headers"], body)
                return
            await RequestResponseCycle.send(self._cycle, head)  # type: ignore[arg-type]  # the same messages
        await RequestResponseCycle.send(self._cycle, message)  # type: ignore[arg-type]  # the same messages

    def whole(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bool:
        """Write a whole answer, with `headers` that say how long it is; False if it has to be sent as messages."""
        if self._cycle.response_started or not self._is_plain(body):
            return False
        self._write(status, headers, body)
        return True

    def _is_plain(self, body: bytes) -> bool:
        cycle = self._cycle
        return (
            cycle.keep_alive
            and len(body) <= _MOST_JOINED_BYTES
            and not (cycle.disconnected or cycle.flow.write_paused)
            and cycle.scope["method"] != "HEAD"
        )

    def _write(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes) -> None:
        cycle = self._cycle
        lines = [STATUS_LINE[status]]
        lines += [b"%b: %b\r\n" % pair for pair in cycle.default_headers]
        lines += [b"%b: %b\r\n" % pair for pair in headers]
        joined = b"".join(lines)
        if joined.count(b"\n") != len(lines):
            raise RuntimeError("a header has a line break in it")
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.transport.write(b"%b\r\n%b" % (joined, body))
        cycle.message_event.set()
        cycle.on_response()
        # The cycle holds us as we hold it: parted, both go at once, and not when garbage is next collected.
        del cycle.send


def _declared_length(head: Message) -> int | None:
    for name, value in head["headers"]:
        if name == b"connection":
            return None
        if name == b"content-length":
            return int(value)
    return None


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
        # The task that runs the request has not begun: it finds this `send` on the cycle instead of the class's.
        self.cycle.send = Answer(self.cycle)  # type: ignore[method-assign,assignment]  # the same messages

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
