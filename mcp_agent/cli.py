"""The command line: what it takes, and which command it leads to."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcp_agent import __version__
from mcp_agent.config import SETTINGS, BadConfig

if TYPE_CHECKING:
    from registry.catalog import Catalog

_EPILOG = """\
Start with `mcp-agent serve`, paste the connection it prints into your client, and switch
tools on and off with `mcp-agent enable` and `disable`, or in tools.json, while it runs.
"""
_SERVE_EPILOG = """\
Every flag can also be set as an environment variable (MCP_AGENT_PORT=9000) or in config.toml.
MCP_AGENT_TOKEN in the environment is used instead of the token file.
"""
_COMMON = ("config", "profile", "state_dir", "log_level")


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, as every other error of the command line."""

    def error(self, message: str) -> None:  # type: ignore[override]  # it does not return: it exits
        self.exit(2, f"mcp-agent: {message}; {self.prog} --help says what it takes\n")


def run(arguments: Sequence[str], catalog: Catalog | None = None) -> int:
    """Carry out a command line; the number is the exit code. With `catalog`, those tools are served and no others."""
    options = _parser().parse_args(arguments, argparse.Namespace(catalog=catalog))
    try:
        code = int(options.command(options))
        sys.stdout.flush()
        return code
    except BadConfig as error:
        print(f"mcp-agent: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader of our output has seen enough, as `head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="mcp-agent",
        description="A remote tool host for language models: read, search, patch and run things on this machine.",
        epilog=_EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"mcp-agent {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", parser_class=_Parser)

    serve = commands.add_parser("serve", help="run the daemon over HTTP", epilog=_SERVE_EPILOG)
    _settings(serve, tuple(setting.name for setting in SETTINGS))
    serve.set_defaults(command=_command("serve", "serve"))

    stdio = commands.add_parser("stdio", help="serve one client over standard input and output")
    _settings(stdio, _COMMON)
    stdio.set_defaults(command=_command("serve", "stdio"))

    tools = commands.add_parser("tools", help="show the tools that a client would see, and what they cost in tokens")
    tools.add_argument("--json", action="store_true", help="print the tools/list answer instead of a table")
    _settings(tools, _COMMON)
    tools.set_defaults(command=_command("inspect", "tools"))

    check = commands.add_parser("check", help="check a tools.json and tell every problem in it")
    check.add_argument("file", nargs="?", metavar="FILE", help="the file (default: the one the daemon uses)")
    _settings(check, ("config", "state_dir"))
    check.set_defaults(command=_command("inspect", "check"))

    profile = commands.add_parser("profile", help="list, show and choose profiles")
    actions = profile.add_subparsers(required=True, metavar="list|show|use", parser_class=_Parser)
    listing = actions.add_parser("list", help="all profiles, the active one marked")
    listing.set_defaults(command=_command("switches", "list_profiles"))
    show = actions.add_parser("show", help="a profile's categories and tools with their switches")
    show.add_argument("id", nargs="?", help="the profile (default: the active one)")
    show.set_defaults(command=_command("switches", "show_profile"))
    use = actions.add_parser("use", help="make a profile the active one")
    use.add_argument("id", help="the profile")
    use.set_defaults(command=_command("switches", "use_profile"))
    for action in (listing, show, use):
        _settings(action, ("config", "state_dir"))

    for name, text in (("enable", "switch a category or a tool on"), ("disable", "switch a category or a tool off")):
        switch = commands.add_parser(name, help=text)
        switch.add_argument("target", metavar="CATEGORY|TOOL", help="for example: shell, or fs_read")
        _settings(switch, _COMMON)
        switch.set_defaults(command=_command("switches", "switch"), enabled=name == "enable")

    undo = commands.add_parser("undo", help="take back a change that a tool made to a file")
    undo.add_argument("id", nargs="?", metavar="ID", help="the undo_id of the change (default: the last one)")
    undo.add_argument("--list", action="store_true", help="show what can be undone, the newest first")
    undo.add_argument("--force", action="store_true", help="also if the file has changed since")
    _settings(undo, ("config", "state_dir"))
    undo.set_defaults(command=_command("undo", "undo"))

    artifacts = commands.add_parser("artifacts", help="list, show and remove what was too large for a result")
    deeds = artifacts.add_subparsers(required=True, metavar="list|show|rm", parser_class=_Parser)
    kept = deeds.add_parser("list", help="all artifacts, the newest first")
    kept.set_defaults(command=_command("artifacts", "list_artifacts"))
    whole = deeds.add_parser("show", help="print an artifact")
    whole.add_argument("ref", help="ax://<domain>/<id>")
    whole.set_defaults(command=_command("artifacts", "show"))
    gone = deeds.add_parser("rm", help="remove artifacts")
    gone.add_argument("refs", nargs="+", metavar="ref", help="ax://<domain>/<id>")
    gone.set_defaults(command=_command("artifacts", "remove"))
    for deed in (kept, whole, gone):
        _settings(deed, ("config", "state_dir"))

    _audit(commands.add_parser("audit", help="who did what: every call, change of policy and refused login"))

    sessions = commands.add_parser("sessions", help="list, watch and stop the shell sessions of the running daemon")
    actions = sessions.add_subparsers(required=True, metavar="list|tail|stop", parser_class=_Parser)
    listing = actions.add_parser("list", help="every session, running or finished within the hour")
    listing.add_argument("--json", action="store_true", help="print the list as JSON")
    listing.set_defaults(command=_command("sessions", "list_sessions"))
    tail = actions.add_parser("tail", help="print what a session prints, until it ends")
    tail.add_argument("id", metavar="ID", help="the session")
    tail.add_argument("--since", type=int, default=-8192, metavar="BYTES", help="where to begin (default: -8192)")
    tail.set_defaults(command=_command("sessions", "tail_session"))
    stop = actions.add_parser("stop", help="end a session and every process that it started")
    stop.add_argument("id", metavar="ID", help="the session")
    stop.add_argument("--signal", default="TERM", metavar="SIGNAL", help="by name or number (default: TERM)")
    stop.set_defaults(command=_command("sessions", "stop_session"))
    for action in (listing, tail, stop):
        _settings(action, ("config", "state_dir"))

    token = commands.add_parser("token", help="a token and a profile for each client")
    actions = token.add_subparsers(required=True, metavar="create|list|show|revoke|rotate", parser_class=_Parser)
    create = actions.add_parser("create", help="make a token for a client; it is shown once")
    create.add_argument("--name", required=True, help="what to call the client")
    create.add_argument(
        "--form",
        choices=("auto", "json", "text"),
        default="auto",
        help="how its results are written (default: auto, by what the client calls itself)",
    )
    _settings(create, ("profile",))
    every = actions.add_parser("list", help="every token's name, profile and form")
    show = actions.add_parser("show", help="print the owner's token")
    show.add_argument("name", nargs="?", help="only the owner's can be shown")
    revoke = actions.add_parser("revoke", help="make a client's token worthless and end its streams")
    revoke.add_argument("name")
    rotate = actions.add_parser("rotate", help="give the owner, or a client, a new token in place of the old one")
    rotate.add_argument("name", nargs="?", help="the client (default: the owner)")
    for action, function in (
        (create, "create"),
        (every, "show_all"),
        (show, "show"),
        (revoke, "revoke"),
        (rotate, "rotate"),
    ):
        _settings(action, ("config", "state_dir", "token_file"))
        action.set_defaults(command=_command("token", function))

    doctor = commands.add_parser(
        "doctor",
        help="find out why a client does not connect",
        description="Ask a daemon the way clients do, and say in plain words what is wrong and what to do.",
    )
    doctor.add_argument("url", nargs="?", metavar="URL", help="the daemon (default: the one that runs here)")
    _settings(doctor, ("config", "state_dir", "token_file"))
    doctor.set_defaults(command=_command("doctor", "doctor"))

    call = commands.add_parser(
        "call",
        help="call a tool and print its result",
        description="Call a tool of the running daemon, or in this process if none is running.",
    )
    call.add_argument("tool", metavar="TOOL")
    call.add_argument("arguments", nargs="*", metavar="key=value", help="a value is JSON if it can be read as JSON")
    call.add_argument("--json", action="store_true", help="print the result as JSON instead of text")
    _settings(call, _COMMON)
    call.set_defaults(command=_command("call", "call"))
    return parser


