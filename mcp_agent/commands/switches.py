"""`mcp-agent profile`, `enable` and `disable`. They ask the running daemon, or change the file if none runs."""

from __future__ import annotations

import argparse
import urllib.parse
from typing import Any

from mcp_agent.commands import daemon_client
from mcp_agent.config import Config, load
from mcp_agent.storage.audit_log import AuditLog
from registry.catalog import discover
from registry.policy_diff import policy_change
from registry.profiles import Profiles
from registry.tools_json_file import RegistryFile


def list_profiles(options: argparse.Namespace) -> int:
    config = load(vars(options))
    answer = _ask_daemon(config, "GET", "/api/profiles")
    if answer is None:
        profiles = _file(config)[1]
        answer = {
            "active": profiles.active,
            "profiles": [
                {"id": each.id, "description": each.description, "enabled": each.enabled, "label": each.label}
                for each in profiles.by_id.values()
            ],
        }
    for each in answer["profiles"]:
        mark = "*" if each["id"] == answer["active"] else " "
        off = "" if each["enabled"] else " (switched off)"
        print(f"{mark} {each['id']:14} {each['description'] or each['label']}{off}")
    return 0


def show_profile(options: argparse.Namespace) -> int:
    config = load(vars(options))
    file, profiles = _file(config)
    profile = profiles[options.id or profiles.active]
    print(f"{profile.id}: {profile.description or profile.label}{'' if profile.enabled else ' (switched off)'}")
    for category, tools in discover().categories.items():
        named = profile.categories.get(category)
        print(f"  {category:24} {'on' if named is None or named.enabled else 'off'}")
        for tool in tools:
            print(f"    {tool.name:22} {'off' if profile.switch(tool) else 'on'}")
    for kind, rules in (("paths", profile.deny.paths), ("commands", profile.deny.commands)):
        if rules is not None:
            print(f"  denied {kind}")
            for rule in rules.rules:
                print(f"    {rule.id:22} {', '.join(rule.patterns)} ({rule.reason})")
    print(f"from {file.path}")
    return 0


def use_profile(options: argparse.Namespace) -> int:
    config = load(vars(options))
    if _ask_daemon(config, "POST", "/api/profiles/use", {"profile": options.id}) is None:
        file, profiles = _file(config)
        _record_change(config, profiles, file.use_profile(options.id))
    print(f"{options.id} is the active profile")
    return 0


def switch(options: argparse.Namespace) -> int:
    config = load(vars(options))
    body = {"target": options.target, "enabled": options.enabled, "profile": config.profile}
    if _ask_daemon(config, "POST", "/api/switch", body) is None:
        file, profiles = _file(config)
        _record_change(config, profiles, file.switch(options.target, options.enabled, config.profile))
    print(f"{options.target} is {'on' if options.enabled else 'off'}{_obstacle(config, options)}")
    return 0


def _obstacle(config: Config, options: argparse.Namespace) -> str:
    """What still hides a tool, or all tools of a category, that was just switched on."""
    if not options.enabled:
        return ""
    catalog = discover()
    tool = catalog.by_name.get(options.target)
    profiles = _file(config)[1]
    profile = profiles[config.profile or profiles.active]
    if tool is None:
        tools = catalog.categories.get(options.target, ())
        if any(profile.allows(each) for each in tools) or not tools:
            return ""
        if not profile.enabled:
            return f", but the profile {profile.id} is switched off in tools.json"
        return f", but every tool in it is off in the profile {profile.id}: mcp-agent enable {tools[0].name}, and so on"
    match profile.switch(tool):
        case "category":
            return f", but its category is off: mcp-agent enable {tool.category}"
        case "profile":
            return f", but the profile {profile.id} is switched off in tools.json"
        case _:
            return ""


def _record_change(config: Config, before: Profiles, after: Profiles) -> None:
    """Write the change to the audit log, because no daemon runs that would do it."""
    audit = AuditLog(config.audit_dir)
    audit.note("policy", by="command", **policy_change(before, after, discover()))
    audit.close()


def _file(config: Config) -> tuple[RegistryFile, Profiles]:
    file = RegistryFile(config.config, discover())
    return file, file.load_or_create()


def _ask_daemon(config: Config, method: str, path: str, body: Any = None) -> Any:
    """The answer of the running daemon; None if no daemon uses this tools.json."""
    daemon = daemon_client.find(config)
    if daemon is None or daemon.config != str(config.config):
        return None
    try:
        return daemon.ask(method, urllib.parse.quote(path), body)
    except daemon_client.NotReached:
        return None
