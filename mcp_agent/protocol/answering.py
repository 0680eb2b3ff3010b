"""From a request to the bytes that answer it, errors included. Every wire's last step before its own framing."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from mcp_agent.calls.shaping import MOST_MESSAGE_BYTES
from mcp_agent.logs import event
from mcp_agent.protocol import eras, jsonrpc
from mcp_agent.protocol.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, MOST_BATCH, Message, RpcError
from mcp_agent.protocol.methods import Methods, Request
from tools.kit.records import record

log = logging.getLogger(__name__)

# What is kept free for each answer of a batch, to say at least that it does not fit; an id has a bound, too.
_EXCUSE_BYTES = 8_000


@record
class Answer:
    """One JSON-RPC response, and the HTTP status that goes with it."""

    body: bytes
    status: int = 200


async def answered(methods: Methods, request: Request) -> Answer:
    """The response to `request`. Never raises, save for cancellation."""
    message = request.message
    assert message.id is not None, "a notification is not answered"
    try:
        return Answer(jsonrpc.response(message.id, await methods.answer(request)))
    except RpcError as error:
        status = eras.http_status(error) if request.conversation is None else 200
        return Answer(jsonrpc.failure(message.id, error), status)
    except Exception:
        # A boundary: what we did not foresee is logged here and reaches the wire without its text.
        event(log, logging.ERROR, "tool.internal_error", exc=True, method=message.method)
        return Answer(jsonrpc.failure(message.id, RpcError(INTERNAL_ERROR, "Internal error")))


async def answered_batch(methods: Methods, values: list[Any], request: Callable[[Message], Request]) -> bytes | None:
    """The answers to several messages as one array; None if none of them wants one. Raises RpcError for a bad count."""
    if not values or len(values) > MOST_BATCH:
        raise RpcError(INVALID_REQUEST, f"a batch has 1 to {MOST_BATCH} messages, not {len(values)}")
    answers: list[bytes] = []
    room = MOST_MESSAGE_BYTES - _EXCUSE_BYTES * len(values)
    for value in values:
        try:
            message = jsonrpc.message(value)
            if message is None or message.id is None:
                continue
            answer = (await answered(methods, request(message))).body
            if len(answer) > room:
                raise RpcError(INTERNAL_ERROR, "the answer does not fit beside the others; ask for it alone")
            answers.append(answer)
            room -= len(answer)
        except RpcError as error:
            answers.append(jsonrpc.failure(jsonrpc.id_of(value), error))
    return b"[" + b",".join(answers) + b"]" if answers else None
