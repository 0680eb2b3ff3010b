"""How a browser logs in: a one-time ticket in a link becomes a cookie, and the cookie opens the Tools page only.

The cookie is signed with a key made of the owner's token: it outlives a restart of the daemon and ends when the token
is rotated. A login that was ended is stored until its cookie is too old anyway, so a copy of the cookie is worth
nothing. Cookies are shared between all ports of a host, and other programs listen there too. So every request with the
cookie also needs a header of ours, which no other page can send.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path

import msgspec
import orjson

from tools.files import disk

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

    def __init__(
        self, owner_key: Callable[[], bytes], logouts_file: Path, now: Callable[[], float] = time.time
    ) -> None:
        self._owner_key = owner_key
        self._now = now
        self._logouts_file = logouts_file
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

    def login(self, headers: Mapping[bytes, bytes]) -> str | None:
        """What a login is known by, if a cookie of the request is of one: ours, not too old, not logged out."""
        return next(iter(self._logins(headers)), None)

    def log_out(self, headers: Mapping[bytes, bytes]) -> list[str]:
        """End the logins of a request, for every copy of their cookies. Returns what they were known by.

        Raises OSError if that cannot be stored.
        """
        ended = self._logins(headers)
        logouts = {nonce: until for nonce, until in self._logouts.items() if until > self._now()} | ended
        disk.replace_file(self._logouts_file, orjson.dumps(logouts))
        self._logouts = logouts
        return list(ended)

    def _logins(self, headers: Mapping[bytes, bytes]) -> dict[str, int]:
        found: dict[str, int] = {}
        for until, nonce, signature in _COOKIE.findall(headers.get(b"cookie", b"").decode("latin-1")):
            is_ours = hmac.compare_digest(signature.encode(), self._signature(f"{until}.{nonce}").encode())
            if is_ours and int(until) > self._now() and nonce not in self._logouts:
                found[nonce] = int(until)
        return found

    # Read at the first cookie, and then kept: every request of the page asks for it.
    @cached_property
    def _logouts(self) -> dict[str, int]:
        """The numbers of the cookies that have logged out, and until when they would have been good."""
        try:
            stored: dict[str, int] = msgspec.json.decode(disk.read_small_file(self._logouts_file), type=dict[str, int])
            return stored
        except (OSError, ValueError):
            return {}

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
