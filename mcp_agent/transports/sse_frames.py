"""The bytes of server-sent events, and the one door through which every stream of them is written.

The writer itself is in `sse_writer`. It is imported at the first stream: sse-starlette brings anyio and starlette's
responses, which a daemon that only answers calls does not need.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

from starlette.types import Receive, Scope, Send

KEEP_ALIVE_S = 15.0
RETRY_MS = 500


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
