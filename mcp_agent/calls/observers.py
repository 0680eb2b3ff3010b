"""Observers of calls: the audit log, the trace in the log, the counts that /metrics shows, and the latest results."""

from __future__ import annotations

import logging
import re
import time
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeGuard

from msgspec import Struct, field

from mcp_agent.answers.budget import choose_form
from mcp_agent.answers.reply import Blocks, Compact, Written, form_and_bytes
from mcp_agent.calls.call import Call, Caller, Failure, Outcome, Refusal, Success
from mcp_agent.calls.contract import ContractError
from mcp_agent.process.logs import event
from mcp_agent.process.memory import exact_copy
from mcp_agent.storage.audit_log import AuditLog
from mcp_agent.storage.refusals import RefusalCount, Refusals
from registry.gate import Gate
from tools.kit.errors import InternalError, InvalidParams, Timeout, ToolDisabled, ToolError
from tools.kit.params import Field
from tools.kit.results import NO_FACTS, Media, ResultFacts

log = logging.getLogger(__name__)

# Where results are not kept short, one that is larger than this is worth a person's look.
_LARGE_BYTES = 10_240
_TEXT_CHARS = 300
# The first word of a command, unless it sets a variable: a value of one may be a secret.
_PROGRAM = re.compile(r"\s*([\w./+-]{1,60})(?=\s|$)")
_MOST_ARGUMENTS = 20
# Of one caller, in a second; the rest is counted.
_MOST_REFUSED_LINES = 10
_MOST_CONNECT_LINES = 10
_UNDECLARED = Field()
# The largest result in compact mode. Larger results are counted before they are cut.
LARGE_BYTES = 10_000
_MOST_RULES = 200
_MOST_KEPT = 200
_MOST_KEPT_BYTES = 16 * 1024
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
_BYTES = (256.0, 1_024.0, 4_096.0, 10_000.0, 32_768.0, 102_400.0, 1_000_000.0)


class EndedCall(NamedTuple):
    """A call that is over. `outcome` is None if it was cancelled."""

    call: Call
    outcome: Outcome | None
    took_s: float
    result_bytes: int = 0
    facts: ResultFacts = NO_FACTS
    # How many bytes a focus question saved; None if nothing was pruned.
    saved_bytes: int | None = None
    # How the result was written; None if there is none.
    form: str | None = None


class CallObserver(Protocol):
    """Hears of every call. Runs on the event loop; keep it fast."""

    def observe(self, ended: EndedCall) -> None: ...


def notify_all(observers: Sequence[CallObserver], call: Call, outcome: Outcome | None, began: float) -> None:
    """Tell every observer that a call is over, which began then by the performance counter."""
    took_s = time.perf_counter() - began
    form, result_bytes = (
        (None, 0) if outcome is None or isinstance(outcome, Refusal) else form_and_bytes(outcome.written)
    )
    facts, saved_bytes = NO_FACTS, None
    if isinstance(outcome, Success):
        facts, pruning = outcome.result.facts, outcome.remarks.pruning
        saved_bytes = None if pruning is None else pruning.saved_bytes
    ended = EndedCall(call, outcome, took_s, result_bytes, facts, saved_bytes, form)
    for observer in observers:
        observer.observe(ended)


