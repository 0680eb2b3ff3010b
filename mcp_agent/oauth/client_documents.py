"""Fetches the document that describes a client, from an address that somebody else has chosen.

That must not become a way into our own network. Only https; only names all of whose addresses are on the internet, and
the address that was checked is the one that is used; no redirects; bounded in time and size.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

import orjson

from mcp_agent.oauth.oauth_clients import OAuthError, UnreadableDocument

MOST_BYTES = 64 * 1024
_TIMEOUT_S = 5.0
_LEAST_AGE_S, _USUAL_AGE_S, _MOST_AGE_S = 300, 3600, 86_400
_MOST_KEPT = 100
_MAX_AGE = re.compile(r"max-age=(\d{1,9})")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


async def addresses_of(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(each[4][0]) for each in found]


def is_on_internet(address: str) -> bool:
    """Whether an address is that of a machine on the internet. One that stands for an IPv4 address is none."""
    found = ipaddress.ip_address(address)
    if isinstance(found, ipaddress.IPv6Address):
        is_translated = found in _NAT64 or any((found.ipv4_mapped, found.sixtofour, found.teredo))
        return found.is_global and not is_translated
    return found.is_global


class ClientDocuments:
    """The documents of clients, each kept for as long as its server says, within bounds."""

    def __init__(
        self,
        resolve: Callable[[str, int], Awaitable[list[str]]] = addresses_of,
        is_allowed: Callable[[str], bool] = is_on_internet,
        context: ssl.SSLContext | None = None,
    ) -> None:
        """`resolve` looks a name up, `is_allowed` decides on each address, `context` on certificates."""
        self._resolve = resolve
        self._is_allowed = is_allowed
        self._context = context
        self._kept: dict[str, tuple[float, Mapping[str, Any]]] = {}

    async def read(self, url: str) -> Mapping[str, Any]:
        """Raises OAuthError for a URL that is not fetched, and UnreadableDocument."""
        until, document = self._kept.get(url, (0.0, {}))
        if until > time.monotonic():
            return document
        parts = _parts(url)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                document, age_s = await self._fetch(parts)
        except TimeoutError:
            raise _unreadable(parts, f"did not answer within {_TIMEOUT_S:.0f} s") from None
        self._kept.pop(url, None)
        while len(self._kept) >= _MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[url] = time.monotonic() + age_s, document
        return document

    async def _fetch(self, parts: SplitResult) -> tuple[dict[str, Any], int]:
        """The document, and for how many seconds it may be kept."""
        import httpx2

        host, port = parts.hostname or "", parts.port or 443
        try:
            addresses = await self._resolve(host, port)
        except OSError as error:
            raise _unreadable(parts, f"cannot be found: {error}") from None
        if not addresses or not all(map(self._is_allowed, addresses)):
            raise OAuthError("invalid_client", f"{host} is not on the internet", 401)
        address = f"[{addresses[0]}]" if ":" in addresses[0] else addresses[0]
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        headers = {"Host": parts.netloc, "Accept": "application/json", "Accept-Encoding": "identity"}
        # Each step has less than all of them: a handshake that is cancelled would leave its socket open.
        client = httpx2.AsyncClient(
            verify=self._context or ssl.create_default_context(), trust_env=False, timeout=0.8 * _TIMEOUT_S
        )
        body = b""
        try:
            # By its address: a second look-up could give another one. The certificate is checked for the name.
            async with (
                client,
                client.stream(
                    "GET", f"https://{address}:{port}{path}", headers=headers, extensions={"sni_hostname": host}
                ) as answer,
            ):
                async for part in answer.aiter_raw():
                    body += part
                    if len(body) > MOST_BYTES:
                        break
            document = orjson.loads(body) if answer.status_code == 200 and len(body) <= MOST_BYTES else None
        except (OSError, httpx2.HTTPError, ValueError) as error:
            raise _unreadable(parts, f"cannot be read: {str(error) or type(error).__name__}") from None
        if not isinstance(document, dict):
            raise _unreadable(parts, f"answered {answer.status_code}, and not with the description of a client")
        age = _MAX_AGE.search(answer.headers.get("cache-control", ""))
        return document, min(max(int(age[1]) if age else _USUAL_AGE_S, _LEAST_AGE_S), _MOST_AGE_S)


def _parts(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        has_port = parts.port != 0
    except ValueError:
        has_port = False
    is_plain = url.isascii() and url.isprintable() and not set(" #\\@") & set(url)
    if not (has_port and is_plain) or parts.scheme != "https" or not parts.hostname or parts.path in ("", "/"):
        raise OAuthError("invalid_client", "a client_id that is a URL must be https://, with a path", 401)
    return parts


def _unreadable(parts: SplitResult, news: str) -> UnreadableDocument:
    return UnreadableDocument("invalid_client", f"https://{parts.netloc}{parts.path} {news}", 401)
