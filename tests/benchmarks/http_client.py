"""An HTTP client that costs next to nothing: one socket kept open, requests written once and sent many times."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

_PATIENCE_S = 30.0
_READ_BYTES = 65_536
_IN_PIECES = re.compile(rb"\r\ntransfer-encoding: chunked", re.IGNORECASE)
_LAST_PIECE = b"\r\n0\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Response:
    head: bytes
    body: bytes

    def header(self, name: str) -> str | None:
        found = re.search(rb"\r\n" + name.encode() + rb": ([^\r]+)", self.head, re.IGNORECASE)
        return None if found is None else found[1].decode()


class HttpClient:
    """One connection to `url`. `headers` go with every request that is written after they are set."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        parts = urlsplit(url)
        self._path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=_PATIENCE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.headers = {"host": parts.netloc, "content-type": "application/json", **headers}

    def close(self) -> None:
        self._socket.close()

    def written(self, body: bytes, method: str = "POST", path: str | None = None) -> bytes:
        """A request as it goes over the wire, to be sent as often as one likes. Without a `path`, to the URL's own."""
        headers = {**self.headers, "content-length": str(len(body))}
        lines = [f"{method} {path or self._path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return "\r\n".join([*lines, "", ""]).encode() + body

    def exchange(self, request: bytes) -> Response:
        """Send a written request and read its answer. Raises RuntimeError unless it is a success."""
        self.send(request)
        return self.receive()

    def send(self, request: bytes) -> None:
        self._socket.sendall(request)

    def receive(self) -> Response:
        """The answer to what was sent. Raises RuntimeError unless it is a success."""
        data = self._received()
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._received()
        found = _LENGTH.search(data, 0, end)
        if not data.startswith(b"HTTP/1.1 2"):
            raise RuntimeError(f"refused: {data.decode(errors='replace')}")
        if found is None and _IN_PIECES.search(data, 0, end):
            while not data.endswith(_LAST_PIECE):
                data += self._received()
            return Response(data[:end], _joined(data[end + 4 :]))
        if found is None:
            raise RuntimeError(f"the answer does not say its length: {data[:end].decode(errors='replace')}")
        whole = end + 4 + int(found[1])
        while len(data) < whole:
            data += self._received()
        return Response(data[:end], data[end + 4 :])

    def _received(self) -> bytes:
        data = self._socket.recv(_READ_BYTES)
        if not data:
            raise RuntimeError("the server closed the connection")
        return data


def _joined(pieces: bytes) -> bytes:
    """The body that was sent in pieces, each behind its length."""
    body = b""
    while pieces:
        length, _, rest = pieces.partition(b"\r\n")
        body += rest[: int(length, 16)]
        pieces = rest[int(length, 16) + 2 :]
    return body
