"""The one writer of server-sent events: sse-starlette's response, with frames that are bytes already.

The library watches for the client that leaves, sends the heartbeat and answers HEAD. `_stream_response` is overridden,
because as it comes an event costs twice as much as on a bare stream: a deadline, an encoding, a line of log for each.
The minor version is pinned for that, and a test fails when the library's own version of that method changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import anyio
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import AppStatus, EventSourceResponse
from starlette.types import Receive, Scope, Send

from mcp_agent.transports.http import send_error

_NEEDS_1_1 = "a stream of events needs HTTP/1.1; a proxy in between may have to be told (nginx: proxy_http_version 1.1)"
# How long the last bytes may take to a client whose stream is ended; one that does not read is cut off then.
_LAST_BYTES_S = 0.5

# The daemon ends its streams itself, after their last events.
AppStatus.disable_automatic_graceful_drain()  # type: ignore[no-untyped-call]  # the library does not annotate it


class EventStream(EventSourceResponse):
    """Ends when its frames do, when the client leaves, and when `revoke` is called."""

    body_iterator: AsyncGenerator[bytes, None]

    def __init__(
        self, frames: AsyncGenerator[bytes, None], headers: Mapping[str, str] | None, keep_alive_s: float
    ) -> None:
        super().__init__(
            frames,
            headers={"cache-control": "no-store, no-transform", **(headers or {})},
            ping=keep_alive_s,
            ping_message_factory=_keep_alive,
        )
        self.is_revoked = False
        self._writing = anyio.CancelScope()

    def revoke(self) -> None:
        """End the stream now: its token is no longer good, or the daemon stops."""
        self.is_revoked = True
        self._writing.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["http_version"] == "1.0":
            await self._refuse(send, 505, _NEEDS_1_1)
            return
        state = scope["state"]
        who, streams, since = state["principal"], state["streams"], state["revocations"]
        with (
            streams.register(who.name, since, self.revoke, state.get("listener")) as has_token,
            streams.register(who.login, since, self.revoke) as has_login,
        ):
            is_allowed = has_token and has_login
            if not is_allowed:
                self.is_revoked = True
                await self._refuse(send, 401, "the token was revoked")
                return
            with self._writing:
                await super().__call__(scope, receive, send)
        if self.is_revoked and self.active:
            with anyio.move_on_after(_LAST_BYTES_S):
                await send({"type": "http.response.body", "body": b""})

    async def _refuse(self, send: Send, status: int, message: str) -> None:
        await self.body_iterator.aclose()
        await send_error(send, status, message)

    async def _stream_response(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async with aclosing(self.body_iterator) as frames:
            async for frame in frames:
                await send({"type": "http.response.body", "body": frame, "more_body": True})
                # Sending to a client that has left returns at once. The task that notices this needs a turn, or all
                # that the client has not read would be encoded, and the event loop blocked, for nobody.
                await asyncio.sleep(0)
        async with self._send_lock:
            self.active = False
            await send({"type": "http.response.body", "body": b""})


def _keep_alive() -> ServerSentEvent:
    return ServerSentEvent(comment="keep-alive", sep="\n")
