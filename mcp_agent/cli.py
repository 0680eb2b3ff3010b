"""The command line: what it takes, and which command it leads to."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcp_agent import __version__
from mcp_agent.settings import DAEMON_SETTINGS
from registry.user_error import UserError

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
# Which settings a command uses.
_PLACES = ("config", "state_dir")
_TOKENS = (*_PLACES, "token_file")
_COMMON = (*_PLACES, "profile", "log_level")
_EVERY = tuple(setting.name for setting in DAEMON_SETTINGS)


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line in one sentence, like every other error."""

    def error(self, message: str) -> None:  # type: ignore[override]  # it does not return: it exits
        self.exit(2, f"mcp-agent: {message}; {self.prog} --help shows how to use it\n")


def run(arguments: Sequence[str], catalog: Catalog | None = None) -> int:
    """Run a command line and return its exit code. With `catalog`, only those tools are served."""
    options = _parser().parse_args(arguments, argparse.Namespace(catalog=catalog))
    try:
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

    _add_command(commands, "serve", "run the daemon over HTTP", "serve.serve", _EVERY, epilog=_SERVE_EPILOG)
    _add_command(commands, "stdio", "serve one client over standard input and output", "serve.stdio", _COMMON)

    text = "show the tools that a client would see, and what they cost in tokens"
    tools = _add_command(commands, "tools", text, "inspect.tools", _COMMON)
    tools.add_argument("--json", action="store_true", help="print the tools/list answer instead of a table")

    check = _add_command(commands, "check", "check a tools.json and print every problem in it", "inspect.check")
    check.add_argument("file", nargs="?", metavar="FILE", help="the file (default: the one the daemon uses)")

    actions = _add_group(commands, "profile", "list, show and choose profiles", "list|show|use")
    _add_command(actions, "list", "all profiles, the active one marked", "switches.list_profiles")
    show = _add_command(
        actions, "show", "a profile's categories and tools with their switches", "switches.show_profile"
    )
    show.add_argument("id", nargs="?", help="the profile (default: the active one)")
    use = _add_command(actions, "use", "make a profile the active one", "switches.use_profile")
    use.add_argument("id", help="the profile")

    for name, text in (("enable", "switch a category or a tool on"), ("disable", "switch a category or a tool off")):
        switch = _add_command(commands, name, text, "switches.switch", _COMMON)
        switch.add_argument("target", metavar="CATEGORY|TOOL", help="for example: shell, or fs_read")
        switch.set_defaults(enabled=name == "enable")

    undo = _add_command(commands, "undo", "take back a change that a tool made to a file", "undo.undo")
    undo.add_argument("id", nargs="?", metavar="ID", help="the undo_id of the change (default: the last one)")
    undo.add_argument("--list", action="store_true", help="show what can be undone, the newest first")
    undo.add_argument("--force", action="store_true", help="undo even if the file has changed since")

    actions = _add_group(
        commands, "artifacts", "list, show and remove artifacts: results that were too large", "list|show|rm"
    )
    _add_command(actions, "list", "all artifacts, the newest first", "artifacts.list_artifacts")
    show = _add_command(actions, "show", "print an artifact", "artifacts.show")
    show.add_argument("ref", help="ax://<domain>/<id>")
    remove = _add_command(actions, "rm", "remove artifacts", "artifacts.remove")
    remove.add_argument("refs", nargs="+", metavar="ref", help="ax://<domain>/<id>")

    _add_audit_flags(
        _add_command(commands, "audit", "show who did what: every call, policy change and refused login", "audit.audit")
    )

    text = "list, watch and stop the shell sessions of the running daemon"
    actions = _add_group(commands, "sessions", text, "list|tail|stop")
    listing = _add_command(
        actions, "list", "every session, running or finished within the hour", "sessions.list_sessions"
    )
    listing.add_argument("--json", action="store_true", help="print the list as JSON")
    tail = _add_command(actions, "tail", "print the output of a session until it ends", "sessions.tail_session")
    tail.add_argument("id", metavar="ID", help="the session")
    tail.add_argument("--since", type=int, default=-8192, metavar="BYTES", help="where to begin (default: -8192)")
    stop = _add_command(actions, "stop", "stop a session and every process that it started", "sessions.stop_session")
    stop.add_argument("id", metavar="ID", help="the session")
    stop.add_argument("--signal", default="TERM", metavar="SIGNAL", help="by name or number (default: TERM)")

    actions = _add_group(commands, "token", "a token and a profile for each client", "create|list|show|revoke|rotate")
    text = "create a token for a client; it is shown once"
    create = _add_command(actions, "create", text, "token.create", (*_TOKENS, "profile"))
    create.add_argument("--name", required=True, help="a name for the client")
    create.add_argument(
        "--form",
        choices=("auto", "json", "text"),
        default="auto",
        help="format of its results (default: auto, chosen by the name of the client)",
    )
    _add_command(actions, "list", "every token's name, profile and form", "token.show_all", _TOKENS)
    show = _add_command(actions, "show", "print the owner's token", "token.show", _TOKENS)
    show.add_argument("name", nargs="?", help="only the owner's can be shown")
    text = "revoke a client's token and close its streams"
    revoke = _add_command(actions, "revoke", text, "token.revoke", _TOKENS)
    revoke.add_argument("name")
    text = "replace the token of the owner or of a client"
    rotate = _add_command(actions, "rotate", text, "token.rotate", _TOKENS)
    rotate.add_argument("name", nargs="?", help="the client (default: the owner)")

    doctor = _add_command(commands, "doctor", "find out why a client does not connect", "doctor.doctor", _TOKENS)
    doctor.description = "Connect to a daemon as clients do, and say what is wrong and what to do."
    doctor.add_argument("url", nargs="?", metavar="URL", help="the daemon (default: the one that runs here)")

    call = _add_command(commands, "call", "call a tool and print its result", "call.call", _COMMON)
    call.description = "Call a tool of the running daemon, or in this process if none is running."
    call.add_argument("tool", metavar="TOOL")
    call.add_argument(
        "arguments",
        nargs="*",
        metavar="key=value",
        help="a value that is valid JSON is read as JSON, any other as text",
    )
    call.add_argument("--json", action="store_true", help="print the result as JSON instead of text")
    return parser


