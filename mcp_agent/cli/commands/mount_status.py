"""What people are shown of mounted servers: their state, and the tools that are not as their owner has seen them."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_agent.cli.commands.daemon_client import RunningDaemon
from mcp_agent.cli.declaration import CommandReply
from mcp_agent.config import Config
from mcp_agent.page.mount_control import list_cost
from mcp_agent.process.printing import one_line
from mcp_agent.upstream.known_tools import KnownTools
from registry.catalog import Catalog
from registry.gate import Gate
from registry.profiles import Profiles
from tools.kit.spec import Tool

# Of many changed tools, so many are named.
_NAMED = 10


def print_mounts(states: Mapping[str, Mapping[str, Any]]) -> None:
    """One line for each mounted server, one for the profiles that show it if they are given, and what is wrong."""
    for name, facts in states.items():
        print(f"  {name:22} {describe_state(facts)}")
        if "profiles" in facts:
            print(f"      {_describe_shown(facts['profiles'])}")


def shown_in(profiles: Profiles, tools: Sequence[Tool]) -> list[str]:
    """The profiles that show one of these tools; none of them, if no tool is known yet."""
    return [profile for profile in profiles.by_id if tools and not _hidden_by(profiles, tools, profile)]


def _describe_shown(shown: Sequence[str]) -> str:
    return f"shown in the profiles {', '.join(shown)}" if shown else "no profile shows it"


def mount_states(
    config: Config, profiles: Profiles, catalog: Catalog, daemon: RunningDaemon | None
) -> dict[str, dict[str, Any]]:
    """What is known of each mounted server: its state, its tools, what is wrong with it."""
    if daemon is None:
        return {name: _kept_facts(config, profiles, catalog, name) for name in profiles.mounts}
    states: dict[str, dict[str, Any]] = daemon.ask("GET", "/api/mounts")["mounts"]
    return states


def print_who_sees(
    profiles: Profiles, added: Mapping[str, Sequence[Tool]], clients: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, Any]]:
    """Say which profiles show the tools of each mount or wrapped program in `added`, and which of `clients`, the
    connected ones, do not see them and why.
    """
    seen: dict[str, dict[str, Any]] = {}
    for name, tools in added.items():
        hidden_by = {profile: _hidden_by(profiles, tools, profile) for profile in profiles.by_id}
        shown = shown_in(profiles, tools)
        print(f"{name}: {_describe_shown(shown) if tools else 'who sees it is known when it has started once'}")
        blind = [each for each in clients if hidden_by.get(each["profile"])]
        for each in blind:
            who = f"{each['client'] or 'a client of /' + each['wire']} ({each['token']})"
            reason = hidden_by[each["profile"]]
            print(f"  {one_line(who)} does not see it: its profile is {each['profile']}, and {reason}")
        seen[name] = {
            "profiles": shown,
            "unseen_by": [
                {"client": each["client"], "token": each["token"], "reason": hidden_by[each["profile"]]}
                for each in blind
            ],
        }
    return seen


def _hidden_by(profiles: Profiles, tools: Sequence[Tool], profile: str) -> str:
    """Why a profile shows none of these tools; empty if it shows one, or if none is known yet."""
    switches = [profiles[profile].switch(tool) for tool in tools]
    if not switches or None in switches:
        return ""
    flag = f" --profile {profile}"
    one = tools[0].name if len(tools) == 1 else "TOOL"
    return {
        "profile": "that is switched off",
        "effect": f"tools of their effect are off there: mcp-agent enable --effect execute{flag}",
        "category": f"the category is off there: mcp-agent enable {tools[0].category}{flag}",
        "tool": f"it shows only tools that it names: mcp-agent enable {one}{flag}",
    }[switches[0] or ""]


def describe_state(facts: Mapping[str, Any]) -> str:
    """The state of a mounted server, in one line or, where something is wrong, in several."""
    count = facts["tools"] if facts["shown"] == facts["tools"] else f"{facts['shown']} of {facts['tools']}"
    parts = [str(facts["state"]), f"{count} {'tool' if facts['tools'] == 1 else 'tools'}, {facts['tokens']} tokens"]
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
    return "\n      ".join(map(one_line, lines))


def show_changes(
    config: Config, profiles: Profiles, daemon: RunningDaemon | None, *, is_accepted: bool
) -> CommandReply:
    """Print the tools that are not as the owner has seen them; with `is_accepted`, from now on they are."""
    changed: list[dict[str, Any]] = []
    for name, mount in profiles.mounts.items():
        known = KnownTools(config.mounts_dir, mount)
        for change in known.changes:
            changed.append({"mount": name, **change._asdict()})
            print(f"{name}: {one_line(change.name)} {_difference(change.before, change.after)}")
        if not is_accepted:
            continue
        if daemon is None:
            known.accept()
        else:
            daemon.ask("POST", f"/api/mounts/{urllib.parse.quote(name)}/accept")
    if not changed:
        print("every tool of the mounted servers is as you have last seen it")
    elif is_accepted:
        print("accepted: from now on you are told what is different from this")
    else:
        print("once you have read them: mcp-agent tools --changed --accept")
    return CommandReply({"changed": changed, "accepted": is_accepted})


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
