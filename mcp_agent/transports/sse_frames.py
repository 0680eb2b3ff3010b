"""The bytes of server-sent events, their replay, and the one door through which every stream of them is written.

Every stream of a session has a name and every message on it a number. Together they are the id of the event, with which
a client whose connection broke resumes.

The writer itself is in `sse_writer`. It is imported at the first stream: sse-starlette brings anyio and starlette's
responses, which a daemon that only answers calls does not need.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Literal, NamedTuple

from starlette.types import Receive, Scope, Send

from mcp_agent.process.memory import exact_copy

KEEP_ALIVE_S = 15.0
# Clients try two or three times, so with less they give up for good while a daemon is restarted.
RETRY_MS = 3_000
_MOST_MESSAGES = 200
_MOST_BYTES = 1_000_000


def message_frame(message: bytes, event_id: str | None = None) -> bytes:
    """One JSON-RPC message as one event. Its JSON is one line, so it needs one data field."""
    id_line = b"" if event_id is None else b"id: " + event_id.encode("latin-1") + b"\r\n"
    return b"event: message\r\n" + id_line + b"data: " + message + b"\r\n\r\n"


def priming_frame(event_id: str) -> bytes:
    """The event without a message that gives a client an id to come back with, and says how soon it may."""
    return f"id: {event_id}\r\nretry: {RETRY_MS}\r\ndata: \r\n\r\n".encode("latin-1")


async def send_frames(
    frames: AsyncGenerator[bytes, None],
    scope: Scope,
    receive: Receive,
    send: Send,
    headers: Mapping[str, str] | None = None,
    keep_alive_s: float = KEEP_ALIVE_S,
) -> bool:
    """Write `frames` as they come until they end, the client leaves, or the stream is ended from outside.

    True in the last case: the token was revoked or the daemon stops, and nobody may come back for the rest.
    """
    from mcp_agent.transports.sse_writer import EventStream

    stream = EventStream(frames, headers, keep_alive_s)
    await stream(scope, receive, send)
    return stream.is_revoked


class KeptMessage(NamedTuple):
    """A message of a stream. `is_of_shell`: it is about a session, so only clients that may use the shell get it."""

    stream: str
    number: int
    message: bytes
    is_of_shell: bool = False


class Replay:
    """The replay buffer of a session: the newest messages of all its streams, oldest first.

    They are kept within bounds; the last one is always kept, however large it is.
    """

    def __init__(self) -> None:
        self._kept: deque[KeptMessage] = deque()
        self._size_bytes = 0

    def keep(self, stream: str, number: int, message: bytes, *, is_of_shell: bool = False) -> None:
        self._kept.append(KeptMessage(stream, number, exact_copy(message), is_of_shell))
        self._size_bytes += len(message)
        while len(self._kept) > 1 and (len(self._kept) > _MOST_MESSAGES or self._size_bytes > _MOST_BYTES):
            self._size_bytes -= len(self._kept.popleft().message)

    def after(self, stream: str, number: int) -> Iterator[KeptMessage]:
        """The messages of `stream` that came after the one with `number`."""
        return (kept for kept in self._kept if kept.stream == stream and kept.number > number)

    def knows(self, stream: str) -> bool:
        return any(kept.stream == stream for kept in self._kept)


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
