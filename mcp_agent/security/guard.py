"""The guard: the outermost middleware, which checks every request before any route sees it.

Nothing answers before it, not even with a 404. It checks in this order: the Host is a name of this
machine, an Origin is our own page or one that the owner allows, the token is valid, a body is JSON and not too large.
A WebSocket has no token in its head: the wire behind it asks for one in its first message, and we check it.

A preview has a ticket in its path instead of a token; what is behind it looks at that, and has no cookie of ours.

Where OAuth is on, its endpoints are open to everybody and to every web page, and a 401 says where to begin. Where it is
off, a client that asks for them is told that there are none, and not that it needs the token which it wants to get.

Of Host only the name is compared, not the port: the check is against DNS rebinding, which needs a foreign name, and
people may reach us through a forwarded port. An Origin must have the same name and port as Host.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import orjson
from msgspec.structs import replace
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_agent.process.logs import event
from mcp_agent.security.auth_tokens import OWNER, Principal, Tokens
from mcp_agent.security.browser_logins import PAGE_HEADER, PAGE_PATH, BrowserLogins, is_page_path, needs_login
from mcp_agent.security.open_streams import OpenStreams
from mcp_agent.security.origins import AllowedOrigins, Authority, is_origin, is_same_origin, parse_authority
from mcp_agent.security.wrong_logins import WINDOW_S, WrongLogins, sender
from mcp_agent.storage.refusals import RefusalReason, Refusals

log = logging.getLogger(__name__)

LOOPBACK_NAMES = frozenset(("localhost", "127.0.0.1", "::1"))
# A request to an endpoint of OAuth: a form, or the metadata of a client.
MOST_OAUTH_BYTES = 16 * 1024
# The pruner checks the length of a text itself, and that limit must be reached first.
MOST_BODY_BYTES = 16 * 1024 * 1024
_MOST_DISCARDED_BYTES = 64 * 1024 * 1024
_DISCARD_S = 5.0
_DISCARD_PAUSE_S = 0.5
# There are 512 connections; one token may use half of them.
MOST_REQUESTS_OF_ONE = 256
_OPEN_PATH = "/health"
# What programs of a conversation serve: below the one with a ticket in the path, below the other with the token.
PREVIEW_PATH = "/preview/"
PROXY_PATH = "/open-terminal/proxy/"
_JSON = b"application/json"
_SESSION_HEADER = b"mcp-session-id"
_BEARER = b"bearer "
_FORM = b"multipart/form-data"
_CHALLENGE = b'Bearer realm="mcp-agent"'
_ANYBODY = Principal(OWNER, is_owner=True)

_ONE_HOST = "a request needs exactly one Host header"
_BAD_HOST = "the Host header must be a name or an address, and perhaps a port"
_FOREIGN_PAGE = "requests from other web pages are refused"
_ONE_TOKEN = "send the token once: one Authorization or one X-API-Key header"
# Headers that decide on access must not occur twice: two readers might look at different ones.
_REFUSED_TWICE = {
    b"host": (400, _ONE_HOST),
    b"origin": (403, _FOREIGN_PAGE),
    b"authorization": (400, _ONE_TOKEN),
    b"x-api-key": (400, _ONE_TOKEN),
}

_LOGGED: dict[RefusalReason, str] = {
    "host": "security.host_refused",
    "origin": "security.origin_refused",
    "wrong_token": "security.token_refused",
}


class _Refused(Exception):
    def __init__(
        self, status: int, message: str, hint: str | None = None, reason: RefusalReason | None = None, **logged: Any
    ) -> None:
        """`logged` is what the log says besides the reason."""
        super().__init__(message)
        self.logged = logged
        self.status = status
        self.message = message
        self.hint = hint
        # For the count and the audit log; None if only the body is wrong.
        self.reason = reason


class OAuthEndpoints(Protocol):
    """What the guard asks of OAuth, where it is on."""

    @property
    def wrong_logins(self) -> WrongLogins:
        """Who has sent wrong tokens."""

    def is_endpoint(self, path: str) -> bool:
        """Whether everybody may ask here, without a token."""

    def challenge(self, scope: Scope, *, is_invalid: bool) -> bytes:
        """The WWW-Authenticate header of a 401. `is_invalid`: a token was sent."""


class Guard:
    """Outermost middleware: passes on what is allowed and answers the rest itself.

    `tokens=None`: every client is the owner (loopback only). `takes_names`: the program has a flag for further names.
    `logins`: the program has a page, and browsers log in to it.
    """

    def __init__(
        self,
        app: ASGIApp,
        tokens: Tokens | None,
        streams: OpenStreams,
        names: Iterable[str],
        *,
        is_open_to_the_network: bool = False,
        refusals: Refusals | None = None,
        takes_names: bool = True,
        logins: BrowserLogins | None = None,
        origins: Iterable[str] = (),
        uploads: Mapping[str, int] | None = None,
        oauth: OAuthEndpoints | None = None,
    ) -> None:
        """`origins` are pages that may call from a browser. `uploads` are the paths that take a form, with its size."""
        self._app = app
        self._tokens = tokens
        self._streams = streams
        self._names = frozenset(name.lower() for name in names) | LOOPBACK_NAMES
        self._under_way: Counter[str] = Counter()
        self._is_open_to_the_network = is_open_to_the_network
        self._refusals = refusals or Refusals(lambda facts: None)
        self._takes_names = takes_names
        self._logins = logins
        self._origins = AllowedOrigins(origins)
        self._uploads = uploads or {}
        self._oauth = oauth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await self._open_websocket(scope, receive, send)
            return
        try:
            headers = _index_headers(scope["headers"])
            is_oauth = self._oauth is not None and self._oauth.is_endpoint(scope["path"])
            origin = headers.get(b"origin")
            if origin is not None and origin in self._origins and not is_oauth:
                send = self._origins.readable(origin, send)
                if self._origins.is_preflight(scope["method"], headers):
                    self._check_sender(scope, headers)
                    await self._origins.answer_preflight(send)
                    return
            if not is_oauth and _is_probe(scope["path"]):
                self._check_sender(scope, headers)
                await _answer_probe(send)
                return
            principal: Principal | None
            limit: int | None
            if is_oauth:
                principal, limit = self._examine_oauth(scope, headers)
            elif scope["path"].startswith(PREVIEW_PATH):
                principal, limit = self._examine_preview(scope, headers)
            else:
                principal, limit = self._examine(scope, headers)
        except _Refused as refused:
            if refused.reason is not None:
                self._report(refused, refused.reason, scope)
            await _answer(send, refused, receive, self._challenge(refused, scope))
            return
        scope["state"] = {
            "principal": principal,
            "headers": headers,
            "streams": self._streams,
            "revocations": self._streams.revocations,
        }
        name = "" if principal is None else principal.name
        if self._under_way[name] >= MOST_REQUESTS_OF_ONE:
            await _answer(send, _Refused(503, f"this token has {MOST_REQUESTS_OF_ONE} requests under way already"))
            return
        self._under_way[name] += 1
        try:
            await self._app(scope, receive if limit is None else _BoundedReceive(receive, limit), send)
        except _Refused as refused:
            # The body is read before the response starts, so we can still send our own.
            await _answer(send, refused, receive)
        finally:
            self._under_way[name] -= 1

    async def _open_websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a WebSocket on whose Host and Origin are good, with `identify` for the token in its first message."""

        def identify(token: bytes) -> Principal | None:
            try:
                return self._holder(token, scope, scope["state"]["headers"])
            except _Refused as refused:
                self._report(refused, "wrong_token", scope)
                return None

        try:
            headers = _index_headers(scope["headers"])
            if scope["path"].startswith(PREVIEW_PATH):
                self._check_host(scope, headers)
            else:
                self._check_sender(scope, headers)
        except _Refused as refused:
            if refused.reason is not None:
                self._report(refused, refused.reason, scope)
            await refuse_websocket(send, refused.status, refused.message)
            return
        scope["state"] = {
            "headers": headers,
            "streams": self._streams,
            "revocations": self._streams.revocations,
            "identify": identify,
        }
        await self._app(scope, receive, send)

    def _challenge(self, refused: _Refused, scope: Scope) -> bytes:
        # The page logs in by itself, and its requests must not begin anything else.
        if self._oauth is None or refused.status != 401 or scope["path"].startswith(PAGE_PATH):
            return _CHALLENGE
        return self._oauth.challenge(scope, is_invalid=refused.reason == "wrong_token")

    def _report(self, refused: _Refused, reason: RefusalReason, scope: Scope) -> None:
        client = scope.get("client")
        is_reported = self._refusals.add(reason, client[0] if client else "", scope["path"])
        name = _LOGGED.get(reason)
        if is_reported and name is not None:
            event(log, logging.WARNING, name, **refused.logged or {"path": scope["path"][:200]})

    def _examine(self, scope: Scope, headers: Mapping[bytes, bytes]) -> tuple[Principal | None, int | None]:
        """The holder of the token, and the size limit for a body without Content-Length; None if none is needed."""
        self._check_sender(scope, headers)
        principal = self._identify(headers, scope)
        content_length = headers.get(b"content-length")
        is_chunked = b"transfer-encoding" in headers
        if content_length is None and not is_chunked:
            return principal, None
        if content_length == b"0":
            return principal, None
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise _Refused(415, "a body must not be compressed")
        most = MOST_BODY_BYTES
        content_type = headers.get(b"content-type", b"")
        if scope["path"].startswith(PROXY_PATH):
            # A site takes what it takes; the token has shown that it is no form of another page.
            content_type = _JSON
        if content_type != _JSON and (kind := content_type.split(b";")[0].strip().lower()) != _JSON:
            if kind != _FORM or scope["path"] not in self._uploads:
                raise _Refused(415, "a body must have the content type application/json")
            most = self._uploads[scope["path"]]
        if content_length is not None:
            if int(content_length) > most:
                raise _size_refusal(most)
            return principal, None
        return principal, most

    def _examine_oauth(self, scope: Scope, headers: Mapping[bytes, bytes]) -> tuple[None, int]:
        """As `_examine`, for an endpoint of OAuth: only the Host is checked, and the size of a body."""
        self._check_host(scope, headers)
        return None, MOST_OAUTH_BYTES

    def _examine_preview(self, scope: Scope, headers: Mapping[bytes, bytes]) -> tuple[None, int]:
        """As `_examine`, where the path has a ticket. Pages there have an origin of their own, which has no name."""
        self._check_host(scope, headers)
        return None, MOST_BODY_BYTES

    def _check_sender(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        """Raise unless the Host is a name of ours, and an Origin a page that may call."""
        host = self._check_host(scope, headers)
        origin = headers.get(b"origin")
        if origin is not None:
            self._check_origin(origin, host)

    def _check_host(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Authority:
        value = headers.get(b"host")
        if value is None:
            raise _Refused(400, _ONE_HOST, reason="host")
        host = parse_authority(value)
        if host is None:
            raise _Refused(400, _BAD_HOST, reason="host")
        if host.name not in self._names:
            self._check_foreign_name(host.name, scope)
        return host

    def _check_origin(self, origin: bytes, host: Authority) -> None:
        if origin in self._origins or is_same_origin(origin, host):
            return
        shown, hint = origin.decode("latin-1")[:200], None
        if self._takes_names and is_origin(origin):
            hint = f"if the page is meant, start it with: mcp-agent serve --allow-origin {shown}"
        raise _Refused(403, _FOREIGN_PAGE, hint, "origin", origin=shown)

    def _check_foreign_name(self, name: str, scope: Scope) -> None:
        """Raise for a name that is not ours. A daemon open to the network also accepts its address."""
        if self._is_open_to_the_network and _is_own_address(name, scope):
            return
        hint = "use a name or an address of the machine that it runs on"
        if self._takes_names:
            hint = f"if the name is meant, start it with: mcp-agent serve --allow-host {name[:200]}"
        raise _Refused(421, f"this daemon does not answer to the name {name[:200]!r}", hint, "host", host=name[:200])

    def _identify(self, headers: Mapping[bytes, bytes], scope: Scope) -> Principal | None:
        if self._tokens is None:
            return _ANYBODY
        bearer, key = headers.get(b"authorization"), headers.get(b"x-api-key")
        if bearer is not None:
            if key is not None:
                raise _Refused(400, _ONE_TOKEN, reason="bad_header")
            if len(bearer) <= len(_BEARER) or bearer[: len(_BEARER)].lower() != _BEARER:
                raise _login_refusal("the Authorization header must be: Bearer <token>", "bad_header")
            token = bearer
        elif key is not None:
            token = key.strip()
        else:
            return self._identify_without_token(headers, scope)
        # More than once: people paste "Bearer <token>" into a field for the token, and their client adds the word.
        while token[: len(_BEARER)].lower() == _BEARER:
            token = token[len(_BEARER) :].strip()
        return self._holder(token, scope, headers)

    def _holder(self, token: bytes, scope: Scope, headers: Mapping[bytes, bytes]) -> Principal:
        """The holder of a token. Raises _Refused."""
        principal = _ANYBODY if self._tokens is None else self._tokens.identify(token)
        # Nobody has found such a token by trying, and its client learns from the refusal that it needs a new one.
        has_expired = principal is None and self._tokens is not None and self._tokens.is_expired(token)
        wrong_logins = None if self._oauth is None or has_expired else self._oauth.wrong_logins
        if wrong_logins is not None and (principal is None or principal.is_owner):
            address = sender(scope, headers)
            if wrong_logins.are_too_many(address):
                raise _Refused(429, f"too many wrong tokens; wait {WINDOW_S} s", reason="wrong_token")
            if principal is None:
                wrong_logins.add(address)
        if principal is None:
            raise _login_refusal("the token has expired" if has_expired else "the token is not valid", "wrong_token")
        if not principal.may_use(scope["path"]):
            raise _login_refusal(f"this token is for {principal.paths[0]}", "wrong_token")
        return principal

    def _identify_without_token(self, headers: Mapping[bytes, bytes], scope: Scope) -> Principal | None:
        """A browser that has logged in, or None for what everybody may read."""
        if scope["path"].rstrip("/") == _OPEN_PATH and scope["method"] in ("GET", "HEAD"):
            return None
        if self._logins is not None and is_page_path(scope["path"]) and _SESSION_HEADER not in headers:
            if needs_login(scope["path"]):
                return _identify_browser(self._logins, headers, scope)
            if scope["method"] in ("GET", "HEAD"):
                return None
        raise _login_refusal("a token is needed", "no_token")


class _BoundedReceive:
    """A `receive` that raises when a body without Content-Length becomes too large."""

    def __init__(self, receive: Receive, most: int) -> None:
        self._receive = receive
        self._most = most
        self._left = most

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise _size_refusal(self._most)
        return message


def _identify_browser(logins: BrowserLogins, headers: Mapping[bytes, bytes], scope: Scope) -> Principal:
    """The owner, in a browser that has logged in. A change must be JSON, which no form of another page can send."""
    login = logins.login(headers)
    if login is None:
        message = "this browser is not logged in, or no longer"
        raise _Refused(401, message, "run `mcp-agent open` on the machine of the daemon", "no_token")
    if PAGE_HEADER not in headers:
        raise _Refused(403, _FOREIGN_PAGE, reason="origin")
    content_type = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    if scope["method"] not in ("GET", "HEAD") and content_type != _JSON:
        raise _Refused(415, "a change must have the content type application/json")
    return replace(_ANYBODY, login=login)


def _index_headers(headers: Sequence[tuple[bytes, bytes]]) -> Mapping[bytes, bytes]:
    """The headers by name; of repeated ones the first. Raises if a header of `_REFUSED_TWICE` is repeated."""
    first = dict(reversed(headers))
    if len(first) != len(headers):
        names = [name for name, _ in headers]
        for name, (status, message) in _REFUSED_TWICE.items():
            if names.count(name) > 1:
                raise _Refused(status, message, reason="bad_header")
    return first


def _is_probe(path: str) -> bool:
    """Whether clients look there, after a 401, for a way to log in by OAuth."""
    return "/.well-known/" in path or path == "/register"


def _is_own_address(name: str, scope: Scope) -> bool:
    """Whether `name` is our own address in this connection."""
    server = scope.get("server")
    if server is None:
        return False
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(server[0])
    except ValueError:
        return False


def _login_refusal(message: str, reason: RefusalReason) -> _Refused:
    hint = "send it as: Authorization: Bearer <token>; mcp-agent serve says where the token is"
    return _Refused(401, message, hint, reason)


def _size_refusal(most: int) -> _Refused:
    return _Refused(413, f"a body may have at most {most} bytes")


async def refuse_websocket(send: Send, status: int, message: str) -> None:
    """Answer the head of a WebSocket that is not opened."""
    headers = [(b"content-type", b"application/json")]
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": orjson.dumps({"error": {"message": message}})})


async def _answer(send: Send, refused: _Refused, receive: Receive | None = None, challenge: bytes = _CHALLENGE) -> None:
    error = {"message": refused.message} if refused.hint is None else {"message": refused.message, "hint": refused.hint}
    body = orjson.dumps({"error": error})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"cache-control", b"no-store"),
        (b"x-content-type-options", b"nosniff"),
    ]
    if refused.status == 401:
        headers.append((b"www-authenticate", challenge))
    if refused.status == 413:
        headers.append((b"connection", b"close"))
    if refused.status in (429, 503):
        headers.append((b"retry-after", str(WINDOW_S if refused.status == 429 else 5).encode()))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    if refused.status == 413 and receive is not None:
        await send({"type": "http.response.body", "body": body, "more_body": True})
        await _discard_body(receive)
        body = b""
    await send({"type": "http.response.body", "body": body})


async def _answer_probe(send: Send) -> None:
    """Say that there is no OAuth here, in its own form: clients read `error` as a string."""
    body = b'{"error":"not_found","error_description":"this daemon has no OAuth here: clients send a token"}'
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 404, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _discard_body(receive: Receive) -> None:
    """Read the rest of a body that is too large, within bounds.

    Many clients read the response only after they have sent all of it, and a connection that is closed before is an
    error to them that does not say why.
    """
    left = _MOST_DISCARDED_BYTES
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _DISCARD_S
    with contextlib.suppress(TimeoutError):
        while left > 0:
            async with asyncio.timeout_at(min(deadline, loop.time() + _DISCARD_PAUSE_S)):
                message = await receive()
            if message["type"] != "http.request" or not message.get("more_body"):
                return
            left -= len(message.get("body", b""))
