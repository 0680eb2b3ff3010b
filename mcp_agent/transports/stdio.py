"""MCP over standard input and output: one message a line, both eras on the one pipe.

Standard output belongs to the protocol alone. Its descriptor is moved out of the way when the server starts, so
that whatever else prints, prints to stderr.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

from mcp_agent import signals
from mcp_agent.calls.call import Caller
from mcp_agent.host import Host
from mcp_agent.logs import event
from mcp_agent.protocol import eras, jsonrpc
from mcp_agent.protocol.conversation import Conversation
from mcp_agent.protocol.jsonrpc import INVALID_REQUEST, Message, RequestId, RpcError
from mcp_agent.protocol.listen import METHOD as LISTEN
from mcp_agent.protocol.listen import Filter, listen
from mcp_agent.protocol.methods import Request
from registry.gate import Access

log = logging.getLogger(__name__)

MOST_LINE_BYTES = 16 * 1024 * 1024
_MOST_UNWRITTEN = 1_000
_MANY_UNWRITTEN = 8
_LOOK_AGAIN_S = 0.02
_READ_BYTES = 65_536
_FINISH_S = 5.0
_GRACE_S = 2.0


async def serve_stdio(host: Host) -> None:
    """Answer messages from standard input until it ends, or a signal comes."""
    output = _claim_stdout()
    server = _StdioServer(host, output)
    await server.run(_lines())


class _StdioServer:
    def __init__(self, host: Host, output: int) -> None:
        self._host = host
        self._caller = Caller("stdio", Access(), "stdio")
        self._conversation = Conversation(eras.LATEST_HANDSHAKE)
        self._in_flight: dict[RequestId, asyncio.Task[None]] = {}
        self._listening: set[asyncio.Task[None]] = set()
        self._out = _Output(output)
        self._is_open = False

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        self._host.clean_up()
        tasks: set[asyncio.Task[None]] = set()
        following, sending = asyncio.create_task(self._host.follow_registry()), asyncio.create_task(self._send_events())
        reading = asyncio.create_task(self._read(lines, tasks))
        signals.on_signals(reading.cancel)
        try:
            await asyncio.wait([reading])
            # A client that closes its side is still answered what it asked before; one that sends a signal is not.
            if not reading.cancelled():
                reading.result()
                if asked := tasks - self._listening:
                    await asyncio.wait(asked, timeout=_FINISH_S)
            # In both cases the exits of sessions are sent.
            await self._host.stop(_GRACE_S)
            await asyncio.wait([sending, *tasks], timeout=_FINISH_S)
        finally:
            for each in (*tasks, reading, following, sending):
                each.cancel()
            self._out.close()

    async def _read(self, lines: AsyncIterator[bytes], tasks: set[asyncio.Task[None]]) -> None:
        """Serve each line in a task of its own, which is one of `tasks` until it is done."""
        async for line in lines:
            if line.strip():
                task = asyncio.create_task(self._serve(line))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

    async def _send_events(self) -> None:
        """Send events to a handshake client, once it has said that it is ready."""
        subscription = self._host.hub.subscribe(self._may_hear)
        async for notification in subscription.messages(self._conversation.notification):
            if self._is_open:
                await self._out.has_room()
                self._out.write(notification)

    def _may_hear(self) -> bool:
        return self._host.gate.offers(self._caller.access, "shell")

    async def _serve(self, line: bytes) -> None:
        value: Any = None
        try:
            value = jsonrpc.decode(line)
            if isinstance(value, list):
                await self._serve_batch(value)
                return
            message = jsonrpc.message(value)
            if message is None:
                return
            if message.id is None:
                self._on_notification(message)
            else:
                await self._answer(message, message.id)
        except RpcError as error:
            event(log, logging.INFO, "tool.request_parse_failed", message=error.message)
            self._out.write(jsonrpc.failure(jsonrpc.id_of(value), self._host.methods.reading_error(error)))

    async def _answer(self, message: Message, request_id: RequestId) -> None:
        task = asyncio.current_task()
        if request_id in self._in_flight or task is None:
            raise RpcError(INVALID_REQUEST, "a request with this id is still being answered")
        self._in_flight[request_id] = task
        try:
            if eras.is_stateless(message) and message.method == LISTEN:
                eras.envelope(message)
                Filter(message)
                self._listening.add(task)
                async for each in listen(message, self._host.hub, self._may_hear):
                    await self._out.has_room()
                    self._out.write(each)
            else:
                answer = await self._host.methods.answer(self._request(message))
                self._out.write(answer.body)
        finally:
            del self._in_flight[request_id]
            self._listening.discard(task)

    async def _serve_batch(self, values: list[Any]) -> None:
        if self._conversation.version not in eras.BATCH_VERSIONS:
            raise RpcError(INVALID_REQUEST, "this version of MCP has no batches: send one message at a time")
        body = await self._host.methods.answer_batch(values, self._request)
        if body is not None:
            self._out.write(body)

    def _request(self, message: Message) -> Request:
        if eras.is_stateless(message):
            caller = _with_client(self._caller, eras.envelope(message).client)
            return Request(message, caller, None, self._out.write)
        return Request(
            message, _with_client(self._caller, self._conversation.client), self._conversation, self._out.write
        )

    def _on_notification(self, message: Message) -> None:
        if message.method == "notifications/initialized":
            self._is_open = True
        elif message.method == "notifications/cancelled":
            request_id = message.params.get("requestId")
            task = self._in_flight.get(request_id) if isinstance(request_id, str | int) else None
            if task is not None:
                task.cancel()


class _Output:
    """Writes messages without blocking the event loop when the client stops reading.

    A short message that the pipe has room for is written at once; anything else is left to a thread.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._room = select.poll()
        self._room.register(descriptor, select.POLLOUT)
        self._waiting: list[bytes] = []
        self._changed = threading.Condition()
        self._is_writing = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="stdout-writer", daemon=True)
        self._thread.start()

    def write(self, message: bytes) -> None:
        with self._changed:
            if len(message) < select.PIPE_BUF and not self._waiting and not self._is_writing and self._has_room():
                self._write(message + b"\n")
                return
            if len(self._waiting) >= _MOST_UNWRITTEN and b'"id":' not in message[:40]:
                return
            self._waiting.append(message)
            self._changed.notify()

    async def has_room(self) -> None:
        """Wait until few messages are unwritten (backpressure): events do not pile up before a client that is slow."""
        while len(self._waiting) > _MANY_UNWRITTEN and not self._is_closed:  # noqa: ASYNC110 - a thread empties it
            await asyncio.sleep(_LOOK_AGAIN_S)

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(timeout=_FINISH_S)

    def _has_room(self) -> bool:
        """Whether PIPE_BUF bytes can be written without waiting; that is what a pipe promises when it is ready."""
        return [ready for _, ready in self._room.poll(0)] == [select.POLLOUT]

    def _run(self) -> None:
        is_well = True
        while is_well:
            with self._changed:
                self._is_writing = False
                self._changed.wait_for(lambda: self._waiting or self._is_closed)
                messages, self._waiting = self._waiting, []
                if not messages:
                    return
                self._is_writing = True
            is_well = self._write(b"".join(message + b"\n" for message in messages))

    def _write(self, lines: bytes) -> bool:
        """Whether all of it could be written; if not, the client is gone."""
        data = memoryview(lines)
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            event(log, logging.WARNING, "tool.respond_failed", message=error.strerror or str(error))
            return False
        return True


