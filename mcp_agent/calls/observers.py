"""Observers of calls: the audit log, and the trace in the log. The metrics are a third one, in `metrics.py`."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, Protocol

from mcp_agent.calls.call import Call, Failure, Outcome, Refusal, Success
from mcp_agent.logs import event
from mcp_agent.storage.audit_log import AuditLog
from registry.catalog import Catalog
from tools.kit.errors import Failed, InternalError, InvalidParams, Timeout, ToolError
from tools.kit.params import Field

log = logging.getLogger(__name__)

# Where results are not kept short, one that is larger than this is worth a person's look.
_LARGE_BYTES = 10_240
_TEXT_CHARS = 300
# The first word of a command, unless it sets a variable: a value of one may be a secret.
_PROGRAM = re.compile(r"\s*([\w./+-]{1,60})(?=\s|$)")
_MOST_ARGUMENTS = 20
_UNDECLARED = Field()


class CallObserver(Protocol):
    """Hears of every call. Runs on the event loop; keep it fast."""

    def observe(self, call: Call, outcome: Outcome | None, took_s: float, result_bytes: int) -> None:
        """The call is over. `outcome` is None if it was cancelled."""


class AuditObserver(CallObserver):
    """Writes a line of the audit log for every call: who, what, and what came of it. Never what was in a file.

    Of the arguments it keeps the shape: numbers and booleans as they are, the text of those that the tool declares as
    `audited`, and of any other text the length. Of a command it keeps the first word, the program. It keeps no hash of
    arguments, because a short secret can be found by trying.
    """

    def __init__(self, audit: AuditLog, catalog: Catalog) -> None:
        self._audit = audit
        self._catalog = catalog

    def observe(self, call: Call, outcome: Outcome | None, took_s: float, result_bytes: int) -> None:
        caller = call.caller
        tool = self._catalog.by_name.get(call.tool)
        facts: dict[str, Any] = {
            "req": call.id,
            "client": caller.name,
            "program": caller.client[:200],
            "transport": caller.transport,
            "tool": call.tool[:100],
            "args": argument_shapes(call.arguments, {} if tool is None else tool.argument_fields),
            "outcome": "CANCELLED" if outcome is None else outcome.code,
            "ms": int(took_s * 100_000) / 100,
            "bytes": result_bytes,
        }
        whole_bytes: int | None = None
        if isinstance(outcome, Success):
            whole_bytes = outcome.whole_bytes
            if (status := outcome.result.exit_status) is not None:
                facts["exit"] = status
        elif isinstance(outcome, Failure):
            whole_bytes = outcome.whole_bytes
            if outcome.error.rule is not None:
                facts["rule"] = outcome.error.rule
        if whole_bytes is not None:
            facts["whole_bytes"] = whole_bytes
        self._audit.write(facts)


class CallTrace(CallObserver):
    """Logs how calls end: each at DEBUG, a failure at INFO, a timeout or a large result at WARNING."""

    def observe(self, call: Call, outcome: Outcome | None, took_s: float, result_bytes: int) -> None:
        if isinstance(outcome, Success):
            if log.isEnabledFor(logging.DEBUG):
                took_ms, pruning = round(took_s * 1000, 1), outcome.result.pruning_metadata
                mode = "pruned" if pruning is not None and pruning.applied else "raw"
                trace(logging.DEBUG, "tool.exec_ok", call, duration_ms=took_ms, bytes=result_bytes)
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
    elif isinstance(error, Failed) and error.timeout_ms is not None:
        trace(logging.WARNING, "tool.exec_timeout", call, timeout_ms=error.timeout_ms)


def argument_shapes(arguments: Mapping[str, Any], declared: Mapping[str, Field]) -> dict[str, Any]:
    """The arguments, with a length in place of each text that may not be kept."""
    shapes: dict[str, Any] = {}
    for name, value in islice(arguments.items(), _MOST_ARGUMENTS):
        shapes[name[:60]] = _shape(value, declared.get(name, _UNDECLARED))
    if len(arguments) > _MOST_ARGUMENTS:
        shapes["…"] = len(arguments) - _MOST_ARGUMENTS
    return shapes


def _shape(value: Any, declared: Field) -> Any:
    if isinstance(value, str):
        if declared.audited:
            return value[:_TEXT_CHARS]
        if declared.is_command and (program := _PROGRAM.match(value)) is not None:
            return f"{program[1]} … <{len(value)} chars>"
        return f"<{len(value)} chars>"
    if isinstance(value, list):
        return f"<{len(value)} items>"
    if isinstance(value, dict):
        return f"<{len(value)} keys>"
    return value
