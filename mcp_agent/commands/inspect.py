"""`mcp-agent tools` shows the tools that a client sees; `mcp-agent check` prints the problems of a tools.json."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import orjson

from mcp_agent.config import load
from registry.catalog import discover
from registry.gate import Access, Gate
from registry.profiles import BadRegistry
from registry.tools_json_file import RegistryFile
from registry.user_error import UserError
from tools.kit.llm_tokens import estimate


def tools(options: argparse.Namespace) -> int:
    config = load(vars(options))
    catalog = discover()
    profiles = RegistryFile(config.config, catalog).load_or_create()
    profile = profiles[config.profile or profiles.active].id
    visible = Gate(catalog, profiles).visible(Access(profile))
    from mcp_agent.protocol.methods import tool_entry

    if options.json:
        listing = {"tools": [tool_entry(tool) for tool in visible]}
        print(orjson.dumps(listing, option=orjson.OPT_INDENT_2).decode())
        return 0
    print(f"profile {profile}: {len(visible)} tools (tokens are an estimate)")
    total = 0
    for tool in visible:
        shown = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
        cost = estimate(orjson.dumps(shown).decode())
        total += cost
        print(
            f"  {tool.name:22} {tool.category:12} {tool.effect:8} {cost:5} tokens  {tool.description.splitlines()[0]}"
        )
    print(f"  {'together':22} {'':12} {'':8} {total:5} tokens")
    return 0


def check(options: argparse.Namespace) -> int:
    path = Path(options.file) if options.file else load(vars(options)).config
    if not os.path.exists(path):  # noqa: PTH110 - Path.exists raises for a name that is too long
        raise UserError(f"{path} is not there")
    try:
        profiles = RegistryFile(path, discover()).load()
    except BadRegistry as error:
        for problem in error.problems:
            print(f"{path} {problem}{' (warning)' if problem.is_warning else ''}", file=sys.stderr)
        return 2
    for warning in profiles.warnings:
        print(f"{path} {warning} (warning)", file=sys.stderr)
    print(f"{path} is good: {len(profiles.by_id)} profiles, {profiles.active} is active")
    return 0