def _claim_stdout() -> int:
    """Our own descriptor of standard output. Whatever else prints to it goes to stderr from here on."""
    sys.stdout.flush()
    own = os.dup(1)
    os.set_inheritable(own, False)
    os.dup2(2, 1)
    return own


async def _lines() -> AsyncIterator[bytes]:
    """The lines of standard input. The loop says when there is something, so that reading does not wait."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    ready = select.poll()
    ready.register(0, select.POLLIN)
    try:
        loop.add_reader(0, readable.set)
        is_waited_for = True
    except PermissionError:
        # No loop can wait for a regular file or /dev/null, and reading them does not wait.
        is_waited_for = False
    parts: list[bytes] = []
    size = 0
    try:
        while True:
            if is_waited_for:
                await readable.wait()
                readable.clear()
                # The loop may have said so once more for what has been read by now, and a read would wait.
                if not ready.poll(0):
                    continue
            else:
                # Answers to earlier lines have their turn.
                await asyncio.sleep(0)
            data = os.read(0, _READ_BYTES)
            if not data:
                break
            first, *others = data.split(b"\n")
            parts.append(first)
            size += len(first)
            for next_part in others:
                yield b"".join(parts)
                parts, size = [next_part], len(next_part)
            if size >= MOST_LINE_BYTES:
                yield b"".join(parts)
                parts, size = [], 0
    finally:
        if is_waited_for:
            loop.remove_reader(0)
    if size:
        yield b"".join(parts)


def _with_client(caller: Caller, client: str) -> Caller:
    return Caller(caller.name, caller.access, caller.transport, client, caller.form)
