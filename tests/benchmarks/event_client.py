"""Clients of event streams, for measurements: they keep every byte, and cost little while the clock runs."""

from __future__ import annotations

import re
import selectors
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import orjson

_PATIENCE_S = 60.0
_MOST_AT_ONCE = 1 << 20
_WRITTEN = re.compile(rb"(\d{9,})\\n")
_LENGTH = re.compile(rb"([0-9a-f]+)\r\n")


def opened(url: str, path: str, token: str = "") -> socket.socket:
    """A connection on which `path` has been asked for; with a token, one that our daemon has greeted."""
    parts = urlsplit(url)
    client = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=_PATIENCE_S)
    head = f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n\r\n"
    client.sendall(head.encode())
    if token:
        heard = b""
        while b": connected" not in heard:
            heard += client.recv(4_096)
    return client


class Room:
    """Memory for what one client is sent, made before the clock runs and used in every round."""

    def __init__(self, size: int) -> None:
        self._memory = bytearray(size)
        self._filled = 0

    def clear(self) -> None:
        self._filled = 0

    def take(self, client: socket.socket, word: bytes) -> int | None:
        """Receive once. How often `word` is in what came; None at the end of the stream."""
        at = self._filled
        with memoryview(self._memory) as memory:
            size = client.recv_into(memory[at : at + _MOST_AT_ONCE])
        self._filled += size
        if not size:
            return None
        # Across the edge to what came before, too.
        return self._memory.count(word, max(0, at - len(word) + 1), self._filled)

    def events(self) -> Iterator[dict[str, Any]]:
        """The data of every event in a response in chunks, the last of which may be cut off."""
        data, at, body = bytes(self._memory[: self._filled]), 0, []
        start = data.find(b"\r\n\r\n")
        if data.startswith(b"HTTP/") and start >= 0:
            at = start + 4
        while (length := _LENGTH.match(data, at)) is not None:
            begins = length.end()
            at = begins + int(length[1], 16) + 2
            body.append(data[begins : at - 2])
        for line in b"".join(body).split(b"\n"):
            if line.startswith(b"data: ") and line.endswith(b"}"):
                yield orjson.loads(line[6:])


def receive(clients: Sequence[socket.socket], rooms: Sequence[Room], last: bytes, times: int = 1) -> None:
    """Take all that each client is sent, up to the last time that `last` comes. The connections are closed."""
    left = dict.fromkeys(clients, times)
    with selectors.DefaultSelector() as ready:
        for client, room in zip(clients, rooms, strict=True):
            room.clear()
            ready.register(client, selectors.EVENT_READ, (client, room))
        while ready.get_map():
            for key, _ in ready.select(_PATIENCE_S):
                client, room = key.data
                found = room.take(client, last)
                left[client] -= found or 0
                if found is None or left[client] <= 0:
                    ready.unregister(client)
                    client.close()


def delays_ms(clients: Sequence[socket.socket], count: int) -> list[list[float]]:
    """How long after it was written each of `count` lines was here, for each client. A line is the time it began."""
    taken: dict[socket.socket, list[float]] = {client: [] for client in clients}
    with selectors.DefaultSelector() as ready:
        for client in clients:
            ready.register(client, selectors.EVENT_READ, client)
        while ready.get_map():
            for key, _ in ready.select(_PATIENCE_S):
                client = key.data
                data = client.recv(65_536)
                now = time.monotonic_ns()
                if not data:
                    raise RuntimeError("the stream ended early")
                taken[client] += [(now - int(written)) / 1e6 for written in _WRITTEN.findall(data)]
                if len(taken[client]) >= count:
                    ready.unregister(client)
                    client.close()
    return list(taken.values())
