"""JSON-RPC messages as server-sent events, with a keep-alive every 15 seconds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from starlette.types import Receive, Scope, Send

KEEP_ALIVE_S = 15.0
RETRY_MS = 500


def framed(message: bytes, event_id: str | None = None) -> bytes:
    """One message as one event. Its JSON is one line, so it needs one data field."""
    named = b"" if event_id is None else b"id: " + event_id.encode("latin-1") + b"\r\n"
    return b"event: message\r\n" + named + b"data: " + message + b"\r\n\r\n"


def priming(event_id: str) -> bytes:
    """The event without a message that gives a client an id to come back with, and says how soon it may."""
    return f"id: {event_id}\r\nretry: {RETRY_MS}\r\ndata: \r\n\r\n".encode("latin-1")


async def send_stream(
    messages: AsyncIterator[bytes], scope: Scope, receive: Receive, send: Send, headers: Mapping[str, str] | None = None
) -> None:
    """Send `messages` as they come, each as one event, until they end or the client leaves."""

    async def events() -> AsyncIterator[bytes]:
        async for message in messages:
            yield framed(message)

    await send_events(events(), scope, receive, send, headers)


async def send_events(
    events: AsyncIterator[bytes], scope: Scope, receive: Receive, send: Send, headers: Mapping[str, str] | None = None
) -> None:
    """Send `events`, which are framed already, as they come, until they end or the client leaves."""
    # At first use: most daemons' first seconds have no stream, and it takes a while to load.
    from sse_starlette.event import ServerSentEvent
    from sse_starlette.sse import AppStatus, EventSourceResponse

    # Our streams end by themselves when the daemon stops, after their last event. Left on, this would cut them.
    AppStatus.enable_automatic_graceful_drain = False
    response = EventSourceResponse(
        events,
        headers=dict(headers or {}),
        ping=KEEP_ALIVE_S,
        ping_message_factory=lambda: ServerSentEvent(comment="keep-alive"),
    )
    await response(scope, receive, send)
