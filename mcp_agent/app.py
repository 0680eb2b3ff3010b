"""The composition root: where the objects of a program are made and joined. Nothing else makes them."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mcp_agent.answers.fit import Answers
from mcp_agent.approvals.waiting_calls import Approvals
from mcp_agent.calls.call import SharedContext
from mcp_agent.calls.dispatcher import Dispatcher
from mcp_agent.calls.observers import AuditObserver, CallObserver, CallTrace, Metrics, RecentResults
from mcp_agent.config import Config
from mcp_agent.daemon import Daemon, Elsewhere, pin_profile
from mcp_agent.events.hub import EventHub
from mcp_agent.host import Host
from mcp_agent.process.logs import event
from mcp_agent.protocol.methods import Methods
from mcp_agent.pruning_service.host_pruner import HostPruner
from mcp_agent.resources.kept_resources import ArtifactResources, UndoResources
from mcp_agent.resources.mounted_resources import MountedPrompts, MountedResources
from mcp_agent.resources.resources import HostResources, Prompts, Resources, SessionResources
from mcp_agent.resources.wrapped_resources import WrappedResources
from mcp_agent.security import auth_tokens
from mcp_agent.security.open_streams import OpenStreams
from mcp_agent.settings import BUILT_IN, BadConfig
from mcp_agent.storage.artifact_store import PRUNED_QUOTAS, ArtifactStore, Quotas
from mcp_agent.storage.audit_log import AuditLog
from mcp_agent.storage.refusals import Refusals
from mcp_agent.upstream.mounted_servers import Mounts
from registry.catalog import Catalog, LiveCatalog, chain_sources, discover
from registry.gate import Gate
from registry.profiles import DEFAULT_PROFILE, SHIPPED, Profiles
from registry.tools_json_file import RegistryFile
from tools.context import ToolContext
from tools.effects.tracker import ChangeTracker, DeniedGlobs
from tools.files.paths import OpenPaths
from tools.journal.journal import Journal
from tools.journal.journal_records import JournalLimits
from tools.journal.protected import Protected
from tools.kit.spelling import did_you_mean
from tools.search.engine import find_engine
from tools.sessions.crash_record import CrashRecord
from tools.sessions.manager import SessionLimits, SessionManager

if TYPE_CHECKING:
    from mcp_agent.fleet.gateway import Gateway

log = logging.getLogger(__name__)

_DAEMON_THREADS = 32
_PRUNER_THREADS = 8


def compose_daemon(
    config: Config,
    catalog: Catalog | None = None,
    working_directory: Path | None = None,
    *,
    resources: Sequence[Resources] = (),
    prompts: Sequence[Prompts] = (),
    observed: bool = True,
    gateway: Gateway | None = None,
) -> Daemon:
    """The daemon that `config` describes, with `resources` beside its own. Raises BadRegistry, BadConfig.

    With `gateway`, it has the tools of the boxes of a fleet instead of its own.

    Without `observed`, calls are neither audited nor counted, which tells a benchmark what that costs.
    """
    every_tool = built_in = catalog or discover()
    if gateway is not None:
        built_in = Catalog(gateway.own_tools())
        every_tool = Catalog((*every_tool.tools, *built_in.tools))
    directory = working_directory or Path(os.getcwd())  # noqa: PTH109 - the logical path, as the user typed it
    file = RegistryFile(config.tools_file, every_tool)
    profiles = file.load_or_create()
    if config.profile is not None and config.profile not in profiles.by_id:
        # Said here and not by `pin_profile`: at the start it is the setting that is wrong, and not tools.json.
        there = did_you_mean(config.profile, list(profiles.by_id)) or f"; there are {', '.join(profiles.by_id)}"
        raise BadConfig(f"--profile {config.profile}: there is no such profile{there}")
    profiles = pin_profile(profiles, config.profile)
    record = CrashRecord(config.state_dir / "sessions")
    hub = EventHub(record.boot)
    limits = SessionLimits(
        sessions=config.max_sessions,
        age_s=config.session_age_s,
        spool_bytes=config.session_spool_mib * 1024 * 1024,
        call_bytes=config.artifacts_caller_mb * 1_000_000,
        stop_on_disconnect=config.stop_on_disconnect,
        id_suffix=config.id_suffix,
    )
    sessions = SessionManager(hub, record, limits, secret=auth_tokens.VARIABLE)
    mounts = Mounts(sessions, directory, config.mounts_dir, record.boot)
    added_tools = mounts.tools if gateway is None else chain_sources(gateway.tools, mounts.tools)
    live_catalog = LiveCatalog(built_in, added_tools)
    gate = Gate(live_catalog.of(profiles), profiles)
    threads = ThreadPoolExecutor(_DAEMON_THREADS, thread_name_prefix="tool")
    journal = journal_of(config)
    for sentence in journal.recover():
        event(log, logging.WARNING, "journal.recovered", message=sentence)
    artifacts = artifacts_of(config)
    artifacts.recover()
    # Where earlier versions kept pruned texts, for an hour.
    shutil.rmtree(config.state_dir / "pruned", ignore_errors=True)
    audit = AuditLog(config.audit_dir)
    pruner = pruner_of(config, artifacts)
    engine = find_engine()
    paths = OpenPaths(directory, config.closed_paths)
    effects = None
    if config.command_undo and gateway is None and journal.most_bytes:
        effects = ChangeTracker(
            config.effects_dir,
            journal,
            skipped=(config.state_dir, *config.closed_paths),
            denied=lambda: _denied_to_all(gate.profiles),
            is_local=paths.is_local,
            sessions=sessions,
        )
    shared = ToolContext(
        "",
        paths,
        sessions=sessions,
        effects=effects,
        yield_ms=config.yield_ms,
        checks_syntax=config.syntax_checks,
        journal=journal,
        engine=engine,
        pruner=pruner,
        root=config.pruner_cwd,
    )
    approvals = Approvals(
        gate,
        audit.note,
        partial(hub.announce, "approvals"),
        expire_s=config.approval_s,
        hold_s=config.approval_hold_s,
    )
    metrics = Metrics(gate)
    recent_results = RecentResults()
    auditor = AuditObserver(audit, gate)
    observers: list[CallObserver] = [auditor, metrics, recent_results] if observed else []
    dispatcher = _dispatcher(
        config,
        gate,
        shared,
        threads,
        artifacts,
        observers,
        approvals,
        text_bytes=config.text_bytes,
        kind=Dispatcher if gateway is None else gateway.dispatcher,
    )
    every_kind: list[Resources] = [
        HostResources(gate),
        SessionResources(gate, sessions),
        ArtifactResources(artifacts, gate, audit),
        UndoResources(gate, journal),
        WrappedResources(gate, live_catalog, dispatcher, directory),
        MountedResources(gate, mounts, shared),
        *(() if gateway is None else (gateway.resources(gate),)),
        *resources,
    ]
    return Daemon(
        gate=gate,
        hub=hub,
        streams=OpenStreams(),
        sessions=sessions,
        pruner=pruner,
        threads=threads,
        audit=audit,
        artifacts=artifacts,
        dispatcher=dispatcher,
        methods=Methods(
            gate,
            dispatcher,
            every_kind,
            [MountedPrompts(gate, mounts), *prompts],
            directory if gateway is None else None,
            lambda: sessions.live,
            auditor.observe_client,
        ),
        config=config,
        directory=directory,
        catalog=live_catalog,
        mounts=mounts,
        file=file,
        journal=journal,
        engine=engine,
        metrics=metrics,
        refusals=Refusals(
            lambda each: audit.note(
                "login_refused", reason=each.reason, address=each.source, path=each.subject, count=each.count
            )
        ),
        paths=paths,
        recent_results=recent_results,
        approvals=approvals,
        effects=effects,
        elsewhere=Elsewhere() if gateway is None else gateway.elsewhere(hub, gate, artifacts, audit),
    )


def compose_pruner(config: Config, root: Path, names: Collection[str], methods: type[Methods]) -> Host:
    """The pruner: the tools of these names and nothing else, with no tools.json and no profiles to choose from."""
    catalog = Catalog(tool for tool in discover().tools if tool.name in names)
    gate = Gate(catalog, Profiles(DEFAULT_PROFILE, SHIPPED))
    record = CrashRecord(config.state_dir / "sessions")
    hub = EventHub(record.boot)
    sessions = SessionManager(hub, record, SessionLimits(), secret=auth_tokens.VARIABLE)
    threads = ThreadPoolExecutor(_PRUNER_THREADS, thread_name_prefix="tool")
    artifacts = artifacts_of(config)
    artifacts.recover()
    audit = AuditLog(config.audit_dir)
    pruner = pruner_of(config, artifacts, is_literal=True)
    shared = ToolContext("", OpenPaths(root, config.closed_paths), sessions=sessions, pruner=pruner, root=root)
    observers = [AuditObserver(audit, gate)]
    dispatcher = _dispatcher(config, gate, shared, threads, artifacts, observers, is_literal=True)
    return Host(
        gate=gate,
        hub=hub,
        streams=OpenStreams(),
        sessions=sessions,
        pruner=pruner,
        threads=threads,
        audit=audit,
        artifacts=artifacts,
        dispatcher=dispatcher,
        methods=methods(gate, dispatcher, (), (), root),
    )


def _dispatcher(
    config: Config,
    gate: Gate,
    shared: ToolContext,
    threads: ThreadPoolExecutor,
    artifacts: ArtifactStore,
    observers: Sequence[CallObserver],
    approvals: Approvals | None = None,
    *,
    text_bytes: int | None = None,
    is_literal: bool = False,
    kind: Callable[..., Dispatcher] = Dispatcher,
) -> Dispatcher:
    answers = Answers(artifacts, gate.visible, text_bytes=text_bytes, box=config.box_name, keeps=not is_literal)
    context = SharedContext(shared, artifacts, gate, is_literal)
    return kind(gate, context, answers, threads, (CallTrace(), *observers), approvals)


def journal_of(config: Config) -> Journal:
    """The journal of a state folder, for the daemon and for the commands that work beside it."""
    limits = JournalLimits(
        total_bytes=config.journal_mb * 1024 * 1024, age_s=config.journal_days * 86_400.0, id_suffix=config.id_suffix
    )
    return Journal(config.journal_dir, limits, Protected(config.protected_paths))


def _denied_to_all(profiles: Profiles) -> DeniedGlobs:
    """The globs of the rules that deny paths in every profile of the file, and in the active one."""
    every = [each for each in profiles.by_id.values() if not each.is_shipped or each.id == profiles.active]
    rules = [each.deny.paths for each in every if each.enabled]
    first = rules[0] if rules else None
    if first is None:
        return []
    common = {rule for rule in first.rules if all(other is not None and rule in other.rules for other in rules)}
    return first.globs_of(common)


def artifacts_of(config: Config) -> ArtifactStore:
    """The store of a state folder, for the daemon, for `mcp-pruner` and for the commands."""
    results = Quotas(
        config.artifacts_mb * 1_000_000, config.artifacts_caller_mb * 1_000_000, config.artifacts_days * 86_400.0
    )
    pruned = replace(PRUNED_QUOTAS, age_s=config.pruner_ttl_s)
    return ArtifactStore(config.artifacts_dir, results, pruned, config.id_suffix)


def pruner_of(config: Config, store: ArtifactStore, *, is_literal: bool = False) -> HostPruner:
    """The pruner that the settings ask for, for the daemon and for `mcp-pruner`."""
    return HostPruner(
        store,
        url=None if config.pruner_url == BUILT_IN else config.pruner_url,
        timeout_s=config.pruner_timeout_ms / 1000,
        max_input_chars=config.pruner_max_input_chars,
        # Its contract has French ones.
        markers="fr" if is_literal else config.markers,
        prunes_failures=not is_literal,
        must_shorten=not is_literal,
    )
