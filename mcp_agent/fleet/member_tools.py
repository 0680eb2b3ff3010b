"""What a member can do for gateways besides the tools of its box: send a file, receive one, and show its sessions.

No list has these, and they need no switches of their own. Each is allowed to a gateway that may use a tool here which
can do the same, under the same deny rules; and each has its line in the audit log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from mcp_agent.calls.call import Call, Outcome
from mcp_agent.calls.dispatcher import Dispatcher
from mcp_agent.calls.observers import AuditObserver, CallTrace
from mcp_agent.daemon import Daemon
from mcp_agent.fleet.member_copies import RECEIVE, SEND, MemberCopies
from registry.catalog import Catalog
from registry.gate import Access, Gate, Grant, Shape
from tools.context import ToolContext
from tools.kit.params import Field
from tools.kit.results import Result
from tools.kit.spec import Tool, tool
from tools.sessions.manager import SessionManager
from tools.sessions.session import describe_session

SESSIONS = "box_sessions"
_MOST_OUTPUT_BYTES = 64 * 1024
# The tool that a gateway must be allowed to use here.
NEEDS = {SEND: "fs_read", RECEIVE: "fs_write", SESSIONS: "shell_send_input"}


class SessionReport(Result, frozen=True):
    """With `text` the output of one session from `offset` to `next_offset`."""

    sessions: Sequence[dict[str, Any]]
    text: str | None = None
    offset: int | None = None
    next_offset: int | None = None

    def render(self) -> str:
        return f"{len(self.sessions)} sessions"


def session_tool(sessions: SessionManager) -> Tool:
    @tool("fleet", effect="read", name=SESSIONS, deadline_s=10.0)
    async def box_sessions(
        ctx: ToolContext,
        *,
        session_id: Annotated[str | None, Field(description="One of them, with its output.", audited=True)] = None,
        offset: Annotated[int, Field(description="From where; negative: from the end.")] = 0,
    ) -> SessionReport:
        """Show the sessions of this box."""
        if session_id is None:
            return SessionReport([describe_session(each) for each in sessions.all])
        session = sessions.find(session_id)
        start = max(0, session.end + offset if offset < 0 else offset)
        text, begin, end = session.text(start, _MOST_OUTPUT_BYTES)
        return SessionReport([describe_session(session)], text, begin, end)

    return box_sessions


class MemberTools:
    def __init__(self, daemon: Daemon) -> None:
        self.copies = MemberCopies(daemon.config.copies_dir)
        gate = _MemberGate(daemon.gate, Catalog((*self.copies.tools, session_tool(daemon.sessions))))
        own = daemon.dispatcher.with_gate(gate, (CallTrace(), AuditObserver(daemon.audit, gate)))
        self.dispatcher: Dispatcher = _MemberDispatcher(daemon.dispatcher, own)


class _MemberDispatcher(Dispatcher):
    """Runs the calls of gateways: those of this module here, and all others as the box does."""

    def __init__(self, usual: Dispatcher, own: Dispatcher) -> None:
        self._usual = usual
        self._own = own

    async def call(self, call: Call) -> Outcome:
        return await (self._own if call.tool in NEEDS else self._usual).call(call)


class _MemberGate(Gate):
    """Admits a call if the box admits the tool that it needs."""

    def __init__(self, gate: Gate, catalog: Catalog) -> None:
        super().__init__(catalog, gate.profiles)
        self._gate = gate

    def admit(self, access: Access, name: str) -> tuple[Tool, Grant]:
        _, grant = self._gate.admit(access, NEEDS[name])
        tool = self.catalog.by_name[name]
        # A gateway reads the answer, and no model.
        return tool, grant._replace(form="json", deadline_s=tool.deadline_s)

    def form(self, access: Access) -> Shape:
        return "json"
