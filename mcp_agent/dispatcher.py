"""The one path of a call: may the caller, do the arguments fit, run it, answer. Every wire comes through here."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any

from mcp_agent.calls import Call, Outcome, Refusal
from mcp_agent.focusing import focused
from mcp_agent.logs import event
from registry.gate import Gate, Grant, UnknownTool
from tools.context import Cancelled, Paths, Pruner, Sessions, ToolContext
from tools.errors import InternalError, InvalidParams, Refused, Timeout, ToolDisabled, ToolError
from tools.pruning.argument import FOCUS
from tools.results import Result
from tools.spec import Tool

log = logging.getLogger(__name__)

INVALID_PARAMS = -32602


class Dispatcher:
    """Runs calls. `def` tools run on `threads`, so that a slow disk holds up nobody else."""

    def __init__(
        self,
        gate: Gate,
        paths: Paths,
        threads: Executor,
        sessions: Sessions | None = None,
        yield_ms: int = 0,
        *,
        pruner: Pruner | None = None,
        root: Path | None = None,
    ) -> None:
        self._gate = gate
        self._pruner = pruner
        self._root = root or Path()
        self._paths = paths
        self._threads = threads
        self._sessions = sessions
        self._yield_ms = yield_ms

    async def call(self, call: Call) -> Outcome:
        """Carry out `call`. Never raises, save for cancellation: what goes wrong is in the outcome."""
        if log.isEnabledFor(logging.DEBUG):
            event(log, logging.DEBUG, "tool.request_received", request_id=call.id, tool=call.tool)
        try:
            tool, grant = self._gate.admit(call.caller.access, call.tool)
        except UnknownTool as error:
            return Outcome(call.id, refusal=Refusal(INVALID_PARAMS, str(error)))
        except ToolDisabled as error:
            return self._failed(call, error)
        try:
            arguments = tool.parse(call.arguments)
        except InvalidParams as error:
            return self._unfit(call, tool, grant, error)
        return await self._executed(call, tool, grant, arguments)

    async def _executed(self, call: Call, tool: Tool, grant: Grant, arguments: dict[str, Any]) -> Outcome:
        question = arguments.pop(FOCUS, None) if tool.takes_focus else None
        started = time.perf_counter()
        context = ToolContext(
            call.id,
            self._paths,
            lambda: call.is_cancelled,
            call.report or _unheard,
            call.tell or _unheard,
            sessions=self._sessions,
            connection=call.caller.reader,
            owner=call.caller.name,
            pruner=self._pruner,
            root=self._root,
            yield_ms=self._yield_ms if call.caller.is_on_mcp else 0,
        )
        is_traced = log.isEnabledFor(logging.DEBUG)
        if is_traced:
            event(log, logging.DEBUG, "tool.exec_start", request_id=call.id, tool=tool.name)
        try:
            if tool.instant is not None and tool.instant(context, **arguments):
                result = tool.function(context, **arguments)
            else:
                result = await self._run(tool, grant, context, arguments)
            if question is not None and self._pruner is not None:
                result = await focused(
                    result, question, self._pruner, tool=tool.name, call_id=call.id, owner=call.caller.name
                )
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
            event(log, logging.DEBUG, "tool.exec_ok", request_id=call.id, tool=tool.name, duration_ms=took_ms)
        return Outcome(call.id, grant.form, result=result)

    async def _run(self, tool: Tool, grant: Grant, context: ToolContext, arguments: Mapping[str, Any]) -> Result:
        result: Result
        async with asyncio.timeout(grant.deadline_s):
            if tool.is_async:
                result = await tool.function(context, **arguments)
            else:
                work = partial(tool.function, context, **arguments)
                result = await asyncio.get_running_loop().run_in_executor(self._threads, work)
        return result

    def _unfit(self, call: Call, tool: Tool, grant: Grant, error: InvalidParams) -> Outcome:
        event(log, logging.INFO, "tool.request_invalid", request_id=call.id, tool=tool.name, message=error.message)
        if tool.json_rpc_errors:
            return Outcome(call.id, refusal=_invalid_params(tool, error))
        return Outcome(call.id, grant.form, error=error)

    def _failed(self, call: Call, error: ToolError, grant: Grant | None = None) -> Outcome:
        event(log, logging.INFO, "tool.exec_failed", request_id=call.id, tool=call.tool, **error.facts)
        form = grant.form if grant is not None else self._gate.form(call.caller.access)
        return Outcome(call.id, form, error=error)


def _invalid_params(tool: Tool, error: InvalidParams) -> Refusal:
    data = {"jeeves": {"schemaVersion": 1}, "method": "tools/call", "tool": tool.name, "issues": error.issues}
    return Refusal(INVALID_PARAMS, "Invalid params", data)


def _unheard(*_: object) -> None:
    pass
