"""`mcp-agent wrap` and `unwrap`: a command line program as a tool."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mcp_agent.cli.commands.changing import make_change, print_change
from mcp_agent.cli.commands.program_flags import absolute_program, parse_pair
from tools.cli.program_help import find_value_options


def wrap(options: argparse.Namespace) -> int:
    name = options.id or f"{Path(options.program).name.replace('.', '_')}_run"
    command = absolute_program(options.program)
    blocked = dict(_parse_block(each) for each in options.block or ())
    env = dict(parse_pair(each, "=", "--env") for each in options.env or ())
    # Behind an option with a value, the value would be taken for the subcommand.
    found = find_value_options(command, env) if blocked and not options.value_option else []
    flags = {
        "blocked": blocked,
        "value_options": options.value_option or found,
        "env": env,
        "cwd_required": options.cwd_required,
        "description": options.description,
    }
    entry: dict[str, Any] = {"id": name, "command": command}
    entry |= {key: value for key, value in flags.items() if value}
    if options.timeout is not None:
        entry["timeout_seconds"] = options.timeout
    report = make_change(options, "wrap", {"wrap": entry, "category": options.category})
    print(f"{options.program} is the tool {name} in the profile {report['profile']}")
    if found:
        print(f"options with a value, by its help: {', '.join(found)}; --value-option names others")
    print_change(report)
    return 0


def unwrap(options: argparse.Namespace) -> int:
    report = make_change(options, "unwrap", {"id": options.id})
    print(f"{options.id} is no tool any more")
    print_change(report)
    return 0


def _parse_block(text: str) -> tuple[str, str]:
    """A subcommand and the reason why it is refused: `push` or `push=People push.`"""
    name, _, reason = text.partition("=")
    return name, reason