def _audit(audit: argparse.ArgumentParser) -> None:
    audit.add_argument("--tool", metavar="NAME", help="only calls of this tool; may be a glob such as fs_*")
    audit.add_argument("--caller", metavar="NAME", help="only calls with the token of this name; may be a glob")
    audit.add_argument("--outcome", metavar="CODE", help="only calls that came to this: ok, DENIED, NOT_FOUND …")
    audit.add_argument("--rule", metavar="ID", help="only calls that this deny rule was against")
    audit.add_argument(
        "--event",
        metavar="KIND",
        help="only lines that are no calls: policy, policy_rejected, login_refused, start, or *",
    )
    audit.add_argument("--errors", action="store_true", help="only what did not end well")
    audit.add_argument("--since", metavar="WHEN", help="only since then: 30m, 2h, 7d, or a date such as 2026-11-16")
    audit.add_argument(
        "-n",
        "--last",
        type=_count,
        metavar="N",
        help="at most the last N lines; 0 is all (default: 50, or all since WHEN)",
    )
    audit.add_argument("-f", "--follow", action="store_true", help="go on with new lines as they are written")
    audit.add_argument("--json", action="store_true", help="print the lines as they are kept")
    _settings(audit, ("config", "state_dir"))
    audit.set_defaults(command=_command("audit", "audit"))


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a whole number from 0 on, not {text!r}")
    return int(text)


def _settings(parser: argparse.ArgumentParser, names: Sequence[str]) -> None:
    for setting in SETTINGS:
        if setting.name in names:
            parser.add_argument(
                setting.flag,
                action="append" if setting.name == "allow_host" else "store",
                metavar={"port": "PORT", "allow_host": "NAME"}.get(setting.name, setting.name.upper()),
                help=f"{setting.help} (default: {setting.default})",
            )


def _command(module: str, function: str) -> object:
    """The function of a command, imported when the command is carried out."""

    def carry_out(options: argparse.Namespace) -> int:
        import importlib

        return int(getattr(importlib.import_module(f"mcp_agent.commands.{module}"), function)(options))

    return carry_out
