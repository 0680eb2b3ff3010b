"""`mcp-agent mount`: another MCP server as a category of tools.

Secrets do not go into tools.json, which tools may read: they are kept in the closed state folder, and the file says
where.
"""

from __future__ import annotations

import shutil
import urllib.parse
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.mount_status import describe_state, mount_states, print_mounts, print_who_sees, shown_in
from mcp_agent.cli.commands.other_clients import servers_of
from mcp_agent.cli.commands.policy_change import make_change, print_change, read_registry
from mcp_agent.cli.commands.wrap_program import absolute_program, parse_pair
from mcp_agent.cli.declaration import CommandReply, argument, command
from mcp_agent.config import Config, load
from mcp_agent.process.printing import progress
from registry.user_error import UsageError, UserError
from tools.files import disk
from tools.kit.spelling import did_you_mean

_FLAGS = (
    argument("--url", metavar="URL", help="a server that is reached over Streamable HTTP"),
    argument("--header", action="append", metavar="NAME:VALUE", help="a header for it; kept out of tools.json"),
    argument("--env", action="append", metavar="NAME=VALUE", help="a variable; kept out of tools.json"),
    argument("--cwd", metavar="FOLDER", help="the folder to start it in (default: the daemon's)"),
    argument("--only", nargs="+", metavar="TOOL", help="offer only these of its tools"),
    argument("--except", dest="without", nargs="+", metavar="TOOL", help="offer all but these"),
    argument(
        "--path-argument",
        action="append",
        metavar="NAME",
        help="an argument of its tools that is a path: the deny rules for paths hold for it",
    ),
    argument("--per-caller", action="store_true", help="start a server for each caller, not one for all"),
    argument("--timeout", type=float, metavar="SECONDS", help="the longest a call may take (default: 120)"),
)
# One that is mounted.
_MOUNTED = argument("name", metavar="NAME", completed="mounts", help="its category")


@command(
    "mount add",
    argument("name", metavar="NAME", help="the category that its tools are in"),
    *_FLAGS,
    usage="mcp-agent mount add NAME [flags] -- COMMAND ARGS…  |  mcp-agent mount add NAME [flags] --url URL",
    examples=(
        "mcp-agent mount add browser -- npx -y @playwright/mcp",
        "mcp-agent mount add tickets --url https://tickets.example/mcp --header 'Authorization: Bearer KEY'",
    ),
)
def add(options: Namespace) -> CommandReply:
    """Offer the tools of another MCP server as a category, and say who sees them."""
    config = load(vars(options))
    entry = _entry(options)
    report = _change(options, config, options.name, entry)
    print(f"{options.name} is mounted in the profile {report['profile']}")
    print_change(report)
    return _print_tools(options, [options.name], report)


@command("mount list", examples=("mcp-agent mount list", "mcp-agent mount list --json"))
def show_all(options: Namespace) -> CommandReply:
    """Every mounted server with its state, the profiles that show its tools, and what is wrong with it."""
    config = load(vars(options))
    daemon = daemon_client.find_by(options, config)
    _, profiles, catalog = read_registry(config, daemon)
    states = mount_states(config, profiles, catalog, daemon)
    for name, facts in states.items():
        facts["profiles"] = shown_in(profiles, catalog.categories.get(name, ()))
    if not states:
        print("nothing is mounted; mcp-agent mount add NAME -- COMMAND ARGS… mounts a server")
    print_mounts(states)
    return CommandReply(states)


@command(
    "mount remove",
    _MOUNTED,
    examples=("mcp-agent mount remove browser", "mcp-agent mount remove tickets --json"),
)
def remove(options: Namespace) -> CommandReply:
    """Remove a mounted server with its switches."""
    config = load(vars(options))
    report = make_change(options, "unmount", {"name": options.name})
    shutil.rmtree(_secrets_folder(config, options.name), ignore_errors=True)
    print(f"Unmounted {options.name}.")
    print_change(report)
    return CommandReply(report)


@command(
    "mount restart",
    _MOUNTED,
    examples=("mcp-agent mount restart browser", "mcp-agent mount restart tickets --json"),
)
def restart(options: Namespace) -> CommandReply:
    """Start a mounted server again, also one that failed too often."""
    config = load(vars(options))
    daemon = daemon_client.find_by(options, config)
    if daemon is None:
        raise daemon_client.NoDaemon(config, "; a mounted server is started at its first use")
    daemon.ask("POST", f"/api/mounts/{urllib.parse.quote(options.name)}/restart")
    return _print_tools(options, [options.name], {})


