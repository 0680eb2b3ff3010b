"""/openapi.json and POST /tools/<name>: the caller's tools for programs that speak OpenAPI.

A body is a tool's arguments, the answer is its result, both plain JSON objects. What MCP says with `isError` is said
with the status here, and the body is the same object.
"""

from __future__ import annotations

from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from mcp_agent import __version__
from mcp_agent.calls.call import Call, Compact, Failure, Refusal
from mcp_agent.calls.dispatcher import Dispatcher
from mcp_agent.protocol import jsonrpc
from mcp_agent.protocol.jsonrpc import Answer, RpcError
from mcp_agent.protocol.methods import new_call_id
from mcp_agent.transports.exchange import Exchange, Watch
from mcp_agent.transports.http import ClientLeft, caller, read_body, send_error, send_object
from registry.gate import Gate
from tools.kit.spec import Tool

_TRANSPORT = "openapi"
_STATUS = {"INVALID_PARAMS": 422, "TOOL_DISABLED": 403, "TIMEOUT": 408, "INTERNAL_ERROR": 500}
_MENDABLE = 400

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
}


class OpenApi:
    def __init__(self, gate: Gate, dispatcher: Dispatcher) -> None:
        self._gate = gate
        self._dispatcher = dispatcher
        self._watch = Watch()

    async def describe(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await send_error(send, 405, "use GET here", headers={"allow": "GET"})
            return
        visible = self._gate.visible(caller(scope, _TRANSPORT).access)
        await send_object(send, 200, document(visible))

    async def call(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await send_error(send, 405, "use POST here", headers={"allow": "POST"})
            return
        try:
            body = await read_body(receive)
            arguments = jsonrpc.decode(body) if body.strip() else {}
        except ClientLeft:
            return
        except RpcError as error:
            await send_error(send, 400, error.message)
            return
        if not isinstance(arguments, dict):
            await send_error(send, 422, "the body must be a JSON object: the tool's arguments")
            return
        call = Call(new_call_id(), caller(scope, _TRANSPORT, form="json"), scope["path_params"]["name"], arguments)
        await Exchange(scope, receive, send, self._watch).run(0, self._answer(call))

    async def _answer(self, call: Call) -> Answer:
        outcome = await self._dispatcher.call(call)
        if isinstance(outcome, Refusal):
            error = {"error": {"message": outcome.message, **(outcome.data or {})}}
            if outcome.error_code != jsonrpc.INVALID_PARAMS:
                return Answer(orjson.dumps(error), _MENDABLE)
            return Answer(orjson.dumps(error), 404 if outcome.data is None else 422)
        written = outcome.written.encoded if isinstance(outcome.written, Compact) else outcome.written
        assert isinstance(written, bytes), "this wire asks for objects"
        return Answer(written, _STATUS.get(outcome.code, _MENDABLE) if isinstance(outcome, Failure) else 200)


def document(tools: tuple[Tool, ...]) -> dict[str, Any]:
    """The OpenAPI 3.1 description of `tools`."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "mcp-agent",
            "version": __version__,
            "description": "Tools that act on the machine this daemon runs on.",
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}],
        "paths": {f"/tools/{tool.name}": {"post": _operation(tool)} for tool in tools},
        "components": {
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _ERROR_SCHEMA},
        },
    }


def _operation(tool: Tool) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "operationId": tool.name,
        "summary": tool.title,
        "description": tool.description,
        "tags": [tool.category],
        # What can be called without arguments can be called without a body.
        "requestBody": {
            "required": "required" in tool.input_schema,
            "content": {"application/json": {"schema": tool.input_schema}},
        },
        "responses": {
            "200": {"description": "The result.", "content": {"application/json": {"schema": {"type": "object"}}}},
            **{status: {"description": text, "content": error} for status, text in _RESPONSES.items()},
        },
    }
