"""The daemon: a host with a tools.json that may change while it runs."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from dataclasses import field, replace

from mcp_agent import __version__
from mcp_agent.calls.metrics import Metrics
from mcp_agent.config import Config
from mcp_agent.events.types import Notice, ResourceUpdated, ToolsChanged
from mcp_agent.host import Host
from mcp_agent.logs import event
from mcp_agent.protocol.resources import TOOLS_URI
from mcp_agent.security.refusals import Refusals
from registry.policy_diff import policy_change
from registry.profiles import BadRegistry, Problem, Profiles
from registry.reload import watch
from registry.tools_json_file import RegistryFile
from tools.files.journal import Journal
from tools.kit.records import mutable
from tools.search.engine import Engine

log = logging.getLogger(__name__)


@mutable
class Daemon(Host):
    """A host that puts every valid state of tools.json into force, and counts reloads and rejections for the owner."""

    config: Config
    file: RegistryFile
    journal: Journal
    engine: Engine
    metrics: Metrics
    refusals: Refusals
    started_at: float = field(default_factory=time.time)
    reloads: int = 0
    rejections: int = 0
    problems: tuple[Problem, ...] = ()
    # Who is having a change made through us, while it is made.
    _changing_by: str | None = None

    def note_start(self) -> None:
        """Put on record that a daemon starts, and under which rules: they may have changed while none ran."""
        profiles = self.gate.profiles
        self.audit.note("start", version=__version__, pid=os.getpid(), policy=profiles.digest, profile=profiles.active)

    async def follow_registry(self) -> None:
        """Until cancelled, put every good state of tools.json into force as it is saved."""
        await watch(self.file, self.apply, self.keep_last_good)

    async def change(self, change: Callable[[], Profiles], by: str) -> None:
        """Save a change of tools.json that a client asked for, and put it into force. Raises BadRegistry."""
        self._changing_by = by
        try:
            self.apply(await asyncio.to_thread(change))
        finally:
            self._changing_by = None

    def apply(self, profiles: Profiles) -> None:
        """Put `profiles` into force, on record, and tell every client, if anything is different."""
        profiles = pin_profile(profiles, self.config.profile)
        had_problems, self.problems = bool(self.problems), ()
        if profiles == self.gate.profiles and not had_problems:
            return
        self.reloads += 1
        before = self.gate.profiles
        self.gate.swap(profiles)
        # Between the save and here, the watcher may have seen the file first.
        change = policy_change(before, profiles, self.gate.catalog)
        self.audit.note("policy", by=self._changing_by or "file", **change)
        event(log, logging.INFO, "registry.reloaded", profile=profiles.active)
        for warning in profiles.warnings:
            event(log, logging.WARNING, "registry.warning", pointer=warning.pointer, message=warning.message)
        self.hub.publish(ToolsChanged())
        self.hub.publish(ResourceUpdated(TOOLS_URI))

    def keep_last_good(self, problems: tuple[Problem, ...]) -> None:
        """tools.json cannot be used as it is: say so everywhere, and change nothing."""
        self.problems = problems
        self.rejections += 1
        told = "; ".join(map(str, problems))
        self.audit.note(
            "policy_rejected", by=self._changing_by or "file", problems=[str(each) for each in problems[:20]]
        )
        event(log, logging.WARNING, "registry.rejected", path=str(self.file.path), problems=told)
        self.hub.publish(Notice("warning", f"{self.file.path} is not in force, the last good one is: {told}"))


def pin_profile(profiles: Profiles, profile_id: str | None) -> Profiles:
    """With `--profile`, that one is active whatever the file says."""
    if profile_id is None:
        return profiles
    if profile_id not in profiles.by_id:
        known = ", ".join(profiles.by_id)
        raise BadRegistry([Problem("", f"there is no profile {profile_id!r}; there are {known}")])
    return replace(profiles, active=profile_id)