@command(
    "mount import",
    argument("file", metavar="FILE", help="the configuration of another client, such as ~/.claude.json"),
    argument("names", nargs="*", metavar="NAME", help="only these of its servers"),
    examples=("mcp-agent mount import ~/.claude.json", "mcp-agent mount import .vscode/mcp.json github"),
)
def take_over(options: Namespace) -> CommandReply:
    """Mount the servers that another client has, each under its own name."""
    config = load(vars(options))
    path = Path(options.file).expanduser()
    servers = servers_of(path)
    known = [server.name for server in servers]
    for name in options.names:
        if name not in known:
            there = did_you_mean(name, known) or f"; it has {', '.join(known)}"
            raise UsageError(f"{path} has no server {name!r}{there}")
    mounted: list[str] = []
    left_out: dict[str, str] = {}
    report: dict[str, Any] = {}
    _, profiles, catalog = read_registry(config, daemon_client.find_by(options, config))
    taken = {*catalog.categories, *profiles.mounts}
    for server in servers:
        if options.names and server.name not in options.names:
            continue
        problem = server.problem
        if not problem and server.name in taken:
            problem = "there is a category of that name already"
        if not problem:
            try:
                report = _change(options, config, server.name, server.mount)
            except UserError as error:
                problem = str(error)
        if problem:
            left_out[server.name] = problem
            print(f"left out: {server.name}: {problem}")
        else:
            mounted.append(server.name)
    if not mounted:
        print(f"nothing was mounted from {path}")
        return CommandReply({"mounted": {}, "left_out": left_out}, 1)
    print(f"mounted from {path}: {', '.join(mounted)}")
    print_change(report)
    return _print_tools(options, mounted, {**report, "left_out": left_out})


def _entry(options: Namespace) -> dict[str, Any]:
    """The `mount` that the flags describe."""
    command: list[str] = options.server_command
    if bool(command) == bool(options.url):
        raise UsageError(f"say what to mount: mcp-agent mount add {options.name} -- COMMAND ARGS…, or --url URL")
    if options.url:
        entry: dict[str, Any] = {"url": options.url}
    else:
        entry = {"command": absolute_program(command[0]), "args": command[1:]}
    if options.timeout is not None:
        entry["timeout_seconds"] = options.timeout
    flags = {
        "env": dict(parse_pair(each, "=", "--env") for each in options.env or ()),
        "headers": dict(parse_pair(each, ":", "--header") for each in options.header or ()),
        "only": options.only,
        "except": options.without,
        "paths": options.path_argument,
        "cwd": options.cwd and str(Path(options.cwd).expanduser().absolute()),
        "instance": "caller" if options.per_caller else None,
    }
    return {**entry, **{name: value for name, value in flags.items() if value}}


def _change(options: Namespace, config: Config, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Mount a server. If that is refused, its secrets are not kept, and those of a mount of that name are as before."""
    folder = _secrets_folder(config, name)
    before = {file: file.read_bytes() for file in folder.iterdir()} if folder.is_dir() else {}
    try:
        return make_change(options, "mount", {"name": name, "mount": _move_secrets_to_files(config, name, entry)})
    except UserError:
        shutil.rmtree(folder, ignore_errors=True)
        for file, value in before.items():
            disk.replace_file(file, value)
        raise


def _secrets_folder(config: Config, name: str) -> Path:
    return config.mounts_dir / "secrets" / urllib.parse.quote(name, safe="")


def _move_secrets_to_files(config: Config, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """The mount with the values of `env` and `headers` in files of their own."""
    kept = dict(entry)
    for key in ("env", "headers"):
        values: dict[str, Any] = dict(entry.get(key, {}))
        for each, value in values.items():
            if isinstance(value, str):
                file = _secrets_folder(config, name) / f"{key}-{urllib.parse.quote(each, safe='')}"
                disk.replace_file(file, value.encode())
                values[each] = {"file": str(file)}
        if values:
            kept[key] = values
    return kept


def _print_tools(options: Namespace, names: list[str], report: Mapping[str, Any]) -> CommandReply:
    """Wait until the running daemon knows the tools of mounts, and say who sees them; 1 if a server does not start."""
    config = load(vars(options))
    daemon = daemon_client.find_by(options, config)
    states: dict[str, Any] = {}
    for name in names:
        if daemon is None:
            break
        with progress(f"waiting for the tools of {name}"):
            states[name] = daemon.ask("GET", f"/api/mounts/{urllib.parse.quote(name)}")
        print(f"{name}: {describe_state(states[name])}")
    _, profiles, catalog = read_registry(config, daemon)
    added = {name: catalog.categories.get(name, ()) for name in names}
    seen = print_who_sees(profiles, added, report.get("clients", ()))
    has_failed = any(facts["state"] != "running" or "problem" in facts for facts in states.values())
    return CommandReply({**report, "mounted": states, "seen_by": seen}, int(has_failed))
