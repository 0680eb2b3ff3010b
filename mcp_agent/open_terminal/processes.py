"""The processes of a chat: the sessions and the commands that its model has started, with what they print.

Open WebUI asks for the list every second for each open chat, and for new output of the one that is being looked at.
"""

from __future__ import annotations

import re
import time
from typing import Any

from mcp_agent.open_terminal.mode_queries import ModeQueries
from mcp_agent.open_terminal.requests import TerminalRefusal, TerminalRequest
from registry.gate import Gate
from tools.sessions.manager import SessionManager
from tools.sessions.origin import Origin
from tools.sessions.session import Session

_MOST_ENDED = 10
_MOST_WAIT_S = 30.0
_MOST_OUTPUT_BYTES = 256 * 1024
# The command of a call that was seen while it ran is listed so long after its end: the page fetches the rest of its
# output, and how it ended.
_KEPT_S = 60.0
_MOST_KEPT = 64
_LINE_END = re.compile(r"\r?\n")


class Processes:
    """Lists sessions by the user and the chat that they were started for."""

    def __init__(self, sessions: SessionManager, gate: Gate) -> None:
        self._sessions = sessions
        self._gate = gate
        # Commands of calls that somebody has looked at, and when they were first seen to have ended.
        self._seen: dict[Session, float | None] = {}

    def list_processes(self, request: TerminalRequest) -> list[dict[str, Any]]:
        """What runs in the chat, oldest first, and what has ended there of late; nothing where the shell is off.

        The page ends the tabs of what it is not told of, and leaves all of them as they are after an error.
        """
        if not self._gate.offers(request.person.access, "shell"):
            return []
        mine = self._of(request)
        ended = [each for each in mine if not each.is_running][-_MOST_ENDED:]
        return [_process(each) for each in mine if each.is_running or each in ended]

    async def output(self, request: TerminalRequest, session_id: str) -> dict[str, Any]:
        """What a process has printed from an offset on, at most the last lines of it."""
        session = next((each for each in self._of(request) if each.id == session_id), None)
        if session is None:
            raise TerminalRefusal(404, f"there is no process {session_id[:60]!r} in this chat")
        if session.is_running and (wait_s := request.number("wait", 0)):
            await session.wait_for_exit(min(wait_s, _MOST_WAIT_S))
        offset = min(int(request.number("offset", 0)), session.end)
        text, begins, end = session.text(max(offset, session.end - _MOST_OUTPUT_BYTES), _MOST_OUTPUT_BYTES)
        queries = ModeQueries()
        text = queries.drop(text.encode()).decode()
        # What was held is asked for again, with what follows it.
        end -= len(queries.held) if session.is_running else 0
        lines = _LINE_END.split(text)
        most_lines = int(request.number("tail", 0)) or len(lines)
        # What follows the last line end is no line yet.
        shown = lines[-most_lines - 1 :]
        return {
            **_process(session),
            "output": [{"type": "output", "data": "\r\n".join(shown)}] if text else [],
            "next_offset": end,
            "truncated": begins > offset or len(shown) < len(lines),
        }

    def _of(self, request: TerminalRequest) -> list[Session]:
        if not self._gate.offers(request.person.access, "shell"):
            raise TerminalRefusal(403, "the shell tools are switched off for this token")
        person = request.person.origin
        sees_all = request.is_owner and not person.user and not person.chat
        calls = [each for each in self._sessions.calls if sees_all or _is_for(each.origin, person)]
        for each in calls:
            self._seen.setdefault(each, None)
        published = [each for each in self._sessions.all if sees_all or _is_for(each.origin, person)]
        ended = [each for each in self._ended() if sees_all or _is_for(each.origin, person)]
        return sorted({*calls, *published, *ended}, key=lambda session: session.started_monotonic)

    def _ended(self) -> list[Session]:
        """The commands of calls that were seen and have ended a short time ago."""
        now = time.monotonic()
        for session, since in list(self._seen.items()):
            if session.is_published or (since is not None and now - since > _KEPT_S):
                del self._seen[session]
            elif since is None and not session.is_running:
                self._seen[session] = now
        while len(self._seen) > _MOST_KEPT:
            del self._seen[next(iter(self._seen))]
        return [session for session, since in self._seen.items() if since is not None]


def _is_for(origin: Origin, person: Origin) -> bool:
    """Whether something was started for this person in this chat. Where no chat is named, the token decides."""
    if person.chat:
        # A connection that sends the chat and no user serves the same chat: ids of chats are not guessed.
        return origin.chat == person.chat and origin.user in ("", person.user)
    return (origin.token, origin.user, origin.chat) == (person.token, person.user, "")


def _process(session: Session) -> dict[str, Any]:
    status = "running" if session.is_running else "killed" if session.signal else "done"
    return {"id": session.id, "command": session.command, "status": status, "exit_code": session.exit_code}
