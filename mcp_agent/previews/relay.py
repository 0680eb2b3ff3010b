"""Passes a request on to a site, and its answer back, as between strangers.

A site is whatever program a model has started, so it gets nothing that proves who somebody is, and its pages get
nothing from the origin that they are shown on: `sandbox` in the policy of every answer gives a page an origin of its
own, that no cookie, no storage and no other page belongs to.
"""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.types import Receive, Scope, Send

from mcp_agent.previews.sites import Site
from mcp_agent.transports.http import send_error

if TYPE_CHECKING:
    import httpx2
    from websockets.asyncio.client import ClientConnection

_CONNECT_S = 5.0
_READ_S = 300.0
_MOST_MESSAGE_BYTES = 16 * 1024 * 1024
POLICY = b"sandbox allow-scripts allow-forms allow-popups allow-modals allow-downloads"

_HOP_BY_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade")
)
# What proves or names who asks, and what the site is to have as if it were asked directly.
_NOT_FOR_THE_SITE = _HOP_BY_HOP | {
    b"host",
    b"content-length",
    b"cookie",
    b"cookie2",
    b"authorization",
    b"proxy-authorization",
    b"x-api-key",
    b"x-user-id",
    b"x-session-id",
    b"mcp-session-id",
    b"origin",
    b"referer",
    b"expect",
}
_NOT_FOR_THE_SITE_PREFIXES = (b"x-openwebui-", b"x-mcp-agent-", b"x-forwarded-", b"sec-websocket-", b"sec-fetch-")
# What would change or ask for something of the origin that the page is shown on, or keep the page from being shown.
_NOT_FOR_THE_PAGE = _HOP_BY_HOP | {
    b"set-cookie",
    b"set-cookie2",
    b"www-authenticate",
    b"proxy-authenticate",
    b"authentication-info",
    b"clear-site-data",
    b"strict-transport-security",
    b"alt-svc",
    b"service-worker-allowed",
    b"x-frame-options",
    b"content-security-policy",
    b"location",
    b"refresh",
}
_NOT_FOR_THE_PAGE_PREFIXES = (b"access-control-",)
# The page has an origin of its own, so even what it asks of itself comes from another one. Without credentials.
_READABLE = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),
    (b"access-control-allow-headers", b"*"),
    (b"access-control-expose-headers", b"*"),
    (b"referrer-policy", b"no-referrer"),
]
_Headers = list[tuple[bytes, bytes]]


async def relay_request(site: Site, target: bytes, scope: Scope, body: bytes, send: Send) -> None:
    """Answer a request with what the site answers. `target` is path and query, as the site is to see them."""
    # Imported at first use, as all clients of HTTP here.
    import httpx2

    method = scope["method"]
    if method == "OPTIONS" and any(name == b"access-control-request-method" for name, _ in scope["headers"]):
        await send({"type": "http.response.start", "status": 204, "headers": _READABLE})
        await send({"type": "http.response.body", "body": b""})
        return
    # A transport keeps no cookies and follows no redirects.
    request = httpx2.Request(
        method,
        httpx2.URL(scheme="http", host=site.listener.address, port=site.port, raw_path=target),
        headers=_for_site(site, scope["headers"]),
        content=body or None,
        extensions={"timeout": {"connect": _CONNECT_S, "read": _READ_S, "write": _READ_S, "pool": _CONNECT_S}},
    )
    try:
        answer = await _transport().handle_async_request(request)
    except (httpx2.TransportError, OSError) as error:
        message = str(error) or type(error).__name__
        await send_error(send, 502, f"what listens on port {site.port} does not answer: {message}")
        return
    try:
        headers = _for_page(site, target, answer.status_code, answer.headers.raw)
        await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
        stream: Any = answer.stream
        if method != "HEAD":
            async for part in stream:
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
    finally:
        await answer.aclose()


