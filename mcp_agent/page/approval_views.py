"""The endpoints by which the owner answers: the questions that wait, and the decision about one.

A process that a client has started is refused, with whatever token: an approval that a command gives itself is none.
That holds for commands of this daemon on this machine. A client that has the owner's token elsewhere can approve its
own calls.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, get_args

from mcp_agent.approvals.own_processes import is_from_session
from mcp_agent.approvals.waiting_calls import Approvals, Decision, Request, Verdict
from mcp_agent.daemon import Daemon
from mcp_agent.page.endpoints import ApiRequest, BadRequest, Routes
from registry.asking import AskReason
from registry.edits import AddException

_VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
_MOST_REASON_CHARS = 500
_MOST_TEXT_CHARS = 1_000


class ApprovalViews:
    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    @property
    def _approvals(self) -> Approvals:
        return self._daemon.approvals

    @property
    def routes(self) -> Routes:
        return {("GET", "approvals"): self._list, ("POST", "approvals/<id>"): self._decide}

    async def _list(self, request: ApiRequest) -> dict[str, Any]:
        await self._refuse_sessions(request)
        return await self._waiting()

    async def _waiting(self) -> dict[str, Any]:
        boxes = self._daemon.elsewhere.approvals
        own = [describe_request(each) for each in self._approvals.pending]
        return {"approvals": own if boxes is None else [*own, *await boxes.waiting()]}

    async def _decide(self, request: ApiRequest) -> dict[str, Any]:
        await self._refuse_sessions(request)
        decision, reason = request.text("decision"), (request.optional_text("reason") or "").strip()
        found = self._approvals.find(request.named["id"])
        boxes = self._daemon.elsewhere.approvals
        if found is not None:
            await answer_request(self._daemon, found, decision, reason, request.by)
        elif boxes is None or not await boxes.decide(request.named["id"], decision, reason):
            raise BadRequest("that call does not wait any more", "it was answered, or has ended", 404)
        return await self._waiting()

    async def _refuse_sessions(self, request: ApiRequest) -> None:
        client = request.scope.get("client")
        if client is not None and await asyncio.to_thread(is_from_session, client[0], client[1], self._daemon.sessions):
            raise BadRequest(
                "a process that this daemon has started may not answer for the owner",
                "use the Tools page in a browser, or a terminal that the daemon has not started",
                403,
            )


async def answer_request(daemon: Daemon, found: Request, decision: str, reason: str, by: str) -> None:
    """Decide about a call that waits. Raises BadRequest, and what a change of tools.json raises."""
    if found.decided.done():
        raise BadRequest(f"that call was answered already, by {found.decided.result().by or 'itself'}", None, 409)
    verdict = next((each for each in _VERDICTS if each == decision), None)
    if verdict is None:
        raise BadRequest(f"decision is {decision[:60]!r} and must be one of {', '.join(_VERDICTS)}")
    if len(reason) > _MOST_REASON_CHARS:
        raise BadRequest(f"a reason has at most {_MOST_REASON_CHARS} characters")
    if verdict == "always":
        edits = exceptions_for(found)
        found.is_being_answered = True
        try:
            for edit in edits:
                await daemon.change(edit, by)
        finally:
            found.is_being_answered = False
    daemon.approvals.decide(found, Decision(verdict, by, " ".join(reason.split())))


def describe_request(request: Request) -> dict[str, Any]:
    """A question as JSON: who asks for what and why, and what each answer would mean."""
    question, caller = request.question, request.caller
    now = time.time()
    why_not = [each.rule for each in request.reasons if not each.may_always]
    always = None if why_not else [_describe_exception(request, each) for each in request.reasons]
    return {
        "id": request.id,
        "tool": question.tool.name,
        "title": question.tool.title,
        "effect": question.tool.effect,
        "client": caller.name,
        "program": caller.client,
        "user": caller.user,
        "folder": question.folder,
        "command": question.command,
        "diff": None if request.preview is None else request.preview.diff,
        "arguments": _shown(question.call.arguments, is_whole=request.preview is None),
        "reasons": [
            {"profile": each.profile, "rule": each.rule, "text": each.text, "matched": each.matched}
            for each in request.reasons
        ],
        "waiting": bool(request.waiting),
        "calls": len(request.waiting),
        "age_s": round(now - request.asked_at),
        "expires_in_s": max(0, round(request.expires_at - now)),
        "always": always,
    }


def _shown(arguments: Mapping[str, Any], *, is_whole: bool) -> dict[str, Any]:
    """The arguments; where a diff shows all that is in them, without the rest of a long text."""
    if is_whole:
        return dict(arguments)
    return {
        name: f"{value[:_MOST_TEXT_CHARS]}…" if isinstance(value, str) and len(value) > _MOST_TEXT_CHARS else value
        for name, value in arguments.items()
    }


def exceptions_for(request: Request) -> list[AddException]:
    """The changes of tools.json that "always" means. Raises BadRequest where a rule forbids it."""
    edits: list[AddException] = []
    for reason in request.reasons:
        if not reason.may_always:
            raise BadRequest(f"the rule {reason.rule} takes no exceptions", "approve it once, or for an hour")
        edits.append(AddException(**_exception(request, reason)))
    return edits


def _exception(request: Request, reason: AskReason) -> dict[str, Any]:
    command = request.question.command
    return {
        "profile": reason.profile,
        "tool": request.question.tool.name,
        "rule": None if reason.is_switch else reason.rule,
        "pattern": None if command is None else _whole(command),
    }


def _describe_exception(request: Request, reason: AskReason) -> dict[str, Any]:
    found = _exception(request, reason)
    if found["pattern"] is None:
        text = f"{found['tool']} no longer asks in the profile {reason.profile}"
    else:
        where = f"the rule {reason.rule}" if found["rule"] else "ask.except"
        text = f"exactly this command no longer asks, by an exception in {where} of the profile {reason.profile}"
    return {"profile": reason.profile, "text": text, "pattern": found["pattern"]}


def _whole(command: str) -> str:
    """The expression for exactly this command."""
    import regex

    return str(regex.escape(command.strip(), special_only=True, literal_spaces=True))
