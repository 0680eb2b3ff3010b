"""`mcp-agent wrap`: a command line program as a tool."""

from __future__ import annotations

import os
from argparse import Namespace
from pathlib import Path
from typing import Any

from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.mount_status import print_who_sees
from mcp_agent.cli.commands.policy_change import make_change, print_change, read_registry
from mcp_agent.cli.declaration import CommandReply, argument, command
from mcp_agent.cli.tables import Cell, Row, print_table
from mcp_agent.config import load
from registry.user_error import UsageError
from tools.cli.program_help import ask_help, find_program, first_lines, value_options


@command(
    "wrap add",
    argument("program", metavar="PROGRAM", help="for example: git"),
    argument("--id", metavar="NAME", help="the name of the tool (default: PROGRAM_run)"),
    argument("--block", action="append", metavar="SUBCOMMAND[=REASON]", help="refuse a subcommand"),
    argument(
        "--value-option",
        action="append",
        metavar="OPTION",
        help="a global option that takes a value, so that the subcommand behind it is found",
    ),
    argument("--timeout", type=float, metavar="SECONDS", help="end it after that time (default: 30)"),
    argument("--env", action="append", metavar="NAME=VALUE", help="a variable for it"),
    argument("--cwd-required", action="store_true", help="callers must say in which folder it runs"),
    argument("--description", metavar="TEXT", help="what a model reads"),
    argument(
        "--learn-help",
        action="store_true",
        help="run it once with --help, for the description and the options with a value",
    ),
    argument("--category", metavar="NAME", help="the category of the tool (default: cli)"),
    examples=(
        "mcp-agent wrap add git --block push='People push.' --learn-help",
        "mcp-agent wrap add ./deploy --id deploy --timeout 300",
    ),
)
def add(options: Namespace) -> CommandReply:
    """Offer a command line program as a tool, and say who sees it. It is not run, except for --learn-help."""
    name = options.id or _tool_name(options.program)
    command = absolute_program(options.program)
    blocked = dict(_parse_block(each) for each in options.block or ())
    env = dict(parse_pair(each, "=", "--env") for each in options.env or ())
    text = ask_help(command, env) if options.learn_help else ""
    found = value_options(text) if not options.value_option else []
    flags = {
        "blocked": blocked,
        "value_options": options.value_option or found,
        "env": env,
        "cwd_required": options.cwd_required,
        "description": options.description or _describe(options.program, text),
    }
    entry: dict[str, Any] = {"id": name, "command": command}
    entry |= {key: value for key, value in flags.items() if value}
    if options.timeout is not None:
        entry["timeout_seconds"] = options.timeout
    report = make_change(options, "wrap", {"wrap": entry, "category": options.category})
    print(f"{options.program} is the tool {name} in the profile {report['profile']}")
    is_found = find_program(command, env) is not None
    if not is_found:
        print(f"note: there is no program {options.program} here yet; until there is one, calls answer so")
    if found:
        print(f"options with a value, by its help: {', '.join(found)}; --value-option names others")
    elif options.learn_help and not text:
        print(f"{options.program} --help printed nothing within a few seconds; --description says what it does")
    elif blocked and not options.value_option:
        print(
            "no option of it is known to take a value, so behind an option two arguments are looked at for what is "
            "refused; --value-option or --learn-help says which do"
        )
    print_change(report)
    config = load(vars(options))
    _, profiles, catalog = read_registry(config, daemon_client.find_by(options, config))
    seen = print_who_sees(profiles, {name: [catalog.by_name[name]]}, report.get("clients", ()))
    return CommandReply({"tool": name, "is_found": is_found, **report, "seen_by": seen})


@command("wrap list", examples=("mcp-agent wrap list", "mcp-agent wrap list --json"))
def show_all(options: Namespace) -> CommandReply:
    """Every wrapped program, with the subcommands that are refused."""
    config = load(vars(options))
    _, profiles, _ = read_registry(config, daemon_client.find_by(options, config))
    rows: list[Row] = [
        [Cell(wrap.id, "cyan"), str(wrap.command), f"blocked: {', '.join(wrap.blocked)}" if wrap.blocked else ""]
        for wrap in profiles.wraps
    ]
    print_table(rows, "no program is wrapped; mcp-agent wrap add PROGRAM wraps one")
    return CommandReply(
        [{"id": wrap.id, "command": wrap.command, "blocked": dict(wrap.blocked)} for wrap in profiles.wraps]
    )


@command(
    "wrap remove",
    argument("id", metavar="NAME", completed="wraps", help="the name of its tool"),
    examples=("mcp-agent wrap remove git_run", "mcp-agent wrap remove deploy --json"),
)
def remove(options: Namespace) -> CommandReply:
    """Remove a wrapped program."""
    config = load(vars(options))
    _, profiles, _ = read_registry(config, daemon_client.find_by(options, config))
    # The name of the program does as well, where `wrap add` made that of the tool from it.
    known = [wrap.id for wrap in profiles.wraps]
    name = options.id if options.id in known or _tool_name(options.id) not in known else _tool_name(options.id)
    report = make_change(options, "unwrap", {"id": name})
    print(f"Removed the tool {name}.")
    print_change(report)
    return CommandReply(report)


def _describe(program: str, text: str) -> str:
    """What a model reads of a program with this help; empty if there is none."""
    about = f"Run a {Path(program).name} command. Returns stdout, stderr, and exit code. Its help:"
    return f"{about}\n{lines}" if (lines := first_lines(text)) else ""


def _tool_name(program: str) -> str:
    return f"{Path(program).name.replace('.', '_')}_run"


def absolute_program(program: str) -> str:
    """A program that is named by its path, so that the daemon, in a folder of its own, finds the same one."""
    return str(Path(program).expanduser().absolute()) if os.sep in program else program


def parse_pair(text: str, separator: str, flag: str) -> tuple[str, str]:
    """`NAME=VALUE`, or with another separator. Raises UsageError."""
    name, found, value = text.partition(separator)
    if not (found and name.strip()):
        raise UsageError(f"{flag} needs NAME{separator}VALUE, not {name[:40]!r}")
    return name.strip(), value.strip()


def _parse_block(text: str) -> tuple[str, str]:
    """A subcommand and the reason why it is refused: `push` or `push=People push.`"""
    name, _, reason = text.partition("=")
    return name, reason
