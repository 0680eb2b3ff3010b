"""`mcp-agent tools` shows the tools that a client sees; `mcp-agent check` prints the problems of a tools.json."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import orjson

from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.changing import read_registry
from mcp_agent.cli.commands.mounts_shown import print_mounts, show_changes
from mcp_agent.cli.tables import Cell, Row, print_table
from mcp_agent.config import load
from mcp_agent.process.printing import print_json
from registry.catalog import discover
from registry.gate import Access, Gate
from registry.profiles import BadRegistry, Problem
from registry.tools_json_file import RegistryFile
from registry.user_error import UserError


def tools(options: argparse.Namespace) -> int:
    config = load(vars(options))
    daemon = daemon_client.find_by(options, config)
    _, profiles, catalog = read_registry(config, daemon)
    if options.changed:
        return show_changes(config, profiles, daemon, is_accepted=options.accept)
    profile = profiles[config.profile or profiles.active].id
    visible = Gate(catalog, profiles).visible(Access(profile))
    from mcp_agent.protocol.methods import tool_entry

    if options.json:
        listing = {"tools": [tool_entry(tool) for tool in visible]}
        print(orjson.dumps(listing, option=orjson.OPT_INDENT_2).decode())
        return 0
    print(f"profile {profile}: {len(visible)} tools (tokens are an estimate)")
    total = 0
    rows: list[Row] = []
    for tool in visible:
        cost = tool.list_tokens
        total += cost
        what = " ".join(tool.description.partition("\n\n")[0].split())
        rows.append(
            [
                Cell(tool.name, "cyan"),
                tool.category,
                tool.effect,
                Cell(f"{cost} tokens", to_right=True),
                Cell(what, "dim"),
            ]
        )
    rows.append([Cell("together", "bold"), "", "", Cell(f"{total} tokens", "bold", to_right=True)])
    print_table(rows, "")
    if profiles.mounts:
        print("mounted servers")
        print_mounts(config, profiles, catalog, daemon)
    return 0


def check(options: argparse.Namespace) -> int:
    path = Path(options.file) if options.file else daemon_client.registry_path(options, load(vars(options)))
    if not os.path.exists(path):  # noqa: PTH110 - Path.exists raises for a name that is too long
        raise UserError(f"{path} is not there")
    try:
        profiles = RegistryFile(path, discover()).load()
    except BadRegistry as error:
        if options.json:
            _print_verdict(path, error.problems, is_good=False)
            return 2
        for problem in error.problems:
            print(f"{path} {problem}{' (warning)' if problem.is_warning else ''}", file=sys.stderr)
        return 2
    if options.json:
        _print_verdict(path, profiles.warnings, is_good=True)
        return 0
    for warning in profiles.warnings:
        print(f"{path} {warning} (warning)", file=sys.stderr)
    print(f"{path} is good: {len(profiles.by_id)} profiles, {profiles.active} is active")
    return 0


def _print_verdict(path: Path, problems: Iterable[Problem], *, is_good: bool) -> None:
    print_json({"file": str(path), "good": is_good, "problems": [problem.as_object() for problem in problems]})
