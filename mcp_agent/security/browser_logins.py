"""How a browser logs in: a one-time ticket in a link becomes a cookie, and the cookie opens the Tools page only.

The cookie is signed with a key made of the owner's token, so nothing is stored: it outlives a restart of the daemon and
ends when the token is rotated. Cookies are shared between all ports of a host, and other programs listen there too. So
every request with the cookie also needs a header of ours, which no other page can send.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping

TICKET_S = 60.0
LOGIN_S = 7 * 24 * 3600
# The cookie counts below this path and nowhere else; of what is there, these need it.
PAGE_PATH = "/ui/"
_CLOSED_PATHS = ("/ui/stream", "/ui/logout")
_API_PATH = "/ui/api/"
PAGE_HEADER = b"x-mcp-agent-page"
_MOST_TICKETS = 100
_PREFIX = "mcp-agent-page"
_COOKIE = re.compile(rf"(?:^|;\s*){_PREFIX}[0-9-]*=(\d{{1,12}})\.([A-Za-z0-9_-]{{1,40}})\.([0-9a-f]{{64}})(?=;|\s*$)")


class BrowserLogins:
    """The tickets that are open, and the check of cookies. `owner_key` gives the digest of the owner's token."""

    def __init__(self, owner_key: Callable[[], bytes], now: Callable[[], float] = time.time) -> None:
        self._owner_key = owner_key
        self._now = now
        self._tickets: dict[str, float] = {}

    def create_ticket(self) -> str:
        """A ticket that logs one browser in, once, within a minute."""
        now = self._now()
        self._tickets = {ticket: until for ticket, until in self._tickets.items() if until > now}
        while len(self._tickets) >= _MOST_TICKETS:
            del self._tickets[next(iter(self._tickets))]
        ticket = secrets.token_urlsafe(32)
        self._tickets[ticket] = now + TICKET_S
        return ticket

    def redeem(self, ticket: str) -> str | None:
        """The value of a new cookie; None if the ticket was used, is too old or never existed."""
        until = self._tickets.pop(ticket, None)
        if until is None or until <= self._now():
            return None
        body = f"{int(self._now()) + LOGIN_S}.{secrets.token_urlsafe(12)}"
        return f"{body}.{self._signature(body)}"

    def is_logged_in(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether a cookie of the request is one of ours and not too old."""
        cookies = headers.get(b"cookie", b"").decode("latin-1")
        for until, nonce, signature in _COOKIE.findall(cookies):
            is_ours = hmac.compare_digest(signature.encode(), self._signature(f"{until}.{nonce}").encode())
            if is_ours and int(until) > self._now():
                return True
        return False

    def _signature(self, body: str) -> str:
        key = hmac.digest(self._owner_key(), b"mcp-agent page", hashlib.sha256)
        return hmac.new(key, body.encode(), hashlib.sha256).hexdigest()


def cookie_header(value: str, port: int | None, *, is_secure: bool) -> str:
    """The Set-Cookie header of a login; an empty value ends it. The port tells the daemons of one machine apart."""
    age = LOGIN_S if value else 0
    name = _PREFIX if port is None else f"{_PREFIX}-{port}"
    rest = "; Secure" if is_secure else ""
    return f"{name}={value}; Path={PAGE_PATH}; Max-Age={age}; HttpOnly; SameSite=Strict{rest}"


def is_page_path(path: str) -> bool:
    """Whether the path belongs to the page, where a cookie counts or nothing is needed."""
    return path == "/" or path.startswith(PAGE_PATH)


def needs_login(path: str) -> bool:
    return path in _CLOSED_PATHS or path.startswith(_API_PATH)
