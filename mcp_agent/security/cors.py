"""CORS for web pages that the owner has named: exactly their origins, and no cookies.

A page of another origin can neither call the daemon nor read an answer. One that is named can, with a token.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from starlette.types import Message, Send

_ASKS_METHOD = b"access-control-request-method"
_PREFLIGHT = [
    (b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"),
    (
        b"access-control-allow-headers",
        b"authorization, content-type, accept, last-event-id, mcp-method, mcp-name, mcp-protocol-version, "
        b"mcp-session-id, x-api-key, x-mcp-agent-form, x-openwebui-chat-id, x-session-id",
    ),
    # A page on the internet may call a machine in a private network only where that machine says so.
    (b"access-control-allow-private-network", b"true"),
    (b"access-control-max-age", b"600"),
]
_EXPOSED = (b"access-control-expose-headers", b"mcp-session-id, content-disposition, retry-after, www-authenticate")


class AllowedOrigins:
    """The origins of the pages that may call the daemon from a browser."""

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origin.encode() for origin in origins)

    def __contains__(self, origin: bytes) -> bool:
        return origin in self._origins

    @staticmethod
    def is_preflight(method: str, headers: Mapping[bytes, bytes]) -> bool:
        """Whether a browser asks, before the request itself and without a token, if a page may send it."""
        return method == "OPTIONS" and _ASKS_METHOD in headers

    @staticmethod
    async def answer_preflight(send: Send) -> None:
        """Say what a page may send; `send` is one that makes answers readable."""
        await send({"type": "http.response.start", "status": 204, "headers": _PREFLIGHT})
        await send({"type": "http.response.body", "body": b""})

    def readable(self, origin: bytes, send: Send) -> Send:
        """A `send` whose answers the page may read, refusals too."""

        async def send_readable(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = [(b"access-control-allow-origin", origin), (b"vary", b"origin"), _EXPOSED]
                message["headers"] = [*message["headers"], *own]
            await send(message)

        return send_readable
