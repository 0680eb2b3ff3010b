"""/openapi.json and POST /tools/<name>: the caller's tools for programs that speak OpenAPI.

A body is a tool's arguments, the answer is its result, both plain JSON objects. What MCP says with `isError` is said
with the status here, and the body is the same object. With the header `X-MCP-Agent-Form: text` answers and errors are
plain text, as a model reads them best. An image is sent as the bytes that it is.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import orjson
from msgspec.structs import replace
from starlette.types import Receive, Scope, Send

from mcp_agent import __version__
from mcp_agent.answers.reply import Blocks, Compact
from mcp_agent.calls.call import OPENAPI, Call, Caller, Failure, Refusal, Success
from mcp_agent.calls.dispatcher import Dispatcher
from mcp_agent.protocol import jsonrpc
from mcp_agent.protocol.jsonrpc import RpcError, WireAnswer
from mcp_agent.protocol.methods import new_call_id
from mcp_agent.transports.exchange import Exchange
from mcp_agent.transports.http import ClientLeft, caller, header_text, read_json, send_error, send_json, send_object
from registry.gate import Gate
from registry.profiles import Form
from tools.files.text import showable
from tools.kit.results import Media
from tools.kit.spec import Tool

_STATUS = {"INVALID_PARAMS": 422, "TOOL_DISABLED": 403, "TIMEOUT": 408, "BUSY": 429, "INTERNAL_ERROR": 500}
_MENDABLE = 400
_TEXT = "text/plain; charset=utf-8"

_ERROR_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "hint": {"type": "string"},
                "issues": {"type": "array", "items": {"type": "object"}},
            },
            "required": ["message"],
        }
    },
    "required": ["error"],
}
_RESPONSES = {
    "400": "The tool could not do it; the message says why and the hint what to try.",
    "401": "The token is missing or wrong.",
    "403": "The tool is switched off.",
    "404": "There is no such tool.",
    "408": "The tool took longer than it may.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "422": "The arguments do not fit; `issues` names each problem.",
    "429": "Too much work of this kind is asked for at once.",
}


_RESULT = {
    "application/json": {"schema": {"type": "object"}},
    "text/plain": {"schema": {"type": "string"}},
    "image/*": {"schema": {"type": "string", "format": "binary"}},
}


class OpenApi:
    """Two ASGI applications. `form` is that of the answers where the client does not ask for one.

    `operation_ids` names the operations of tools for a client that knows them by other names than ours. A tool in
    `with_path` gives its text in an object, beside the path that it changed. With `captions` an image is in an object,
    too, beside the text that says what it is. `own_paths` describes what the wire offers beside these tools; `folder`
    is where relative paths of a caller begin, if that is another than the daemon's.
    """

    def __init__(
        self,
        gate: Gate,
        dispatcher: Dispatcher,
        *,
        transport: str = OPENAPI,
        form: Literal["json", "text"] = "json",
        operation_ids: Mapping[str, str] | None = None,
        with_path: frozenset[str] = frozenset(),
        captions: bool = False,
        own_paths: Callable[[tuple[Tool, ...]], Mapping[str, Any]] = lambda _: {},
        folder: Callable[[Caller], str] = lambda _: "",
    ) -> None:
        self._gate = gate
        self._dispatcher = dispatcher
        self._transport = transport
        self._form = form
        self._operation_ids = operation_ids or {}
        self._with_path = with_path
        self._captions = captions
        self._own_paths = own_paths
        self._folder = folder

    async def describe(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await send_error(send, 405, "use GET here", headers={"allow": "GET"})
            return
        visible = self._gate.visible(caller(scope, self._transport).access)
        described = document(visible, self._operation_ids)
        described["paths"].update(self._own_paths(visible))
        await send_object(send, 200, described)

    async def call(self, scope: Scope, receive: Receive, send: Send) -> None:
        form = self._asked_form(scope)
        if scope["method"] != "POST":
            await _send_error(send, form, 405, "use POST here", {"allow": "POST"})
            return
        try:
            arguments = await read_json(receive, if_empty=b"{}")
        except ClientLeft:
            return
        except RpcError as error:
            await _send_error(send, form, 400, error.message)
            return
        if not isinstance(arguments, dict):
            await _send_error(send, form, 422, "the body must be a JSON object: the tool's arguments")
            return
        who = caller(scope, self._transport, form=form)
        if folder := self._folder(who):
            who = replace(who, folder=folder)
        call = Call(new_call_id(), who, scope["path_params"]["name"], arguments)
        await Exchange(scope, receive, send).run(0, self._answer(call))

    async def _answer(self, call: Call) -> WireAnswer:
        outcome = await self._dispatcher.call(call)
        if isinstance(outcome, Refusal):
            status = _MENDABLE
            if outcome.error_code == jsonrpc.INVALID_PARAMS:
                status = 404 if outcome.data is None else 422
            if call.caller.form == "text":
                return WireAnswer(outcome.message.encode(), status, _TEXT)
            return WireAnswer(orjson.dumps({"error": {"message": outcome.message, **(outcome.data or {})}}), status)
        status = _STATUS.get(outcome.code, _MENDABLE) if isinstance(outcome, Failure) else 200
        match outcome.written:
            case str() as text:
                if call.tool in self._with_path and isinstance(outcome, Success):
                    path = changed_path(outcome.result.as_object())
                    if path is not None:
                        return WireAnswer(orjson.dumps({"path": path, "text": showable(text)}), status)
                return WireAnswer(text.encode("utf-8", "replace"), status, _TEXT)
            case Media(kind, data):
                if self._captions and isinstance(outcome, Success) and kind.startswith("image/"):
                    image = f"data:{kind};base64,{base64.b64encode(data).decode()}"
                    return WireAnswer(orjson.dumps({"text": showable(outcome.result.render()), "image": image}), status)
                return WireAnswer(data, status, kind)
            case Compact(encoded) | Blocks(encoded):
                return WireAnswer(encoded, status)
            case encoded:
                return WireAnswer(encoded, status)

    def _asked_form(self, scope: Scope) -> Literal["json", "text"]:
        asked = (header_text(scope, b"x-mcp-agent-form") or "").lower()
        return "text" if asked == "text" else "json" if asked == "json" else self._form


async def _send_error(
    send: Send, form: Form, status: int, message: str, headers: Mapping[str, str] | None = None
) -> None:
    """An error of the request itself, in the form that its answer would have had."""
    if form == "text":
        await send_json(send, status, message.encode(), headers, _TEXT)
    else:
        await send_error(send, status, message, headers=headers)


def changed_path(result: Mapping[str, Any]) -> str | None:
    """The file that a result is about, the first of several; None where it names none."""
    files = result.get("files")
    path = files[0].get("path") if files else result.get("path")
    return path if isinstance(path, str) else None


def operation_ids_for(tools: Collection[str], wanted: Mapping[str, str]) -> dict[str, str]:
    """The id of each tool's operation: the one that is wanted for it, unless another tool has that name."""
    return {name: name if wanted.get(name) in tools else wanted.get(name, name) for name in tools}


def document(tools: tuple[Tool, ...], operation_ids: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The OpenAPI 3.1 description of `tools`."""
    ids = operation_ids_for({tool.name for tool in tools}, operation_ids or {})
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "mcp-agent",
            "version": __version__,
            "description": "Tools that act on the machine this daemon runs on.",
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "paths": {f"/tools/{tool.name}": {"post": _operation(tool, ids[tool.name])} for tool in tools},
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _ERROR_SCHEMA},
        },
    }


def _operation(tool: Tool, operation_id: str) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "operationId": operation_id,
        "summary": tool.title,
        "description": tool.description,
        "tags": [tool.category],
        # What can be called without arguments can be called without a body.
        "requestBody": {
            "required": "required" in tool.input_schema,
            "content": {"application/json": {"schema": tool.input_schema}},
        },
        "responses": {
            "200": {"description": "The result.", "content": _RESULT},
            **{status: {"description": text, "content": error} for status, text in _RESPONSES.items()},
        },
    }
