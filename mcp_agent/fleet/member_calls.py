"""The calls that gateways have sent to this box: each is run once, however often it is asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import cached_property
from typing import Any

from mcp_agent.calls.call import Call
from mcp_agent.calls.dispatcher import Dispatcher
from mcp_agent.fleet.bus import BusError, Message
from mcp_agent.fleet.call_protocol import (
    HOLD_S,
    LEASE_S,
    MOST_CALL_BYTES,
    MOST_PIECE_BYTES,
    AskedCall,
    AskedResource,
    MessageReader,
    pack,
    pack_contents,
    pack_outcome,
    unpack,
)
from mcp_agent.fleet.messages import BadMessage
from mcp_agent.fleet.remembered_answers import Key, RememberedAnswers
from mcp_agent.fleet.subjects import gateway_of
from mcp_agent.process.logs import event
from mcp_agent.protocol.methods import Methods
from registry.gate import Access
from tools.context import LogLevel

log = logging.getLogger(__name__)

_MOST_RUNNING = 1_000
_MOST_PROGRESS = 50
_MOST_ASSEMBLED_BYTES = 4 * MOST_CALL_BYTES
# Progress is passed on at once, but not more often than that.
_PROGRESS_EVERY_S = 0.05
_SWEEP_EVERY_S = 5.0

# What a message has that is more than a question under an id.
_WORK = frozenset(("tool", "resource"))
_CANCELLED = pack({"is": "cancelled"})


class _RunningCall:
    """One call under its id while it runs, and who waits for the answer."""

    __slots__ = ("asked_at", "logs", "progress", "task", "told_at", "waiting")

    def __init__(self, now: float) -> None:
        self.asked_at = now
        self.task: asyncio.Task[None] | None = None
        # Each message that waits, with the timer that answers it with "running".
        self.waiting: list[tuple[Message, asyncio.TimerHandle]] = []
        self.progress: list[tuple[float, float | None, str | None]] = []
        self.logs: list[tuple[LogLevel, str]] = []
        self.told_at = 0.0

    def take_news(self) -> dict[str, Any]:
        """The answer "running", with what was reported since the last one."""
        head: dict[str, Any] = {"is": "running"}
        if self.progress:
            head["progress"], self.progress = self.progress, []
        if self.logs:
            head["logs"], self.logs = self.logs, []
        return head


class _Assembly:
    """A call that comes in several messages."""

    def __init__(self, count: int, now: float) -> None:
        self.parts: list[bytes | None] = [None] * count
        self.begun_at = now

    @property
    def size(self) -> int:
        return sum(len(part) for part in self.parts if part is not None)


class MemberCalls:
    """Runs calls of gateways through the dispatcher of the box. `access` is what they may use here."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        methods: Methods,
        access: Access,
        is_connected: Callable[[], bool],
        *,
        lease_s: float = LEASE_S,
    ) -> None:
        self._lease_s = lease_s
        self._dispatcher = dispatcher
        self._methods = methods
        self._reader = MessageReader(access)
        self._is_connected = is_connected
        self._calls: dict[Key, _RunningCall] = {}
        self._answers = RememberedAnswers()
        self._assemblies: dict[Key, _Assembly] = {}
        # How many calls there have been.
        self.count = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @cached_property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    @property
    def running(self) -> int:
        return len(self._calls)

    async def serve_call(self, message: Message) -> None:
        """Answer a message on the subject `call`, now or within `HOLD_S`."""
        gateway = gateway_of(message.subject)
        try:
            answer = self._answer(message, gateway)
        except BadMessage as error:
            event(log, logging.WARNING, "fleet.bad_message", gateway=gateway, message=str(error))
            answer = pack({"is": "bad", "message": str(error)})
        if answer is not None:
            await message.respond(answer)

    def _answer(self, message: Message, gateway: str) -> bytes | None:
        """The answer to a message; None if it comes later. Raises BadMessage."""
        head, body = unpack(message.data)
        key = gateway, _id(head)
        if "part" in head:
            taken = self._take_part(key, head, bytes(body))
            if taken is not None:
                return taken
            head, body = unpack(self._assemble(key))
        answer = self._answers.get(key)
        if answer is not None:
            return _fit_message(answer, head.get("from"))
        call = self._calls.get(key)
        if call is None:
            if self._answers.is_forgotten(key) or head.keys().isdisjoint(_WORK):
                return pack({"is": "unknown"})
            if len(self._calls) >= _MOST_RUNNING:
                return pack({"is": "busy", "running": len(self._calls)})
            call = self._start(key, self._reader.read(head, body, gateway))
        call.asked_at = self._loop.time()
        if call.progress or call.logs or head.get("hold") == 0:
            return pack(call.take_news())
        call.waiting.append((message, self._loop.call_later(HOLD_S, self._tell_running, call)))
        return None

    async def serve_cancel(self, message: Message) -> None:
        """Cancel a call that runs. There is no answer: who cancels has gone."""
        try:
            key = gateway_of(message.subject), _id(unpack(message.data)[0])
        except BadMessage as error:
            event(log, logging.WARNING, "fleet.bad_message", message=str(error))
            return
        call = self._calls.get(key)
        if call is not None and call.task is not None:
            # Behind its first step, which may not have run yet: a task that never began would never answer.
            self._loop.call_soon(call.task.cancel)
        elif call is None and self._answers.get(key) is None:
            # It may overtake the call, which then must not run.
            self._answers.forget(key)

    async def expire(self) -> None:
        """Until cancelled, cancel calls that nobody asks for, and forget answers that are old."""
        while True:
            await asyncio.sleep(min(_SWEEP_EVERY_S, self._lease_s / 2))
            now = self._loop.time()
            self._answers.expire(now)
            for key, call in list(self._calls.items()):
                if not self._is_connected():
                    # Nobody could ask.
                    call.asked_at = now
                elif now - call.asked_at > self._lease_s and call.task is not None:
                    event(log, logging.INFO, "fleet.lease_expired", gateway=key[0], call=key[1])
                    call.task.cancel()
            for key, assembly in list(self._assemblies.items()):
                if now - assembly.begun_at > self._lease_s:
                    del self._assemblies[key]

    async def stop(self) -> None:
        """Cancel everything that runs."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _start(self, key: Key, asked: AskedCall | AskedResource) -> _RunningCall:
        running = self._calls[key] = _RunningCall(self._loop.time())
        self.count += 1
        if isinstance(asked, AskedResource):
            work = self._read_resource(asked)
        else:
            work = self._call(self._make_call(key[1], running, asked))
        running.task = self._own(self._run(key, running, work))
        return running

    async def _call(self, call: Call) -> bytes:
        return pack_outcome(await self._dispatcher.call(call), call.caller)

    async def _read_resource(self, asked: AskedResource) -> bytes:
        return pack_contents(await self._methods.read_resource(asked.caller, asked.uri))

    def _make_call(self, call_id: str, running: _RunningCall, asked: AskedCall) -> Call:
        caller, wants_progress, wants_log, narrowing = asked.setting
        report = tell = None
        # Tools report from threads, too.
        if wants_progress:

            def report(done: float, total: float | None, text: str | None) -> None:
                self._loop.call_soon_threadsafe(self._note, running, (done, total, text), None)

        if wants_log:

            def tell(level: LogLevel, text: str) -> None:
                self._loop.call_soon_threadsafe(self._note, running, None, (level, text))

        return Call(call_id, caller, asked.tool, asked.arguments, report, tell, narrowing)

    def _note(
        self,
        running: _RunningCall,
        progress: tuple[float, float | None, str | None] | None,
        message: tuple[LogLevel, str] | None,
    ) -> None:
        """Keep what a tool reports until somebody asks for it; the oldest gives way."""
        if progress is not None:
            running.progress = [*running.progress[1 - _MOST_PROGRESS :], progress]
        if message is not None:
            running.logs = [*running.logs[1 - _MOST_PROGRESS :], message]
        self._announce(running)

    def _own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run(self, key: Key, running: _RunningCall, work: Coroutine[Any, Any, bytes]) -> None:
        answer = _CANCELLED
        try:
            answer = await work
        finally:
            del self._calls[key]
            self._answers.keep(key, answer, self._loop.time())
            waiting, running.waiting = running.waiting, []
            for message, timer in waiting:
                timer.cancel()
                await _respond(message, _fit_message(answer, None))

    def _announce(self, running: _RunningCall) -> None:
        """Pass on what was reported: at once, or a little later if the last time is not long ago."""
        if not running.waiting:
            return
        due = running.told_at + _PROGRESS_EVERY_S
        if self._loop.time() >= due:
            self._tell_running(running)
        else:
            message, timer = running.waiting.pop()
            timer.cancel()
            running.waiting.append((message, self._loop.call_at(due, self._tell_running, running)))

    def _tell_running(self, running: _RunningCall) -> None:
        waiting, running.waiting = running.waiting, []
        running.told_at = self._loop.time()
        answer = pack(running.take_news())
        for message, timer in waiting:
            timer.cancel()
            self._own(_respond(message, answer))

    def _take_part(self, key: Key, head: dict[str, Any], part: bytes) -> bytes | None:
        """Keep a part of a call. The answer to it, or None if it was the last one that was missing."""
        number, count = head["part"], head.get("of")
        if not (isinstance(number, int) and isinstance(count, int) and 0 <= number < count <= _most_parts()):
            raise BadMessage("a part has a number and the number of parts")
        if key in self._calls or self._answers.get(key) is not None or self._answers.is_forgotten(key):
            return pack({"is": "taken"})
        assembly = self._assemblies.get(key)
        if assembly is None:
            held = sum(each.size for each in self._assemblies.values())
            if held + count * MOST_PIECE_BYTES > _MOST_ASSEMBLED_BYTES:
                return pack({"is": "busy", "running": len(self._calls)})
            assembly = self._assemblies[key] = _Assembly(count, self._loop.time())
        if len(assembly.parts) != count or len(part) > MOST_PIECE_BYTES:
            raise BadMessage("the parts of a call do not fit together")
        assembly.parts[number] = part
        return None if all(each is not None for each in assembly.parts) else pack({"is": "taken"})

    def _assemble(self, key: Key) -> bytes:
        parts = self._assemblies.pop(key).parts
        return b"".join(part for part in parts if part is not None)


def _fit_message(answer: bytes, offset: Any) -> bytes:
    """The answer, or a piece of it, or how large it is if it fits no message."""
    if isinstance(offset, int) and offset >= 0:
        return pack({"is": "piece"}, answer[offset : offset + MOST_PIECE_BYTES])
    return answer if len(answer) <= MOST_PIECE_BYTES + 10_000 else pack({"is": "large", "size": len(answer)})


async def _respond(message: Message, answer: bytes) -> None:
    try:
        await message.respond(answer)
    except BusError as error:
        # The gateway asks again.
        event(log, logging.DEBUG, "fleet.answer_not_sent", message=str(error))


def _id(head: dict[str, Any]) -> str:
    id_ = head.get("id")
    if not isinstance(id_, str) or not 8 <= len(id_) <= 64:
        raise BadMessage("a message has an id of 8 to 64 characters")
    return id_


def _most_parts() -> int:
    return -(-MOST_CALL_BYTES // MOST_PIECE_BYTES)
