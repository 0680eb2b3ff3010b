"""`mcp-agent profile`, `enable` and `disable`."""

from __future__ import annotations

import argparse

from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.changing import make_change, print_change, read_registry
from mcp_agent.cli.tables import Cell, Row, print_table
from mcp_agent.config import load
from mcp_agent.process.printing import print_json
from registry.edits import profile_entry
from registry.user_error import UserError


def list_profiles(options: argparse.Namespace) -> int:
    config = load(vars(options))
    daemon = daemon_client.find_by(options, config)
    answer = None if daemon is None else daemon.ask("GET", "/api/profiles")
    if answer is None:
        profiles = read_registry(config)[1]
        answer = {
            "active": profiles.active,
            "profiles": [
                {"id": each.id, "description": each.description, "enabled": each.enabled, "label": each.label}
                for each in profiles.by_id.values()
            ],
        }
    if options.json:
        print_json(answer)
        return 0
    rows: list[Row] = []
    for each in answer["profiles"]:
        is_active = each["id"] == answer["active"]
        off = "" if each["enabled"] else " (switched off)"
        name = Cell(each["id"], "green" if is_active else "cyan")
        rows.append(["*" if is_active else " ", name, f"{each['description'] or each['label']}{off}"])
    print_table(rows, "no profiles")
    return 0


def show_profile(options: argparse.Namespace) -> int:
    config = load(vars(options))
    daemon = daemon_client.find_by(options, config)
    file, profiles, catalog = read_registry(config, daemon)
    active = profiles.active if daemon is None else daemon.ask("GET", "/api/profiles")["active"]
    profile = profiles[options.id or active]
    if options.json:
        print_json(profile_entry(file.document(), profile, catalog))
        return 0
    print(f"{profile.id}: {profile.description or profile.label}{'' if profile.enabled else ' (switched off)'}")
    rows: list[Row] = []
    for category, tools in catalog.categories.items():
        named = profile.categories.get(category)
        rows.append([f"  {category}", _state(named is None or named.enabled)])
        rows += [[f"    {tool.name}", _state(not profile.switch(tool))] for tool in tools]
    print_table(rows, "no tools")
    for kind, rules in (("paths", profile.deny.paths), ("commands", profile.deny.commands)):
        if rules is not None:
            print(f"  denied {kind}")
            for rule in rules.rules:
                print(f"    {rule.id:22} {', '.join(rule.patterns)} ({rule.reason})")
    print(f"from {file.path}")
    return 0


def _state(is_on: bool) -> Cell:
    return Cell("on", "green") if is_on else Cell("off", "red")


def use_profile(options: argparse.Namespace) -> int:
    arguments = {"profile": options.id, "stop_sessions": options.stop_sessions}
    report = make_change(options, "profiles/use", arguments)
    print(f"{options.id} is the active profile")
    print_change(report)
    return 0


def switch(options: argparse.Namespace) -> int:
    targets, effects = list(dict.fromkeys(options.targets)), list(dict.fromkeys(options.effect or ()))
    arguments = {
        "targets": targets,
        "effects": effects,
        "enabled": options.enabled,
        "profile": options.profile,
        "stop_sessions": options.stop_sessions,
    }
    if not (targets or effects):
        raise UserError("name a category or a tool (mcp-agent tools lists them), or an effect with --effect")
    report = make_change(options, "switch", arguments)
    # Where a note says what still hides them, they are not on, though their own switches are.
    state = "off" if not options.enabled else "switched on" if report["notes"] else "on"
    names = [*targets, *(f"everything that can {effect}" for effect in effects)]
    verb = "are" if len(names) > 1 else "is"
    print(f"{', '.join(names)} {verb} {state} in the profile {report['profile']}")
    print_change(report)
    return 0
