"""The guard: the outermost middleware, which checks every request before any route sees it.

Nothing answers before it, not even with a 404. It checks in this order: the Host is a name of this
machine, an Origin is our own page, the token is valid, a body is JSON and not too large.

Of Host only the name is compared, not the port: the check is against DNS rebinding, which needs a foreign name, and
people may reach us through a forwarded port. An Origin must have the same name and port as Host.
"""

from __future__ import annotations

import ipaddress
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import orjson
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mcp_agent.logs import event
from mcp_agent.security.auth_tokens import OWNER, Principal, Tokens
from mcp_agent.security.authority import is_same_origin, parse_authority
from mcp_agent.security.open_streams import OpenStreams
from mcp_agent.security.refusals import Reason, Refusals

log = logging.getLogger(__name__)

LOOPBACK_NAMES = frozenset(("localhost", "127.0.0.1", "::1"))
MOST_BODY_BYTES = 8 * 1024 * 1024
# For paths of the pruning server. It checks the length of the text itself, and that limit must be reached first.
MOST_RPC_BODY_BYTES = 16 * 1024 * 1024
# There are 512 connections; one token may use half of them.
MOST_REQUESTS_OF_ONE = 256
_LARGE_PATHS = frozenset(("/rpc", "/prune"))
_OPEN_PATH = "/health"
_JSON = b"application/json"
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


class _Refused(Exception):
    def __init__(self, status: int, message: str, hint: str | None = None, reason: Reason | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.hint = hint
        # For the count and the audit log; None if only the body is wrong.
        self.reason = reason


class Guard:
    """Outermost middleware: passes on what is allowed and answers the rest itself.

    `tokens=None`: every client is the owner (loopback only). `takes_names`: the program has a flag for further names.
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
    ) -> None:
        self._app = app
        self._tokens = tokens
        self._streams = streams
        self._names = frozenset(name.lower() for name in names) | LOOPBACK_NAMES
        self._under_way: Counter[str] = Counter()
        self._is_open_to_the_network = is_open_to_the_network
        self._refusals = refusals
        self._takes_names = takes_names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        try:
            headers = _index_headers(scope["headers"])
            principal, limit = self._examine(scope, headers)
        except _Refused as refused:
            if self._refusals is not None and refused.reason is not None:
                client = scope.get("client")
                self._refusals.add(refused.reason, client[0] if client else "", scope["path"])
            await _answer(send, refused)
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
            await _answer(send, refused)
        finally:
            self._under_way[name] -= 1

    def _examine(self, scope: Scope, headers: Mapping[bytes, bytes]) -> tuple[Principal | None, int | None]:
        """The holder of the token, and the size limit for a body without Content-Length; None if none is needed."""
        value = headers.get(b"host")
        if value is None:
            raise _Refused(400, _ONE_HOST, reason="host")
        host = parse_authority(value)
        if host is None:
            raise _Refused(400, _BAD_HOST, reason="host")
        if host.name not in self._names:
            self._check_foreign_name(host.name, scope)
        origin = headers.get(b"origin")
        if origin is not None and not is_same_origin(origin, host):
            event(log, logging.WARNING, "security.origin_refused", origin=origin.decode("latin-1")[:200])
            raise _Refused(403, _FOREIGN_PAGE, reason="origin")
        principal = self._identify(headers, scope)
        content_length = headers.get(b"content-length")
        is_chunked = b"transfer-encoding" in headers
        if content_length is None and not is_chunked:
            return principal, None
        if content_length == b"0":
            return principal, None
        if headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise _Refused(415, "a body must not be compressed")
        content_type = headers.get(b"content-type", b"")
        if content_type != _JSON and content_type.split(b";")[0].strip().lower() != _JSON:
            raise _Refused(415, "a body must have the content type application/json")
        most = MOST_RPC_BODY_BYTES if scope["path"] in _LARGE_PATHS else MOST_BODY_BYTES
        if content_length is not None:
            if int(content_length) > most:
                raise _size_refusal(most)
            return principal, None
        return principal, most

    def _check_foreign_name(self, name: str, scope: Scope) -> None:
        """Raise for a name that is not ours. A daemon open to the network also accepts its address."""
        if self._is_open_to_the_network and _is_own_address(name, scope):
            return
        event(log, logging.WARNING, "security.host_refused", host=name[:200])
        hint = "use a name or an address of the machine that it runs on"
        if self._takes_names:
            hint = f"if the name is meant, start it with: mcp-agent serve --allow-host {name[:200]}"
        raise _Refused(421, f"this daemon does not answer to the name {name[:200]!r}", hint, "host")

    def _identify(self, headers: Mapping[bytes, bytes], scope: Scope) -> Principal | None:
        if self._tokens is None:
            return _ANYBODY
        bearer, key = headers.get(b"authorization"), headers.get(b"x-api-key")
        if bearer is not None and key is not None:
            raise _Refused(400, _ONE_TOKEN, reason="bad_header")
        if bearer is not None:
            token = _bearer_token(bearer)
        elif key is not None:
            token = key
        else:
            if scope["path"] == _OPEN_PATH and scope["method"] in ("GET", "HEAD"):
                return None
            raise _login_refusal("a token is needed", "no_token")
        principal = self._tokens.identify(token)
        if principal is None:
            event(log, logging.WARNING, "security.token_refused", path=scope["path"][:200])
            raise _login_refusal("the token is not valid", "wrong_token")
        return principal


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


def _index_headers(headers: Sequence[tuple[bytes, bytes]]) -> Mapping[bytes, bytes]:
    """The headers by name; of repeated ones the first. Raises if a header of `_REFUSED_TWICE` is repeated."""
    first = dict(reversed(headers))
    if len(first) != len(headers):
        names = [name for name, _ in headers]
        for name, (status, message) in _REFUSED_TWICE.items():
            if names.count(name) > 1:
                raise _Refused(status, message, reason="bad_header")
    return first


def _bearer_token(value: bytes) -> bytes:
    scheme, _, token = value.partition(b" ")
    if scheme.lower() != b"bearer" or not token:
        raise _login_refusal("the Authorization header must be: Bearer <token>", "bad_header")
    return token.strip()


def _is_own_address(name: str, scope: Scope) -> bool:
    """Whether `name` is our own address in this connection."""
    server = scope.get("server")
    if server is None:
        return False
    try:
        return ipaddress.ip_address(name) == ipaddress.ip_address(server[0])
    except ValueError:
        return False


def _login_refusal(message: str, reason: Reason) -> _Refused:
    hint = "send it as: Authorization: Bearer <token>; mcp-agent serve says where the token is"
    return _Refused(401, message, hint, reason)


def _size_refusal(most: int) -> _Refused:
    return _Refused(413, f"a body may have at most {most} bytes")


async def _answer(send: Send, refused: _Refused) -> None:
    error = {"message": refused.message} if refused.hint is None else {"message": refused.message, "hint": refused.hint}
    body = orjson.dumps({"error": error})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refused.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="mcp-agent"'))
    if refused.status == 413:
        headers.append((b"connection", b"close"))
    if refused.status == 503:
        headers.append((b"retry-after", b"5"))
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
