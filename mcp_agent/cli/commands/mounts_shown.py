"""What people are shown of mounted servers: their state, and the tools that are not as their owner has seen them."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from typing import Any

from mcp_agent.cli.commands.daemon_client import RunningDaemon
from mcp_agent.config import Config
from mcp_agent.page.mount_control import list_cost
from mcp_agent.upstream.known_tools import KnownTools
from registry.catalog import Catalog
from registry.gate import Gate
from registry.profiles import Profiles

# Of many changed tools, so many are named.
_NAMED = 10


def print_mounts(config: Config, profiles: Profiles, catalog: Catalog, daemon: RunningDaemon | None) -> None:
    """One line for each mounted server, and more where something is wrong."""
    for name, facts in mount_states(config, profiles, catalog, daemon).items():
        print(f"  {name:22} {describe_state(facts)}")


def mount_states(
    config: Config, profiles: Profiles, catalog: Catalog, daemon: RunningDaemon | None
) -> dict[str, dict[str, Any]]:
    """What is known of each mounted server: its state, its tools, what is wrong with it."""
    if daemon is None:
        return {name: _kept_facts(config, profiles, catalog, name) for name in profiles.mounts}
    states: dict[str, dict[str, Any]] = daemon.ask("GET", "/api/mounts")["mounts"]
    return states


def describe_state(facts: Mapping[str, Any]) -> str:
    """The state of a mounted server, in one line or, where something is wrong, in several."""
    count = facts["tools"] if facts["shown"] == facts["tools"] else f"{facts['shown']} of {facts['tools']}"
    parts = [str(facts["state"]), f"{count} tools, {facts['tokens']} tokens"]
    if facts.get("restarts"):
        parts.append(f"started again {facts['restarts']} times")
    if "problem" in facts:
        parts.append(str(facts["problem"]))
    if "changed" in facts:
        changed = facts["changed"]
        more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
        parts.append(f"not as you have seen them: {', '.join(changed[:_NAMED])}{more} (mcp-agent tools --changed)")
    lines = ["; ".join(parts), *(f"left out: {name}: {why}" for name, why in facts.get("left_out", {}).items())]
    if "problem" in facts:
        lines += str(facts.get("stderr", "")).splitlines()
    return "\n      ".join(lines)


def show_changes(config: Config, profiles: Profiles, daemon: RunningDaemon | None, *, is_accepted: bool) -> int:
    """Print the tools that are not as the owner has seen them; with `is_accepted`, from now on they are."""
    is_changed = False
    for name, mount in profiles.mounts.items():
        known = KnownTools(config.mounts_dir, mount)
        for change in known.changes:
            is_changed = True
            print(f"{name}: {change.name} {_difference(change.before, change.after)}")
        if not is_accepted:
            continue
        if daemon is None:
            known.accept()
        else:
            daemon.ask("POST", f"/api/mounts/{urllib.parse.quote(name)}/accept")
    if not is_changed:
        print("every tool of the mounted servers is as you have last seen it")
    elif is_accepted:
        print("accepted: from now on you are told what is different from this")
    else:
        print("once you have read them: mcp-agent tools --changed --accept")
    return 0


def _difference(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    if before is None:
        return f"is new\n  now:    {_text(after)}"
    if after is None:
        return f"is gone\n  before: {_text(before)}"
    if before.get("description") != after.get("description"):
        return f"has another description\n  before: {_text(before)}\n  now:    {_text(after)}"
    keys = [key for key in ("title", "inputSchema", "annotations") if before.get(key) != after.get(key)]
    changes = "".join(f"\n  {key}\n  before: {before.get(key)}\n  now:    {after.get(key)}" for key in keys)
    return f"is different in {' and '.join(keys)}{changes}"


def _text(tool: Mapping[str, Any] | None) -> str:
    return str((tool or {}).get("description", "")).replace("\n", "\n          ")


def _kept_facts(config: Config, profiles: Profiles, catalog: Catalog, name: str) -> dict[str, Any]:
    known = KnownTools(config.mounts_dir, profiles.mounts[name])
    changed = [change.name for change in known.changes]
    return {
        "state": "no daemon is running",
        "tools": len(known.tools),
        **list_cost(Gate(catalog, profiles), name),
        **({"changed": changed} if changed else {}),
    }
