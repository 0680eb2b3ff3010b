"""The one path of a call: admit, parse, run, prune, fit. Every wire comes through here."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from functools import partial
from typing import Any, TypeVar

from mcp_agent.answers.budget import Budget
from mcp_agent.answers.fit import Answers, Fitted
from mcp_agent.answers.focus import body_bytes, focus, pruning_of_failure
from mcp_agent.answers.pages import is_cursor
from mcp_agent.answers.repeats import AGAIN, Asked, ShownTexts
from mcp_agent.answers.reply import NO_REMARKS, Remarks, ToolReply
from mcp_agent.calls.approval_question import (
    ApprovalQuestion,
    Approver,
    Nobody,
    PolicyChanged,
    check_denied,
    command_of,
    later_progress,
    look_at,
)
from mcp_agent.calls.call import Call, Failure, Outcome, Page, Refusal, SharedContext, Success
from mcp_agent.calls.contract import INVALID_PARAMS, ContractError, Refused, contract_of
from mcp_agent.calls.conversations import Conversations
from mcp_agent.calls.observers import CallObserver, notify_all, trace
from mcp_agent.process.logs import event
from registry.asking import ToolAsk
from registry.gate import Gate, Grant, UnknownTool
from tools.context import Cancelled, ToolContext
from tools.kit.errors import InternalError, Timeout, ToolDisabled, ToolError
from tools.kit.results import FOCUS, KEEP, Result
from tools.kit.spec import CURSOR, Tool

log = logging.getLogger(__name__)

_T = TypeVar("_T")
_R = TypeVar("_R", bound=Result)


class Dispatcher:
    """Runs calls. `def` tools run on `threads`, so that a slow disk delays nobody else."""

    def __init__(
        self,
        gate: Gate,
        context: SharedContext,
        answers: Answers,
        threads: Executor,
        observers: Sequence[CallObserver],
        approvals: Approver | None = None,
    ) -> None:
        self._gate = gate
        self._context = context
        self._answers = answers
        self._threads = threads
        self._observers = observers
        self.approvals = approvals or Nobody()
        self._conversations = Conversations(context.tools.paths, context.tools.sessions)
        self._shown_texts = ShownTexts()

    def with_gate(self, gate: Gate, observers: Sequence[CallObserver]) -> Dispatcher:
        """One that runs the tools of another gate in the same way."""
        return Dispatcher(gate, self._context, self._answers, self._threads, observers, self.approvals)

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
            notify_all(self._observers, call, outcome, began)

    async def run_as(self, call: Call, function: Callable[[ToolContext, Tool], _R]) -> _R:
        """Run `function` in a thread instead of the tool of `call`, with the same context.

        For a wire that needs a result in a form of its own, such as the bytes of a file. The gate, the rules, the
        deadline and the observers are those of the tool. Nothing is parsed or fitted. Raises ToolError.
        """
        began = time.perf_counter()
        outcome: Outcome | None = None
        try:
            tool, grant = self._gate.admit(call.caller.access, call.tool)
            context = self._context.for_call(call, grant)

            async def run() -> _R:
                return await _within(grant.deadline_s, context, self._in_thread(function, context, tool))

            if grant.asks is None:
                result = await run()
            else:
                result = await self.approvals.run(self._ask_as(call, tool, grant.asks, context), run)
            outcome = Success(result, b"")
            return result
        except ToolError as error:
            outcome = Failure(error, b"")
            raise
        except TimeoutError:
            outcome = Failure(_timeout_error(tool, grant), b"")
            raise outcome.error from None
        except PolicyChanged:
            return await self.run_as(call, function)
        except (asyncio.CancelledError, Cancelled):
            raise asyncio.CancelledError from None
        except Exception as error:
            outcome = Failure(_internal_error(call), b"")
            raise outcome.error from error
        finally:
            notify_all(self._observers, call, outcome, began)

    def _ask_as(self, call: Call, tool: Tool, asks: tuple[ToolAsk, ...], context: ToolContext) -> ApprovalQuestion:
        """The question about a call of another wire, whose arguments are those for the audit log.

        What is typed into a shell that a person has open is matched with the rules: the shell itself was approved.
        """
        arguments = call.arguments
        keyword = tool.command_keyword
        command = None if keyword is None else str(arguments.get(keyword, ""))
        if tool.typed is not None:
            asks, command = tuple(each.of_rules for each in asks), str(arguments.get("input", ""))
        folder = str(context.paths.working_directory)
        look = partial(self._in_thread, check_denied, tool, context, arguments, command)
        return ApprovalQuestion(call, tool, asks, arguments, command, folder, look, is_unique=True)

    async def _carry_out(self, call: Call) -> Outcome:
        """The steps of every call, in this order: admit, parse, run, prune, fit."""
        try:
            tool, grant = self._gate.admit(call.caller.access, call.tool)
        except UnknownTool as error:
            return Refusal(INVALID_PARAMS, str(error), reason=str(error))
        except ToolDisabled as error:
            return await self._fail(error, self._answers.budget(call, None, self._gate.form(call.caller.access)))
        if call.narrowing is not None:
            tool, grant = call.narrowing.narrow(tool, grant)
        paths, news = await self._conversations.begin(call)
        context = self._context.for_call(call, grant, paths)
        is_short = grant.form == "compact"
        contract = contract_of(tool, call.caller, is_literal=self._context.is_literal, is_short=is_short)
        budget = self._answers.budget(call, tool, grant.form, is_never_cut=contract.is_never_cut)
        arguments: dict[str, Any] = {}
        question: str | None = None
        remarks = Remarks(news)
        try:
            if tool.takes_cursor and (cursor := _host_cursor(call, tool)) is not None:
                # The next page of an earlier result. The tool is not run: a command does not run again.
                return Page(await self._in_thread(self._answers.page, cursor, tool, call))
            given = call.arguments
            asked: Asked | None = None
            if grant.shows_changes and budget.form == "text":
                again = given.get(AGAIN) in (True, "true") and AGAIN not in tool.parameters.by_name
                given = {name: value for name, value in given.items() if name != AGAIN} if again else given
                asked = self._shown_texts.begin(call.caller.origin, tool, given, again=again)
            arguments, notes = contract.parse(given)
            remarks = Remarks([*news, *notes])
            question, keep = (arguments.pop(FOCUS), arguments.pop(KEEP)) if tool.takes_focus else (None, None)
            if question is None and not budget.text.is_message:
                context.text_room = budget.text.below_header
            if tool.check is not None:
                tool.check(context, **arguments)
            context.is_for_model = budget.form == "text" and call.caller.is_on_mcp
            is_traced, started = log.isEnabledFor(logging.DEBUG), time.perf_counter()
            if is_traced:
                trace(logging.DEBUG, "tool.exec_start", call)
            if grant.asks is None:
                result = await self._run(tool, context, arguments, grant.deadline_s)
            else:
                result = await self._run_if_approved(call, tool, grant, context, arguments)
            if is_traced and not contract.is_failure(result):
                took_ms = round((time.perf_counter() - started) * 1000, 1)
                trace(logging.DEBUG, "tool.exec_ok", call, duration_ms=took_ms, bytes=body_bytes(result))
            if question is not None or tool.focus == "always":
                room = None if budget.text.is_message else budget.text.below_header.most_bytes
                result, pruning = await focus(result, question, keep, tool, context, contract.focus_request, room)
                remarks = remarks._replace(pruning=pruning)
            contract.check(result, arguments)
            if asked is not None and question is None:
                return await self._answer_again(asked, result, remarks, budget)
            return Success(result, *await self._fit(ToolReply(result, remarks), budget), remarks=remarks)
        except ToolError as error:
            problem = contract.error(error, arguments)
            if isinstance(problem, Refused):
                return problem.refusal
            if isinstance(problem, ContractError) and remarks.pruning is None:
                remarks = remarks._replace(pruning=pruning_of_failure(question, context))
            return await self._fail(problem, budget, remarks)
        except Refused as error:
            return error.refusal
        except TimeoutError:
            return await self._fail(_timeout_error(tool, grant), budget)
        except PolicyChanged:
            return await self._carry_out(call)
        except (asyncio.CancelledError, Cancelled):
            raise asyncio.CancelledError from None
        except Exception:
            return await self._fail(_internal_error(call), budget)

    async def _run_if_approved(
        self, call: Call, tool: Tool, grant: Grant, context: ToolContext, arguments: dict[str, Any]
    ) -> Result:
        """Run a call of a tool that asks the owner. The wait does not count against the deadline."""
        assert grant.asks is not None, "a tool that asks nobody runs at once"
        command = command_of(tool, context, arguments)
        look = partial(self._in_thread, look_at, tool, context, arguments, command)
        question = ApprovalQuestion(
            call, tool, grant.asks, arguments, command, str(context.paths.working_directory), look
        )
        began = time.monotonic()

        async def run() -> Result:
            if call.report is not None:
                context.report = later_progress(call.report, time.monotonic() - began)
            return await self._run(tool, context, arguments, grant.deadline_s)

        return await self.approvals.run(question, run)

    async def _run(self, tool: Tool, context: ToolContext, arguments: dict[str, Any], deadline_s: float) -> Result:
        """Run `async def` on the loop and `def` in a thread, except for a call that takes microseconds."""
        result: Result
        if tool.instant is not None and tool.instant(context, **arguments):
            result = tool.function(context, **arguments)
            return result
        if inspect.iscoroutinefunction(tool.function):
            work: Awaitable[Result] = tool.function(context, **arguments)
        else:
            work = self._in_thread(partial(tool.function, context, **arguments))
        result = await _within(deadline_s, context, work)
        return result

    async def _fit(self, reply: ToolReply, budget: Budget) -> Fitted:
        """The answer as it is sent. A large one, or one that must be stored, is written in a thread."""
        fitted = self._answers.fit(reply, budget)
        return fitted if isinstance(fitted, Fitted) else await self._in_thread(fitted)

    async def _answer_again(self, asked: Asked, result: Result, remarks: Remarks, budget: Budget) -> Success:
        """The answer for a conversation that is not shown again what it was shown."""
        answer = await self._in_thread(self._shown_texts.shorten, asked, result)
        fitted = await self._fit(ToolReply(answer, remarks), budget)
        if fitted.whole_bytes is None:
            self._shown_texts.was_shown(asked, result, answer)
        return Success(answer, *fitted, remarks=remarks)

    async def _fail(self, error: ToolError, budget: Budget, remarks: Remarks = NO_REMARKS) -> Failure:
        return Failure(error, *await self._fit(ToolReply(error, remarks), budget), remarks=remarks)

    def _in_thread(self, function: Callable[..., _T], *arguments: Any) -> asyncio.Future[_T]:
        return asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)


def _host_cursor(call: Call, tool: Tool) -> str | None:
    """The cursor of a call that continues an earlier one; None for a new call, and for a cursor of the tool's own."""
    cursor = call.arguments.get(CURSOR)
    is_ours = isinstance(cursor, str) and (not tool.has_own_cursor or is_cursor(cursor))
    return cursor if is_ours else None


async def _within(deadline_s: float, context: ToolContext, work: Awaitable[_T]) -> _T:
    """What the work of a call gives. Raises TimeoutError at its deadline."""
    try:
        async with asyncio.timeout(deadline_s):
            return await work
    except (TimeoutError, asyncio.CancelledError):
        # A thread cannot be cancelled: the tool checks this flag and stops.
        context.is_cancelled = True
        raise


def _timeout_error(tool: Tool, grant: Grant) -> Timeout:
    message = f"{tool.name} took longer than {grant.deadline_s:g} s and was given up"
    return Timeout(message, hint="ask for less at once")


def _internal_error(call: Call) -> InternalError:
    """Log the exception at hand. A boundary: it never reaches the wire, and the log has it under the call's id."""
    event(log, logging.ERROR, "tool.internal_error", request_id=call.id, exc=True, tool=call.tool)
    return InternalError(f"{call.tool} failed inside the daemon (call {call.id}); its log has the details")
