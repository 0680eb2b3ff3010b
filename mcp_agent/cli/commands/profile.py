"""`mcp-agent profile`, `enable` and `disable`: profiles of tools.json, and their switches."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.policy_change import make_change, print_change, read_registry
from mcp_agent.cli.commands.token import every_token
from mcp_agent.cli.declaration import COMMON, STOP_SESSIONS, Argument, CommandReply, argument, command
from mcp_agent.cli.tables import Cell, Row, print_table
from mcp_agent.config import load
from mcp_agent.process.printing import Style, one_line
from registry.edits import edit_named, profile_entry
from registry.profiles import EFFECTS, BadRegistry, State
from registry.user_error import UsageError, UserError

_EDITORS = ("VISUAL", "EDITOR")
_DESCRIPTION = argument("--description", metavar="TEXT", help="what the new profile is for")
_TARGETS = argument(
    "targets", nargs="*", metavar="CATEGORY|TOOL", completed="tools", help="for example: shell, fs_read"
)


def _id(help: str = "the profile", **details: Any) -> Argument:
    return argument("id", metavar="ID", completed="profiles", help=help, **details)


def _effect(state: str) -> Argument:
    text = f"switch every tool that can do this {state}, wrapped and mounted ones included"
    return argument("--effect", action="append", choices=EFFECTS, help=text)


@command("profile list", examples=("mcp-agent profile list", "mcp-agent profile list --json"))
def list_profiles(options: Namespace) -> CommandReply:
    """All profiles, the active one marked."""
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
    rows: list[Row] = []
    for each in answer["profiles"]:
        is_active = each["id"] == answer["active"]
        off = "" if each["enabled"] else " (switched off)"
        name = Cell(each["id"], "green" if is_active else "cyan")
        rows.append(["*" if is_active else " ", name, f"{each['description'] or each['label']}{off}"])
    print_table(rows, "no profiles")
    return CommandReply(answer)


@command(
    "profile show",
    _id("the profile (default: the active one)", nargs="?"),
    examples=("mcp-agent profile show", "mcp-agent profile show lean --json"),
)
def show_profile(options: Namespace) -> CommandReply:
    """A profile's categories and tools with their switches."""
    config = load(vars(options))
    daemon = daemon_client.find_by(options, config)
    file, profiles, catalog = read_registry(config, daemon)
    active = profiles.active if daemon is None else daemon.ask("GET", "/api/profiles")["active"]
    profile = profiles[options.id or active]
    off = "" if profile.enabled else " (switched off)"
    print(one_line(f"{profile.id}: {profile.description or profile.label}{off}"))
    rows: list[Row] = []
    for category, tools in catalog.categories.items():
        named = profile.categories.get(category)
        category_state: State = "off" if named is not None and not named.enabled else "on"
        if category_state == "on" and named is not None and named.asks:
            category_state = "ask"
        rows.append([f"  {category}", _state(category_state)])
        rows += [[f"    {tool.name}", _state(profile.state(tool))] for tool in tools]
    print_table(rows, "no tools")
    for kind, rules in (("paths", profile.deny.paths), ("commands", profile.deny.commands)):
        if rules is not None:
            print(f"  denied {kind}")
            for rule in rules.rules:
                print("    " + one_line(f"{rule.id:22} {', '.join(rule.patterns)} ({rule.reason})"))
    if profile.ask.rules:
        print("  commands that ask")
        for rule in profile.ask.rules:
            print("    " + one_line(f"{rule.id:22} {', '.join(rule.patterns)} ({rule.reason})"))
    print(f"from {file.path}")
    return CommandReply(profile_entry(file.document(), profile, catalog))


@command(
    "profile use",
    _id(),
    STOP_SESSIONS,
    examples=("mcp-agent profile use read-only", "mcp-agent profile use lean --stop-sessions"),
)
def use_profile(options: Namespace) -> CommandReply:
    """Make a profile the active one."""
    arguments = {"profile": options.id, "stop_sessions": options.stop_sessions}
    report = make_change(options, "profiles/use", arguments)
    print(f"{options.id} is the active profile")
    print_change(report)
    return CommandReply(report)


@command(
    "profile create",
    argument("id", metavar="ID", help="the name of the new profile"),
    argument("--empty", action="store_true", help="with everything off instead"),
    _DESCRIPTION,
    examples=(
        "mcp-agent profile create reviewer --empty",
        "mcp-agent profile create ci --description 'for the nightly run'",
    ),
)
def create(options: Namespace) -> CommandReply:
    """Make a profile with everything on."""
    arguments = {"profile": options.id, "description": options.description, "empty": options.empty}
    report = make_change(options, "profiles/create", arguments)
    start, verb = ("nothing is on in it", "enable") if options.empty else ("everything is on in it", "disable")
    print(f"{options.id} is a new profile; {start}. To change it: mcp-agent {verb} NAME --profile {options.id}")
    print_change(report)
    return CommandReply(report)


@command(
    "profile copy",
    _id("the profile to copy"),
    argument("new", metavar="NEW", help="the name of the new profile"),
    _DESCRIPTION,
    examples=("mcp-agent profile copy lean mine", "mcp-agent profile copy read-only night --description 'at night'"),
)
def copy(options: Namespace) -> CommandReply:
    """Make a profile that is like another one."""
    arguments = {"profile": options.new, "from": options.id, "description": options.description}
    report = make_change(options, "profiles/create", arguments)
    print(f"{options.new} is a new profile, a copy of {options.id}")
    print_change(report)
    return CommandReply(report)