class AuditObserver(CallObserver):
    """Writes a line of the audit log for every call: who, what, and what came of it. Never what was in a file.

    Of the arguments it keeps the shape: numbers and booleans as they are, the text of those that the tool declares as
    `audited`, and of any other text the length. Of a command it keeps the first word, the program. It keeps no hash of
    arguments, because a short secret can be found by trying. Calls that are refused without end are counted.
    """

    def __init__(self, audit: AuditLog, gate: Gate) -> None:
        self._audit = audit
        self._gate = gate
        self._refusals = Refusals(self._note_refused, _MOST_REFUSED_LINES)
        self._connects = Refusals(self._note_connects, _MOST_CONNECT_LINES)

    def observe(self, ended: EndedCall) -> None:
        call, outcome, took_s, result_bytes, result_facts, saved_bytes, form = ended
        caller = call.caller
        if _is_refused(outcome) and not self._refusals.is_first(outcome.code, caller.name, call.tool[:100]):
            return
        tool = self._gate.catalog.by_name.get(call.tool)
        facts: dict[str, Any] = {
            "req": call.id,
            "client": caller.name,
            "program": caller.client[:200],
            "transport": caller.transport,
            "form": form,
            "tool": call.tool[:100],
            "args": argument_shapes(call.arguments, {} if tool is None else tool.parameters.fields),
            "outcome": "CANCELLED" if outcome is None else outcome.code,
            "ms": int(took_s * 100_000) / 100,
            "bytes": result_bytes,
        }
        facts |= dict(caller.passed_on_by)
        if caller.user:
            facts["claimed_user"] = caller.user
        whole_bytes: int | None = None
        if isinstance(outcome, Success):
            whole_bytes = outcome.whole_bytes
            if result_facts.exit_status is not None:
                facts["exit"] = result_facts.exit_status
            if result_facts.change_id is not None:
                facts["undo"] = result_facts.change_id
            if saved_bytes is not None:
                facts["pruned_bytes"] = saved_bytes
        elif isinstance(outcome, Failure):
            whole_bytes = outcome.whole_bytes
            if outcome.error.rule is not None:
                facts["rule"] = outcome.error.rule
        if whole_bytes is not None:
            facts["whole_bytes"] = whole_bytes
        if isinstance(outcome, Success | Failure) and outcome.box:
            facts["box"] = outcome.box
        self._audit.write(facts)

    def _note_refused(self, refused: RefusalCount) -> None:
        self._audit.note(
            "calls_refused",
            client=refused.source,
            outcome=refused.reason,
            tool=refused.subject,
            count=refused.count,
        )

    def _note_connects(self, connected: RefusalCount) -> None:
        self._audit.note("connects", client=connected.source, program=connected.subject, count=connected.count)

    def observe_client(self, caller: Caller, client_version: str, protocol: str) -> None:
        """A client has introduced itself. Those that do so without end are counted."""
        if not self._connects.is_first("connect", caller.name, caller.client[:200]):
            return
        self._audit.note(
            "connect",
            client=caller.name,
            program=caller.client[:200],
            program_version=client_version[:100],
            transport=caller.transport,
            protocol=protocol,
            form=choose_form(self._gate.form(caller.access), caller) if caller.is_on_mcp else "json",
            profile=caller.access.narrowed_to or caller.access.profile or self._gate.profiles.active,
        )


def _is_refused(outcome: Outcome | None) -> TypeGuard[Refusal | Failure]:
    """Whether the call reached no tool. Such calls are cheap, so a client can make any number of them."""
    return isinstance(outcome, Refusal) or (isinstance(outcome, Failure) and isinstance(outcome.error, ToolDisabled))


class CallTrace(CallObserver):
    """Logs how calls end: each at DEBUG, a failure at INFO, a timeout or a large result at WARNING."""

    def observe(self, ended: EndedCall) -> None:
        call, outcome, _, result_bytes, *_ = ended
        if isinstance(outcome, Success):
            if log.isEnabledFor(logging.DEBUG):
                mode = "raw" if ended.saved_bytes is None else "pruned"
                trace(logging.DEBUG, "tool.respond_ok", call, mode=mode)
        elif isinstance(outcome, Failure):
            _trace_error(call, outcome.error)
        elif isinstance(outcome, Refusal):
            if outcome.reason:
                trace(logging.INFO, "tool.request_invalid", call, message=outcome.reason)
            else:
                trace(logging.INFO, "tool.exec_refused", call, code=outcome.error_code)
        if result_bytes > _LARGE_BYTES:
            trace(logging.WARNING, "response.large", call, bytes=result_bytes)


