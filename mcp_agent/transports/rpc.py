"""/rpc: plain JSON-RPC over POST. No session, no stream; every answer is the whole object."""

from __future__ import annotations

from typing import Any

from starlette.types import Receive, Scope, Send

from mcp_agent.protocol import eras, jsonrpc
from mcp_agent.protocol.conversation import Conversation
from mcp_agent.protocol.jsonrpc import RpcError, RpcMessage, WireAnswer
from mcp_agent.protocol.methods import McpRequest, Methods
from mcp_agent.transports.exchange import Exchange
from mcp_agent.transports.http import ClientLeft, caller, read_json, send_empty, send_error, send_json


class Rpc:
    def __init__(self, methods: Methods) -> None:
        self._methods = methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await send_error(send, 405, "use POST here", headers={"allow": "POST"})
            return
        value: Any = None
        try:
            value = await read_json(receive)
            if isinstance(value, list):
                jsonrpc.check_batch(value)
                await Exchange(scope, receive, send).run(None, self._answer_batch(value, scope))
                return
            message = jsonrpc.message(value)
            if message is None or message.id is None:
                await send_empty(send, 204)
                return
            request = _request(message, scope)
        except ClientLeft:
            return
        except RpcError as error:
            await send_json(send, 400, jsonrpc.failure(jsonrpc.id_of(value), error))
            return
        await Exchange(scope, receive, send).run(message.id, self._methods.answer(request))

    async def _answer_batch(self, values: list[Any], scope: Scope) -> WireAnswer:
        body = await self._methods.answer_batch(values, lambda each: _request(each, scope))
        return WireAnswer(body, 200 if body else 204)


def _request(message: RpcMessage, scope: Scope) -> McpRequest:
    if eras.is_stateless(message):
        client = eras.envelope(message).client
        return McpRequest(message, caller(scope, "rpc", client=client, form="json"), None)
    return McpRequest(message, caller(scope, "rpc", form="json"), Conversation(eras.LATEST_HANDSHAKE))
