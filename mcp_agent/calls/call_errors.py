"""The errors that the host itself answers a call with, and not the tool."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import orjson

from mcp_agent.calls.call import Call, Refusal
from mcp_agent.process.logs import event
from registry.gate import Grant
from tools.kit.errors import InternalError, InvalidParams, Timeout
from tools.kit.spec import Tool

log = logging.getLogger(__name__)

INVALID_PARAMS = -32602
# Of the problems of a call, where results are kept short.
_ISSUES_BYTES = 6_000


def timeout_error(tool: Tool, grant: Grant) -> Timeout:
    message = f"{tool.name} took longer than {grant.deadline_s:g} s and was given up"
    return Timeout(message, hint="ask for less at once")


def internal_error(call: Call) -> InternalError:
    """Log the exception at hand. A boundary: it never reaches the wire, and the log has it under the call's id."""
    event(log, logging.ERROR, "tool.internal_error", request_id=call.id, exc=True, tool=call.tool)
    return InternalError(f"{call.tool} failed inside the daemon (call {call.id}); its log has the details")


def refuse_arguments(tool: Tool, error: InvalidParams, *, is_short: bool) -> Refusal:
    """The JSON-RPC error for arguments that do not fit a tool whose contract asks for one."""
    data: dict[str, Any] = {
        "jeeves": {"schemaVersion": 1},
        "method": "tools/call",
        "tool": tool.name,
        "issues": error.issues,
    }
    if is_short and (left_out := len(error.issues) - _fitting(error.issues, _ISSUES_BYTES)):
        data |= {"issues": error.issues[:-left_out], "issues_left_out": left_out}
    return Refusal(INVALID_PARAMS, "Invalid params", data, reason=error.message)


def _fitting(values: Sequence[Any], room: int) -> int:
    """How many elements from the start of a list take no more than `room` as JSON."""
    for index, value in enumerate(values):
        room -= len(orjson.dumps(value)) + 1
        if room < 0:
            return index
    return len(values)
