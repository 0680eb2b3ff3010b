"""One HTTP connection: uvicorn's, with a bound on the head of a request.

The guard sees a request when its head is complete. Until then, whoever can reach the port can make us keep what it
sends, and the parser has no limit of its own.
"""

from __future__ import annotations

import orjson
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD_BYTES = 64 * 1024
_BODY = orjson.dumps({"error": {"message": f"the head of a request may have {MOST_HEAD_BYTES} bytes"}})
_REFUSAL = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b"content-length: " + str(len(_BODY)).encode() + b"\r\n\r\n" + _BODY
)


class Connection(HttpToolsProtocol):
    """Counts the bytes since the last that completed something: a head, or a piece of a body."""

    _kept = 0

    def data_received(self, data: bytes) -> None:
        self._kept += len(data)
        super().data_received(data)
        if self._kept > MOST_HEAD_BYTES and not self.transport.is_closing():
            if self.cycle is None or self.cycle.response_complete:
                self.transport.write(_REFUSAL)
            self.transport.close()

    def on_headers_complete(self) -> None:
        self._kept = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._kept = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._kept = 0
        super().on_message_complete()
