"""One POST with one request in it, from the work to the last byte of its answer.

An answer that is soon there goes out as plain JSON. Once there is something to tell before it (progress), or the
work takes longer than a proxy waits, the response becomes a stream of events with a keep-alive. A client that
closes the connection while it waits has called the work off.

Nothing is set up for that until it is needed: most calls are over in a fraction of a millisecond.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable

from starlette.types import Receive, Scope, Send

from mcp_agent.protocol import jsonrpc
from mcp_agent.protocol.answering import Answer
from mcp_agent.protocol.jsonrpc import REQUEST_CANCELLED, RequestId, RpcError
from mcp_agent.transports.http import send_json
from mcp_agent.transports.sse_stream import send_stream

_WATCH_EVERY_S = 0.05
_STREAM_AFTER_S = 15.0
_MOST_UNSENT = 200


class Watch:
    """Looks after exchanges that are not over at once. One timer for all of them: most never live to see it."""

    def __init__(self) -> None:
        self._under_way: set[Exchange] = set()
        self._is_set = False

    def add(self, exchange: Exchange) -> None:
        self._under_way.add(exchange)
        if not self._is_set:
            self._set()

    def remove(self, exchange: Exchange) -> None:
        self._under_way.discard(exchange)

    def _set(self) -> None:
        self._is_set = True
        asyncio.get_running_loop().call_later(_WATCH_EVERY_S, self._look)

    def _look(self) -> None:
        self._is_set = False
        for exchange in tuple(self._under_way):
            exchange.look_out()
        if self._under_way:
            self._set()


class Exchange:
    """Answers one request. `accepts` says what the client can read: JSON, a stream, or both."""

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        watch: Watch,
        *,
        accepts_json: bool = True,
        accepts_stream: bool = False,
    ) -> None:
        self._scope, self._receive, self._send, self._watch = scope, receive, send, watch
        self._accepts_json, self._accepts_stream = accepts_json, accepts_stream
        self.headers: dict[str, str] = {}
        self._loop = asyncio.get_running_loop()
        self._worker: asyncio.Task[None] | None = None
        self._side_task: asyncio.Task[None] | None = None
        self._is_streaming = False
        self._client_left = False
        self._is_called_off = False
        self._unsent: deque[bytes | None] = deque()
        self._woken = asyncio.Event()

    def notify(self, message: bytes) -> None:
        """Send `message` before the answer, if the client can read a stream. May be called from any thread."""
        if self._accepts_stream:
            self._loop.call_soon_threadsafe(self._queue, message)

    def cancel(self) -> None:
        """The client has called its request off with a message of its own."""
        self._is_called_off = True
        if self._worker is not None:
            self._worker.cancel()

    async def run(self, request_id: RequestId, work: Awaitable[Answer]) -> None:
        """Await `work` and send what it gives."""
        self._worker = asyncio.current_task()
        self._watch.add(self)
        try:
            if not self._accepts_json:
                self._start_stream()
            answer = await work
        except asyncio.CancelledError:
            if not (self._client_left or self._is_called_off):
                raise
            if self._worker is not None:
                self._worker.uncancel()
            answer = Answer(jsonrpc.failure(request_id, RpcError(REQUEST_CANCELLED, "Request cancelled")))
        finally:
            self._watch.remove(self)
            self._worker = None
            if self._side_task is not None and not self._is_streaming:
                self._side_task.cancel()
        if self._client_left:
            return
        if self._is_streaming:
            self._queue(answer.body)
            self._unsent.append(None)
            assert self._side_task is not None, "a stream has a task that writes it"
            await self._side_task
        else:
            await send_json(self._send, answer.status, answer.body, self.headers)

    def look_out(self) -> None:
        """The work is taking its time: look out for a client that leaves, and for the moment to open a stream."""
        if self._worker is None or self._side_task is not None:
            return
        self._side_task = asyncio.create_task(self._wait_for_the_end())

    async def _wait_for_the_end(self) -> None:
        try:
            async with asyncio.timeout(_STREAM_AFTER_S if self._accepts_stream else None):
                while (await self._receive())["type"] != "http.disconnect":
                    pass
        except TimeoutError:
            self._side_task = None
            self._start_stream()
        else:
            self._leave()

    def _queue(self, message: bytes) -> None:
        if self._worker is not None:
            self._start_stream()
        if not self._is_streaming:
            return
        if len(self._unsent) >= _MOST_UNSENT:
            # A client that does not read loses progress notifications, never the answer, which comes last.
            self._unsent.popleft()
        self._unsent.append(message)
        self._woken.set()

    def _start_stream(self) -> None:
        if self._is_streaming:
            return
        if self._side_task is not None:
            self._side_task.cancel()
        self._is_streaming = True
        self._side_task = asyncio.create_task(self._stream())

    async def _stream(self) -> None:
        await send_stream(self._messages(), self._scope, self._receive, self._send, self.headers)
        if self._worker is not None:
            self._leave()

    async def _messages(self) -> AsyncIterator[bytes]:
        while True:
            while self._unsent:
                message = self._unsent.popleft()
                if message is None:
                    return
                yield message
            self._woken.clear()
            await self._woken.wait()

    def _leave(self) -> None:
        self._client_left = True
        if self._worker is not None:
            self._worker.cancel()
