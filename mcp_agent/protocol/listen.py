"""`subscriptions/listen`: in the era without handshakes, the request whose answer is a stream of notifications."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from mcp_agent.events.hub import EventHub
from mcp_agent.events.types import (
    Condition,
    Event,
    Gap,
    ResourceUpdated,
    SessionExit,
    SessionOutput,
    ToolsChanged,
    session_uri,
)
from mcp_agent.protocol import eras, jsonrpc
from mcp_agent.protocol.conversation import EventForm, session_notification
from mcp_agent.protocol.jsonrpc import INVALID_PARAMS, RpcError, RpcMessage

METHOD = "subscriptions/listen"
# Our own key beside the protocol's: output and exits of shell sessions.
SHELL_KEY = "mcp-agent/shellSessions"
_MOST_URIS = 1_000


class Filter:
    """What one listener asked for and is given. What we do not offer is left out of the acknowledgement."""

    def __init__(self, message: RpcMessage) -> None:
        asked = message.params.get("notifications")
        if not isinstance(asked, dict):
            raise RpcError(INVALID_PARAMS, f"{METHOD} needs params.notifications, an object")
        uris = asked.get("resourceSubscriptions") or []
        if not isinstance(uris, list) or len(uris) > _MOST_URIS or not all(isinstance(uri, str) for uri in uris):
            raise RpcError(INVALID_PARAMS, f"resourceSubscriptions must be an array of at most {_MOST_URIS} strings")
        self.tools = asked.get("toolsListChanged") is True
        self.uris = frozenset(uris)
        self.shell = asked.get(SHELL_KEY) is True
        self.hears_sessions = self.shell or any(uri.startswith(session_uri("")) for uri in self.uris)

    def accepted_keys(self, *, may_hear: bool) -> dict[str, Any]:
        accepted: dict[str, Any] = {}
        if self.shell and may_hear:
            accepted[SHELL_KEY] = True
        if self.tools:
            accepted["toolsListChanged"] = True
        if self.uris:
            accepted["resourceSubscriptions"] = sorted(self.uris)
        return accepted

    def notification(self, event: Event, events: EventForm, meta: dict[str, Any]) -> bytes | None:
        match event:
            case ToolsChanged() if self.tools:
                return jsonrpc.notification("notifications/tools/list_changed", {"_meta": meta})
            case ResourceUpdated(uri) if uri in self.uris:
                return jsonrpc.notification("notifications/resources/updated", {"uri": uri, "_meta": meta})
            case SessionOutput() | SessionExit() | Gap() if self.shell:
                return session_notification(event, events, meta)
            case _:
                return None


async def listen(
    message: RpcMessage,
    hub: EventHub,
    may_hear: Condition,
    events: EventForm,
    frame: Callable[[bytes], bytes],
    *,
    is_rated: bool,
) -> AsyncGenerator[bytes, None]:
    """One listener's stream, up to the result that ends it when the daemon stops; `frame` writes each message."""
    assert message.id is not None, "a notification cannot be answered with a stream"
    wanted = Filter(message)
    meta = {eras.META_SUBSCRIPTION: message.id}
    acknowledged = {"notifications": wanted.accepted_keys(may_hear=may_hear()), "_meta": meta}

    def encode(event: Event) -> bytes | None:
        notification = wanted.notification(event, events, meta)
        return None if notification is None else frame(notification)

    subscription = hub.subscribe(lambda: wanted.hears_sessions and may_hear(), lambda: is_rated)
    first = frame(jsonrpc.notification("notifications/subscriptions/acknowledged", acknowledged))
    try:
        async with aclosing(subscription.stream(encode, first)) as frames:
            async for each in frames:
                yield each
    finally:
        subscription.close()
    yield frame(jsonrpc.response(message.id, {"resultType": "complete", "_meta": meta}))