async def relay_websocket(site: Site, target: bytes, scope: Scope, receive: Receive, send: Send) -> None:
    """Connect a WebSocket, whose first message has not been received, with the site, until one side closes it."""
    from websockets.asyncio.client import connect
    from websockets.exceptions import WebSocketException
    from websockets.typing import Subprotocol

    await receive()
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in _for_site(site, scope["headers"])]
    try:
        upstream = await connect(
            f"ws://{_authority(site)}{target.decode('latin-1')}",
            additional_headers=[each for each in headers if each[0] not in ("host", "accept-encoding")],
            user_agent_header=None,
            subprotocols=[Subprotocol(each) for each in scope["subprotocols"]] or None,
            open_timeout=_CONNECT_S,
            max_size=_MOST_MESSAGE_BYTES,
            proxy=None,
        )
    except (OSError, WebSocketException, TimeoutError):
        await send({"type": "websocket.close", "code": 1014, "reason": "the site does not take WebSockets here"})
        return
    async with upstream:
        await send({"type": "websocket.accept", "subprotocol": upstream.subprotocol})
        both = [asyncio.create_task(_to_site(receive, upstream)), asyncio.create_task(_to_page(upstream, send))]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in both:
                each.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            with contextlib.suppress(RuntimeError):
                # Of the two sides the other one has closed it already.
                code = upstream.close_code or 1001
                await send({"type": "websocket.close", "code": code, "reason": upstream.close_reason or ""})


async def _to_site(receive: Receive, upstream: ClientConnection) -> None:
    while (message := await receive())["type"] == "websocket.receive":
        text = message.get("text")
        await upstream.send(message["bytes"] if text is None else text)


async def _to_page(upstream: ClientConnection, send: Send) -> None:
    async for message in upstream:
        await send({"type": "websocket.send", "text" if isinstance(message, str) else "bytes": message})


def _for_site(site: Site, headers: Iterable[tuple[bytes, bytes]]) -> _Headers:
    """The headers of a request as the site gets them. Development servers compare the origin with the host."""
    host = f"localhost:{site.port}".encode()
    kept = [
        (name, value)
        for name, value in headers
        if name not in _NOT_FOR_THE_SITE and not name.startswith(_NOT_FOR_THE_SITE_PREFIXES)
    ]
    has_origin = any(name == b"origin" for name, _ in headers)
    return [(b"host", host), *kept, *([(b"origin", b"http://" + host)] if has_origin else [])]


def _for_page(site: Site, target: bytes, status: int, headers: Iterable[tuple[bytes, bytes]]) -> _Headers:
    """The headers of an answer as the page gets them."""
    named = [(name.lower(), value) for name, value in headers]
    kept = [
        (name, value)
        for name, value in named
        if name not in _NOT_FOR_THE_PAGE and not name.startswith(_NOT_FOR_THE_PAGE_PREFIXES)
    ]
    if status in (201, 301, 302, 303, 307, 308):
        kept += [(name, _relative(site, target, value)) for name, value in named if name == b"location"]
    # In one header: Open WebUI passes on only one of each name. Policies add up, so the site's cannot take from ours.
    policies = [
        value for name, value in named if name == b"content-security-policy" and b"frame-ancestors" not in value
    ]
    return [*kept, (b"content-security-policy", b", ".join([*policies, POLICY])), *_READABLE]


def _relative(site: Site, target: bytes, location: bytes) -> bytes:
    """A place on the site relative to `target`: the page does not have the site at the root of its origin."""
    parts = urlsplit(location.decode("latin-1"))
    if parts.netloc and parts.netloc not in (f"localhost:{site.port}", _authority(site)):
        return location
    if not parts.netloc and not parts.path.startswith("/"):
        return location
    here = target.decode("latin-1").partition("?")[0]
    path = parts.path or "/"
    relative = posixpath.relpath(path, posixpath.dirname(here) or "/")
    if path.endswith("/"):
        relative = "./" if relative == "." else f"{relative}/"
    found = parts._replace(scheme="", netloc="", path=relative).geturl()
    # A first part with a colon would be read as a scheme.
    return (found if found.startswith(".") else f"./{found}").encode("latin-1")


def _authority(site: Site) -> str:
    address = site.listener.address
    return f"[{address}]:{site.port}" if ":" in address else f"{address}:{site.port}"


@cache
def _transport() -> httpx2.AsyncHTTPTransport:
    """Without connections that are kept: what listens may be another program a moment later.

    Made at the first request: httpx is slow to load.
    """
    import httpx2

    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
    return httpx2.AsyncHTTPTransport(trust_env=False, limits=limits)
