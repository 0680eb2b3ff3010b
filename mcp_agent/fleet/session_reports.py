"""The sessions of a box as the Tools page of a gateway shows them: a list, or what one of them has printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from tools.context import ToolContext
from tools.kit.params import Field
from tools.kit.results import Result
from tools.kit.spec import Tool, tool
from tools.sessions.manager import SessionManager
from tools.sessions.session import describe_session

SESSIONS = "box_sessions"
_MOST_OUTPUT_BYTES = 64 * 1024


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
