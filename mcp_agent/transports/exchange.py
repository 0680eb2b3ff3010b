"""One POST with one request in it, from the work to the last byte of its answer.

A quick answer goes out as plain JSON. When there is progress to report before it, or the work takes longer than a proxy
waits, the response becomes a stream of events with a heartbeat. A client that closes the connection while it waits
cancels the work. Only in a session, where the client can resume the stream, the work goes on for a while, and the
messages are kept.

Nothing of that is set up before it is needed: most calls take a fraction of a millisecond.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from starlette.types import Receive, Scope, Send

from mcp_agent.protocol import jsonrpc
from mcp_agent.protocol.jsonrpc import REQUEST_CANCELLED, RequestId, RpcError, WireAnswer
from mcp_agent.transports.http import REVOKED, send_empty, send_error, send_json
from mcp_agent.transports.sse_frames import Replay, event_id, message_frame, new_stream, priming_frame, send_frames

# Most exchanges end sooner, and their clients need not be watched.
_WATCH_AFTER_S = 0.05
_STREAM_AFTER_S = 15.0
_MOST_UNSENT = 200
RESUME_WITHIN_S = 30.0


class Exchange:
    """Answers one request. `accepts` says what the client can read: JSON, a stream, or both."""

    stream = ""
    # With a replay buffer, a client whose connection breaks can resume the stream.
    replay: Replay | None = None
    # The client can be given an id at once.
    primes = False
    # What the client is told before all else.
    first: bytes | None = None
    _worker: asyncio.Task[None] | None = None
    _side_task: asyncio.Task[None] | None = None
    _is_streaming = False
    _client_left = False
    _is_cancelled = False
    _is_revoked = False
    _is_answered = False
    _sent = 0
    _readers = 0
    _watching: asyncio.TimerHandle | None = None
    _grace: asyncio.TimerHandle | None = None
    # There from the moment when the response becomes a stream.
    _unsent: deque[tuple[int, bytes]]
    _woken: asyncio.Event

    def __init__(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        accepts_json: bool = True,
        accepts_stream: bool = False,
    ) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._accepts_json, self.takes_stream = accepts_json, accepts_stream
        self.headers: dict[str, str] = {}
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()

    def notify(self, message: bytes) -> None:
        """Send `message` before the answer, if the client can read a stream. May be called from any thread."""
        if not self.takes_stream:
            return
        if threading.get_ident() == self._thread:
            self._queue(message)
        else:
            self._loop.call_soon_threadsafe(self._queue, message)

    def cancel(self) -> None:
        """Cancel the work: the client has sent a message that says so."""
        self._is_cancelled = True
        if self._worker is not None:
            self._worker.cancel()

    async def run(self, request_id: RequestId | None, work: Coroutine[Any, Any, WireAnswer]) -> None:
        """Await `work` and send what it gives. It is cancelled when the client leaves or its token is revoked."""
        state = self._scope["state"]
        calls = state["streams"].register_call(state["principal"].name, state["revocations"], self._revoke)
        # Until the last byte: a daemon that stops waits for what calls have to say before it ends their streams.
        with calls as is_allowed:
            answer = None
            if is_allowed:
                answer = await self._result(request_id, work)
            else:
                work.close()
                self._is_revoked = True
            if not self._client_left:
                await self._send_answer(answer)

    async def _send_answer(self, answer: WireAnswer | None) -> None:
        if self._is_streaming:
            if answer is not None and not self._is_revoked:
                self._queue(answer.body)
                self._is_answered = True
            assert self._side_task is not None, "a stream has a task that writes it"
            await asyncio.wait([self._side_task])
            if not self._side_task.cancelled():
                self._side_task.result()
        elif answer is None or self._is_revoked:
            await send_error(self._send, 401, REVOKED)
        elif answer.body:
            await send_json(self._send, answer.status, answer.body, self.headers, answer.media_type)
        else:
            await send_empty(self._send, answer.status, self.headers)

    async def _result(self, request_id: RequestId | None, work: Coroutine[Any, Any, WireAnswer]) -> WireAnswer:
        self._worker = asyncio.current_task(self._loop)
        self._watching = self._loop.call_later(_WATCH_AFTER_S, self._start_watching)
        try:
            if not self._accepts_json:
                self._start_stream()
            if self.first is not None:
                self._queue(self.first)
            return await work
        except asyncio.CancelledError:
            if not (self._client_left or self._is_cancelled or self._is_revoked):
                raise
            if self._worker is not None:
                self._worker.uncancel()
            return WireAnswer(jsonrpc.failure(request_id, RpcError(REQUEST_CANCELLED, "Request cancelled")))
        finally:
            self._watching.cancel()
            self._worker = None
            if self._grace is not None:
                self._grace.cancel()
            if self._side_task is not None and not self._is_streaming:
                # Break the reference cycle: without this, both would wait for the garbage collector.
                self._side_task.cancel()
                self._side_task = None

    async def resume(self, after: int, scope: Scope, receive: Receive, send: Send, headers: dict[str, str]) -> None:
        """Send what was said after the message with number `after`, on a new connection, and go on from there."""
        assert self.replay is not None, "only a stream with ids can be found to be resumed"
        self._unsent = deque((kept.number, kept.message) for kept in self.replay.after(self.stream, after))
        await self._write_stream(self._new_reader(), scope, receive, send, headers)

    def _start_watching(self) -> None:
        if self._side_task is None:
            self._side_task = asyncio.create_task(self._watch_client())

    async def _watch_client(self) -> None:
        """Wait for a client that leaves, and for the moment when the response becomes a stream."""
        try:
            async with asyncio.timeout(_STREAM_AFTER_S if self.takes_stream else None):
                while (await self._receive())["type"] != "http.disconnect":
                    pass
        except TimeoutError:
            self._side_task = None
            self._start_stream()
        else:
            self._cancel_work()

    def _queue(self, message: bytes) -> None:
        if self._worker is not None:
            self._start_stream()
        if not self._is_streaming:
            return
        if len(self._unsent) >= _MOST_UNSENT:
            # A client that does not read loses progress notifications, never the answer, which comes last.
            self._unsent.popleft()
        self._sent += 1
        if self.replay is not None:
            self.replay.keep(self.stream, self._sent, message)
        self._unsent.append((self._sent, message))
        self._woken.set()

    def _start_stream(self) -> None:
        if self._is_streaming:
            return
        if self._side_task is not None:
            self._side_task.cancel()
        self._is_streaming = True
        self._unsent, self._woken = deque(), asyncio.Event()
        self.stream = new_stream("request")
        self._side_task = asyncio.create_task(self._stream())

    async def _stream(self) -> None:
        await self._write_stream(self._new_reader(), self._scope, self._receive, self._send, self.headers)

    async def _write_stream(
        self, reader: int, scope: Scope, receive: Receive, send: Send, headers: dict[str, str]
    ) -> None:
        try:
            if await send_frames(self._events(reader), scope, receive, send, headers):
                self._cancel_work()
        except asyncio.CancelledError:
            # The daemon stops.
            self._cancel_work()
            raise
        finally:
            self._on_connection_lost(reader)

    def _new_reader(self) -> int:
        """The number of the connection that is written to from now on; the one before it stops."""
        self._readers += 1
        self._woken.set()
        if self._grace is not None:
            self._grace.cancel()
        return self._readers

    async def _events(self, reader: int) -> AsyncGenerator[bytes, None]:
        if self.primes and reader == 1:
            yield priming_frame(event_id(self.stream, 0))
        while self._readers == reader:
            if self._unsent:
                number, message = self._unsent.popleft()
                yield message_frame(message, None if self.replay is None else event_id(self.stream, number))
            elif self._is_answered:
                return
            else:
                self._woken.clear()
                await self._woken.wait()

    def _on_connection_lost(self, reader: int) -> None:
        """Wait for the client to come back if its stream can be resumed; else cancel the work."""
        if self._worker is None or self._client_left or self._readers != reader:
            return
        if self.replay is None:
            self._cancel_work()
        else:
            self._grace = self._loop.call_later(RESUME_WITHIN_S, self._cancel_work)

    def _revoke(self) -> None:
        self._is_revoked = True
        if self._worker is not None:
            self._worker.cancel()

    def _cancel_work(self) -> None:
        self._client_left = True
        if self._worker is not None:
            self._worker.cancel()
