"""The calls that gateways have sent to this box: each is run once, however often it is asked for."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from typing import Any

from mcp_agent.calls.call import Call
from mcp_agent.calls.dispatcher import Dispatcher
from mcp_agent.fleet.bus import BusError, Message
from mcp_agent.fleet.call_protocol import (
    HOLD_S,
    LEASE_S,
    MOST_CALL_BYTES,
    MOST_PIECE_BYTES,
    REMEMBER_S,
    AskedCall,
    AskedResource,
    BadMessage,
    pack,
    pack_contents,
    pack_outcome,
    read_asked,
    unpack,
)
from mcp_agent.fleet.subjects import gateway_of
from mcp_agent.logs import event
from mcp_agent.protocol.methods import Methods
from registry.gate import Access
from tools.context import LogLevel

log = logging.getLogger(__name__)

_MOST_RUNNING = 1_000
_MOST_REMEMBERED = 20_000
_MOST_REMEMBERED_BYTES = 64 * 1024 * 1024
# Ids whose answer is no longer kept. Without them a late message could run a call again.
_MOST_FORGOTTEN = 200_000
_MOST_PROGRESS = 50
_MOST_ASSEMBLED_BYTES = 4 * MOST_CALL_BYTES
# Progress is passed on at once, but not more often than that.
_PROGRESS_EVERY_S = 0.05
_SWEEP_EVERY_S = 5.0

# What a message has that is more than a question under an id.
_WORK = frozenset(("tool", "resource"))

Key = tuple[str, str]


class _ServedCall:
    """One call under its id: while it runs, who waits for the answer; then the answer."""

    __slots__ = ("answer", "asked_at", "done_at", "logs", "progress", "task", "told_at", "waiting")

    def __init__(self, now: float) -> None:
        self.asked_at = now
        self.answer: bytes | None = None
        self.done_at = 0.0
        self.task: asyncio.Task[None] | None = None
        # Each message that waits, with the timer that answers it with "running".
        self.waiting: list[tuple[Message, asyncio.TimerHandle]] = []
        self.progress: deque[tuple[float, float | None, str | None]] = deque(maxlen=_MOST_PROGRESS)
        self.logs: deque[tuple[LogLevel, str]] = deque(maxlen=_MOST_PROGRESS)
        self.told_at = 0.0

    def take_news(self) -> dict[str, Any]:
        """The answer "running", with what was reported since the last one."""
        head: dict[str, Any] = {"is": "running"}
        if self.progress:
            head["progress"] = list(self.progress)
            self.progress.clear()
        if self.logs:
            head["logs"] = list(self.logs)
            self.logs.clear()
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
    """Runs calls of gateways through the dispatcher of the box. `access` is what they may use at this moment."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        methods: Methods,
        access: Callable[[], Access],
        is_connected: Callable[[], bool],
        *,
        lease_s: float = LEASE_S,
    ) -> None:
        self._lease_s = lease_s
        self._dispatcher = dispatcher
        self._methods = methods
        self._access = access
        self._is_connected = is_connected
        self._calls: OrderedDict[Key, _ServedCall] = OrderedDict()
        self._forgotten: OrderedDict[Key, None] = OrderedDict()
        self._assemblies: dict[Key, _Assembly] = {}
        self._remembered_bytes = 0
        self._running = 0
        # How many calls there have been.
        self.count = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def running(self) -> int:
        return self._running

    async def serve_call(self, message: Message) -> None:
        """Answer a message on the subject `call`, now or within `HOLD_S`."""
        gateway = gateway_of(message.subject)
        try:
            head, body = unpack(message.data)
            key = gateway, _id(head)
            if "part" in head:
                answer = self._take_part(key, head, bytes(body))
                if answer is not None:
                    await message.respond(answer)
                    return
                head, _ = unpack(self._assemble(key))
            served = self._calls.get(key)
            if served is None:
                if key in self._forgotten or head.keys().isdisjoint(_WORK):
                    await message.respond(pack({"is": "unknown"}))
                    return
                if self._running >= _MOST_RUNNING:
                    await message.respond(pack({"is": "busy", "running": self._running}))
                    return
                served = self._start(key, read_asked(head, gateway, self._access()))
        except BadMessage as error:
            event(log, logging.WARNING, "fleet.bad_message", gateway=gateway, message=str(error))
            await message.respond(pack({"is": "bad", "message": str(error)}))
            return
        served.asked_at = _now()
        if served.answer is not None:
            await message.respond(_answer(served.answer, head.get("from")))
        elif served.progress or served.logs or head.get("hold") == 0:
            await message.respond(pack(served.take_news()))
        else:
            served.waiting.append((message, _loop().call_later(HOLD_S, self._tell_running, served)))

    async def serve_cancel(self, message: Message) -> None:
        """Cancel a call that runs. There is no answer: who cancels has gone."""
        try:
            key = gateway_of(message.subject), _id(unpack(message.data)[0])
        except BadMessage as error:
            event(log, logging.WARNING, "fleet.bad_message", message=str(error))
            return
        served = self._calls.get(key)
        if served is not None and served.task is not None:
            served.task.cancel()
        elif served is None:
            # It may overtake the call, which then must not run.
            self._forget(key)

    async def expire(self) -> None:
        """Until cancelled, cancel calls that nobody asks for, and forget answers that are old."""
        while True:
            await asyncio.sleep(min(_SWEEP_EVERY_S, self._lease_s / 2))
            now = _now()
            for key, served in list(self._calls.items()):
                if served.answer is not None:
                    if now - served.done_at > REMEMBER_S:
                        self._drop(key)
                elif not self._is_connected():
                    # Nobody could ask.
                    served.asked_at = now
                elif now - served.asked_at > self._lease_s and served.task is not None:
                    event(log, logging.INFO, "fleet.lease_expired", gateway=key[0], call=key[1])
                    served.task.cancel()
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

    def _start(self, key: Key, asked: AskedCall | AskedResource) -> _ServedCall:
        served = self._calls[key] = _ServedCall(_now())
        work = self._read_resource(asked) if isinstance(asked, AskedResource) else self._call(key, served, asked)
        self._running += 1
        self.count += 1
        served.task = _loop().create_task(self._run(key, served, work))
        self._tasks.add(served.task)
        served.task.add_done_callback(self._tasks.discard)
        return served

    async def _read_resource(self, asked: AskedResource) -> bytes:
        return pack_contents(await self._methods.read_resource(asked.caller, asked.uri))

    async def _call(self, key: Key, served: _ServedCall, asked: AskedCall) -> bytes:
        loop = _loop()

        def add(to: deque[Any], what: tuple[Any, ...]) -> None:
            to.append(what)
            self._announce(served)

        # Tools report from threads, too.
        def report(done: float, total: float | None, text: str | None) -> None:
            loop.call_soon_threadsafe(add, served.progress, (done, total, text))

        def tell(level: LogLevel, text: str) -> None:
            loop.call_soon_threadsafe(add, served.logs, (level, text))

        call = Call(
            key[1],
            asked.caller,
            asked.tool,
            asked.arguments,
            report if asked.wants_progress else None,
            tell if asked.wants_log else None,
            asked.narrowing,
        )
        return pack_outcome(await self._dispatcher.call(call), call.caller)

    async def _run(self, key: Key, served: _ServedCall, work: Coroutine[Any, Any, bytes]) -> None:
        answer = pack({"is": "cancelled"})
        try:
            answer = await work
        finally:
            self._running -= 1
            served.task = None
            served.answer, served.done_at = answer, _now()
            self._remembered_bytes += len(answer)
            self._calls.move_to_end(key)
            waiting, served.waiting = served.waiting, []
            shown = _answer(answer, None)
            for message, timer in waiting:
                timer.cancel()
                await _respond(message, shown)
            while len(self._calls) > _MOST_REMEMBERED or self._remembered_bytes > _MOST_REMEMBERED_BYTES:
                if not self._drop_oldest():
                    break

    def _announce(self, served: _ServedCall) -> None:
        """Pass on what was reported: at once, or a little later if the last time is not long ago."""
        if not served.waiting:
            return
        due = served.told_at + _PROGRESS_EVERY_S
        if _now() >= due:
            self._tell_running(served)
        else:
            message, timer = served.waiting.pop()
            timer.cancel()
            served.waiting.append((message, _loop().call_at(due, self._tell_running, served)))

    def _tell_running(self, served: _ServedCall) -> None:
        waiting, served.waiting = served.waiting, []
        served.told_at = _now()
        answer = pack(served.take_news())
        for message, timer in waiting:
            timer.cancel()
            task = _loop().create_task(_respond(message, answer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _take_part(self, key: Key, head: dict[str, Any], part: bytes) -> bytes | None:
        """Keep a part of a call. The answer to it, or None if it was the last one that was missing."""
        number, count = head["part"], head.get("of")
        if not (isinstance(number, int) and isinstance(count, int) and 0 <= number < count <= _most_parts()):
            raise BadMessage("a part has a number and the number of parts")
        if key in self._calls or key in self._forgotten:
            return pack({"is": "taken"})
        assembly = self._assemblies.get(key)
        if assembly is None:
            held = sum(each.size for each in self._assemblies.values())
            if held + count * MOST_PIECE_BYTES > _MOST_ASSEMBLED_BYTES:
                return pack({"is": "busy", "running": self._running})
            assembly = self._assemblies[key] = _Assembly(count, _now())
        if len(assembly.parts) != count or len(part) > MOST_PIECE_BYTES:
            raise BadMessage("the parts of a call do not fit together")
        assembly.parts[number] = part
        return None if all(each is not None for each in assembly.parts) else pack({"is": "taken"})

    def _assemble(self, key: Key) -> bytes:
        parts = self._assemblies.pop(key).parts
        return b"".join(part for part in parts if part is not None)

    def _drop_oldest(self) -> bool:
        """Forget the answer that is oldest. False if there is none."""
        oldest = next((key for key, served in self._calls.items() if served.answer is not None), None)
        if oldest is not None:
            self._drop(oldest)
        return oldest is not None

    def _drop(self, key: Key) -> None:
        served = self._calls.pop(key)
        self._remembered_bytes -= len(served.answer or b"")
        self._forget(key)

    def _forget(self, key: Key) -> None:
        """From now on the call is unknown, and is not run if it comes again."""
        self._forgotten[key] = None
        if len(self._forgotten) > _MOST_FORGOTTEN:
            self._forgotten.popitem(last=False)


def _answer(answer: bytes, offset: Any) -> bytes:
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


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def _now() -> float:
    return _loop().time()
