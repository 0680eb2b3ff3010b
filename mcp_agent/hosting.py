"""What a wire needs of the program it belongs to, whichever of our programs that is."""

from __future__ import annotations

from typing import Protocol

from mcp_agent.events.hub import EventHub
from mcp_agent.protocol.methods import Methods
from registry.gate import Gate


class Host(Protocol):
    """Everything that lives as long as the process."""

    @property
    def gate(self) -> Gate: ...

    @property
    def hub(self) -> EventHub: ...

    @property
    def methods(self) -> Methods: ...

    def clean_up(self) -> None:
        """End what an earlier process left behind when it was killed."""

    async def follow_registry(self) -> None:
        """Until cancelled, put every good state of the registry into force."""

    async def stop(self, grace_s: float | None = None) -> None:
        """End every process of ours, tell all clients, then end their streams."""

    def close(self) -> None: ...
