"""The processes of a chat: the sessions and the commands that its model has started, with what they print.

Open WebUI asks for the list every second for each open chat, and for new output of the one that is being looked at. It
never removes a tab by itself, and a tab that is not listed when a person first looks at it stays black.
"""

from __future__ import annotations

import re
import time
from typing import Any

from msgspec import Struct

from mcp_agent.open_terminal.mode_queries import ModeQueries
from mcp_agent.open_terminal.requests import TerminalRefusal, TerminalRequest
from registry.gate import Gate
from tools.files import utf8
from tools.sessions.manager import SessionManager
from tools.sessions.origin import Origin
from tools.sessions.session import Session

_MOST_ENDED_SESSIONS = 10
_MOST_WAIT_S = 30.0
_MOST_OUTPUT_BYTES = 256 * 1024
# The command of a call is listed so long after its end: the longer time until somebody has looked at all of its output.
KEPT_S = 300.0
_UNSEEN_KEPT_S = 3_600.0
_MOST_KEPT = 200
_MOST_KEPT_OF_CHAT = 50
_MOST_KEPT_BYTES = 64 * 1024
_MOST_COMMAND_CHARS = 2_000
_LINE_END = re.compile(r"\r?\n")


class EndedCommand(Struct, eq=False):
    """The command of a call after its end, with the last of its output."""

    id: str
    command: str
    exit_code: int | None
    signal: str | None
    origin: Origin
    started_monotonic: float
    ended_monotonic: float
    tail: bytes
    tail_begins: int
    end: int
    is_seen: bool = False
    is_running: bool = False

    @classmethod
    def of(cls, session: Session) -> EndedCommand:
        tail, begins, end = session.log.read(max(0, session.end - _MOST_KEPT_BYTES), _MOST_KEPT_BYTES)
        return cls(
            session.id,
            session.command,
            session.exit_code,
            session.signal,
            session.origin,
            session.started_monotonic,
            time.monotonic(),
            tail,
            begins,
            end,
        )

    def is_over(self, now: float) -> bool:
        return now - self.ended_monotonic > (KEPT_S if self.is_seen else _UNSEEN_KEPT_S)

    def text(self, offset: int, most_bytes: int) -> tuple[str, int, int]:
        """Output from `offset` on: the text, where it begins and where it ends, as of a session."""
        begins = max(offset, self.tail_begins)
        data = self.tail[begins - self.tail_begins :]
        begins += (orphans := utf8.orphan_bytes(data))
        self.is_seen = True
        return data[orphans : orphans + most_bytes].decode("utf-8", "replace"), begins, self.end


class Processes:
    """Lists sessions by the user and the chat that they were started for."""

    def __init__(self, sessions: SessionManager, gate: Gate) -> None:
        self._sessions = sessions
        self._gate = gate
        # Of all chats, oldest first.
        self._ended: list[EndedCommand] = []
        sessions.on_release.append(self._keep)

    def list_processes(self, request: TerminalRequest) -> list[dict[str, Any]]:
        """What runs in the chat, oldest first, and what has ended there of late; nothing where the shell is off.

        The page ends the tabs of what it is not told of, and leaves all of them as they are after an error.
        """
        if not self._gate.offers(request.person.access, "shell"):
            return []
        return [_process(each) for each in self._of(request)]

    async def output(self, request: TerminalRequest, session_id: str) -> dict[str, Any]:
        """What a process has printed from an offset on, at most the last lines of it."""
        process = next((each for each in self._of(request) if each.id == session_id), None)
        if process is None:
            raise TerminalRefusal(404, f"there is no process {session_id[:60]!r} in this chat")
        if isinstance(process, Session) and process.is_running and (wait_s := request.number("wait", 0)):
            await process.wait_for_exit(min(wait_s, _MOST_WAIT_S))
        offset = min(int(request.number("offset", 0)), process.end)
        text, begins, end = process.text(max(offset, process.end - _MOST_OUTPUT_BYTES), _MOST_OUTPUT_BYTES)
        queries = ModeQueries()
        text = queries.drop(text.encode()).decode()
        # What was held is asked for again, with what follows it.
        end -= len(queries.held) if process.is_running else 0
        lines = _LINE_END.split(text)
        most_lines = int(request.number("tail", 0)) or len(lines)
        # What follows the last line end is no line yet.
        shown = lines[-most_lines - 1 :]
        return {
            **_process(process),
            "output": [{"type": "output", "data": "\r\n".join(shown)}] if text else [],
            "next_offset": end,
            "truncated": begins > offset or len(shown) < len(lines),
        }

    def _of(self, request: TerminalRequest) -> list[Session | EndedCommand]:
        """Everything of the chat that is listed, in the order in which it was started."""
        if not self._gate.offers(request.person.access, "shell"):
            raise TerminalRefusal(403, "the shell tools are switched off for this token")
        self._forget()
        person = request.person.origin
        sees_all = request.is_owner and not person.user and not person.chat
        every: list[Session | EndedCommand] = [*self._sessions.calls, *self._sessions.all, *self._ended]
        mine = [each for each in every if sees_all or _is_for(each.origin, person)]
        mine.sort(key=lambda each: each.started_monotonic)
        ended = [each for each in mine if isinstance(each, Session) and not each.is_running]
        return [each for each in mine if each not in ended[:-_MOST_ENDED_SESSIONS]]

    def _keep(self, session: Session) -> None:
        """Keep the command of a call that has ended, if it is of a chat."""
        origin = session.origin
        if not (origin.chat or origin.user) or session.is_running:
            return
        self._forget()
        self._ended.append(EndedCommand.of(session))
        of_chat = [each for each in self._ended if (each.origin.chat, each.origin.user) == (origin.chat, origin.user)]
        if len(of_chat) > _MOST_KEPT_OF_CHAT:
            self._ended.remove(of_chat[0])
        del self._ended[:-_MOST_KEPT]

    def _forget(self) -> None:
        now = time.monotonic()
        if any(each.is_over(now) for each in self._ended):
            self._ended = [each for each in self._ended if not each.is_over(now)]


def _is_for(origin: Origin, person: Origin) -> bool:
    """Whether something was started for this person in this chat. Where no chat is named, the token decides."""
    if person.chat:
        # A connection that sends the chat and no user serves the same chat: ids of chats are not guessed.
        return origin.chat == person.chat and origin.user in ("", person.user)
    return (origin.token, origin.user, origin.chat) == (person.token, person.user, "")


def _process(process: Session | EndedCommand) -> dict[str, Any]:
    status = "running" if process.is_running else "killed" if process.signal else "done"
    command = process.command
    if len(command) > _MOST_COMMAND_CHARS:
        # It is in every list, and a model may write a whole file in a command.
        command = f"{command[:_MOST_COMMAND_CHARS]}…"
    return {"id": process.id, "command": command, "status": status, "exit_code": process.exit_code}
