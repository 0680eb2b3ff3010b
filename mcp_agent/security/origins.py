"""Which host a request is for, which web page it comes from, and what pages of others may read (CORS).

A loose parser takes `127.0.0.1:1@evil.example` for a name of this machine. Here a value is a name or an address,
optionally a port, and nothing else.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from starlette.types import Message, Send

_AUTHORITY = re.compile(rb"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_](?:[A-Za-z0-9_.-]*)))(?::([0-9]{1,5}))?")
_ORIGIN = re.compile(rb"(https?)://(.+)", re.I | re.S)
_DEFAULT_PORTS = {b"http": 80, b"https": 443}
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


class Authority(NamedTuple):
    """A name or address in lower case, IPv6 without brackets, and the port if there is one."""

    name: str
    port: int | None


def parse_authority(value: bytes) -> Authority | None:
    """The host and port of a Host header; None if the value is anything else."""
    match = _AUTHORITY.fullmatch(value)
    if match is None:
        return None
    bracketed, name, digits = match.groups()
    port = None if digits is None else int(digits)
    if port is not None and not 0 < port < 65_536:
        return None
    if bracketed is None:
        return Authority(name.decode("ascii").lower(), port)
    try:
        return Authority(str(ipaddress.IPv6Address(bracketed.decode("ascii"))), port)
    except ValueError:
        return None


def is_origin(origin: bytes) -> bool:
    """Whether an Origin header names a page on the web; `null` and others do not."""
    match = _ORIGIN.fullmatch(origin)
    return match is not None and parse_authority(match[2]) is not None


def is_same_origin(origin: bytes, host: Authority) -> bool:
    """Whether an Origin header has the same host and port as the Host header, with HTTP or HTTPS."""
    match = _ORIGIN.fullmatch(origin)
    if match is None:
        return False
    scheme, value = match[1].lower(), match[2]
    found = parse_authority(value)
    if found is None or found.name != host.name:
        return False
    default = _DEFAULT_PORTS[scheme]
    return (found.port or default) == (host.port or default)


class AllowedOrigins:
    """The origins of the pages that the owner has named: exactly these may call the daemon from a browser.

    They need a token and send no cookies. A page of another origin can neither call the daemon nor read an answer.
    """

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
