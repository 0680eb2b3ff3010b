"""What clients hear without having asked: typed events, offered to every subscription at once.

Every event here says "this is different now, look again", so a subscription that has not been read keeps one of
each and never grows. A client that stops reading costs its own memory, which is bounded, and nobody's time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

_MOST_PENDING = 256


@dataclass(frozen=True, slots=True)
class ToolsChanged:
    """Some caller's list of tools is not what it was."""


@dataclass(frozen=True, slots=True)
class ResourceUpdated:
    """The resource at `uri` reads differently now."""

    uri: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something a person should know, for clients that show log messages."""

    level: str
    text: str

    def as_object(self) -> dict[str, Any]:
        return {"level": self.level, "logger": "mcp-agent", "data": self.text}


Event = ToolsChanged | ResourceUpdated | Notice


class Subscription:
    """One client's pending events, oldest first, no event twice."""

    def __init__(self, hub: EventHub) -> None:
        self._hub = hub
        self._pending: dict[Event, None] = {}
        self._woken = asyncio.Event()
        self.is_closed = False

    def offer(self, event: Event) -> None:
        if len(self._pending) >= _MOST_PENDING and event not in self._pending:
            del self._pending[next(iter(self._pending))]
        self._pending[event] = None
        self._woken.set()

    async def events(self) -> AsyncIterator[Event]:
        """Events as they come, until the subscription is closed; what was pending then is still given."""
        while True:
            while self._pending:
                event = next(iter(self._pending))
                del self._pending[event]
                yield event
            if self.is_closed:
                return
            self._woken.clear()
            await self._woken.wait()

    def handed_over(self) -> Subscription:
        """A new subscription with what is pending here; this one ends without giving it."""
        successor = self._hub.subscribe()
        successor._pending, self._pending = self._pending, {}
        successor._woken.set()
        self.close()
        return successor

    def close(self) -> None:
        self.is_closed = True
        self._woken.set()
        self._hub.forget(self)


class EventHub:
    """All subscriptions of this daemon."""

    def __init__(self) -> None:
        self._subscriptions: set[Subscription] = set()
        self.is_closed = False

    @property
    def count(self) -> int:
        return len(self._subscriptions)

    def subscribe(self) -> Subscription:
        subscription = Subscription(self)
        if self.is_closed:
            subscription.close()
        else:
            self._subscriptions.add(subscription)
        return subscription

    def publish(self, event: Event) -> None:
        """Offer an event to every client. Returns at once."""
        for subscription in self._subscriptions:
            subscription.offer(event)

    def forget(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)

    def close(self) -> None:
        """End every stream; the daemon is about to stop."""
        self.is_closed = True
        for subscription in list(self._subscriptions):
            subscription.close()
