"""What the daemon remembers of a handshake client, and how events become notifications."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, get_args

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
from tools.context import LogLevel
from tools.kit.records import mutable

LOG_LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)
_TOOLS_CHANGED = jsonrpc.notification("notifications/tools/list_changed")


@mutable
class Conversation:
    """The state of one handshake client between its requests."""

    version: str
    client: str = ""
    log_level: str = "warning"
    watched: set[str] = field(default_factory=set)

    def notification(self, event: Event) -> bytes | None:
        """The event as a notification for this client, or None if it did not ask for it."""
        match event:
            case ToolsChanged():
                return _TOOLS_CHANGED
            case ResourceUpdated(uri):
                return (
                    jsonrpc.notification("notifications/resources/updated", {"uri": uri}) if self.hears(uri) else None
                )
            case Notice(level):
                if not is_heard(level, self.log_level):
                    return None
                return jsonrpc.notification("notifications/message", event.as_object())
            case SessionOutput() | SessionExit() | Gap():
                return session_notification(event)

    def hears(self, uri: str) -> bool:
        return uri in self.watched


def session_notification(event: SessionEvent, meta: Mapping[str, Any] | None = None) -> bytes:
    """An event of a session as a notification of MCP, with the event's object as params."""
    name = "shell_session_gap" if isinstance(event, Gap) else event.name
    params = event.as_object()
    return jsonrpc.notification(f"notifications/{name}", params if meta is None else {**params, "_meta": meta})


def is_of_shell(notification: bytes) -> bool:
    """Whether a notification is about a shell session: only clients that may use the shell get those."""
    return notification.startswith(b'{"jsonrpc":"2.0","method":"notifications/shell_session_')


def is_heard(level: str, from_level: str) -> bool:
    """Whether a client that listens from `from_level` on gets a message of `level`."""
    return level in LOG_LEVELS and LOG_LEVELS.index(level) >= LOG_LEVELS.index(from_level)