@command(
    "profile edit",
    _id(),
    argument("--file", metavar="FILE", help="take the profile from this file (- is standard input) instead"),
    examples=(
        "mcp-agent profile edit mine",
        "mcp-agent profile edit mine --file mine.json",
    ),
)
def edit(options: Namespace) -> CommandReply:
    """Change a profile as JSON, in $VISUAL or $EDITOR. What cannot be used is kept, so that no work is lost."""
    config = load(vars(options))
    file, profiles, catalog = read_registry(config, daemon_client.find_by(options, config))
    before = profile_entry(file.document(), profiles[options.id], catalog)
    if options.file is not None:
        text = sys.stdin.read() if options.file == "-" else _read(Path(options.file))
        kept = None
    else:
        text, kept = _in_editor(options.id, before)
    try:
        entry = json.loads(text)
        if entry == before:
            print("nothing has changed")
            _discard(kept)
            return CommandReply({"changes": []})
        file.try_edit(edit_named("profiles/edit", {"profile": options.id, "entry": entry}), catalog)
    except BadRegistry as error:
        raise _unusable("; ".join(map(str, error.problems)), kept) from None
    except (ValueError, UserError) as error:
        raise _unusable(str(error), kept) from None
    report = make_change(options, "profiles/edit", {"profile": options.id, "entry": entry})
    _discard(kept)
    print(f"the profile {options.id} is changed")
    for change in report["changes"]:
        print(f"  {change}")
    print_change(report)
    return CommandReply(report)


@command(
    "profile remove",
    _id(),
    examples=("mcp-agent profile remove reviewer", "mcp-agent profile remove lean"),
)
def remove(options: Namespace) -> CommandReply:
    """Remove a profile from tools.json; a built-in one is then as it was shipped."""
    every_token(load(vars(options))).check_unused(options.id)
    report = make_change(options, "profiles/delete", {"profile": options.id})
    print(f"Removed {options.id} from tools.json.")
    print_change(report)
    return CommandReply(report)


@command(
    "enable",
    _TARGETS,
    _effect("on"),
    settings=COMMON,
    examples=("mcp-agent enable shell", "mcp-agent enable fs_write fs_patch --profile reviewer"),
)
def enable(options: Namespace) -> CommandReply:
    """Switch categories, tools, or everything of an effect on."""
    return _switch(options, "on")


@command(
    "disable",
    _TARGETS,
    _effect("off"),
    STOP_SESSIONS,
    settings=COMMON,
    examples=("mcp-agent disable shell --stop-sessions", "mcp-agent disable --effect execute"),
)
def disable(options: Namespace) -> CommandReply:
    """Switch categories, tools, or everything of an effect off."""
    return _switch(options, "off", stops_sessions=options.stop_sessions)


@command(
    "ask",
    _TARGETS,
    _effect("to ask"),
    settings=COMMON,
    examples=("mcp-agent ask shell", "mcp-agent ask --effect execute --profile reviewer"),
)
def ask(options: Namespace) -> CommandReply:
    """Let categories, tools, or everything of an effect ask you before they run."""
    return _switch(options, "ask")


def _switch(options: Namespace, state: State, *, stops_sessions: bool = False) -> CommandReply:
    targets, effects = list(dict.fromkeys(options.targets)), list(dict.fromkeys(options.effect or ()))
    arguments = {
        "targets": targets,
        "effects": effects,
        "enabled": state != "off",
        "ask": None if state == "off" else state == "ask",
        "profile": options.profile,
        "stop_sessions": stops_sessions,
    }
    if not (targets or effects):
        raise UsageError("name a category or a tool (mcp-agent tools lists them), or an effect with --effect")
    report = make_change(options, "switch", arguments)
    # Where a note says what still hides them, they are not on, though their own switches are.
    said = {"off": "off", "on": "switched on" if report["notes"] else "on", "ask": "set to ask"}[state]
    names = [*targets, *(f"everything that can {effect}" for effect in effects)]
    verb = "are" if len(names) > 1 else "is"
    print(f"{', '.join(names)} {verb} {said} in the profile {report['profile']}")
    print_change(report)
    return CommandReply(report)


def _state(state: State) -> Cell:
    styles: dict[State, Style] = {"on": "green", "off": "red", "ask": "yellow"}
    return Cell(state, styles[state])


def _in_editor(profile_id: str, entry: dict[str, Any]) -> tuple[str, Path]:
    """The text that the user has made of the profile, and the file that it is in."""
    program = next((os.environ[name] for name in _EDITORS if os.environ.get(name)), "vi")
    descriptor, name = tempfile.mkstemp(prefix=f"mcp-agent-{profile_id}-", suffix=".json")
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{json.dumps(entry, indent=2, ensure_ascii=False)}\n")
    try:
        code = subprocess.run([*shlex.split(program), name], check=False).returncode
    except (OSError, ValueError) as error:
        Path(name).unlink()
        raise UserError(f"the editor {program!r} cannot be started: {error}; set EDITOR, or pass --file") from None
    if code != 0:
        raise UserError(f"the editor ended with exit code {code}, and nothing was changed; your text is in {name}")
    return Path(name).read_text("utf-8"), Path(name)


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None


def _unusable(problems: str, kept: Path | None) -> UsageError:
    again = "" if kept is None else f"; your text is in {kept}: correct it and pass it with --file"
    return UsageError(f"the profile cannot be used, and nothing was changed: {problems}{again}")


def _discard(kept: Path | None) -> None:
    if kept is not None:
        kept.unlink(missing_ok=True)
