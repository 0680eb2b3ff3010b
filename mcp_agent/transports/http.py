"""The few things every HTTP wire does: read a body, look at headers, send JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from mcp_agent.calls.call import Caller
from mcp_agent.protocol import jsonrpc
from mcp_agent.security.auth_tokens import Principal
from registry.gate import Access
from registry.profiles import Form

_LARGE_BODY_BYTES = 256 * 1024
_JSON_TYPE = (b"content-type", b"application/json")
_FORMS: Mapping[bytes, Form] = {b"json": "json", b"text": "text", b"auto": "auto"}


class ClientLeft(Exception):
    """The client closed the connection before its request was complete."""


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


async def read_json(receive: Receive, most_string: int) -> Any:
    """The JSON value of a body that may be large: then a thread reads it, while others are served. Raises RpcError."""
    body = await read_body(receive)
    if len(body) < _LARGE_BODY_BYTES:
        return jsonrpc.decode(body, most_string=most_string)
    return await asyncio.to_thread(jsonrpc.decode, body, most_string=most_string)


def header(scope: Scope, name: bytes) -> bytes | None:
    """The value of a header, the first if there are several, or None. Names are lower case."""
    found: bytes | None = scope["state"]["headers"].get(name)
    return found


def header_text(scope: Scope, name: bytes) -> str | None:
    raw = header(scope, name)
    return None if raw is None else raw.decode("latin-1")


async def send_json(send: Send, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
    raw = [_JSON_TYPE, (b"content-length", b"%d" % len(body))]
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


def caller(scope: Scope, transport: str, *, client: str = "", form: Form | None = None, connection: str = "") -> Caller:
    """The caller behind a request, bound by its token's profile and by the profile in the URL, if there is one.

    How results are written: the wire's own way, else what the connection's header says, else what the token says.
    """
    state = scope["state"]
    who: Principal = state["principal"]
    narrowed_to = scope["path_params"].get("profile") if "path_params" in scope else None
    if form is None:
        asked = state["headers"].get(b"x-mcp-agent-form")
        form = who.form if asked is None else _FORMS.get(asked.lower(), who.form)
    return Caller(who.name, Access(who.profile, narrowed_to), transport, client, form, connection)
