"""The few things every HTTP wire does: read a body, look at headers, send JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote_to_bytes

import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from mcp_agent import FOLDER_HEADER, MOUNTED_BY_HEADER
from mcp_agent.calls.call import Caller
from mcp_agent.protocol import jsonrpc
from mcp_agent.security.addresses import is_loopback
from mcp_agent.security.auth_tokens import Principal
from mcp_agent.security.guard import MOST_BODY_BYTES
from registry.gate import Access
from registry.profiles import Form

_T = TypeVar("_T")

REVOKED = "the token was revoked while this was under way"
_LARGE_BODY_BYTES = 256 * 1024
_JSON_TYPE = (b"content-type", b"application/json")
# Which conversation a request belongs to, first come first. On /mcp the first one is the connection.
_CHAT_HEADERS = (b"mcp-session-id", b"x-openwebui-chat-id", b"x-session-id")
_CHAT_HEADERS_BESIDE_CONNECTION = _CHAT_HEADERS[1:]
# Which person a program asks for. Open WebUI sends the one on MCP and OpenAPI, the other to its terminals.
_USER_HEADERS = (b"x-openwebui-user-id", b"x-user-id")
_MOST_CLAIM_BYTES = 200
_FORMS: Mapping[bytes, Form] = {b"json": "json", b"text": "text", b"auto": "auto"}


class PathTable:
    """Passes a request on to the wire at its path.

    A table finds a path without parameters in a fraction of what matching patterns costs. `patterns` makes what
    serves all other paths, when it is first needed. A slash at the end of a path changes nothing.
    """

    def __init__(self, plain: Mapping[str, ASGIApp], patterns: Callable[[], ASGIApp]) -> None:
        self._plain = plain
        self._patterns = patterns

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        app = self._plain.get(scope["path"])
        if app is None:
            path = scope["path"].rstrip("/") or "/"
            scope = {**scope, "path": path}
            app = self._plain.get(path) or self._patterns()
        return app(scope, receive, send)


class ClientLeft(Exception):
    """The client closed the connection before its request was complete."""


async def wait_until_left(receive: Receive) -> None:
    """Until the client of a request, whose body has been read, closes the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


class TokenRevoked(Exception):
    """The token of a request was revoked while its work was under way."""


async def while_connected(scope: Scope, receive: Receive, work: Awaitable[_T], token: str | None = None) -> _T:
    """What `work` gives. The body must have been read. `token` names the one that counts, if not the request's.

    It is cancelled when the client leaves or its token is revoked: raises ClientLeft or TokenRevoked.
    """
    working, leaving = asyncio.ensure_future(work), asyncio.create_task(wait_until_left(receive))
    state = scope["state"]
    name = principal(scope).name if token is None else token
    calls = state["streams"].register_call(name, state["revocations"], working.cancel)
    try:
        with calls as is_allowed:
            if not is_allowed:
                raise TokenRevoked
            await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientLeft
        if working.cancelled():
            raise TokenRevoked
        return working.result()
    finally:
        working.cancel()
        leaving.cancel()


async def read_body(receive: Receive) -> bytes:
    """The whole body; the guard in front has bounded its size."""
    message = await receive()
    if message["type"] == "http.request" and not message.get("more_body"):
        body: bytes = message.get("body", b"")
        return body
    parts = []
    while True:
        if message["type"] == "http.disconnect":
            raise ClientLeft
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)
        message = await receive()


async def read_json(receive: Receive, *, if_empty: bytes = b"") -> Any:
    """The JSON value of a body; `if_empty` is read in place of an empty one. Raises RpcError, ClientLeft.

    A thread reads a large body, while others are served. A string in it may be as long as a body: a file that is
    written, or a text to prune.
    """
    body = await read_body(receive)
    if if_empty and not body.strip():
        body = if_empty
    if len(body) < _LARGE_BODY_BYTES:
        return jsonrpc.decode(body)
    return await asyncio.to_thread(jsonrpc.decode, body, most_string=MOST_BODY_BYTES)


