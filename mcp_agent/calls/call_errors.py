"""The errors that the host itself answers a call with, and not the tool."""

from __future__ import annotations

import logging

from mcp_agent.calls.call import Call
from mcp_agent.process.logs import event
from registry.gate import Grant
from tools.kit.errors import InternalError, Timeout
from tools.kit.spec import Tool

log = logging.getLogger(__name__)


def timeout_error(tool: Tool, grant: Grant) -> Timeout:
    message = f"{tool.name} took longer than {grant.deadline_s:g} s and was given up"
    return Timeout(message, hint="ask for less at once")


def internal_error(call: Call) -> InternalError:
    """Log the exception at hand. A boundary: it never reaches the wire, and the log has it under the call's id."""
    event(log, logging.ERROR, "tool.internal_error", request_id=call.id, exc=True, tool=call.tool)
    return InternalError(f"{call.tool} failed inside the daemon (call {call.id}); its log has the details")
