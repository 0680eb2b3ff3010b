"""What the daemon remembers of a handshake client, and how events become notifications."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from msgspec import Struct, field

from mcp_agent.answers.budget import text_client
from mcp_agent.events.types import (
    Event,
    Gap,
    Notice,
    ResourceUpdated,
    SessionEvent,
    SessionExit,
    SessionOutput,
    ToolsChanged,
)
from mcp_agent.protocol import jsonrpc
from mcp_agent.protocol.jsonrpc import INVALID_PARAMS, RpcError
from tools.context import LogLevel

LOG_LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)
TOOLS_CHANGED = jsonrpc.notification("notifications/tools/list_changed")
# How an event of a session goes out: as a notification of its own name, or as a log message with the event as its data.
EventForm = Literal["notification", "message"]
_EVENT_FORMS: tuple[EventForm, ...] = get_args(EventForm)
_EVENT_LEVEL: LogLevel = "info"
# What the official Python library calls itself. It drops notifications that it does not know, each with an error.
_PYTHON_LIBRARY = "mcp"


class Conversation(Struct, eq=False):
    """The state of one handshake client between its requests."""

    version: str
    client: str = ""
    client_version: str = ""
    # What the client has set; None: nothing.
    log_level: str | None = None
    # The form of session events that the connection asks for; None: the one that its client understands.
    events: EventForm | None = None
    watched: set[str] = field(default_factory=set)
    # Whether the client says which folders it works in, and the first of them, as a path.
    has_roots: bool = False
    root: str = ""
    # Whether a bridge of ours carries its events to a pipe.
    is_bridged: bool = False

    @property
    def is_before_a_model(self) -> bool:
        """Whether its events may be put before a model: those of a pipe, and of clients known to show text to one."""
        return self.is_bridged or text_client(self.client) is not None

    def notification(self, event: Event) -> bytes | None:
        """The event as a notification for this client, or None if it did not ask for it."""
        match event:
            case ToolsChanged():
                return TOOLS_CHANGED
            case ResourceUpdated(uri):
                if uri not in self.watched:
                    return None
                return jsonrpc.notification("notifications/resources/updated", {"uri": uri})
            case Notice(level):
                if not self.hears_level(level):
                    return None
                return jsonrpc.notification("notifications/message", event.as_object())
            case SessionOutput() | SessionExit() | Gap():
                form = self.events or event_form(self.client)
                if form == "message" and self.log_level is not None and not is_heard(_EVENT_LEVEL, self.log_level):
                    return None
                return session_notification(event, form)

    def hears_level(self, level: str) -> bool:
        return is_heard(level, self.log_level or "warning")


def event_form(client: str) -> EventForm:
    """The form of session events that a client of that name understands."""
    return "message" if client == _PYTHON_LIBRARY or client.startswith(f"{_PYTHON_LIBRARY} (via ") else "notification"


def asked_event_form(text: str | None, others: tuple[str, ...] = ()) -> EventForm | None:
    """The form that `?events=` names; None if it names none, or one of `others`. Raises RpcError."""
    if not text or text in others:
        return None
    for form in _EVENT_FORMS:
        if text == form:
            return form
    choices = ", ".join((*_EVENT_FORMS, *others))
    raise RpcError(INVALID_PARAMS, f"events is {text[:40]!r} and must be one of {choices}")


def session_notification(event: SessionEvent, form: EventForm, meta: Mapping[str, Any] | None = None) -> bytes:
    """An event of a session as a notification of MCP: the event's object as params, or as the data of a log message."""
    name = "shell_session_gap" if isinstance(event, Gap) else event.name
    params = event.as_object()
    if form == "message":
        name, params = "message", {"level": _EVENT_LEVEL, "logger": name, "data": params}
    return jsonrpc.notification(f"notifications/{name}", params if meta is None else {**params, "_meta": meta})


def is_heard(level: str, from_level: str) -> bool:
    """Whether a client that listens from `from_level` on gets a message of `level`."""
    return level in LOG_LEVELS and LOG_LEVELS.index(level) >= LOG_LEVELS.index(from_level)
