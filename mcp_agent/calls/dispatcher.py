"""The one path of a call: admit, parse, run, prune, shape. Every wire comes through here."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar

from mcp_agent.calls.call import Call, Failure, Outcome, Page, Refusal, SharedContext, Success, outgoing_bytes
from mcp_agent.calls.focus import prune
from mcp_agent.calls.observers import CallObserver, trace
from mcp_agent.calls.shaping import Shaped, Shaper
from mcp_agent.compact.cursors import is_cursor
from mcp_agent.logs import event
from registry.gate import Gate, Shape, UnknownTool
from tools.context import Cancelled, ToolContext
from tools.kit.errors import InternalError, InvalidParams, Refused, Timeout, ToolDisabled, ToolError
from tools.kit.focus import FOCUS
from tools.kit.results import Result
from tools.kit.spec import CURSOR, Tool

log = logging.getLogger(__name__)

INVALID_PARAMS = -32602

_T = TypeVar("_T")


class Dispatcher:
    """Runs calls. `def` tools run on `threads`, so that a slow disk delays nobody else."""

    def __init__(
        self,
        gate: Gate,
        context: SharedContext,
        shaper: Shaper,
        threads: Executor,
        observers: Sequence[CallObserver],
    ) -> None:
        self._gate = gate
        self._context = context
        self._shaper = shaper
        self._threads = threads
        self._observers = observers

    async def call(self, call: Call) -> Outcome:
        """Carry out `call`. Never raises, save for cancellation: what goes wrong is in the outcome."""
        began = time.perf_counter()
        if log.isEnabledFor(logging.DEBUG):
            trace(logging.DEBUG, "tool.request_received", call)
        outcome: Outcome | None = None
        try:
            outcome = await self._carry_out(call)
            return outcome
        finally:
            took_s = time.perf_counter() - began
            result_bytes = 0 if outcome is None else outgoing_bytes(outcome)
            for observer in self._observers:
                observer.observe(call, outcome, took_s, result_bytes)

    async def _carry_out(self, call: Call) -> Outcome:
        """The steps of every call, in this order: admit, parse, run, prune, shape."""
        try:
            tool, grant = self._gate.admit(call.caller.access, call.tool)
        except UnknownTool as error:
            return Refusal(INVALID_PARAMS, str(error), reason=str(error))
        except ToolDisabled as error:
            return await self._fail(error, call, self._gate.form(call.caller.access))
        try:
            if tool.takes_cursor and (cursor := _host_cursor(call, tool)) is not None:
                # The next page of an earlier result. The tool is not run: a command does not run again.
                return Page(await self._in_thread(self._shaper.page, cursor, tool, call))
            arguments = tool.parse(call.arguments)
            question = arguments.pop(FOCUS, None) if tool.takes_focus else None
            context = self._context.for_call(call, grant)
            if log.isEnabledFor(logging.DEBUG):
                trace(logging.DEBUG, "tool.exec_start", call)
            result = await self._run(tool, context, arguments, grant.deadline_s)
            if question is not None:
                result = await prune(result, question, tool, context)
            return Success(result, *await self._shape(result, call, grant.form, tool))
        except InvalidParams as error:
            return _refuse(tool, error) if tool.json_rpc_errors else await self._fail(error, call, grant.form)
        except ToolError as error:
            return await self._fail(error, call, grant.form)
        except Refused as error:
            return Refusal(error.code, error.message, error.data)
        except TimeoutError:
            message = f"{tool.name} took longer than {grant.deadline_s:g} s and was given up"
            return await self._fail(Timeout(message, hint="ask for less at once"), call, grant.form)
        except (asyncio.CancelledError, Cancelled):
            raise asyncio.CancelledError from None
        except Exception:
            # A boundary: an exception of ours never reaches the wire; the log has it under the call's id.
            event(log, logging.ERROR, "tool.internal_error", request_id=call.id, exc=True, tool=tool.name)
            message = f"{tool.name} failed inside the daemon (call {call.id}); its log has the details"
            return await self._fail(InternalError(message), call, grant.form)

    async def _run(self, tool: Tool, context: ToolContext, arguments: dict[str, Any], deadline_s: float) -> Result:
        """Run `async def` on the loop and `def` in a thread; what is over in microseconds runs on the loop, too."""
        result: Result
        if tool.instant is not None and tool.instant(context, **arguments):
            result = tool.function(context, **arguments)
            return result
        try:
            async with asyncio.timeout(deadline_s):
                if tool.is_async:
                    result = await tool.function(context, **arguments)
                else:
                    result = await self._in_thread(partial(tool.function, context, **arguments))
        except (TimeoutError, asyncio.CancelledError):
            # A thread cannot be cancelled: it looks at this now and then, and stops by itself.
            context.is_cancelled = True
            raise
        return result

    async def _shape(self, answer: Result | ToolError, call: Call, form: Shape, tool: Tool | None) -> Shaped:
        """As it goes out. What is large, or must be kept on disk, is written in a thread."""
        small = self._shaper.shape_small(answer, call, form, tool)
        if small is not None:
            return small
        return await self._in_thread(self._shaper.shape, answer, call, form, tool)

    async def _fail(self, error: ToolError, call: Call, form: Shape) -> Failure:
        return Failure(error, *await self._shape(error, call, form, None))

    def _in_thread(self, function: Callable[..., _T], *arguments: Any) -> asyncio.Future[_T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)


def _host_cursor(call: Call, tool: Tool) -> str | None:
    """Where the call goes on; None if it is a new one. A tool's own cursor is the tool's, and not one of ours."""
    cursor = call.arguments.get(CURSOR)
    is_ours = isinstance(cursor, str) and (not tool.has_own_cursor or is_cursor(cursor))
    return cursor if is_ours else None


def _refuse(tool: Tool, error: InvalidParams) -> Refusal:
    data = {"jeeves": {"schemaVersion": 1}, "method": "tools/call", "tool": tool.name, "issues": error.issues}
    return Refusal(INVALID_PARAMS, "Invalid params", data, reason=error.message)
