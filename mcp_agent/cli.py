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

    _Commands = argparse._SubParsersAction["_Parser"]

_EPILOG = """\
Start with `mcp-agent serve`, paste the connection it prints into your client, and switch
tools on and off with `mcp-agent enable` and `disable`, or in tools.json, while it runs.
"""
_SERVE_EPILOG = """\
Every flag can also be set as an environment variable (MCP_AGENT_PORT=9000) or in config.toml.
MCP_AGENT_TOKEN in the environment is used instead of the token file.
"""
# Which settings a command heeds.
_PLACES = ("config", "state_dir")
_TOKENS = (*_PLACES, "token_file")
_COMMON = (*_PLACES, "profile", "log_level")
_EVERY = tuple(setting.name for setting in SETTINGS)


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

    _action(commands, "serve", "run the daemon over HTTP", "serve.serve", _EVERY, epilog=_SERVE_EPILOG)
    _action(commands, "stdio", "serve one client over standard input and output", "serve.stdio", _COMMON)

    text = "show the tools that a client would see, and what they cost in tokens"
    tools = _action(commands, "tools", text, "inspect.tools", _COMMON)
    tools.add_argument("--json", action="store_true", help="print the tools/list answer instead of a table")

    check = _action(commands, "check", "check a tools.json and tell every problem in it", "inspect.check")
    check.add_argument("file", nargs="?", metavar="FILE", help="the file (default: the one the daemon uses)")

    actions = _group(commands, "profile", "list, show and choose profiles", "list|show|use")
    _action(actions, "list", "all profiles, the active one marked", "switches.list_profiles")
    show = _action(actions, "show", "a profile's categories and tools with their switches", "switches.show_profile")
    show.add_argument("id", nargs="?", help="the profile (default: the active one)")
    use = _action(actions, "use", "make a profile the active one", "switches.use_profile")
    use.add_argument("id", help="the profile")

    for name, text in (("enable", "switch a category or a tool on"), ("disable", "switch a category or a tool off")):
        switch = _action(commands, name, text, "switches.switch", _COMMON)
        switch.add_argument("target", metavar="CATEGORY|TOOL", help="for example: shell, or fs_read")
        switch.set_defaults(enabled=name == "enable")

    undo = _action(commands, "undo", "take back a change that a tool made to a file", "undo.undo")
    undo.add_argument("id", nargs="?", metavar="ID", help="the undo_id of the change (default: the last one)")
    undo.add_argument("--list", action="store_true", help="show what can be undone, the newest first")
    undo.add_argument("--force", action="store_true", help="also if the file has changed since")

    actions = _group(commands, "artifacts", "list, show and remove what was too large for a result", "list|show|rm")
    _action(actions, "list", "all artifacts, the newest first", "artifacts.list_artifacts")
    show = _action(actions, "show", "print an artifact", "artifacts.show")
    show.add_argument("ref", help="ax://<domain>/<id>")
    remove = _action(actions, "rm", "remove artifacts", "artifacts.remove")
    remove.add_argument("refs", nargs="+", metavar="ref", help="ax://<domain>/<id>")

    _audit(_action(commands, "audit", "who did what: every call, change of policy and refused login", "audit.audit"))

    text = "list, watch and stop the shell sessions of the running daemon"
    actions = _group(commands, "sessions", text, "list|tail|stop")
    listing = _action(actions, "list", "every session, running or finished within the hour", "sessions.list_sessions")
    listing.add_argument("--json", action="store_true", help="print the list as JSON")
    tail = _action(actions, "tail", "print what a session prints, until it ends", "sessions.tail_session")
    tail.add_argument("id", metavar="ID", help="the session")
    tail.add_argument("--since", type=int, default=-8192, metavar="BYTES", help="where to begin (default: -8192)")
    stop = _action(actions, "stop", "end a session and every process that it started", "sessions.stop_session")
    stop.add_argument("id", metavar="ID", help="the session")
    stop.add_argument("--signal", default="TERM", metavar="SIGNAL", help="by name or number (default: TERM)")

    actions = _group(commands, "token", "a token and a profile for each client", "create|list|show|revoke|rotate")
    text = "make a token for a client; it is shown once"
    create = _action(actions, "create", text, "token.create", (*_TOKENS, "profile"))
    create.add_argument("--name", required=True, help="what to call the client")
    create.add_argument(
        "--form",
        choices=("auto", "json", "text"),
        default="auto",
        help="how its results are written (default: auto, by what the client calls itself)",
    )
    _action(actions, "list", "every token's name, profile and form", "token.show_all", _TOKENS)
    show = _action(actions, "show", "print the owner's token", "token.show", _TOKENS)
    show.add_argument("name", nargs="?", help="only the owner's can be shown")
    text = "make a client's token worthless and end its streams"
    revoke = _action(actions, "revoke", text, "token.revoke", _TOKENS)
    revoke.add_argument("name")
    text = "give the owner, or a client, a new token in place of the old one"
    rotate = _action(actions, "rotate", text, "token.rotate", _TOKENS)
    rotate.add_argument("name", nargs="?", help="the client (default: the owner)")

    doctor = _action(commands, "doctor", "find out why a client does not connect", "doctor.doctor", _TOKENS)
    doctor.description = "Ask a daemon the way clients do, and say in plain words what is wrong and what to do."
    doctor.add_argument("url", nargs="?", metavar="URL", help="the daemon (default: the one that runs here)")

    call = _action(commands, "call", "call a tool and print its result", "call.call", _COMMON)
    call.description = "Call a tool of the running daemon, or in this process if none is running."
    call.add_argument("tool", metavar="TOOL")
    call.add_argument("arguments", nargs="*", metavar="key=value", help="a value is JSON if it can be read as JSON")
    call.add_argument("--json", action="store_true", help="print the result as JSON instead of text")
    return parser


def _group(commands: _Commands, name: str, text: str, actions: str) -> _Commands:
    """A command with further commands below it, which `actions` names."""
    parser = commands.add_parser(name, help=text)
    return parser.add_subparsers(required=True, metavar=actions, parser_class=_Parser)


def _action(
    commands: _Commands,
    name: str,
    text: str,
    function: str,
    settings: Sequence[str] = _PLACES,
    *,
    epilog: str | None = None,
) -> argparse.ArgumentParser:
    """A command that `function` of `mcp_agent.commands` carries out, with the settings that it heeds."""
    parser = commands.add_parser(name, help=text, epilog=epilog)
    # In a group of their own, so that help shows what is the command's alone before what many share.
    group = parser.add_argument_group("settings")
    for setting in SETTINGS:
        if setting.name in settings:
            group.add_argument(
                setting.flag,
                action="append" if setting.name == "allow_host" else "store",
                metavar={"port": "PORT", "allow_host": "NAME"}.get(setting.name, setting.name.upper()),
                help=f"{setting.help} (default: {setting.default})",
            )
    parser.set_defaults(command=_command(function))
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


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"a whole number from 0 on, not {text!r}")
    return int(text)


def _command(function: str) -> object:
    """The function of a command, `module.name`, imported when the command is carried out."""
    module, _, name = function.partition(".")

    def carry_out(options: argparse.Namespace) -> int:
        import importlib

        return int(getattr(importlib.import_module(f"mcp_agent.commands.{module}"), name)(options))

    return carry_out
