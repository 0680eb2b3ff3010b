"""The one path of a call: may the caller, do the arguments fit, run it, write the answer, put it on record.

Every wire comes through here.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any

from mcp_agent.calls.call import Call, Compact, Outcome, Refusal, Witness
from mcp_agent.calls.focus import focused
from mcp_agent.calls.shaping import Shaper
from mcp_agent.compact import cursors
from mcp_agent.compact.compactor import Compactor
from mcp_agent.logs import event
from mcp_agent.storage.artifact_store import ArtifactStore
from registry.gate import Gate, Grant, UnknownTool
from tools.kit.context import Cancelled, Pruner, ToolContext
from tools.kit.errors import Failed, InternalError, InvalidParams, Refused, Timeout, ToolDisabled, ToolError
from tools.kit.focus import FOCUS
from tools.kit.results import Result
from tools.kit.spec import CURSOR, Tool

log = logging.getLogger(__name__)

INVALID_PARAMS = -32602
# Where results are not kept short, one that is larger than this is worth a person's look.
_LARGE_BYTES = 10_240


class Dispatcher:
    """Runs calls. `def` tools run on `threads`, so that a slow disk holds up nobody else.

    `surroundings` is the context that every call's own is made from; `witnesses` are told of every call.
    """

    def __init__(
        self,
        gate: Gate,
        surroundings: ToolContext,
        threads: Executor,
        artifacts: ArtifactStore,
        cursors: cursors.Cursors,
        witnesses: Sequence[Witness],
    ) -> None:
        self._gate = gate
        self._surroundings = surroundings
        self._threads = threads
        self._artifacts = artifacts
        self.witnesses = witnesses
        self._compactor = Compactor(artifacts, cursors)
        self._shaper = Shaper(artifacts, self._compactor, gate.catalog)

    async def call(self, call: Call) -> Outcome:
        """Carry out `call`. Never raises, save for cancellation: what goes wrong is in the outcome."""
        started = time.perf_counter()
        try:
            outcome = await self._answered(call)
        except BaseException:
            self._tell(call, None, started, 0)
            raise
        if outcome.refusal is None and outcome.written is None:
            outcome = await self._shaped(call, outcome, None)
        size = outcome.written_bytes
        if size > _LARGE_BYTES:
            event(log, logging.WARNING, "response.large", request_id=call.id, tool=call.tool, bytes=size)
        self._tell(call, outcome, started, size)
        return outcome

    def _tell(self, call: Call, outcome: Outcome | None, started: float, result_bytes: int) -> None:
        took_s = time.perf_counter() - started
        for witness in self.witnesses:
            witness.record(call, outcome, took_s, result_bytes)

    async def _answered(self, call: Call) -> Outcome:
        if log.isEnabledFor(logging.DEBUG):
            event(log, logging.DEBUG, "tool.request_received", request_id=call.id, tool=call.tool)
        try:
            tool, grant = self._gate.admit(call.caller.access, call.tool)
        except UnknownTool as error:
            return Outcome(call.id, refusal=Refusal(INVALID_PARAMS, str(error)))
        except ToolDisabled as error:
            return self._failed(call, error)
        if tool.takes_cursor and (cursor := _cursor(call, tool)) is not None:
            return await self._continued(call, tool, grant, cursor)
        try:
            arguments = tool.parse(call.arguments)
        except InvalidParams as error:
            return self._unfit(call, tool, grant, error)
        if tool.takes_cursor and not tool.has_own_cursor:
            arguments.pop(CURSOR, None)
        return await self._executed(call, tool, grant, arguments)

    async def _continued(self, call: Call, tool: Tool, grant: Grant, cursor: str) -> Outcome:
        """The next page of an earlier result. The tool itself is not called: a command does not run again."""
        origin = cursors.Origin.of(tool.name, call.caller.name, call.arguments)
        work = partial(self._compactor.continued, cursor, tool, origin)
        try:
            short = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except InvalidParams as error:
            return self._unfit(call, tool, grant, error)
        except ToolError as error:
            return self._failed(call, error, grant)
        return Outcome(call.id, grant.form, written=Compact(short.encoded))

    async def _executed(self, call: Call, tool: Tool, grant: Grant, arguments: dict[str, Any]) -> Outcome:
        question = arguments.pop(FOCUS, None) if tool.takes_focus else None
        around = self._surroundings
        caller = call.caller
        denied = grant.deny
        context = ToolContext(
            call.id,
            around.paths if denied.paths is None else around.paths.denying(denied.paths),
            lambda: call.is_cancelled,
            call.report or _unheard,
            call.tell or _unheard,
            around.sessions,
            caller.reader,
            around.yield_ms if caller.is_on_mcp else 0,
            self._artifacts.of(caller.name),
            around.journal,
            around.revs,
            around.line_indexes,
            around.listings,
            around.engine,
            caller.name,
            around.pruner,
            around.root,
            denied.commands,
        )
        is_traced = log.isEnabledFor(logging.DEBUG)
        started = time.perf_counter() if is_traced else 0.0
        if is_traced:
            event(log, logging.DEBUG, "tool.exec_start", request_id=call.id, tool=tool.name)
        try:
            if question is not None and around.pruner is not None:
                outcome = await self._focused(call, tool, grant, context, arguments, question, around.pruner)
            elif tool.instant is not None and tool.instant(context, **arguments):
                outcome = self._worked(call, tool, grant, context, arguments)
            else:
                outcome = await self._run(call, tool, grant, context, arguments)
        except InvalidParams as error:
            return self._unfit(call, tool, grant, error)
        except ToolError as error:
            return self._failed(call, error, grant)
        except Refused as error:
            event(log, logging.INFO, "tool.exec_refused", request_id=call.id, tool=tool.name, code=error.code)
            return Outcome(call.id, refusal=Refusal(error.code, error.message, error.data))
        except TimeoutError:
            call.is_cancelled = True
            event(log, logging.WARNING, "tool.exec_timeout", request_id=call.id, tool=tool.name)
            message = f"{tool.name} took longer than {grant.deadline_s:g} s and was given up"
            return Outcome(call.id, grant.form, error=Timeout(message, hint="ask for less at once"))
        except (asyncio.CancelledError, Cancelled):
            call.is_cancelled = True
            raise asyncio.CancelledError from None
        except Exception:
            # A boundary: an exception of ours never reaches the wire; the log has it under the call's id.
            event(log, logging.ERROR, "tool.internal_error", request_id=call.id, exc=True, tool=tool.name)
            message = f"{tool.name} failed inside the daemon (call {call.id}); its log has the details"
            return Outcome(call.id, grant.form, error=InternalError(message))
        if is_traced:
            took_ms = round((time.perf_counter() - started) * 1000, 1)
            size = outcome.written_bytes
            event(
                log, logging.DEBUG, "tool.exec_ok", request_id=call.id, tool=tool.name, duration_ms=took_ms, bytes=size
            )
            pruning = getattr(outcome.result, "pruning", None)
            mode = "pruned" if pruning is not None and pruning.applied else "raw"
            event(log, logging.DEBUG, "tool.respond_ok", request_id=call.id, tool=tool.name, mode=mode)
        return outcome

    async def _run(
        self, call: Call, tool: Tool, grant: Grant, context: ToolContext, arguments: Mapping[str, Any]
    ) -> Outcome:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(grant.deadline_s):
            if not tool.is_async:
                work = partial(self._worked, call, tool, grant, context, arguments)
                return await loop.run_in_executor(self._threads, work)
            outcome = Outcome(call.id, grant.form, result=await tool.function(context, **arguments))
        return await self._shaped(call, outcome, tool)

    async def _focused(
        self,
        call: Call,
        tool: Tool,
        grant: Grant,
        context: ToolContext,
        arguments: Mapping[str, Any],
        question: str,
        pruner: Pruner,
    ) -> Outcome:
        """Run the tool as ever, and leave of its result what the question needs."""
        async with asyncio.timeout(grant.deadline_s):
            if tool.is_async:
                result = await tool.function(context, **arguments)
            else:
                work = partial(tool.function, context, **arguments)
                result = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        result = await focused(result, question, pruner, tool=tool.name, call_id=call.id, owner=context.owner)
        return await self._shaped(call, Outcome(call.id, grant.form, result=result), tool)

    async def _shaped(self, call: Call, outcome: Outcome, tool: Tool | None) -> Outcome:
        fitting = self._shaper.fitting(outcome, call.caller, tool)
        if fitting is None:
            work = partial(self._shaper.written, outcome, call, tool)
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        return fitting

    def _worked(
        self, call: Call, tool: Tool, grant: Grant, context: ToolContext, arguments: Mapping[str, Any]
    ) -> Outcome:
        """Written where it was made: a large result is encoded, and kept if it must be, beside the loop."""
        result: Result = tool.function(context, **arguments)
        return self._shaper.written(Outcome(call.id, grant.form, result=result), call, tool)

    def _unfit(self, call: Call, tool: Tool, grant: Grant, error: InvalidParams) -> Outcome:
        event(log, logging.INFO, "tool.request_invalid", request_id=call.id, tool=tool.name, message=error.message)
        if tool.json_rpc_errors:
            return Outcome(call.id, refusal=_invalid_params(tool, error))
        return Outcome(call.id, grant.form, error=error)

    def _failed(self, call: Call, error: ToolError, grant: Grant | None = None) -> Outcome:
        event(log, logging.INFO, "tool.exec_failed", request_id=call.id, tool=call.tool, **error.facts)
        if isinstance(error, Failed) and error.timeout_ms is not None:
            limit = error.timeout_ms
            event(log, logging.WARNING, "tool.exec_timeout", request_id=call.id, tool=call.tool, timeout_ms=limit)
        form = grant.form if grant is not None else self._gate.form(call.caller.access)
        return Outcome(call.id, form, error=error)


def _invalid_params(tool: Tool, error: InvalidParams) -> Refusal:
    data = {"jeeves": {"schemaVersion": 1}, "method": "tools/call", "tool": tool.name, "issues": error.issues}
    return Refusal(INVALID_PARAMS, "Invalid params", data)


def _cursor(call: Call, tool: Tool) -> str | None:
    """Where the call goes on; None if it is a new one. A tool's own cursor is the tool's, and not one of ours."""
    cursor = call.arguments.get(CURSOR)
    is_for_us = isinstance(cursor, str) and (not tool.has_own_cursor or cursors.is_cursor(cursor))
    return cursor if is_for_us else None


def _unheard(*_: object) -> None:
    pass
