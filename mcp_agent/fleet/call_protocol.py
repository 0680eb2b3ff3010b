"""Calls and what comes of them, as the messages that a gateway and a box exchange.

The box writes the whole result for the gateway's client. The gateway puts the bytes into its answer as they are.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import orjson

from mcp_agent.answers.reply import Blocks, Compact, Written
from mcp_agent.calls.call import Call, Caller, Failure, Narrowing, Outcome, Page, Refusal, Success
from mcp_agent.fleet.messages import (
    BadMessage,
    CallContext,
    CallerFacts,
    CallRefused,
    Contents,
    Ran,
    RunTool,
)
from registry.gate import Access, Grant
from tools.kit.errors import ToolError
from tools.kit.results import Media, Result, ResultFacts
from tools.kit.rules import NOTHING, CommandRules, Deny, PathRules

_MOST_MESSAGE = 1_000


def run_message(call: Call, grant: Grant) -> RunTool:
    """A call, with the caller that the gateway vouches for and the rules of its profile."""
    context = CallContext(
        caller_facts(call.caller),
        call.report is not None,
        call.tell is not None,
        grant.form,
        None if grant.root is None else str(grant.root),
        () if grant.deny.paths is None else grant.deny.paths.rules,
        () if grant.deny.commands is None else grant.deny.commands.rules,
    )
    return RunTool(call.id, call.tool, dict(call.arguments), context)


def caller_facts(caller: Caller) -> CallerFacts:
    return CallerFacts(
        caller.name,
        caller.transport,
        caller.client[:200],
        caller.form,
        caller.connection[:200],
        caller.chat[:200],
        caller.user[:200],
        caller.token_id,
    )


def caller_name(name: str) -> str:
    """What a box calls somebody whom a gateway vouches for, in its audit log and as an owner."""
    return f"fleet/{name}"


def caller_of(facts: CallerFacts, gateway: str, access: Access) -> Caller:
    """Whoever the gateway vouches for: `access` is what gateways may use here."""
    return Caller(
        name=caller_name(facts.name),
        access=access,
        transport=facts.transport,
        client=facts.client,
        form=facts.form,
        connection=facts.connection,
        chat=facts.chat,
        user=facts.user,
        token_id=facts.token_id and caller_name(facts.token_id),
        passed_on_by=(("gateway", gateway),),
    )


# Ten rules of two globs take 3.5 ms, and every call has them.
@lru_cache(maxsize=1_000)
def narrowing_of(context: CallContext) -> Narrowing | None:
    """What the gateway's profile takes away. Raises BadMessage."""
    paths, commands = context.deny_paths, context.deny_commands
    if context.form == "auto" and context.root is None and not paths and not commands:
        return None
    try:
        deny = Deny(PathRules(paths) if paths else None, CommandRules(commands) if commands else None)
    except ToolError as error:
        raise BadMessage(f"a deny rule of the gateway cannot be used here: {error.message}") from None
    root = None if context.root is None else Path(context.root)
    return Narrowing(context.form, deny if paths or commands else NOTHING, root)


def outcome_message(outcome: Outcome, caller: Caller) -> Ran | CallRefused:
    """What came of a call, with the result as the wire of `caller` writes it."""
    if isinstance(outcome, Refusal):
        data = None if outcome.data is None else dict(outcome.data)
        return CallRefused(outcome.error_code, outcome.message, data, outcome.reason)
    facts = outcome.result.facts if isinstance(outcome, Success) else ResultFacts()
    error = outcome.error if isinstance(outcome, Failure) else None
    written = _for_wire(outcome.written, caller)
    form, content = _form(written)
    return Ran(
        "failure" if error is not None else "success" if isinstance(outcome, Success) else "page",
        form,
        content,
        written.structured if isinstance(written, Blocks) else None,
        written.type if isinstance(written, Media) else "",
        outcome.whole_bytes,
        facts.exit_status,
        facts.change_id,
        "" if error is None else error.code,
        "" if error is None else error.message[:_MOST_MESSAGE],
        None if error is None else error.rule,
    )


def _form(written: Written) -> tuple[Literal["blocks", "media", "compact", "text", "json"], bytes]:
    match written:
        case Media():
            return "media", written.data
        case Blocks():
            return "blocks", written.encoded
        case Compact():
            return "compact", written.encoded
        case str():
            return "text", written.encode("utf-8", "replace")
    return "json", written


def _for_wire(written: Written, caller: Caller) -> Written:
    """As it is; for clients of MCP, as content and the object beside it."""
    if isinstance(written, Media | Blocks) or caller.takes_media:
        return written
    encoded = written.encoded if isinstance(written, Compact) else written
    shown = encoded if isinstance(encoded, str) else encoded.decode()
    return Blocks(orjson.dumps([{"type": "text", "text": shown}]), written if isinstance(written, bytes) else None)


def outcome_of(answer: Ran | CallRefused | Contents, box: str) -> Outcome:
    """The outcome that `outcome_message` wrote on a box. Raises BadMessage."""
    if isinstance(answer, CallRefused):
        return Refusal(answer.code, answer.message, answer.data, answer.reason)
    if isinstance(answer, Contents):
        raise BadMessage("a call was answered with the contents of a resource")
    written = _written(answer)
    match answer.kind:
        case "success":
            result = RemoteResult(written, answer.exit_status, answer.undo_id)
            return Success(result, written, answer.whole_bytes, box)
        case "failure":
            error = RemoteError(answer.code, answer.message, answer.rule, written)
            return Failure(error, written, answer.whole_bytes, box)
    if not isinstance(written, Compact | Blocks):
        raise BadMessage("a page has another form")
    return Page(written)


def _written(answer: Ran) -> Written:
    match answer.form:
        case "blocks":
            return Blocks(answer.content, answer.structured)
        case "media":
            return Media(answer.media_type, answer.content)
        case "compact":
            return Compact(answer.content)
        case "text":
            return answer.content.decode("utf-8", "replace")
    return answer.content


class RemoteResult(Result, frozen=True):
    """A result that a box has written. It is read only where somebody looks into it, as the Tools page does."""

    _written: Written
    _exit: int | None = None
    _undo: str | None = None

    def as_object(self) -> dict[str, Any]:
        return _object_of(self._written)

    def render(self) -> str:
        return _text_of(self._written)

    @property
    def facts(self) -> ResultFacts:
        return ResultFacts(self._exit, self._undo)


class RemoteError(ToolError):
    """An error that a box has written."""

    def __init__(self, code: str, message: str, rule: str | None, written: Written) -> None:
        super().__init__(message)
        self.code = code
        self.rule = rule
        self._written = written

    def as_object(self) -> dict[str, Any]:
        found = _object_of(self._written)
        return found if "error" in found else super().as_object()

    def render(self) -> str:
        return _text_of(self._written)


def _object_of(written: Written) -> dict[str, Any]:
    encoded = written.structured if isinstance(written, Blocks) else written if isinstance(written, bytes) else None
    if isinstance(written, Compact):
        encoded = written.encoded
    if encoded is None:
        return {"text": _text_of(written)}
    found: dict[str, Any] = orjson.loads(encoded)
    return found


def _text_of(written: Written) -> str:
    if isinstance(written, Blocks):
        return "\n".join(str(block.get("text", "")) for block in orjson.loads(written.encoded))
    if isinstance(written, Media):
        return f"{written.type}, {len(written.data)} bytes"
    found = written.encoded if isinstance(written, Compact) else written
    return found if isinstance(found, str) else found.decode()
