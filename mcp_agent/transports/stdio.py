"""MCP over standard input and output: one message a line, both eras on the one pipe.

Standard output belongs to the protocol alone. Its descriptor is moved out of the way when the server starts, so
that whatever else prints, prints to stderr.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import secrets
import select
import stat
import sys
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

from mcp_agent.calls.call import Caller
from mcp_agent.events.types import Event
from mcp_agent.host import Host
from mcp_agent.process import signals
from mcp_agent.process.logs import event
from mcp_agent.process.memory import collect_as_usual
from mcp_agent.protocol import eras, jsonrpc
from mcp_agent.protocol.conversation import Conversation, event_form
from mcp_agent.protocol.jsonrpc import (
    INVALID_REQUEST,
    REQUEST_CANCELLED,
    MessageTooLarge,
    RequestId,
    RpcError,
    RpcMessage,
)
from mcp_agent.protocol.listen import METHOD as LISTEN
from mcp_agent.protocol.listen import Filter, listen
from mcp_agent.protocol.methods import McpRequest
from registry.gate import Access
from registry.profiles import Form

log = logging.getLogger(__name__)

MOST_LINE_BYTES = 16 * 1024 * 1024
_MOST_UNWRITTEN = 1_000
_MANY_UNWRITTEN = 8
_LOOK_AGAIN_S = 0.02
_READ_BYTES = 65_536
# How long processes may take to end after a signal.
_GRACE_S = 2.0
# At the end of input all is over within a second: calls have so long to be answered, and processes to end.
_FINISH_S = 0.5
_SHORT_GRACE_S = 0.2
# What is unwritten at the end is written as long as the client keeps reading.
_KEEPS_READING_S = 0.2
_MOST_WRITING_S = 5.0


async def serve_stdio(host: Host, form: Form = "auto") -> None:
    """Answer messages from standard input until it ends, or a signal comes."""
    output = claim_stdout()
    collect_as_usual()
    server = _StdioServer(host, output, form)
    await server.run(read_lines())


class _StdioServer:
    def __init__(self, host: Host, output: int, form: Form) -> None:
        self._host = host
        self._caller = Caller("stdio", Access(), "stdio", form=form, connection=f"stdio-{secrets.token_hex(8)}")
        self._conversation = Conversation(eras.LATEST_HANDSHAKE)
        self._in_flight: dict[RequestId, asyncio.Task[None]] = {}
        self._listening: set[asyncio.Task[None]] = set()
        self._out = StdoutWriter(output)
        self._is_open = False
        self._is_ending = False

    async def run(self, lines: AsyncIterator[bytes]) -> None:
        self._host.clean_up()
        tasks: set[asyncio.Task[None]] = set()
        following, sending = asyncio.create_task(self._host.follow_registry()), asyncio.create_task(self._send_events())
        reading = asyncio.create_task(self._read(lines, tasks))
        signals.on_signals(reading.cancel)
        self._out.watch(reading.cancel)
        try:
            await asyncio.wait([reading])
            grace_s = _GRACE_S
            if self._out.is_broken:
                grace_s = _SHORT_GRACE_S
            elif not reading.cancelled():
                reading.result()
                grace_s = await self._finish(tasks - self._listening)
            # In every case the exits of sessions are sent.
            await self._host.stop(grace_s)
            await asyncio.wait([sending, *tasks], timeout=grace_s)
        finally:
            for each in (*tasks, reading, following, sending):
                each.cancel()
            self._out.close()

    async def _finish(self, asked: set[asyncio.Task[None]]) -> float:
        """Answer what was asked just before the end of input, and cancel the rest. How long processes may take then."""
        if not asked:
            return _SHORT_GRACE_S + _FINISH_S
        began = asyncio.get_running_loop().time()
        await asyncio.wait(asked, timeout=_FINISH_S)
        self._is_ending = True
        for task in asked:
            task.cancel()
        return _SHORT_GRACE_S + _FINISH_S - (asyncio.get_running_loop().time() - began)

    async def _read(self, lines: AsyncIterator[bytes], tasks: set[asyncio.Task[None]]) -> None:
        """Serve each line in a task of its own, which is one of `tasks` until it is done."""
        async for line in lines:
            if line.strip():
                task = asyncio.create_task(self._serve(line))
                tasks.add(task)
                task.add_done_callback(tasks.discard)

    async def _send_events(self) -> None:
        """Send events to a handshake client, once it has said that it is ready."""

        def encode(event: Event) -> bytes | None:
            notification = self._conversation.notification(event) if self._is_open else None
            return None if notification is None else _with_line_end(notification)

        async for lines in self._host.hub.subscribe(self._may_hear).stream(encode):
            await self._out.notify_in_turn(lines)

    def _may_hear(self) -> bool:
        return self._host.gate.offers(self._caller.access, "shell")

    async def _serve(self, line: bytes) -> None:
        value: Any = None
        try:
            if len(line) > MOST_LINE_BYTES:
                raise MessageTooLarge(f"this message is longer than {MOST_LINE_BYTES} bytes, and so is not read", line)
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
            request_id = error.request_id if value is None else jsonrpc.id_of(value)
            self._out.write(jsonrpc.failure(request_id, self._host.methods.reading_error(error)))

    async def _answer(self, message: RpcMessage, request_id: RequestId) -> None:
        task = asyncio.current_task()
        if request_id in self._in_flight or task is None:
            raise RpcError(INVALID_REQUEST, "a request with this id is still being answered")
        self._in_flight[request_id] = task
        try:
            if eras.is_stateless(message) and message.method == LISTEN:
                client = eras.envelope(message).client
                Filter(message)
                self._listening.add(task)
                form = event_form(client)
                async for lines in listen(message, self._host.hub, self._may_hear, form, _with_line_end, is_rated=True):
                    await self._out.notify_in_turn(lines)
            else:
                answer = await self._host.methods.answer(self._request(message))
                self._out.write(answer.body)
        except asyncio.CancelledError:
            if self._is_ending:
                error = RpcError(REQUEST_CANCELLED, "Request cancelled: the input has ended, and so does the server")
                self._out.write(jsonrpc.failure(request_id, error))
            raise
        finally:
            del self._in_flight[request_id]
            self._listening.discard(task)

    async def _serve_batch(self, values: list[Any]) -> None:
        if self._conversation.version not in eras.BATCH_VERSIONS:
            raise RpcError(INVALID_REQUEST, "this version of MCP has no batches: send one message at a time")
        jsonrpc.check_batch(values)
        if body := await self._host.methods.answer_batch(values, self._request):
            self._out.write(body)

    def _request(self, message: RpcMessage) -> McpRequest:
        if eras.is_stateless(message):
            caller = self._caller.with_client(eras.envelope(message).client)
            return McpRequest(message, caller, None, self._out.notify)
        caller = self._caller.with_client(self._conversation.client)
        return McpRequest(message, caller, self._conversation, self._out.notify)

    def _on_notification(self, message: RpcMessage) -> None:
        if message.method == "notifications/initialized":
            self._is_open = True
        elif message.method == "notifications/cancelled":
            request_id = message.params.get("requestId")
            task = self._in_flight.get(request_id) if isinstance(request_id, str | int) else None
            if task is not None:
                task.cancel()


class StdoutWriter:
    """Writes messages without blocking the event loop when the client stops reading.

    A short message that the pipe has room for is written at once; anything else is left to a thread.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._loop = asyncio.get_running_loop()
        self._on_broken: Callable[[], object] = lambda: None
        self.is_broken = False
        self._written_bytes = 0
        self._room = select.poll()
        self._room.register(descriptor, select.POLLOUT)
        self._waiting: list[bytes] = []
        self._changed = threading.Condition()
        self._is_writing = False
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="stdout-writer", daemon=True)
        self._thread.start()

    def write(self, message: bytes) -> None:
        """Write an answer: it is written however many messages wait."""
        with self._changed:
            if len(message) < select.PIPE_BUF and not self._waiting and not self._is_writing and self._has_room():
                self._write(message + b"\n")
                return
            self._waiting.append(message)
            self._changed.notify()

    def notify(self, message: bytes) -> None:
        """Write a notification; it is dropped if too many messages wait for a client that does not read."""
        if len(self._waiting) < _MOST_UNWRITTEN:
            self.write(message)

    async def notify_in_turn(self, lines: bytes) -> None:
        """Write notifications, each with its line end, once few messages wait: they do not pile up (backpressure)."""
        while len(self._waiting) > _MANY_UNWRITTEN and not self._is_closed:  # noqa: ASYNC110 - a thread empties it
            await asyncio.sleep(_LOOK_AGAIN_S)
        self.notify(lines.removesuffix(b"\n"))

    def watch(self, on_broken: Callable[[], object]) -> None:
        """Call `on_broken` when nobody can read any more what is written: at once for a pipe, else at a write."""
        self._on_broken = on_broken
        if stat.S_ISFIFO(os.fstat(self._descriptor).st_mode):
            self._loop.add_reader(self._descriptor, self._break, OSError(errno.EPIPE, os.strerror(errno.EPIPE)))

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._loop.remove_reader(self._descriptor)
        for _ in range(round(_MOST_WRITING_S / _KEEPS_READING_S)):
            before = self._written_bytes
            self._thread.join(_KEEPS_READING_S)
            if not self._thread.is_alive() or self._written_bytes == before:
                return

    def _break(self, error: OSError) -> None:
        if not self.is_broken:
            self.is_broken = True
            event(log, logging.WARNING, "tool.respond_failed", message=error.strerror or str(error))
            self._loop.remove_reader(self._descriptor)
            self._on_broken()

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
                written = os.write(self._descriptor, data)
                self._written_bytes += written
                data = data[written:]
        except OSError as error:
            with contextlib.suppress(RuntimeError):
                # The loop may have ended by now.
                self._loop.call_soon_threadsafe(self._break, error)
            return False
        return True


def _with_line_end(message: bytes) -> bytes:
    return message + b"\n"


def claim_stdout() -> int:
    """Our own descriptor of standard output. Whatever else prints to it goes to stderr from here on."""
    sys.stdout.flush()
    own = os.dup(1)
    os.set_inheritable(own, False)
    os.dup2(2, 1)
    return own


async def read_lines() -> AsyncIterator[bytes]:
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
    line = _UnfinishedLine()
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
            line.add(first)
            for next_part in others:
                yield line.take()
                line.add(next_part)
    finally:
        if is_waited_for:
            loop.remove_reader(0)
    if last := line.take():
        yield last


class _UnfinishedLine:
    """A line as it comes in. Of one that is too long the two ends are kept, together longer than a line may be."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._tail = b""

    def add(self, part: bytes) -> None:
        if self._size <= MOST_LINE_BYTES:
            self._parts.append(part)
            self._size += len(part)
        else:
            self._tail = (self._tail + part)[-jsonrpc.ID_IN_TAIL_BYTES :]

    def take(self) -> bytes:
        """The line so far; the next one begins here."""
        line = b"".join((*self._parts, self._tail))
        self._parts, self._size, self._tail = [], 0, b""
        return line
