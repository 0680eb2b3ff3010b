"""The command line: what it takes, and which command it leads to."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcp_agent import __version__
from mcp_agent.cli.command_flags import add_commands
from mcp_agent.cli.parser import Parser, check_command, made_into
from mcp_agent.process.printing import plain_output
from registry.user_error import UserError

if TYPE_CHECKING:
    from registry.catalog import Catalog

_EPILOG = """\
Start the daemon with `mcp-agent serve`, connect a client with `mcp-agent connect`, and switch
tools on and off with `mcp-agent enable` and `disable`, or in tools.json, while it runs.
"""


def run(arguments: Sequence[str], catalog: Catalog | None = None) -> int:
    """Run a command line and return its exit code. With `catalog`, only those tools are served."""
    with plain_output():
        return _run(arguments, catalog)


def _run(arguments: Sequence[str], catalog: Catalog | None) -> int:
    # What stands behind -- is the command line of another program, whatever it looks like.
    own, server_command = list(arguments), []
    if own[:1] == ["mount"] and "--" in own:
        place = own.index("--")
        own, server_command = own[:place], own[place + 1 :]
    given = argparse.Namespace(catalog=catalog, server_command=server_command)
    try:
        command_line = parser(next(iter(own), None))
        check_command(command_line, own)
        options = command_line.parse_args(own, given)
        code = int(options.command(options))
        sys.stdout.flush()
        return code
    except UserError as error:
        print(f"mcp-agent: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        # The reader closed the pipe early, as `head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except OSError as error:
        # Such as a full disk, or a folder without access. Where we know more, we have said it as a UserError.
        print(f"mcp-agent: {error}", file=sys.stderr)
        return UserError.exit_code
    except KeyboardInterrupt:
        return 130


def parser(wanted: str | None = None) -> Parser:
    """The whole command line, of which completion and docs/commands.md are made; if a command is wanted, that one."""
    made: list[Parser] = []
    parser = Parser(
        made,
        prog="mcp-agent",
        description="A remote tool host for language models: read, search, patch and run things on this machine.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"mcp-agent {__version__}")
    parser.set_defaults(command=_print_help, words=())
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=made_into(made))

    add_commands(commands, wanted)
    show_help = commands.add_parser("help", help="show this help, or that of a command")
    show_help.add_argument("words", nargs="*", metavar="COMMAND")
    show_help.set_defaults(command=_print_help)
    return parser


def _print_help(options: argparse.Namespace) -> int:
    command_line = parser()
    check_command(command_line, options.words)
    try:
        command_line.parse_args([*options.words, "--help"])
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0