def header(scope: Scope, name: bytes) -> bytes | None:
    """The value of a header, the first if there are several, or None. Names are lower case."""
    found: bytes | None = scope["state"]["headers"].get(name)
    return found


def header_text(scope: Scope, name: bytes) -> str | None:
    raw: bytes | None = scope["state"]["headers"].get(name)
    return None if raw is None else raw.decode("latin-1")


def scheme_of(scope: Scope) -> str:
    """The scheme of the URL that a client has. A proxy on this machine says that it is another than ours."""
    is_behind_proxy = is_loopback((scope.get("client") or ("",))[0])
    if is_behind_proxy and (b"x-forwarded-proto", b"https") in scope["headers"]:
        return "https"
    return str(scope.get("scheme", "http"))


def query_value(scope: Scope, name: str) -> str | None:
    """The value of a parameter of the URL, the first if there are several, or None."""
    found = parse_qs(scope["query_string"].decode("latin-1")).get(name)
    return found[0] if found else None


async def send_json(
    send: Send, status: int, body: bytes, headers: Mapping[str, str] | None = None, media_type: str = jsonrpc.JSON
) -> None:
    content_type = _JSON_TYPE if media_type is jsonrpc.JSON else (b"content-type", media_type.encode("latin-1"))
    raw = [content_type, (b"content-length", b"%d" % len(body))]
    if headers:
        raw += [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


async def send_object(send: Send, status: int, value: Any, headers: Mapping[str, str] | None = None) -> None:
    await send_json(send, status, orjson.dumps(value), headers)


async def send_empty(send: Send, status: int, headers: Mapping[str, str] | None = None) -> None:
    raw = [(b"content-length", b"0")] if status != 204 else []
    raw += [(name.encode("latin-1"), value.encode("latin-1")) for name, value in (headers or {}).items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": b""})


async def send_error(
    send: Send, status: int, message: str, hint: str | None = None, headers: Mapping[str, str] | None = None
) -> None:
    error = {"message": message} if hint is None else {"message": message, "hint": hint}
    await send_object(send, status, {"error": error}, headers)


def principal(scope: Scope) -> Principal:
    """Who sent this request; the guard has put it there."""
    found: Principal = scope["state"]["principal"]
    return found


def caller(
    scope: Scope, transport: str, *, client: str = "", form: Form | None = None, connection: str = "", root: str = ""
) -> Caller:
    """The caller behind a request, bound by its token's profile and by the profile in the URL, if there is one.

    `root` is the first root that the client has declared, as a path.

    How results are written: the wire's own way, else what the connection's header says, else what the token says.
    """
    who: Principal = scope["state"]["principal"]
    headers: Mapping[bytes, bytes] = scope["state"]["headers"]
    narrowed_to = scope["path_params"].get("profile") if "path_params" in scope else None
    if form is None:
        asked = headers.get(b"x-mcp-agent-form")
        form = who.form if asked is None else _FORMS.get(asked.lower(), who.form)
    chat = _claim(headers, _CHAT_HEADERS_BESIDE_CONNECTION if connection else _CHAT_HEADERS)
    user = _claim(headers, _USER_HEADERS)
    access = Access(who.profile, narrowed_to, MOUNTED_BY_HEADER not in headers)
    folder = ""
    if root or FOLDER_HEADER in headers:
        address = scope.get("client")
        # A folder of another machine means nothing here.
        if address is not None and is_loopback(address[0]):
            folder = root or unquote_to_bytes(headers[FOLDER_HEADER]).decode("utf-8", "surrogateescape")
    return Caller(who.name, access, transport, client, form, connection, chat, user, folder, token_id=who.id)


def _claim(headers: Mapping[bytes, bytes], names: tuple[bytes, ...]) -> str:
    """What the client says in the first of these headers that it sends; empty if it sends none of them."""
    for name in names:
        if value := headers.get(name):
            return value[:_MOST_CLAIM_BYTES].decode("latin-1")
    return ""
