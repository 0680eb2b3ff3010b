"""What each of our programs is while it runs, whatever wires it is reached by."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct

from mcp_agent.calls.dispatcher import Dispatcher
from mcp_agent.events.hub import EventHub
from mcp_agent.protocol.methods import Methods
from mcp_agent.pruning_service.host_pruner import HostPruner
from mcp_agent.security.open_streams import OpenStreams
from mcp_agent.storage.artifact_store import ArtifactStore
from mcp_agent.storage.audit_log import AuditLog
from registry.gate import Gate
from tools.sessions.manager import SessionManager

# How long calls may take to be answered after the processes that they wait for have ended.
_ANSWERS_S = 1.0


class Host(Struct, eq=False):
    """Owns processes, threads and files; `close()` releases them. A wire reaches the rest of the program through it."""

    gate: Gate
    hub: EventHub
    streams: OpenStreams
    sessions: SessionManager
    pruner: HostPruner
    threads: ThreadPoolExecutor
    audit: AuditLog
    artifacts: ArtifactStore
    dispatcher: Dispatcher
    methods: Methods

    def clean_up(self) -> None:
        """End what an earlier process left behind when it was killed."""
        self.sessions.clean_up()

    async def follow_registry(self) -> None:
        """Until cancelled, put every good state of the registry into force. Here there is no file to follow."""
        await self.remove_expired()

    async def remove_expired(self) -> None:
        """Until cancelled, delete artifacts and pruned texts when their time is over."""
        while True:
            next_in_s = await asyncio.to_thread(self.artifacts.sweep)
            await asyncio.sleep(max(1.0, next_in_s))

    async def stop(self, grace_s: float | None = None) -> None:
        """End every process of ours, then every stream, when the calls that end with it have been answered.

        The last events of a stream are the exits of sessions. A process that takes its time to end holds the streams
        open until it is killed.
        """
        await self.sessions.end_all(grace_s)
        self.hub.close()
        await self.streams.wait_for_answers(_ANSWERS_S)
        self.streams.end_all()

    def close(self) -> None:
        """Release all that is owned, without waiting for threads that hang."""
        self.hub.close()
        self.sessions.close()
        self.pruner.close()
        self.threads.shutdown(wait=False, cancel_futures=True)
        self.audit.close()
        self.artifacts.close()
