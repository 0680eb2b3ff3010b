"""The calls that gateways have sent to this box: each is run once, however often it is asked for."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Coroutine
from functools import cached_property
from typing import Any

from mcp_agent.calls.call import Call
from mcp_agent.calls.dispatcher import Dispatcher
from mcp_agent.fleet.bus import Bus, BusError, Message
from mcp_agent.fleet.call_protocol import caller_of, narrowing_of, outcome_message
from mcp_agent.fleet.messages import (
    HOLD_S,
    LEASE_S,
    Ask,
    BadMessage,
    Contents,
    NoResult,
    ReadResource,
    RunTool,
    StillRunning,
    encode,
    read_cancel,
    read_question,
)
from mcp_agent.fleet.subjects import gateway_of
from mcp_agent.process.logs import event
from mcp_agent.process.memory import exact_copy
from mcp_agent.protocol.methods import Methods
from registry.gate import Access
from tools.context import LogLevel

log = logging.getLogger(__name__)

_MOST_RUNNING = 1_000
_MOST_PROGRESS = 50
# Reports of so long are passed on together.
_COALESCE_S = 0.02
_SWEEP_EVERY_S = 5.0

# The gateway, and the id that it gave to the call.
CallKey = tuple[str, str]

# An answer is remembered so long, for a gateway that did not get it or asks twice.
_REMEMBER_S = 600.0
_MOST_ANSWERS = 20_000
_MOST_BYTES = 64 * 1024 * 1024
# Ids whose answer is no longer kept. Without them a late message could run a call again.
_MOST_SEEN = 200_000

_CANCELLED = encode(NoResult("cancelled"))


class _RunningCall:
    """One call under its id while it runs, and who waits for the answer."""

    __slots__ = ("asked_at", "logs", "progress", "task", "telling", "waiting")

    def __init__(self, now: float) -> None:
        self.asked_at = now
        self.task: asyncio.Task[None] | None = None
        # Each message that waits, with the timer that answers it with "running".
        self.waiting: list[tuple[Message, asyncio.TimerHandle]] = []
        self.progress: list[tuple[float, float | None, str | None]] = []
        self.logs: list[tuple[LogLevel, str]] = []
        # The timer that passes on what was reported.
        self.telling: asyncio.TimerHandle | None = None

    def take_news(self) -> bytes:
        """That it runs, with what was reported since the last answer."""
        news = StillRunning(tuple(self.progress), tuple(self.logs))
        self.progress, self.logs = [], []
        return encode(news)


class RememberedAnswers:
    """The answers to calls that are over. Beyond the bounds, the oldest go first."""

    def __init__(self) -> None:
        # With the time, and by it: plain tuples, which the garbage collector does not have to look at.
        self._answers: OrderedDict[CallKey, tuple[float, bytes]] = OrderedDict()
        self._bytes = 0
        self._seen: OrderedDict[CallKey, None] = OrderedDict()

    def get(self, key: CallKey) -> bytes | None:
        found = self._answers.get(key)
        return None if found is None else found[1]

    def is_seen(self, key: CallKey) -> bool:
        """Whether there was such a call whose answer is not kept."""
        return key in self._seen

    def keep(self, key: CallKey, answer: bytes, now: float) -> None:
        self._answers[key] = now, exact_copy(answer)
        self._bytes += len(answer)
        while self._bytes > _MOST_BYTES or len(self._answers) > _MOST_ANSWERS:
            self._drop_oldest()

    def mark_seen(self, key: CallKey) -> None:
        """The call is not run if it comes, or comes again."""
        self._seen[key] = None
        if len(self._seen) > _MOST_SEEN:
            self._seen.popitem(last=False)

    def expire(self, now: float) -> None:
        while self._answers and now - next(iter(self._answers.values()))[0] > _REMEMBER_S:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        key, (_, answer) = self._answers.popitem(last=False)
        self._bytes -= len(answer)
        self.mark_seen(key)


class MemberCalls:
    """Runs calls of gateways through the dispatcher of the box. `access` is what they may use here."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        methods: Methods,
        access: Access,
        bus: Bus,
        *,
        lease_s: float = LEASE_S,
    ) -> None:
        self._lease_s = lease_s
        self._dispatcher = dispatcher
        self._methods = methods
        self._access = access
        self._bus = bus
        self._calls: dict[CallKey, _RunningCall] = {}
        self._answers = RememberedAnswers()
        self._tasks: set[asyncio.Task[None]] = set()

    # Kept, because tools report progress from threads, where no loop runs.
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
            answer = encode(NoResult("misunderstood", str(error)))
        if answer is not None:
            await message.respond(answer)

    def _answer(self, message: Message, gateway: str) -> bytes | None:
        """The answer to a message; None if it comes later. Raises BadMessage."""
        question = read_question(message.data)
        key = gateway, question.id
        answer = self._answers.get(key)
        if answer is not None:
            return answer
        call = self._calls.get(key)
        if call is None:
            if isinstance(question, Ask) or self._answers.is_seen(key):
                return encode(NoResult("unknown"))
            if len(self._calls) >= _MOST_RUNNING:
                return encode(NoResult("busy", f"{len(self._calls)} calls under way"))
            call = self._start(key, question)
        call.asked_at = self._loop.time()
        if call.progress or call.logs:
            return call.take_news()
        call.waiting.append((message, self._loop.call_later(HOLD_S, self._tell_running, call)))
        return None

    async def serve_cancel(self, message: Message) -> None:
        """Cancel a call that runs. There is no answer: who cancels has gone."""
        try:
            key = gateway_of(message.subject), read_cancel(message.data).id
        except BadMessage as error:
            event(log, logging.WARNING, "fleet.bad_message", message=str(error))
            return
        call = self._calls.get(key)
        if call is not None and call.task is not None:
            # Behind its first step, which may not have run yet: a task that never began would never answer.
            self._loop.call_soon(call.task.cancel)
        elif call is None and self._answers.get(key) is None:
            # It may overtake the call, which then must not run.
            self._answers.mark_seen(key)

    async def expire(self) -> None:
        """Until cancelled, cancel calls that nobody asks for, and forget answers that are old."""
        while True:
            await asyncio.sleep(min(_SWEEP_EVERY_S, self._lease_s / 2))
            now = self._loop.time()
            self._answers.expire(now)
            for key, call in list(self._calls.items()):
                if not self._bus.is_connected:
                    # Nobody could ask.
                    call.asked_at = now
                elif now - call.asked_at > self._lease_s and call.task is not None:
                    event(log, logging.INFO, "fleet.lease_expired", gateway=key[0], call=key[1])
                    call.task.cancel()

    async def stop(self) -> None:
        """Cancel everything that runs."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _start(self, key: CallKey, question: RunTool | ReadResource) -> _RunningCall:
        running = _RunningCall(self._loop.time())
        if isinstance(question, ReadResource):
            work = self._read_resource(key[0], question)
        else:
            work = self._call(self._make_call(key[0], running, question))
        self._calls[key] = running
        running.task = self._own(self._run(key, running, work))
        return running

    async def _call(self, call: Call) -> bytes:
        return encode(outcome_message(await self._dispatcher.call(call), call.caller))

    async def _read_resource(self, gateway: str, asked: ReadResource) -> bytes:
        caller = caller_of(asked.caller, gateway, self._access)
        return encode(Contents(await self._methods.read_resource(caller, asked.uri)))

    def _make_call(self, gateway: str, running: _RunningCall, asked: RunTool) -> Call:
        """Raises BadMessage."""
        context = asked.context
        caller, narrowing = caller_of(context.caller, gateway, self._access), narrowing_of(context)
        report = tell = None
        # Tools report from threads, too.
        if context.wants_progress:

            def report(done: float, total: float | None, text: str | None) -> None:
                self._loop.call_soon_threadsafe(self._note, running, (done, total, text), None)

        if context.wants_log:

            def tell(level: LogLevel, text: str) -> None:
                self._loop.call_soon_threadsafe(self._note, running, None, (level, text))

        return Call(asked.id, caller, asked.tool, asked.arguments, report, tell, narrowing)

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
        if running.telling is None:
            running.telling = self._loop.call_later(_COALESCE_S, self._tell_running, running)

    def _own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _run(self, key: CallKey, running: _RunningCall, work: Coroutine[Any, Any, bytes]) -> None:
        answer = _CANCELLED
        try:
            answer = await work
            limit = self._bus.max_payload
            if len(answer) > limit:
                detail = f"the result has {len(answer)} bytes, and one to a gateway may have {limit}"
                answer = encode(NoResult("too large", detail))
        finally:
            del self._calls[key]
            self._answers.keep(key, answer, self._loop.time())
            waiting, running.waiting = running.waiting, []
            for message, timer in waiting:
                timer.cancel()
                await _respond(message, answer)

    def _tell_running(self, running: _RunningCall) -> None:
        waiting, running.waiting, running.telling = running.waiting, [], None
        if not waiting:
            return
        answer = running.take_news()
        for message, timer in waiting:
            timer.cancel()
            self._own(_respond(message, answer))


async def _respond(message: Message, answer: bytes) -> None:
    try:
        await message.respond(answer)
    except BusError as error:
        # The gateway asks again.
        event(log, logging.DEBUG, "fleet.answer_not_sent", message=str(error))
