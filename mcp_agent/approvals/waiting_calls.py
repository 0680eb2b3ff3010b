"""The questions that wait for the owner, and what the owner has said for longer than once.

A question is known by its caller, its tool and its arguments: the same call sent again joins the question that waits,
and both get the result of one run. So no handle passes through the model, and an approval is for what was shown.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from mcp_agent.answers.budget import approval_hold_s
from mcp_agent.calls.approval_question import ApprovalQuestion, Approver, PolicyChanged
from mcp_agent.calls.call import Call, Caller
from registry.asking import AskReason
from registry.gate import Gate, UnknownTool
from tools.kit.errors import ApprovalPending, Busy, Denied, StaleRev, ToolDisabled, ToolError
from tools.kit.spec import ChangePreview

_T = TypeVar("_T")

# A decision that comes while nobody waits is kept so long.
KEEP_S = 300.0
# A question whose client has left waits so long for it to come back.
GONE_S = 60.0
HOUR_S = 3600.0
# What a stateless client is held for at a time, and how often it is told to go on waiting.
ROUNDS = 9
_EVERY_S = 5.0
_MOST_OF_ONE = 5
# The answer to the call that waits in vain so often says to stop.
_MOST_TOLD = 4
_DO_NOT = "do not repeat it or try another way to do the same; ask the user"

Verdict = Literal["once", "hour", "always", "deny"]
# How a question ends that the owner has not answered.
End = Literal["expired", "switch", "revoked", "stop", "client", "changed"]
_ENDS: Mapping[str, str] = {
    "expired": "nobody answered in time, so this call was not approved",
    "switch": "the switches were changed while it waited, and this call was not run",
    "revoked": "the token was revoked while it waited, and this call was not run",
    "stop": "the daemon stops, and this call was not run",
    "client": "the connection of this call has ended, and it was not run",
    "changed": "what it would change is different now, so it was not run, and an approval of it is void",
}


class Decision(Struct, frozen=True):
    verdict: Verdict | End
    by: str = ""
    reason: str = ""

    @property
    def is_approval(self) -> bool:
        return self.verdict in ("once", "hour", "always")


class Request(Struct, eq=False):
    """One question, from the first call that asks to the end of the run."""

    id: str
    key: str
    question: ApprovalQuestion
    reasons: list[AskReason]
    preview: ChangePreview | None
    asked_at: float
    expires_at: float
    decided: asyncio.Future[Decision]
    # The calls that wait, the newest last.
    waiting: list[Call] = field(default_factory=list)
    # How often a model was told that it waits.
    told: int = 0
    # What the run gives, once it has begun.
    outcome: asyncio.Future[Any] | None = None
    timer: asyncio.TimerHandle | None = None
    # The owner has answered "always", and the exception is being saved.
    is_being_answered: bool = False

    @property
    def caller(self) -> Caller:
        return self.question.call.caller


class Approvals(Approver):
    """All questions of a daemon. Everything here runs on the event loop."""

    def __init__(
        self,
        gate: Gate,
        note: Callable[..., object] = lambda *_, **__: None,
        on_change: Callable[[], object] = lambda: None,
        *,
        expire_s: float = 600.0,
        hold_s: float | None = None,
    ) -> None:
        """`note` writes a line of the audit log. `hold_s` is for every client, in place of its own figure."""
        self._gate = gate
        self._note = note
        self._tell = on_change
        self._changes = 0
        self._expire_s = expire_s
        self._hold_s = hold_s
        self._requests: dict[str, Request] = {}
        # Until when the owner approves by itself what a reason asks of a client.
        self._hours: dict[tuple[str, str, str, str, object], float] = {}
        self._policy: asyncio.Future[None] | None = None
        self._is_closed = False
        # Nobody can answer: what asks is refused at once.
        self.is_alone = False

    @property
    def state(self) -> int:
        """Another number as soon as other calls wait; 0 for none."""
        return self._changes if self.pending else 0

    def _on_change(self) -> None:
        self._changes += 1
        self._tell()

    @property
    def pending(self) -> list[Request]:
        """The questions that the owner has not answered, the oldest first."""
        return [each for each in self._requests.values() if not each.decided.done()]

    def find(self, request_id: str) -> Request | None:
        return next((each for each in self._requests.values() if each.id == request_id), None)

    async def run(self, question: ApprovalQuestion, run: Callable[[], Awaitable[_T]]) -> _T:
        reasons = [each for each in question.reasons if not self._is_approved_for_now(question.call.caller, each)]
        if not reasons:
            return await run()
        # What is denied is not asked about, and neither is what cannot be done.
        preview = await question.look()
        if preview is not None and not preview.seen:
            # It changes nothing.
            return await run()
        if self.is_alone or any(each.alone == "deny" for each in reasons):
            raise Denied(
                f"{_why(reasons)} and needs approval, and nobody is there to give it",
                hint=_DO_NOT,
                rule=reasons[0].rule,
            )
        request = self._join(question, reasons, preview)
        decision = await self._wait(request, question.call)
        if request.outcome is not None:
            shared: _T = await asyncio.shield(request.outcome)
            return shared
        if not decision.is_approval:
            self._remove(request)
            raise _refusal(request, decision)
        return await self._run(request, question, run)

    async def _run(self, request: Request, question: ApprovalQuestion, run: Callable[[], Awaitable[_T]]) -> _T:
        outcome = request.outcome = asyncio.get_running_loop().create_future()
        # Nobody may wait for it, and then nobody looks at its exception.
        outcome.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            if request.preview is not None and await question.look() != request.preview:
                raise _refusal(request, Decision("changed"))
            result = await run()
        except Exception as error:
            outcome.set_exception(error)
            raise
        except BaseException:
            outcome.set_exception(Denied("the same call, which was sent twice, was cancelled with the other one"))
            raise
        else:
            outcome.set_result(result)
            return result
        finally:
            self._remove(request)

    def _join(self, question: ApprovalQuestion, reasons: list[AskReason], preview: ChangePreview | None) -> Request:
        """The question of a call: the one that is there, or a new one. Raises Busy, StaleRev."""
        key = question.key
        request = self._requests.get(key)
        if request is not None and request.outcome is None and request.preview != preview:
            self._end(request, "changed")
            if request.decided.result().is_approval:
                raise _refusal(request, Decision("changed"))
            request = None
        if request is not None:
            if request.timer is not None and not request.waiting and not request.decided.done():
                # It had lost its client.
                self._expire_later(request)
            request.question = question
            return request
        caller = question.call.caller
        if sum(each.caller.owner == caller.owner for each in self.pending) >= _MOST_OF_ONE:
            raise Busy(
                f"{_MOST_OF_ONE} calls of this client wait for the owner's approval already, so this one was not run",
                hint="wait for one of them, or go on without this call",
            )
        now = time.time()
        request = Request(
            secrets.token_hex(3),
            key,
            question,
            reasons,
            preview,
            now,
            now + self._expire_s,
            asyncio.get_running_loop().create_future(),
        )
        self._requests[key] = request
        self._expire_later(request)
        self._record("approval_asked", request)
        self._on_change()
        return request

    async def _wait(self, request: Request, call: Call) -> Decision:
        """The decision. Raises ApprovalPending when the call cannot be held any longer, PolicyChanged."""
        if self._is_closed:
            raise _refusal(request, Decision("stop"))
        if request.outcome is not None:
            return request.decided.result()
        hold_s = self._hold_s or approval_hold_s(call.caller.client, has_progress=call.report is not None)
        hold_s = min(hold_s, self._hold_s or approval_hold_s("")) if call.round else hold_s
        policy = self._policy_turn()
        began = time.monotonic()
        request.waiting.append(call)
        if len(request.waiting) == 1:
            self._on_change()
        try:
            while not request.decided.done():
                waited_s = time.monotonic() - began
                if call.report is not None:
                    call.report(round(waited_s, 1), None, f"waiting for the owner to approve this call ({request.id})")
                if waited_s >= hold_s and request.question.is_unique:
                    # No later call could take the answer.
                    self._end(request, "expired")
                    break
                if waited_s >= hold_s:
                    raise self._pending(request, call)
                timeout_s = max(0.001, min(_EVERY_S, hold_s - waited_s))
                await asyncio.wait((request.decided, policy), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
                if policy.done() and not request.decided.done():
                    raise PolicyChanged
            # The newest call runs: the client may have given up the others without saying so. It has been woken, too.
            while request.outcome is None and request.waiting[-1] is not call:  # noqa: ASYNC110 - one turn of the loop
                await asyncio.sleep(0)
            return request.decided.result()
        except asyncio.CancelledError:
            if request.waiting == [call] and not request.decided.done():
                self._later(request, GONE_S, "client")
            raise
        finally:
            request.waiting.remove(call)
            if not request.waiting:
                self._on_change()

    def _pending(self, request: Request, call: Call) -> ApprovalPending:
        if call.round and call.round < ROUNDS:
            return ApprovalPending("not run: the owner's approval is still awaited", next_round=call.round + 1)
        request.told += 1
        left_s = max(0, round(request.expires_at - time.time()))
        fields = {"approval": {"id": request.id, "rule": request.reasons[0].rule, "expires_in_s": left_s}}
        if request.told >= _MOST_TOLD:
            return ApprovalPending(
                f"not run: the owner has not answered yet ({request.id})",
                hint="stop calling it, and do not try another way to do the same: tell the user that this call waits "
                "for approval on the Tools page of mcp-agent or with `mcp-agent approvals list`",
                fields=fields,
            )
        return ApprovalPending(
            f"not run: this call needs the owner's approval ({request.id}), and the owner has been asked",
            hint="call again with exactly the same arguments to go on waiting; do not try another way to do the same",
            fields=fields,
        )

    def decide(self, request: Request, decision: Decision) -> None:
        """Answer a question. By the owner alone: nothing that a client can call leads here."""
        if request.decided.done():
            return
        if decision.verdict == "hour":
            until = time.time() + HOUR_S
            for reason in request.reasons:
                self._hours[self._hour_key(request.caller, reason)] = until
        self._settle(request, decision)
        if decision.verdict == "hour":
            for other in self.pending:
                if all(self._is_approved_for_now(other.caller, reason) for reason in other.reasons):
                    self._settle(other, decision)
        self._on_change()

    def policy_changed(self) -> None:
        """The switches or rules are different: calls that wait begin again, and what is not asked any more ends."""
        for request in self.pending:
            if request.is_being_answered or self._still_asks(request):
                continue
            if request.waiting:
                # They begin again, and are told what the switches say now.
                self._record("approval_ended", request, why="switch")
                self._remove(request)
                self._on_change()
            else:
                self._end(request, "switch")
        if self._policy is not None:
            self._policy.set_result(None)
            self._policy = None

    def end_clients(self, names: Iterable[str]) -> None:
        """End the questions, and what was approved for an hour, of tokens that were revoked."""
        gone = set(names)
        for request in list(self._requests.values()):
            if request.caller.name in gone:
                self._hours = {key: until for key, until in self._hours.items() if key[0] != request.caller.owner}
                self._end(request, "revoked")

    def end_connection(self, connection: str) -> None:
        """End the questions of a client that has ended its session."""
        for request in self.pending:
            if connection and request.caller.connection == connection:
                self._end(request, "client")

    def close(self) -> None:
        """End every question: the daemon stops."""
        self._is_closed = True
        for request in self.pending:
            self._end(request, "stop")

    def _settle(self, request: Request, decision: Decision) -> None:
        request.decided.set_result(decision)
        self._record("approval_decided", request, decision=decision.verdict, by=decision.by)
        if not request.waiting:
            self._later(request, KEEP_S, None)
        elif request.timer is not None:
            request.timer.cancel()

    def _end(self, request: Request, why: End) -> None:
        """End a question without an answer of the owner."""
        if not request.decided.done():
            request.decided.set_result(Decision(why))
            self._record("approval_expired" if why == "expired" else "approval_ended", request, why=why)
        if why == "expired" and not request.waiting:
            # The next call is told so.
            self._later(request, KEEP_S, None)
        else:
            self._remove(request)
        self._on_change()

    def _expire_later(self, request: Request) -> None:
        self._later(request, request.expires_at - time.time(), "expired")

    def _later(self, request: Request, after_s: float, why: End | None) -> None:
        """End the question after so long; with None, forget it."""
        if request.timer is not None:
            request.timer.cancel()
        loop = asyncio.get_running_loop()
        if why is None:
            request.timer = loop.call_later(after_s, self._remove, request)
        else:
            request.timer = loop.call_later(max(0.0, after_s), self._end, request, why)

    def _remove(self, request: Request) -> None:
        if request.timer is not None:
            request.timer.cancel()
        if self._requests.get(request.key) is request:
            del self._requests[request.key]

    def _still_asks(self, request: Request) -> bool:
        question = request.question
        try:
            _, grant = self._gate.admit(question.call.caller.access, question.tool.name)
        except (ToolDisabled, UnknownTool):
            return False
        return grant.asks is not None and bool(replace(question, asks=grant.asks).reasons)

    def _is_approved_for_now(self, caller: Caller, reason: AskReason) -> bool:
        key = self._hour_key(caller, reason)
        until = self._hours.get(key)
        if until is not None and until <= time.time():
            del self._hours[key]
            return False
        return until is not None

    def _hour_key(self, caller: Caller, reason: AskReason) -> tuple[str, str, str, str, object]:
        return caller.owner, caller.client, reason.profile, reason.rule, reason.source

    def _policy_turn(self) -> asyncio.Future[None]:
        if self._policy is None:
            self._policy = asyncio.get_running_loop().create_future()
        return self._policy

    def _record(self, event: str, request: Request, **facts: Any) -> None:
        caller = request.caller
        first = request.reasons[0]
        self._note(
            event,
            approval=request.id,
            client=caller.name,
            program=caller.client[:200],
            tool=request.question.tool.name,
            profile=first.profile,
            rule=first.rule,
            **facts,
        )


def _why(reasons: list[AskReason]) -> str:
    return f"this call is matched by {reasons[0].rule} of the profile {reasons[0].profile}"


def _refusal(request: Request, decision: Decision) -> ToolError:
    rule = request.reasons[0].rule
    if decision.verdict == "deny":
        because = f": {decision.reason}" if decision.reason else ""
        return Denied(f"the owner did not approve this call{because}", hint=_DO_NOT, rule=rule)
    assert decision.verdict in _ENDS, "an approval is no refusal"
    message = _ENDS[decision.verdict]
    if decision.verdict == "changed":
        return StaleRev(message, hint="look at the file again, and call again with what fits it now")
    hint = "do the work without it, or ask the user to approve it" if decision.verdict == "expired" else None
    return Denied(message, hint=hint, rule=rule)