def _add_group(commands: _Commands, name: str, text: str, actions: str) -> _Commands:
    """A command with subcommands; `actions` names them in the help."""
    parser = commands.add_parser(name, help=text)
    return parser.add_subparsers(required=True, metavar=actions, parser_class=_Parser)


def _add_command(
    commands: _Commands,
    name: str,
    text: str,
    function: str,
    settings: Sequence[str] = _PLACES,
    *,
    epilog: str | None = None,
) -> argparse.ArgumentParser:
    """A command that calls `function` of `mcp_agent.commands`, with flags for the settings that it uses."""
    parser = commands.add_parser(name, help=text, epilog=epilog)
    # A group of their own: the help then shows the command's own flags before the shared ones.
    group = parser.add_argument_group("settings")
    for setting in DAEMON_SETTINGS:
        if setting.name in settings:
            group.add_argument(
                setting.flag,
                action="append" if setting.name == "allow_host" else "store",
                metavar={"port": "PORT", "allow_host": "NAME"}.get(setting.name, setting.name.upper()),
                help=f"{setting.help} (default: {setting.shown_default})",
            )
    parser.set_defaults(command=_import_on_call(function))
    return parser


def _add_audit_flags(audit: argparse.ArgumentParser) -> None:
    audit.add_argument("--tool", metavar="NAME", help="only calls of this tool; may be a glob such as fs_*")
    audit.add_argument("--caller", metavar="NAME", help="only calls with the token of this name; may be a glob")
    audit.add_argument("--outcome", metavar="CODE", help="only calls with this outcome: ok, DENIED, NOT_FOUND …")
    audit.add_argument("--rule", metavar="ID", help="only calls that this deny rule refused")
    audit.add_argument(
        "--event",
        metavar="KIND",
        help="only lines of this kind instead of calls: policy, policy_rejected, login_refused, start, or *",
    )
    audit.add_argument("--errors", action="store_true", help="only calls that failed")
    audit.add_argument(
        "--since", metavar="WHEN", help="only since this time: 30m, 2h, 7d, or a date such as 2026-11-16"
    )
    audit.add_argument(
        "-n",
        "--last",
        type=_parse_count,
        metavar="N",
        help="at most the last N lines; 0 is all (default: 50, or all since WHEN)",
    )
    audit.add_argument("-f", "--follow", action="store_true", help="keep printing new lines as they are written")
    audit.add_argument("--json", action="store_true", help="print the lines as JSON, as they are stored")


def _parse_count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"needs a whole number, 0 or more, not {text!r}")
    return int(text)


def _import_on_call(function: str) -> object:
    """The function `module.name`, imported only when its command runs: start-up stays fast."""
    module, _, name = function.partition(".")

    def run_command(options: argparse.Namespace) -> int:
        import importlib

        return int(getattr(importlib.import_module(f"mcp_agent.commands.{module}"), name)(options))

    return run_command