class Histogram:
    """Counts values by the smallest of `bounds` that they do not exceed."""

    __slots__ = ("_counts", "bounds", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> Iterator[tuple[str, int]]:
        """Each bound as Prometheus writes it, with the number of values up to it."""
        count = 0
        for bound, own in zip((*(f"{bound:g}" for bound in self.bounds), "+Inf"), self._counts, strict=True):
            count += own
            yield bound, count


class ToolCounts(Struct, eq=False):
    """The counts of one tool."""

    by_code: dict[str, int] = field(default_factory=dict)
    seconds: Histogram = field(default_factory=lambda: Histogram(_SECONDS))
    result_bytes: Histogram = field(default_factory=lambda: Histogram(_BYTES))
    large: int = 0
    cut: int = 0
    # Bytes that were not sent, by the step that removed them.
    saved: dict[str, int] = field(default_factory=dict)


class Metrics(CallObserver):
    """Counts what came of every call, by tool: during a call only plain numbers change.

    The labels are bounded: tools that exist, codes and reasons from our code, rules from tools.json.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self.by_tool: dict[str, ToolCounts] = {}
        # How many calls each deny rule was against.
        self.denied: dict[str, int] = {}

    def observe(self, ended: EndedCall) -> None:
        call, outcome, took_s, result_bytes, *_ = ended
        tool = self._gate.catalog.by_name.get(call.tool)
        # All names that no tool has share one entry.
        name = "unknown" if tool is None else tool.name
        counts = self.by_tool.get(name)
        if counts is None:
            counts = self.by_tool[name] = ToolCounts()
        code = "CANCELLED" if outcome is None else outcome.code
        counts.by_code[code] = counts.by_code.get(code, 0) + 1
        counts.seconds.add(took_s)
        if outcome is None or isinstance(outcome, Refusal):
            return
        counts.result_bytes.add(result_bytes)
        whole = outcome.whole_bytes
        if (whole or result_bytes) > LARGE_BYTES:
            counts.large += 1
        if whole is not None:
            counts.cut += 1
            counts.saved["budget"] = counts.saved.get("budget", 0) + max(whole - result_bytes, 0)
        if isinstance(outcome, Success):
            if ended.saved_bytes is not None:
                counts.saved["pruning"] = counts.saved.get("pruning", 0) + ended.saved_bytes
        elif isinstance(outcome, Failure) and outcome.error.rule is not None:
            rule = outcome.error.rule
            label = rule if rule in self.denied or len(self.denied) < _MOST_RULES else "other"
            self.denied[label] = self.denied.get(label, 0) + 1


class KeptResult(Struct, frozen=True):
    """The beginning of what went out, and its form (`form_and_bytes`), or `refused`."""

    form: str
    beginning: bytes | str
    is_cut: bool

    @property
    def text(self) -> str:
        return self.beginning if isinstance(self.beginning, str) else self.beginning.decode("utf-8", "replace")


class RecentResults(CallObserver):
    """The newest results by the id of their call, each up to a bound, for the owner to look at on the Tools page."""

    def __init__(self) -> None:
        # A small result is kept in the form in which it was written; few are ever looked at.
        self._kept: OrderedDict[str, Written | KeptResult] = OrderedDict()

    def find(self, call_id: str) -> KeptResult | None:
        kept = self._kept.get(call_id)
        return kept if kept is None or isinstance(kept, KeptResult) else _beginning(kept)

    def observe(self, ended: EndedCall) -> None:
        call, outcome, _, result_bytes, *_ = ended
        if outcome is None:
            return
        if isinstance(outcome, Refusal):
            self._kept[call.id] = KeptResult("refused", outcome.message[:_MOST_KEPT_BYTES], False)
        elif result_bytes <= _MOST_KEPT_BYTES:
            self._kept[call.id] = _exact(outcome.written)
        else:
            self._kept[call.id] = _beginning(outcome.written)
        if len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)


def trace(level: int, name: str, call: Call, **facts: Any) -> None:
    """Log the event `name` of a call. The dispatcher logs its steps with it, if DEBUG is on."""
    event(log, level, name, request_id=call.id, tool=call.tool, **facts)


def _trace_error(call: Call, error: ToolError) -> None:
    if isinstance(error, InternalError):
        # Where it was caught it was logged, with its traceback.
        return
    if isinstance(error, InvalidParams):
        trace(logging.INFO, "tool.request_invalid", call, message=error.message)
        return
    trace(logging.INFO, "tool.exec_failed", call, **error.facts)
    if isinstance(error, Timeout):
        trace(logging.WARNING, "tool.exec_timeout", call)
    elif isinstance(error, ContractError) and error.timeout_ms is not None:
        trace(logging.WARNING, "tool.exec_timeout", call, timeout_ms=error.timeout_ms)


def argument_shapes(arguments: Mapping[str, Any], declared: Mapping[str, Field]) -> dict[str, Any]:
    """The arguments, with a length in place of each text that may not be kept."""
    shapes: dict[str, Any] = {}
    for name, value in islice(arguments.items(), _MOST_ARGUMENTS):
        if isinstance(value, str):
            said = declared.get(name, _UNDECLARED)
            if said.audited:
                shapes[name[:60]] = value[:_TEXT_CHARS]
            elif said.is_command and (program := _PROGRAM.match(value)) is not None:
                shapes[name[:60]] = f"{program[1]} … <{len(value)} chars>"
            else:
                shapes[name[:60]] = f"<{len(value)} chars>"
        elif isinstance(value, list):
            shapes[name[:60]] = f"<{len(value)} items>"
        elif isinstance(value, dict):
            shapes[name[:60]] = f"<{len(value)} keys>"
        else:
            shapes[name[:60]] = value
    if len(arguments) > _MOST_ARGUMENTS:
        shapes["…"] = len(arguments) - _MOST_ARGUMENTS
    return shapes


def _beginning(written: Written) -> KeptResult:
    form, _ = form_and_bytes(written)
    if isinstance(written, Media):
        return KeptResult(form, f"{written.type}, {len(written.data)} bytes", False)
    whole = written.encoded if isinstance(written, Blocks | Compact) else written
    # A slice, so that a large result is not kept by its beginning.
    return KeptResult(form, whole[:_MOST_KEPT_BYTES], len(whole) > _MOST_KEPT_BYTES)


def _exact(written: Written) -> Written:
    """The same in memory of its own size."""
    if isinstance(written, bytes):
        return exact_copy(written)
    if isinstance(written, Compact):
        return Compact(exact_copy(written.encoded))
    if isinstance(written, Blocks):
        structured = written.structured
        return Blocks(exact_copy(written.encoded), None if structured is None else exact_copy(structured))
    return written
