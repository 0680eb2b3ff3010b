"""The daemon: a host with a tools.json that may change while it runs."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from mcp_agent import __version__
from mcp_agent.approvals.waiting_calls import Approvals
from mcp_agent.calls.observers import Metrics, RecentResults
from mcp_agent.config import Config
from mcp_agent.events.types import Notice, ResourceUpdated, ToolsChanged
from mcp_agent.host import Host
from mcp_agent.process.logs import event
from mcp_agent.resources.resources import TOOLS_URI
from mcp_agent.security.auth_tokens import Tokens
from mcp_agent.storage.refusals import Refusals
from mcp_agent.upstream.mounted_servers import Mounts
from registry.catalog import LiveCatalog
from registry.profiles import BadRegistry, Problem, Profiles, policy_change
from registry.tools_json_file import RegistryFile, watch
from registry.user_error import UserError
from tools.effects.tracker import ChangeTracker
from tools.files.paths import OpenPaths
from tools.journal.journal import Journal
from tools.search.engine import Engine

if TYPE_CHECKING:
    from mcp_agent.oauth.public_name import PublicName
    from mcp_agent.page.endpoints import Routes
    from mcp_agent.transports.artifact_download import ArtifactDownload
    from mcp_agent.transports.events import EventsWire
    from registry.edits import Edit


log = logging.getLogger(__name__)

# Who changed tools.json, if the daemon was not asked to: a person with an editor, or a program.
FILE = "file"
# The daemon itself, when a mounted server lists tools that the file does not name.
MOUNT = "mount"


class Pinned(UserError):
    """A setting of the daemon (`profile`) says which profile is active, so that cannot be changed while it runs."""

    def __init__(self, profile: str) -> None:
        where = "by --profile, MCP_AGENT_PROFILE or config.toml"
        self.message = f"the running daemon is pinned to the profile {profile} {where}, so nothing was changed"
        self.hint = f"to change a profile name it, as in --profile {profile}; to choose another, start the daemon anew"
        super().__init__(f"{self.message} ({self.hint})")


class RemoteApprovals(Protocol):
    """The calls that wait for an owner on other machines."""

    async def waiting(self) -> list[dict[str, Any]]: ...

    async def decide(self, request_id: str, decision: str, reason: str) -> bool:
        """Answer one; False if there is none of that id. Raises UserError if it cannot be answered so."""


class Elsewhere(Struct, frozen=True):
    """What a daemon serves instead of its own parts where its tools run on other machines; empty by default."""

    # False: no wire reads files of this machine or runs anything on it.
    has_machine: bool = True
    # What the page shows beside its name.
    name: str | None = None
    events: EventsWire | None = None
    artifacts: ArtifactDownload | None = None
    # Further endpoints of /api, made when they are first asked for.
    routes: Callable[[], Routes] = dict
    approvals: RemoteApprovals | None = None


class Daemon(Host):
    """A host that puts every valid state of tools.json into force, and counts reloads and rejections for the owner."""

    config: Config
    # Relative paths count from here.
    directory: Path
    catalog: LiveCatalog
    mounts: Mounts
    file: RegistryFile
    journal: Journal
    engine: Engine
    metrics: Metrics
    refusals: Refusals
    paths: OpenPaths
    recent_results: RecentResults
    approvals: Approvals
    effects: ChangeTracker | None = None
    elsewhere: Elsewhere = Elsewhere()
    # What /health shows of the fleet that it is in.
    fleet_facts: Callable[[], dict[str, Any]] | None = None
    # Where OAuth is on: the name by which the internet reaches it.
    public_name: PublicName | None = None
    started_at: float = field(default_factory=time.time)
    reloads: int = 0
    rejections: int = 0
    problems: tuple[Problem, ...] = ()
    # Held while a state of tools.json is read or written and put into force.
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    def note_start(self) -> None:
        """Put on record that a daemon starts, and under which rules: they may have changed while none ran."""
        profiles = self.gate.profiles
        self.audit.note("start", version=__version__, pid=os.getpid(), policy=profiles.digest, profile=profiles.active)

    async def follow_registry(self) -> None:
        """Until cancelled, put every good state of tools.json into force as it is saved."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.remove_expired())
            group.create_task(self.mounts.follow(self._take_over_tools))
            reload = partial(self.file.reload, self.apply, self.keep_last_good, self._turn)
            group.create_task(watch(self.file.path, reload))

    async def _take_over_tools(self, category: str) -> None:
        """Offer the tools that a mounted server lists now, and write the switches of new ones into tools.json."""
        # When a server is mounted: the edits are a part of the daemon that most starts do not need.
        from registry.edits import ListTools

        self.refresh_catalog()
        # Of all servers: a tool of another one may have another name now.
        for each in self.mounts.categories:
            tools = self.gate.catalog.categories.get(each, ())
            if not self.gate.profiles.lacks_tools(each, [tool.name for tool in tools]):
                continue
            try:
                await self.change(ListTools(category=each), MOUNT)
            except BadRegistry as error:
                event(log, logging.WARNING, "mount.not_written", mount=category, message=str(error))

    def refresh_catalog(self) -> None:
        """Make the tools of wrapped programs, mounted servers and boxes again, and tell every client."""
        self.gate.swap(self.gate.profiles, self.catalog.of(self.gate.profiles))
        self._publish_change()

    async def stop(self, grace_s: float | None = None) -> None:
        self.approvals.close()
        await self.mounts.close()
        await Host.stop(self, grace_s)

    def close(self) -> None:
        if self.effects is not None:
            self.effects.close()
        Host.close(self)

    def _publish_change(self) -> None:
        self.approvals.policy_changed()
        self.hub.publish(ToolsChanged())
        self.hub.publish(ResourceUpdated(TOOLS_URI))

    async def change(self, edit: Edit, by: str) -> Profiles:
        """Change tools.json for `by` and put the change into force; returns the profiles before it.

        When it returns, every call obeys the change and every stream has been told. Raises Pinned, BadRegistry and
        UnknownName, and changes nothing then.
        """
        pinned = self.config.profile
        if pinned is not None and edit.follows_active:
            raise Pinned(pinned)
        async with self._turn:
            before = self.gate.profiles
            saved = await asyncio.to_thread(
                self.file.edit, edit, self.gate.catalog, lambda profiles: pin_profile(profiles, pinned)
            )
            self.apply(saved, by)
        return before

    def apply(self, profiles: Profiles, by: str = FILE) -> None:
        """Put `profiles` into force, on record, and tell every client, if anything is different."""
        profiles = pin_profile(profiles, self.config.profile)
        had_problems, self.problems = bool(self.problems), ()
        if profiles.is_same_policy(self.gate.profiles) and not had_problems:
            return
        self.reloads += 1
        before = self.gate.profiles
        is_same_catalog = (before.wraps, before.mounts) == (profiles.wraps, profiles.mounts)
        self.gate.swap(profiles, self.gate.catalog if is_same_catalog else self.catalog.of(profiles))
        changed = policy_change(before, profiles, self.gate.catalog)
        self.audit.note("policy", by=by, **changed)
        event(log, logging.INFO, "registry.reloaded", profile=profiles.active)
        if by == FILE and changed["widened"]:
            # Nobody asked the daemon for it: a person with an editor, or a tool that can execute.
            event(log, logging.WARNING, "registry.widened", path=str(self.file.path), changes=changed["widened"])
        for warning in profiles.warnings:
            event(log, logging.WARNING, "registry.warning", pointer=warning.pointer, message=warning.message)
        self._publish_change()

    def apply_tokens(self, tokens: Tokens) -> None:
        """Put the token files into force: what was revoked loses its streams now. Raises BadToken."""
        before = tokens.principals
        gone = tokens.reload()
        if gone:
            event(log, logging.INFO, "security.tokens_revoked", names=sorted(gone))
        self.approvals.end_clients(gone)
        self.streams.end(gone)
        if tokens.principals != before:
            self.hub.publish(ToolsChanged())

    def on_disconnect(self, connection: str) -> None:
        """A client has ended its session, or has not come back to it."""
        self.approvals.end_connection(connection)
        self.sessions.on_disconnect(connection)

    def keep_last_good(self, problems: tuple[Problem, ...]) -> None:
        """tools.json cannot be used as it is: say so everywhere, and change nothing."""
        self.problems = problems
        self.rejections += 1
        told = "; ".join(map(str, problems))
        self.audit.note("policy_rejected", by=FILE, problems=[str(each) for each in problems[:20]])
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
