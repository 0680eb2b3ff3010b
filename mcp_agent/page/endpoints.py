"""How /api is made: endpoints by method and path, what they are given, and how their errors are sent.

An endpoint gets an `ApiRequest` and returns an object, which is sent as JSON, or a `File`. `<name>` in its path stands
for one part of the address.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from starlette.types import Receive, Scope, Send

from mcp_agent import COMMAND_AGENT
from mcp_agent.daemon import Pinned
from mcp_agent.protocol import jsonrpc
from mcp_agent.protocol.jsonrpc import RpcError
from mcp_agent.security.auth_tokens import ProfileInUse
from mcp_agent.security.browser_logins import PAGE_HEADER
from mcp_agent.transports.http import ClientLeft, header, principal, read_body, send_object
from registry.profiles import BadRegistry, UnknownName, UnusableFile
from registry.user_error import UserError
from tools.kit.errors import ToolError

# The code of an error that has none of its own, by its HTTP status.
_CODES = {
    400: "INVALID_PARAMS",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    405: "WRONG_METHOD",
    409: "CONFLICT",
    503: "IO_ERROR",
}
# For every answer: it is about the owner's machine, and it is JSON and nothing else.
_PRIVATE = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


class BadRequest(Exception):
    """What was asked for cannot be done; the message says why."""

    def __init__(self, message: str, hint: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.message, self.hint, self.status = message, hint, status


class ApiRequest(Struct, frozen=True):
    """One request: the parts of the address that have a name, the query, the body, and who asks."""

    named: Mapping[str, str]
    query: Mapping[str, str]
    body: Mapping[str, Any]
    # Who asks, for the audit log: the page, one of our commands, or another program with the token.
    by: str
    scope: Scope

    def text(self, name: str) -> str:
        """A field of the body that must be a string."""
        return str(self._field(name, str, "a string"))

    def optional_text(self, name: str) -> str | None:
        return None if self.body.get(name) is None else self.text(name)

    def whole_number(self, name: str) -> int:
        value = self._field(name, int, "a whole number")
        if isinstance(value, bool):
            raise BadRequest(f"{name} is needed and must be a whole number")
        return int(value)

    def mapping(self, name: str) -> dict[str, Any]:
        return dict(self._field(name, dict, "an object"))

    def number_of_query(self, name: str, default: int) -> int:
        text = self.query.get(name)
        try:
            return default if text is None else int(text)
        except ValueError:
            raise BadRequest(f"{name} is {text!r:.60} and must be a whole number") from None

    def _field(self, name: str, kind: type, shown: str) -> Any:
        value = self.body.get(name)
        if isinstance(value, kind):
            return value
        raise BadRequest(f"{name} is needed and must be {shown}")


class File(Struct, frozen=True):
    """Bytes instead of an object, sent as a download that no browser runs."""

    parts: AsyncIterator[bytes]
    size: int | None
    name: str
    media_type: str = "application/octet-stream"


Endpoint = Callable[[ApiRequest], Awaitable[Any]]
Routes = Mapping[tuple[str, str], Endpoint]


class Api:
    """The ASGI application behind /api/… Only the owner may use it."""

    def __init__(self, groups: Sequence[Routes], origin: str) -> None:
        """`origin` is the path of tools.json, for the message about a broken one."""
        self._routes: dict[tuple[str, int], list[tuple[list[str], Endpoint]]] = {}
        self._shown: list[str] = []
        self._origin = origin
        for group in groups:
            for (method, path), endpoint in group.items():
                parts = path.split("/")
                self._routes.setdefault((method, len(parts)), []).append((parts, endpoint))
                self._shown.append(f"{method} /api/{path}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not principal(scope).is_owner:
            await _send_error(send, 403, "only the owner's token may use /api")
            return
        try:
            endpoint, named = self._find(scope)
            body = await _body(receive) if scope["method"] == "POST" else {}
            query = dict(urllib.parse.parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
            answer = await endpoint(ApiRequest(named, query, body, _requester(scope), scope))
        except ClientLeft:
            return
        except BadRequest as error:
            await _send_error(send, error.status, error.message, error.hint)
        except UnknownName as error:
            await _send_error(send, 404, error.message, error.hint)
        except Pinned as error:
            await _send_error(send, 409, error.message, error.hint)
        except BadRegistry as error:
            listed = "; ".join(map(str, error.problems))
            problems = [problem.as_object() for problem in error.problems]
            is_content = not isinstance(error, UnusableFile)
            message = f"{self._origin} is broken: {listed}" if is_content else error.problems[0].message
            error_object = {"code": _CODES[409], "message": message, "problems": problems}
            await send_object(send, 409, {"error": error_object}, _PRIVATE)
        except ProfileInUse as error:
            await _send_error(send, 409, str(error))
        except UserError as error:
            await _send_error(send, 400, str(error))
        except ToolError as error:
            await send_object(send, 400, error.as_object(), _PRIVATE)
        except OSError as error:
            # The state folder is full or closed to us; the next request may find it mended.
            await _send_error(send, 503, f"the disk has failed: {error}")
        else:
            await (_send_file(send, answer) if isinstance(answer, File) else send_object(send, 200, answer, _PRIVATE))

    def _find(self, scope: Scope) -> tuple[Endpoint, dict[str, str]]:
        path = scope["path"].removeprefix("/api/").rstrip("/")
        parts = path.split("/")
        # The raw path keeps an escaped slash inside its part; Starlette has decoded the other.
        match = _match(self._routes.get((scope["method"], len(parts)), ()), parts)
        if match is not None:
            return match
        methods = [
            method for (method, size), found in self._routes.items() if size == len(parts) and _match(found, parts)
        ]
        if methods:
            raise BadRequest(f"{scope['method']} is not for /api/{path}", f"use {' or '.join(methods)}", 405)
        raise BadRequest(f"there is no /api/{path[:100]}", f"there are: {', '.join(self._shown)}", 404)


def _match(found: Sequence[tuple[list[str], Endpoint]], parts: list[str]) -> tuple[Endpoint, dict[str, str]] | None:
    """The endpoint whose path this is, and the parts that have names. A path without names wins."""
    for pattern, endpoint in sorted(found, key=lambda each: sum(part.startswith("<") for part in each[0])):
        if all(own == part or own.startswith("<") for own, part in zip(pattern, parts, strict=True)):
            named = {own[1:-1]: part for own, part in zip(pattern, parts, strict=True) if own.startswith("<")}
            return endpoint, named
    return None


def _requester(scope: Scope) -> str:
    if header(scope, PAGE_HEADER) is not None:
        return "page"
    program = header(scope, b"user-agent") or b""
    return "command" if program.startswith(COMMAND_AGENT.encode()) else "api"


async def _body(receive: Receive) -> dict[str, Any]:
    data = await read_body(receive)
    try:
        value = jsonrpc.decode(data) if data.strip() else {}
    except RpcError as error:
        raise BadRequest(error.message) from None
    if not isinstance(value, dict):
        raise BadRequest("the body must be a JSON object")
    return value


async def _send_error(send: Send, status: int, message: str, hint: str | None = None) -> None:
    error = {"code": _CODES[status], "message": message}
    await send_object(send, status, {"error": error if hint is None else {**error, "hint": hint}}, _PRIVATE)


async def _send_file(send: Send, file: File) -> None:
    name = urllib.parse.quote(file.name)
    headers = [
        (b"content-type", file.media_type.encode("latin-1")),
        (b"content-disposition", f"attachment; filename*=UTF-8''{name}".encode("ascii")),
        (b"x-content-type-options", b"nosniff"),
        (b"content-security-policy", b"default-src 'none'; sandbox"),
        (b"cache-control", b"no-store"),
    ]
    if file.size is not None:
        headers.append((b"content-length", str(file.size).encode()))
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    async for part in file.parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
