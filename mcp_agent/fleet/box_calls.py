"""The gateway's end of a call: sent to a box, asked for until it answers, and never run twice.

What may go wrong, and what a caller learns of it:

- Nobody serves the subject, and nobody had the call: BOX_UNREACHABLE, `may_have_run` false.
- The box was restarted, and may have had the call: OUTCOME_UNKNOWN.
- The box is silent for `_SILENT_S`: BOX_UNREACHABLE, `may_have_run` true.
- The connection to NATS is lost: the call goes on when it is back, under the same id.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from mcp_agent.calls.call import Call, Caller, Outcome
from mcp_agent.fleet.bus import Bus, BusError, Disconnected, NoResponders, NotPermitted, PayloadTooLarge, TimedOut
from mcp_agent.fleet.call_protocol import caller_facts, outcome_of, run_message
from mcp_agent.fleet.directory import Box, Directory
from mcp_agent.fleet.messages import (
    HOLD_S,
    Ask,
    BadMessage,
    Cancel,
    Contents,
    NoResult,
    NotShown,
    ReadQuestion,
    ReadResource,
    RunOutcome,
    StillRunning,
    encode,
    read_answer,
    read_read_answer,
)
from mcp_agent.fleet.subjects import verb_subject
from mcp_agent.protocol.methods import new_call_id
from registry.gate import Grant
from tools.kit.errors import BoxUnreachable, OutcomeUnknown, TooLarge, ToolError

# The box answers within HOLD_S. It is asked twice before it counts as silent, and both together take less than 5 s.
_ANSWER_S = HOLD_S + 1.3
_SILENT_S = 4.5
_FIND_S = 1.0
# A box that is marked has this long to say that it is there after all: a call to a dead one fails in 50 ms.
_MARKED_S = 0.04
# A call under way survives an outage of NATS of this length; a box that was cut off, too, has as long to come back.
_OUTAGE_S = 30.0
# A new call waits so long for the gateway's own connection, and for boxes that come back after it.
_RECONNECT_S = 10.0
_SETTLE_S = 5.0
_RETRY_S = 0.05
_READ_S = 10.0
_T = TypeVar("_T")
_now = time.monotonic
_ANOTHER_BOX = "choose another box, see `boxes`, or try again"
_OTHER_VERSION = "it may have another version of mcp-agent"
_RUN_AGAIN = "look at what it did before you call it again"
_LIMIT = "the NATS server sets the limit: `max_payload` in nats-server.conf, up to 8MB"


class CannotRead(Exception):
    """A box does not show what it was asked for."""

    def __init__(self, answer: NotShown) -> None:
        super().__init__(answer.detail)
        self.why, self.known = answer.why, answer.known


class BoxCalls:
    """Calls on boxes, and questions to them, in the name of one gateway."""

    def __init__(self, bus: Bus, directory: Directory, gateway: str) -> None:
        self._bus = bus
        self._directory = directory
        self._gateway = gateway
        self._tasks: set[asyncio.Task[None]] = set()

    async def call(self, box: Box, call: Call, grant: Grant) -> Outcome:
        """Run a call there. Raises BoxUnreachable, OutcomeUnknown, TooLarge. Cancelled here, it is there."""
        data = encode(run_message(call, grant))
        return await self._ask(box, call.id, data, partial(outcome_of, box=box.name), call)

    async def read_resource(self, box: Box, caller: Caller, uri: str) -> list[dict[str, Any]] | None:
        """The contents of a resource of a box; None if it has none for this caller. Raises BoxUnreachable."""
        call_id = new_call_id()
        return await self._ask(box, call_id, encode(ReadResource(call_id, uri, caller_facts(caller))), _contents)

    async def read(self, box: str, boot: str, question: ReadQuestion, kind: type[_T], *, patience_s: float = 0.0) -> _T:
        """What a start of a box shows, which is of that kind.

        Raises CannotRead, and BusError if nobody answers, although it was asked again for `patience_s`.
        """
        subject, deadline = verb_subject(box, boot, "read", self._gateway), _now() + patience_s
        while True:
            try:
                answer = read_read_answer(await self._bus.request(subject, encode(question), _READ_S))
                break
            except BadMessage as error:
                raise CannotRead(NotShown("misunderstood", str(error))) from None
            except BusError:
                if _now() >= deadline:
                    raise
            await asyncio.sleep(_RETRY_S)
        if isinstance(answer, kind):
            return answer
        raise CannotRead(
            answer if isinstance(answer, NotShown) else NotShown("misunderstood", "the answer is to another question")
        )

    async def _ask(
        self, box: Box, call_id: str, data: bytes, read: Callable[[RunOutcome], _T], call: Call | None = None
    ) -> _T:
        asking = _Asking(self._bus, self._directory, box, self._gateway, call_id, data, call)
        try:
            return read(await asking.answer())
        except asyncio.CancelledError:
            self._cancel(box.name, asking.boot, call_id)
            raise
        except NotPermitted as error:
            raise BoxUnreachable(
                f"this gateway may not call {box.name}: {error}",
                hint="its credentials for NATS do not allow it",
                may_have_run=False,
            ) from None
        except BadMessage as error:
            raise OutcomeUnknown(f"{box.name} answered with something else: {error}", hint=_RUN_AGAIN) from None

    def _cancel(self, box: str, boot: str, call_id: str) -> None:
        async def publish() -> None:
            # A call that cannot be cancelled ends with its lease.
            with contextlib.suppress(BusError):
                await self._bus.publish(verb_subject(box, boot, "cancel", self._gateway), encode(Cancel(call_id)))

        task = asyncio.get_running_loop().create_task(publish())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Asking:
    """One call while it is under way."""

    def __init__(
        self, bus: Bus, directory: Directory, box: Box, gateway: str, call_id: str, data: bytes, call: Call | None
    ) -> None:
        self._bus = bus
        self._directory = directory
        self._box = box
        self._gateway = gateway
        self._id = call_id
        self._data = data
        # Whose progress is passed on.
        self._call = call
        self.boot = box.boot
        # Whether the box may have had the call, and whether it certainly has it.
        self._is_sent = False
        self._is_taken = False
        self._began_at = self._heard_at = _now()

    async def answer(self) -> RunOutcome:
        """What the box has to say in the end."""
        if self._directory.is_away(self._box):
            await self._check_alive()
        while True:
            outage_s = _OUTAGE_S if self._is_sent else _RECONNECT_S
            if not self._bus.is_connected and not await self._bus.wait_connected(outage_s):
                problem = self._bus.problem or "it is lost"
                raise self._unreachable(
                    f"the gateway has no connection to NATS ({problem})", "no box can be reached now; try again later"
                )
            # The box cannot be blamed for silence while we were away.
            self._heard_at = max(self._heard_at, self._bus.connected_at)
            try:
                # Sent again, under its id, until the box has it.
                data = encode(Ask(self._id)) if self._is_taken else self._data
                subject = verb_subject(self._box.name, self.boot, "call", self._gateway)
                answer = read_answer(await self._bus.request(subject, data, _ANSWER_S))
            except NoResponders:
                await self._find_again()
            except TimedOut:
                self._is_sent = True
                if _now() - self._heard_at >= _SILENT_S:
                    raise self._unreachable(f"{self._box.name} does not answer") from None
            except Disconnected as error:
                self._is_sent = self._is_sent or error.is_sent
            except PayloadTooLarge:
                limit = self._bus.max_payload
                raise TooLarge(
                    f"the call has {len(self._data)} bytes, and one to a box may have {limit}; it has not run",
                    hint=_LIMIT,
                ) from None
            else:
                self._heard_at = _now()
                if isinstance(answer, NoResult):
                    raise self._no_result(answer)
                if not isinstance(answer, StillRunning):
                    return answer
                self._is_sent = self._is_taken = True
                self._pass_on(answer)

    def _no_result(self, answer: NoResult) -> ToolError:
        name = self._box.name
        match answer.why:
            case "too large":
                return TooLarge(f"{name}: {answer.detail}; the call has run", hint=f"ask for less of it; {_LIMIT}")
            case "busy":
                return self._unreachable(f"{name} has {answer.detail} and takes no more")
            case "misunderstood":
                return BoxUnreachable(
                    f"{name} does not understand this gateway: {answer.detail}", hint=_OTHER_VERSION, may_have_run=False
                )
            case "cancelled":
                return OutcomeUnknown(f"{name} cancelled the call while it ran", hint=_RUN_AGAIN)
        return OutcomeUnknown(f"{name} does not remember the outcome of the call", hint=_RUN_AGAIN)

    def _pass_on(self, news: StillRunning) -> None:
        """Progress and log messages of the tool, to the client."""
        if self._call is None:
            return
        if self._call.report is not None:
            for done, total, text in news.progress:
                self._call.report(done, total, text)
        if self._call.tell is not None:
            for level, text in news.logs:
                self._call.tell(level, text)

    async def _find_again(self) -> None:
        """Nobody serves the subject of the call: find out whether the box is gone, was restarted, or comes back."""
        # Nobody answers at once if the box is gone; one that is there may be far away.
        boot = await self._directory.ask_boot(self._box.name, _FIND_S)
        if boot is not None and boot != self.boot:
            if self._is_sent:
                raise OutcomeUnknown(
                    f"{self._box.name} was restarted during the call, which may have run", hint=_RUN_AGAIN
                )
            # Nobody had the call, so it is safe to send it to the new start of the box.
            self.boot = boot
            return
        now = _now()
        # After a reconnect of ours the box may still be on its way back, too.
        if self._is_sent:
            patience_s = _OUTAGE_S if self._bus.connected_at > self._began_at else _SILENT_S
        else:
            patience_s = _SETTLE_S if now - self._bus.connected_at < _SETTLE_S else 0.0
        if now - self._heard_at > (patience_s if boot is None else _OUTAGE_S):
            raise self._unreachable(f"{self._box.name} is not connected")
        await asyncio.sleep(_RETRY_S)

    async def _check_alive(self) -> None:
        """A box that was silent for long gets one short question before it is given a call."""
        if await self._directory.ask_boot(self._box.name, _MARKED_S) is None:
            raise self._unreachable(f"{self._box.name} has not been heard of for {self._directory.silence(self._box)}")
        self.boot = self._box.boot

    def _unreachable(self, message: str, hint: str = _ANOTHER_BOX) -> BoxUnreachable:
        """The error, with a hint for one whose call has not run."""
        if self._is_sent:
            return BoxUnreachable(f"{message}; the call may have run", hint=_RUN_AGAIN, may_have_run=True)
        return BoxUnreachable(f"{message}; the call has not run", hint=hint, may_have_run=False)


def _contents(answer: RunOutcome) -> list[dict[str, Any]] | None:
    if not isinstance(answer, Contents):
        raise BadMessage("the contents of a resource were asked for")
    return answer.contents
