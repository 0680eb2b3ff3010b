"""How a command changes tools.json: the running daemon does it, and the command answers when it is in force.

Without a daemon the command changes the file itself, in the same way (`registry.edits`), and names it.
"""

from __future__ import annotations

import argparse
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.daemon_client import RunningDaemon
from mcp_agent.config import Config, load
from mcp_agent.process.printing import one_line, progress
from mcp_agent.process.runtime_file import runs_without_port
from mcp_agent.storage.audit_log import note_command
from mcp_agent.upstream.placing import kept_tools
from registry.catalog import Catalog, LiveCatalog, discover
from registry.consequences import describe_change
from registry.edits import edit_named
from registry.profiles import Profiles, policy_change
from registry.tools_json_file import RegistryFile
from tools.kit.results import quantity

_MOST_SESSIONS = 5


def make_change(options: argparse.Namespace, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Make the change of that name, and return the report of it (`mcp_agent.page.control`).

    In the report, `daemon` is the URL of the daemon that made it, or None. Raises UserError.
    """
    config = load(vars(options))
    daemon = daemon_client.find_by(options, config)
    if daemon is not None:
        with progress("waiting for the daemon"):
            report: dict[str, Any] = daemon.ask("POST", f"/api/{urllib.parse.quote(name)}", dict(arguments))
        return {**report, "daemon": daemon.url}
    other = daemon_client.find(config)
    where = {"daemon": None, "other_daemon": other and other.config}
    return {**_change_file(config, name, arguments), **where, "no_port": runs_without_port(config.runtime_file)}


def print_change(report: Mapping[str, Any]) -> None:
    """Say which file was changed, where that is in force, and what else the user should know."""
    for note in report["notes"]:
        print(one_line(note))
    print(f"changed: {report['file']}")
    if report["daemon"] is None:
        if report["other_daemon"] is not None:
            print(f"the running daemon uses another file, {report['other_daemon']}, and goes on as before")
        elif report["no_port"]:
            print("the daemon that runs here has no port to be asked at; it follows its tools.json within a second")
        else:
            print("no daemon is running: the next one begins with it, and `mcp-agent stdio` sees it within a second")
        return
    _print_sessions(report)
    if not report["clients"]:
        print(f"in force at {report['daemon']}; no client is connected")
        return
    print(f"in force at {report['daemon']}; connected clients now see:")
    for each in report["clients"]:
        who = f"{each['client'] or 'a client of /' + each['wire']} ({each['token']})"
        more = each["tools"] - each["tools_before"]
        difference = f"{abs(more)} {'more' if more > 0 else 'fewer'}" if more else "as before"
        times = f", {each['connections']} connections" if each["connections"] > 1 else ""
        print(f"  {one_line(who):32} {quantity(each['tools'], 'tool')}, {difference}{times}")


def read_registry(config: Config, daemon: RunningDaemon | None = None) -> tuple[RegistryFile, Profiles, Catalog]:
    """The tools.json of `daemon` or else of `config`, its profiles, and every tool that is known."""
    file = RegistryFile(config.tools_file if daemon is None else Path(daemon.config), discover())
    # A daemon whose file was deleted goes on as before. A new file would switch everything on.
    profiles = file.load_or_create() if daemon is None else file.load()
    live = LiveCatalog(discover(), kept_tools(config.mounts_dir))
    return file, profiles, live.of(profiles)


def _change_file(config: Config, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    file, before, catalog = read_registry(config)
    if config.profile is not None and name == "switch":
        # Where a setting pins a profile, it is the one that the next daemon has.
        arguments = {"profile": config.profile, **arguments}
    edit = edit_named(name, arguments)
    after = file.edit(edit, catalog)
    # On record here, because no daemon runs that would do it.
    note_command(config.audit_dir, "policy", **policy_change(before, after, catalog))
    return {**describe_change(before, after, edit, catalog), "file": str(file.path)}


def _print_sessions(report: Mapping[str, Any]) -> None:
    if stopped := report["stopped_sessions"]:
        print(one_line(f"stopped: {_summarise_sessions(stopped)}"))
    if running := report["sessions"]:
        print(one_line(f"still running, out of reach of those clients: {_summarise_sessions(running)}"))
        print("  `mcp-agent sessions stop ID` ends one; this command with --stop-sessions ends all")


def _summarise_sessions(sessions: list[dict[str, Any]]) -> str:
    shown = [f"{each['id']} ({' '.join(each['command'].split())[:60]})" for each in sessions[:_MOST_SESSIONS]]
    more = len(sessions) - len(shown)
    return ", ".join([*shown, f"and {more} more"] if more > 0 else shown)
