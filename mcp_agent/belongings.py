"""What every program of ours owns for as long as it lives, and how that is brought to an end."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from mcp_agent.events.hub import EventHub
from mcp_agent.pruning_service.host_pruner import HostPruner
from mcp_agent.sessions.manager import SessionManager
from mcp_agent.storage.artifact_store import ArtifactStore
from mcp_agent.storage.audit_log import Audit


class Belongings:
    """Processes, threads and open files. Who has them is a host, and ends with them."""

    def __init__(
        self,
        hub: EventHub,
        sessions: SessionManager,
        pruner: HostPruner,
        threads: ThreadPoolExecutor,
        audit: Audit,
        artifacts: ArtifactStore,
    ) -> None:
        self.hub = hub
        self.sessions = sessions
        self.pruner = pruner
        self.threads = threads
        self.audit = audit
        self.artifacts = artifacts

    def clean_up(self) -> None:
        """End what an earlier process left behind when it was killed."""
        self.sessions.clean_up()

    async def stop(self, grace_s: float | None = None) -> None:
        """End every process of ours, tell all clients, then end their streams."""
        await self.sessions.end_all(grace_s)
        self.hub.close()

    def close(self) -> None:
        self.hub.close()
        self.sessions.close()
        self.pruner.close()
        self.threads.shutdown(wait=False, cancel_futures=True)
        self.audit.close()
        self.artifacts.close()
