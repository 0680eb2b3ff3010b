"""The events that clients hear without having asked for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from msgspec import Struct

from tools.sessions.origin import EndedBy
from tools.sessions.output_log import Exit, Stream


class ToolsChanged(Struct, frozen=True):
    """Some caller's list of tools is not what it was."""


class ResourceUpdated(Struct, frozen=True):
    """The resource at `uri` reads differently now."""

    uri: str


class Notice(Struct, frozen=True):
    """Something a person should know, for clients that show log messages."""

    level: str
    text: str

    def as_object(self) -> dict[str, Any]:
        return {"level": self.level, "logger": "mcp-agent", "data": self.text}


class SessionOutput(NamedTuple):
    """A session has printed `chunk`, which begins at the byte `offset` of its output."""

    session_id: str
    stream: Stream
    chunk: str
    offset: int

    @property
    def name(self) -> str:
        return "shell_session_output"

    def as_object(self) -> dict[str, Any]:
        return {
            "type": self.name,
            "session_id": self.session_id,
            "stream": self.stream,
            "chunk": self.chunk,
            "offset": self.offset,
        }


class SessionExit(NamedTuple):
    """A session is over. All that its leader printed has been sent before."""

    session_id: str
    exit_code: int
    signal: str | None
    ended_by: EndedBy | None = None

    @property
    def name(self) -> str:
        return "shell_session_exit"

    @classmethod
    def of(cls, session_id: str, exited: Exit) -> SessionExit:
        return cls(session_id, exited.exit_code, exited.signal, exited.ended_by)

    def as_object(self) -> dict[str, Any]:
        value: dict[str, Any] = {"type": self.name, "session_id": self.session_id, "exit_code": self.exit_code}
        if self.signal is not None:
            value["signal"] = self.signal
        if self.ended_by is not None:
            value["ended_by"] = self.ended_by
        return value


class Gap(NamedTuple):
    """This client does not get these bytes of a session's output. They may still be in the spool."""

    session_id: str
    offset: int
    next_offset: int

    @property
    def name(self) -> str:
        return "gap"

    def as_object(self) -> dict[str, Any]:
        return {
            "type": self.name,
            "session_id": self.session_id,
            "offset": self.offset,
            "next_offset": self.next_offset,
            "lost_bytes": self.next_offset - self.offset,
        }


SessionEvent = SessionOutput | SessionExit | Gap
Event = ToolsChanged | ResourceUpdated | Notice | SessionEvent
Announcement = ToolsChanged | ResourceUpdated | Notice
# A question about a client, asked again each time: a reload may have changed the answer.
Condition = Callable[[], bool]


def session_uri(session_id: str) -> str:
    return f"session://{session_id}"
