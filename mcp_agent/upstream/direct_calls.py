"""Calls of tools over the pipe of a server, past the official client.

The client connects, lists and listens. A call needs none of that: it is one line to the server and one back, and
passing both through the client costs more than all the rest of the way. Our ids are far from the client's, so each side
takes what it has asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import orjson

from tools.kit.errors import UpstreamFailed

# The client counts its requests from 0; and there are servers that read an id as a number of 32 bits.
_FIRST_ID = 1_000_000_000

_PLAIN_KEYS = {"content", "structuredContent", "isError", "resultType", "_meta"}

Progress = Callable[[float, float | None, str | None], None]


class ServerDisconnected(Exception):
    """The server has ended, or is not read any more."""


class _Waiting(NamedTuple):
    answer: asyncio.Future[dict[str, Any]]
    report: Progress | None


class DirectCalls:
    """The calls under way on one connection. `write` sends a line."""

    def __init__(self, write: Callable[[bytes], Awaitable[None]]) -> None:
        self._write = write
        # What each request says of us in its `_meta`, where the server is of the era without handshakes.
        self.envelope: dict[str, Any] = {}
        self._waiting: dict[int, _Waiting] = {}
        self._next_id = _FIRST_ID
        self._is_ended = False
        self._cancellations: set[asyncio.Task[None]] = set()

    async def call(self, tool: str, arguments: dict[str, Any], report: Progress | None) -> dict[str, Any]:
        """The result as the server sent it. Raises Disconnected, and UpstreamFailed for a JSON-RPC error."""
        if self._is_ended:
            raise ServerDisconnected
        number, self._next_id = self._next_id, self._next_id + 1
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        if report is not None:
            params["_meta"] = {**self.envelope, "progressToken": number}
        elif self.envelope:
            params["_meta"] = self.envelope
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[number] = _Waiting(answer, report)
        try:
            await self._write(_line({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}))
            return await answer
        except asyncio.CancelledError:
            if not answer.done() or answer.cancelled():
                self._cancel(number)
            raise
        finally:
            del self._waiting[number]

    def take(self, line: bytes) -> bool:
        """Whether a line from the server was for one of these calls; then the call has it."""
        if not self._waiting:
            return False
        try:
            message = orjson.loads(line)
        except orjson.JSONDecodeError:
            try:
                message = _read_loosely(line)
            except (ValueError, RecursionError):
                return False
        if not isinstance(message, dict):
            return False
        if message.get("method") == "notifications/progress":
            return self._report(message.get("params"))
        number = message.get("id")
        waiting = self._waiting.get(number) if isinstance(number, int) and "method" not in message else None
        if waiting is None:
            return False
        if waiting.answer.done():
            return True
        result, error = message.get("result"), message.get("error")
        if isinstance(result, dict):
            waiting.answer.set_result(result)
        else:
            reason = error.get("message") if isinstance(error, dict) else None
            waiting.answer.set_exception(UpstreamFailed(str(reason or "its answer has neither a result nor an error")))
        return True

    def end(self) -> None:
        """Nothing more will come."""
        self._is_ended = True
        for waiting in self._waiting.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(ServerDisconnected())

    def _report(self, params: Any) -> bool:
        if not isinstance(params, dict) or not isinstance(params.get("progressToken"), int):
            return False
        waiting = self._waiting.get(params["progressToken"])
        if waiting is None or waiting.report is None:
            return False
        done, total, message = params.get("progress"), params.get("total"), params.get("message")
        if isinstance(done, int | float):
            is_total, is_text = isinstance(total, int | float), isinstance(message, str)
            waiting.report(done, total if is_total else None, message if is_text else None)
        return True

    def _cancel(self, number: int) -> None:
        """Tell the server that nobody waits any more. Nobody waits for that either: it may not read."""
        params = {"requestId": number, "reason": "the caller has cancelled the call"}
        line = _line({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        task = asyncio.get_running_loop().create_task(self._tell(line))
        self._cancellations.add(task)
        task.add_done_callback(self._cancellations.discard)

    async def _tell(self, line: bytes) -> None:
        with contextlib.suppress(ServerDisconnected):
            await self._write(line)


def is_plain(result: dict[str, Any]) -> bool:
    """Whether a result is texts, with an object beside them or not, and as MCP has them."""
    if not result.keys() <= _PLAIN_KEYS or not isinstance(result.get("isError", False), bool):
        return False
    if not isinstance(result.get("structuredContent", {}), dict):
        return False
    blocks = result.get("content")
    if not isinstance(blocks, list):
        return False
    for block in blocks:
        if not (isinstance(block, dict) and len(block) == 2 and block.get("type") == "text"):
            return False
        if not isinstance(block.get("text"), str):
            return False
    return True


def _read_loosely(line: bytes) -> Any:
    """What some servers write though it is no JSON: NaN, which is null, and half a character, where they cut a text."""
    whole = json.dumps(json.loads(line, parse_constant=lambda _: None), ensure_ascii=False).encode(
        "utf-16", "surrogatepass"
    )
    return json.loads(whole.decode("utf-16", "replace"))


def _line(message: dict[str, Any]) -> bytes:
    return orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)
