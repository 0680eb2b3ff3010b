"""Where the objects of a daemon are made and joined. Nothing else makes them."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from mcp_agent import __version__
from mcp_agent.admin.metrics import Metrics
from mcp_agent.belongings import Belongings
from mcp_agent.calls.dispatcher import Dispatcher
from mcp_agent.compact.cursors import Cursors
from mcp_agent.config import Config
from mcp_agent.events.hub import EventHub, Notice, ResourceUpdated, ToolsChanged
from mcp_agent.logs import event
from mcp_agent.protocol.kept_resources import ArtifactResources, UndoResources
from mcp_agent.protocol.methods import Methods
from mcp_agent.protocol.prompts import Prompts
from mcp_agent.protocol.resources import TOOLS_URI, HostResources, Resources, SessionResources
from mcp_agent.pruning_service.host_pruner import HostPruner
from mcp_agent.pruning_service.kept_texts import Recovery
from mcp_agent.security.refusals import Refusals
from mcp_agent.sessions.crash_record import Record
from mcp_agent.sessions.manager import Limits, SessionManager
from mcp_agent.storage.artifact_store import ArtifactStore, Quotas
from mcp_agent.storage.audit_log import Audit, note_policy
from registry.catalog import Catalog, discover
from registry.gate import Gate
from registry.profiles import BadRegistry, Problem, Profiles
from registry.reload import watch
from registry.tools_json_file import RegistryFile
from tools.files.journal import Journal
from tools.files.journal_records import Limits as JournalLimits
from tools.files.paths import OpenPaths
from tools.kit.context import ToolContext
from tools.search.engine import find_engine

log = logging.getLogger(__name__)

_THREADS = 32


class Daemon(Belongings):
    """Everything that lives as long as the process, whatever wires it is reached by."""

    def __init__(
        self,
        config: Config,
        file: RegistryFile,
        gate: Gate,
        hub: EventHub,
        threads: ThreadPoolExecutor,
        dispatcher: Dispatcher,
        methods: Methods,
        surroundings: ToolContext,
        artifacts: ArtifactStore,
        audit: Audit,
        sessions: SessionManager,
        pruner: HostPruner,
        metrics: Metrics,
    ) -> None:
        super().__init__(hub, sessions, pruner, threads, audit, artifacts)
        self.config = config
        self.file = file
        self.gate = gate
        self.dispatcher = dispatcher
        self.methods = methods
        self.engine = surroundings.engine
        self.journal = surroundings.journal
        self.metrics = metrics
        self.refusals = Refusals(lambda facts: audit.note("login_refused", **facts))
        self.started_at = time.time()
        self.reloads = 0
        self.rejections = 0
        self.problems: tuple[Problem, ...] = ()
        # Who is having a change made through us, while it is made.
        self._changing_by: str | None = None

    def note_start(self) -> None:
        """Put on record that a daemon starts, and under which rules: they may have changed while none ran."""
        profiles = self.gate.profiles
        self.audit.note("start", version=__version__, pid=os.getpid(), policy=profiles.digest, profile=profiles.active)

    async def follow_registry(self) -> None:
        """Until cancelled, put every good state of tools.json into force as it is saved."""
        await watch(self.file, self.apply, self.keep_last_good)

    async def change(self, change: Callable[[], Profiles], by: str) -> None:
        """Save a change of tools.json that somebody asked us for, and put it into force. Raises BadRegistry."""
        self._changing_by = by
        try:
            self.apply(await asyncio.to_thread(change))
        finally:
            self._changing_by = None

    def apply(self, profiles: Profiles) -> None:
        """Put `profiles` into force, on record, and tell every client, if anything is different."""
        profiles = _pinned(profiles, self.config.profile)
        had_problems, self.problems = bool(self.problems), ()
        if profiles == self.gate.profiles and not had_problems:
            return
        self.reloads += 1
        before = self.gate.profiles
        self.gate.swap(profiles)
        # Between the save and here, the watcher may have seen the file first.
        note_policy(self.audit, self.gate.catalog, before, profiles, by=self._changing_by or "file")
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


def compose(
    config: Config,
    catalog: Catalog | None = None,
    working_directory: Path | None = None,
    *,
    resources: Sequence[Resources] = (),
    prompts: Sequence[Prompts] = (),
) -> Daemon:
    """The daemon that `config` describes, with `resources` beside its own. Raises BadRegistry for a bad tools.json."""
    catalog = catalog or discover()
    directory = working_directory or Path(os.getcwd())  # noqa: PTH109 - the logical path, as the user typed it
    file = RegistryFile(config.config, catalog)
    gate = Gate(catalog, _pinned(file.load_or_create(), config.profile))
    record = Record(config.state_dir / "sessions")
    hub = EventHub(record.boot)
    limits = Limits(
        sessions=config.max_sessions,
        age_s=config.session_age_s,
        spool_bytes=config.session_spool_mib * 1024 * 1024,
        call_bytes=config.artifacts_caller_mb * 1_000_000,
        stop_on_disconnect=config.stop_on_disconnect,
    )
    sessions = SessionManager(hub, record, limits)
    threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="tool")
    journal = journal_of(config)
    for sentence in journal.recover():
        event(log, logging.WARNING, "journal.recovered", message=sentence)
    artifacts = artifacts_of(config)
    artifacts.recover()
    audit = Audit(config.audit_dir)
    pruner = pruner_of(config)
    surroundings = ToolContext(
        "",
        OpenPaths(directory, config.closed),
        sessions=sessions,
        yield_ms=config.yield_ms,
        journal=journal,
        engine=find_engine(),
        pruner=pruner,
        root=config.pruner_cwd or directory,
    )
    metrics = Metrics(catalog)
    cursors = Cursors(config.cursor_key)
    dispatcher = Dispatcher(gate, surroundings, threads, artifacts, cursors, [audit, metrics])
    every_kind: list[Resources] = [
        HostResources(gate),
        SessionResources(gate, sessions),
        ArtifactResources(artifacts),
        UndoResources(gate, journal),
        *resources,
    ]
    methods = Methods(gate, dispatcher, every_kind, prompts, directory, lambda: sessions.live)
    return Daemon(
        config,
        file,
        gate,
        hub,
        threads,
        dispatcher,
        methods,
        surroundings,
        artifacts,
        audit,
        sessions,
        pruner,
        metrics,
    )


def journal_of(config: Config) -> Journal:
    """The journal of a state folder, for the daemon and for the commands that work beside it."""
    limits = JournalLimits(total_bytes=config.journal_mb * 1024 * 1024, age_s=config.journal_days * 86_400.0)
    return Journal(config.journal_dir, limits)


def artifacts_of(config: Config) -> ArtifactStore:
    quotas = Quotas(
        config.artifacts_mb * 1_000_000, config.artifacts_caller_mb * 1_000_000, config.artifacts_days * 86_400.0
    )
    return ArtifactStore(config.artifacts_dir, quotas)


def pruner_of(config: Config) -> HostPruner:
    """The pruner that the settings ask for, for the daemon and for `mcp-pruner`."""
    return HostPruner(
        Recovery(config.pruned_dir, config.pruner_ttl_s),
        url=config.pruner_url,
        timeout_s=config.pruner_timeout_ms / 1000,
        max_input_chars=config.pruner_max_input_chars,
    )


def _pinned(profiles: Profiles, profile_id: str | None) -> Profiles:
    """With `--profile`, that one is active whatever the file says."""
    if profile_id is None:
        return profiles
    if profile_id not in profiles.by_id:
        known = ", ".join(profiles.by_id)
        raise BadRegistry([Problem("", f"there is no profile {profile_id!r}; there are {known}")])
    return replace(profiles, active=profile_id)
