"""A request of Open WebUI to its terminal: who asks, for whom, and with what; and how it is refused."""

from __future__ import annotations

import math
from typing import Any
from urllib.parse import parse_qs

from msgspec import Struct
from starlette.types import Receive, Scope, Send

from mcp_agent.calls.call import OPEN_TERMINAL, Call, Caller
from mcp_agent.protocol.jsonrpc import RpcError
from mcp_agent.protocol.methods import new_call_id
from mcp_agent.transports.http import caller, principal, read_json, send_object
from tools.kit.errors import ToolError

_STATUS = {
    "NOT_FOUND": 404,
    "DENIED": 403,
    "TOOL_DISABLED": 403,
    "PERMISSION_DENIED": 403,
    "ALREADY_EXISTS": 409,
    "STALE_REV": 409,
    "IS_BINARY": 415,
    "TOO_LARGE": 413,
    "TIMEOUT": 408,
    "SESSION_LIMIT": 429,
    "BUSY": 429,
    "INTERNAL_ERROR": 500,
}


class TerminalRefusal(Exception):
    """An error response; Open WebUI displays `detail`."""

    def __init__(self, status: int, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.hint = status, message, hint

    @classmethod
    def of(cls, error: ToolError) -> TerminalRefusal:
        return cls(_STATUS.get(error.code, 400), error.message, error.hint)

    async def send(self, send: Send) -> None:
        """In the shape that Open WebUI reads, and in our own."""
        error = {"message": self.message} if self.hint is None else {"message": self.message, "hint": self.hint}
        await send_object(send, self.status, {"detail": self.message, "error": error})


class TerminalRequest(Struct, frozen=True):
    """One request. `person` is the token with the user and the chat that Open WebUI claims for it."""

    scope: Scope
    receive: Receive
    person: Caller
    is_owner: bool
    query: dict[str, str]

    @classmethod
    def of(cls, scope: Scope, receive: Receive) -> TerminalRequest:
        query = parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        return cls(
            scope,
            receive,
            caller(scope, OPEN_TERMINAL, form="json"),
            principal(scope).is_owner,
            {name: values[-1] for name, values in query.items()},
        )

    def call(self, tool: str, **arguments: Any) -> Call:
        return Call(new_call_id(), self.person, tool, arguments)

    def parameter(self, name: str) -> str:
        """A parameter of the URL that must be there."""
        value = self.query.get(name)
        if not value:
            raise TerminalRefusal(400, f"the parameter {name} is missing")
        return value

    def number(self, name: str, default: float) -> float:
        """A parameter of the URL that is a finite number; a negative one counts as 0."""
        text = self.query.get(name)
        if not text:
            return default
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise TerminalRefusal(400, f"{name} is {text[:40]!r} and must be a number")
        return max(0.0, value)

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() in ("true", "1")

    async def body(self) -> dict[str, Any]:
        """The body, a JSON object. Raises ClientLeft."""
        try:
            value = await read_json(self.receive)
        except RpcError as error:
            raise TerminalRefusal(400, error.message) from None
        if not isinstance(value, dict):
            raise TerminalRefusal(400, "the body must be a JSON object")
        return value


def text_field(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise TerminalRefusal(400, f"the body must have a text {name!r}")
    return value
