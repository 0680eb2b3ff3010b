"""The replay buffer of a session: its latest messages, for a client whose connection broke and that resumes.

Every stream of a session has a name and every message on it a number. Together they are the id of the event. The newest
messages of all streams are kept within bounds; the last one is always kept, however large it is.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterator
from typing import Literal

_MOST_MESSAGES = 200
_MOST_BYTES = 1_000_000


class Replay:
    """One session's messages, oldest first."""

    def __init__(self) -> None:
        self._kept: deque[tuple[str, int, bytes]] = deque()
        self._size_bytes = 0

    def keep(self, stream: str, number: int, message: bytes) -> None:
        # A copy: what the encoder gives was shrunk from a larger buffer, and keeping it would keep that.
        self._kept.append((stream, number, bytes(memoryview(message))))
        self._size_bytes += len(message)
        while len(self._kept) > 1 and (len(self._kept) > _MOST_MESSAGES or self._size_bytes > _MOST_BYTES):
            self._size_bytes -= len(self._kept.popleft()[2])

    def after(self, stream: str, number: int) -> Iterator[tuple[int, bytes]]:
        """The messages of `stream` that came after the one with `number`."""
        return ((each, message) for name, each, message in self._kept if name == stream and each > number)

    def knows(self, stream: str) -> bool:
        return any(name == stream for name, _, _ in self._kept)


def new_stream(of: Literal["session", "request"]) -> str:
    """A name that no stream before had, nor one from before the daemon was restarted."""
    return f"{of}-{secrets.token_hex(6)}"


def is_of_request(stream: str) -> bool:
    return stream.startswith("request-")


def event_id(stream: str, number: int) -> str:
    return f"{stream}-{number}"


def parse_event_id(raw: bytes) -> tuple[str, int] | None:
    """The stream and the number in an event's id, or None if it is none of ours."""
    stream, dash, number = raw.decode("latin-1").rpartition("-")
    return (stream, int(number)) if dash and number.isascii() and number.isdigit() and len(number) < 16 else None
