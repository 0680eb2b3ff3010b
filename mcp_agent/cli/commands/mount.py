"""`mcp-agent mount` and `unmount`: another MCP server as a category of tools.

Secrets do not go into tools.json, which tools may read: they are kept in the closed state folder, and the file says
where.
"""

from __future__ import annotations

import argparse
import shutil
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.changing import make_change, print_change, read_registry
from mcp_agent.cli.commands.daemon_client import NoDaemon, RunningDaemon
from mcp_agent.cli.commands.mounts_shown import describe_state, mount_states, print_mounts
from mcp_agent.cli.commands.other_clients import servers_of
from mcp_agent.cli.commands.program_flags import absolute_program, parse_pair
from mcp_agent.config import Config, load
from mcp_agent.process.printing import print_json, progress
from registry.user_error import UserError
from tools.files import disk


def mount(options: argparse.Namespace) -> int:
    if options.source is not None:
        return _take_over(options)
    if options.restart is not None:
        return _restart(options)
    if options.name is None:
        return _list(options)
    config = load(vars(options))
    entry = _entry(options)
    report = _change(options, config, options.name, entry)
    print(f"{options.name} is mounted in the profile {report['profile']}")
    print_change(report)
    return _print_tools(options, [options.name])


def unmount(options: argparse.Namespace) -> int:
    config = load(vars(options))
    report = make_change(options, "unmount", {"name": options.name})
    shutil.rmtree(_secrets_folder(config, options.name), ignore_errors=True)
    print(f"{options.name} is mounted no more")
    print_change(report)
    return 0


def _entry(options: argparse.Namespace) -> dict[str, Any]:
    """The `mount` that the flags describe."""
    command: list[str] = options.server_command
    if bool(command) == bool(options.url):
        raise UserError(f"say what to mount: mcp-agent mount {options.name} -- COMMAND ARGS…, or --url URL")
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


def _change(options: argparse.Namespace, config: Config, name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
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


def _take_over(options: argparse.Namespace) -> int:
    """Mount what another client has, each server under its own name."""
    config = load(vars(options))
    path = Path(options.source).expanduser()
    wanted = [options.name, *options.server_command] if options.name else []
    servers = servers_of(path)
    for name in wanted:
        if name not in [server.name for server in servers]:
            raise UserError(f"{path} has no server {name!r}; it has {', '.join(server.name for server in servers)}")
    mounted: list[str] = []
    report: dict[str, Any] = {}
    _, profiles, catalog = read_registry(config, daemon_client.find_by(options, config))
    taken = {*catalog.categories, *profiles.mounts}
    for server in servers:
        if wanted and server.name not in wanted:
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
            print(f"left out: {server.name}: {problem}")
        else:
            mounted.append(server.name)
    if not mounted:
        print(f"nothing was mounted from {path}")
        return 1
    print(f"mounted from {path}: {', '.join(mounted)}")
    print_change(report)
    return _print_tools(options, mounted)


def _restart(options: argparse.Namespace) -> int:
    daemon = _daemon(options)
    if daemon is None:
        raise NoDaemon(load(vars(options)), "; a mounted server is started at its first use")
    daemon.ask("POST", f"/api/mounts/{urllib.parse.quote(options.restart)}/restart")
    return _print_tools(options, [options.restart])


def _list(options: argparse.Namespace) -> int:
    config = load(vars(options))
    daemon = daemon_client.find_by(options, config)
    _, profiles, catalog = read_registry(config, daemon)
    if options.json:
        print_json(mount_states(config, profiles, catalog, daemon))
        return 0
    if not profiles.mounts:
        print("nothing is mounted; mcp-agent mount NAME -- COMMAND ARGS… mounts a server")
    print_mounts(config, profiles, catalog, daemon)
    return 0


def _daemon(options: argparse.Namespace) -> RunningDaemon | None:
    return daemon_client.find_by(options, load(vars(options)))


def _print_tools(options: argparse.Namespace, names: list[str]) -> int:
    """Wait until the running daemon knows the tools of new mounts; 1 if a server does not start."""
    daemon = _daemon(options)
    if daemon is None:
        return 0
    code = 0
    for name in names:
        with progress(f"waiting for the tools of {name}"):
            facts = daemon.ask("GET", f"/api/mounts/{urllib.parse.quote(name)}")
        print(f"{name}: {describe_state(facts)}")
        code = code or int(facts["state"] != "running" or "problem" in facts)
    return code
