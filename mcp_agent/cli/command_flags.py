"""The commands of the command line, each with the flags that it takes."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from mcp_agent.cli.parser import COMMON, EVERY, TOKENS, add_command, add_group, add_json_flag
from registry.known_keys import EFFECTS

if TYPE_CHECKING:
    from mcp_agent.cli.parser import Commands

_SERVE_EPILOG = """\
Every flag can also be set as an environment variable (MCP_AGENT_PORT=9000) or in config.toml.
MCP_AGENT_TOKEN in the environment is used instead of the token file.
"""


def add_commands(commands: Commands, wanted: str | None = None) -> None:
    """Add every command in the order of the help; only those that `wanted` is described with if it is one of them.

    All of them take ten milliseconds, which is more than most commands need for their work.
    """
    adders = _ADDERS.values() if wanted is None or wanted not in _ADDERS else [_ADDERS[wanted]]
    for add in dict.fromkeys(adders):
        add(commands)


def _add_serve(commands: Commands) -> None:
    serve = add_command(commands, "serve", "run the daemon over HTTP", "serve.serve", EVERY, epilog=_SERVE_EPILOG)
    serve.add_argument("-q", "--quiet", action="store_true", help="show nothing on the terminal but warnings")
    text = "be reached by the fleet alone, and listen on no port; needs --fleet"
    serve.add_argument("--no-listen", action="store_true", help=text)


def _add_stdio(commands: Commands) -> None:
    stdio = add_command(commands, "stdio", "serve one client over standard input and output", "serve.stdio", COMMON)
    stdio.add_argument(
        "--attach", action="store_true", help="be a bridge to the running daemon; start one if none is running"
    )


def _add_connect(commands: Commands) -> None:
    text = "put the daemon into the configuration of a client"
    connect = add_command(commands, "connect", text, "connect.connect", (*TOKENS, "profile"))
    connect.description = "Connect clients. Without a name: find those that are installed, show what it would do, ask."
    connect.add_argument("clients", nargs="*", metavar="CLIENT", help="for example: claude-code, codex, gemini-cli")
    connect.add_argument("--all", action="store_true", help="every client that is installed")
    connect.add_argument("--dry-run", action="store_true", help="show the change as a diff, and write nothing")
    connect.add_argument("--remove", action="store_true", help="take it out again, with the token that was made for it")
    connect.add_argument("--print", action="store_true", help="print what to paste, and write no file")
    connect.add_argument("--stdio", action="store_true", help="let the client start a server of its own")
    connect.add_argument("--ssh", metavar="HOST", help="reach the daemon of another machine by way of ssh")
    connect.add_argument("--url", metavar="URL", help="reach the daemon there; its token is in --token-file")
    connect.add_argument("--name", default="devbox", help="what the client calls it (default: devbox)")
    connect.add_argument("--project", action="store_true", help="in the file of the project in the current folder")
    connect.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _add_init(commands: Commands) -> None:
    init = add_command(commands, "init", "set up AGENTS.md and clients for the project in this folder", "init.init")
    init.add_argument("--write-mcp-vscode", action="store_true", help="write .vscode/mcp.json")
    init.add_argument("--write-mcp-copilot", action="store_true", help="write ~/.copilot/mcp-config.json")
    init.add_argument("--write-mcp-all", action="store_true", help="write both")
    init.add_argument(
        "-y", "--yes", action="store_true", help="do not ask; without the other flags no client's file is written"
    )


def _add_open(commands: Commands) -> None:
    page = add_command(commands, "open", "open the Tools page of the running daemon", "open_page.open_page", TOKENS)
    page.add_argument("--print", action="store_true", help="print the link and start no browser")


def _add_tools(commands: Commands) -> None:
    text = "show the tools that a client would see, and what they cost in tokens"
    tools = add_command(commands, "tools", text, "inspect.tools", COMMON)
    tools.add_argument("--json", action="store_true", help="print the tools/list answer instead of a table")
    text = "show the tools of mounted servers that are not as you have last seen them"
    tools.add_argument("--changed", action="store_true", help=text)
    tools.add_argument("--accept", action="store_true", help="with --changed: you have seen them as they are now")


def _add_check(commands: Commands) -> None:
    check = add_command(commands, "check", "check a tools.json and print every problem in it", "inspect.check")
    check.add_argument("file", nargs="?", metavar="FILE", help="the file (default: the one the daemon uses)")
    add_json_flag(check)


def _add_profile(commands: Commands) -> None:
    text = "list, show, choose, make and change profiles"
    actions = add_group(commands, "profile", text, "list|show|use|create|copy|edit|delete")
    add_json_flag(add_command(actions, "list", "all profiles, the active one marked", "switches.list_profiles"))
    show = add_command(actions, "show", "a profile's categories and tools with their switches", "switches.show_profile")
    show.add_argument("id", nargs="?", metavar="ID", help="the profile (default: the active one)")
    add_json_flag(show)
    use = add_command(actions, "use", "make a profile the active one", "switches.use_profile")
    use.add_argument("id", metavar="ID", help="the profile")
    _add_stop_sessions(use)
    create = add_command(actions, "create", "make a profile with everything on", "edit_profiles.create")
    create.add_argument("id", metavar="ID", help="the name of the new profile")
    create.add_argument("--empty", action="store_true", help="with everything off instead")
    copy = add_command(actions, "copy", "make a profile that is like another one", "edit_profiles.copy")
    copy.add_argument("id", metavar="ID", help="the profile to copy")
    copy.add_argument("new", metavar="NEW", help="the name of the new profile")
    for each in (create, copy):
        each.add_argument("--description", metavar="TEXT", help="what the new profile is for")
    edit = add_command(actions, "edit", "change a profile as JSON, in $VISUAL or $EDITOR", "edit_profiles.edit")
    edit.add_argument("id", metavar="ID", help="the profile")
    edit.add_argument("--file", metavar="FILE", help="take the profile from this file (- is standard input) instead")
    text = "remove a profile from tools.json; a built-in one is then as it was shipped"
    delete = add_command(actions, "delete", text, "edit_profiles.delete")
    delete.add_argument("id", metavar="ID", help="the profile")


def _add_switches(commands: Commands) -> None:
    for name, state in (("enable", "on"), ("disable", "off")):
        text = f"switch categories, tools, or everything of an effect {state}"
        switch = add_command(commands, name, text, "switches.switch", COMMON)
        switch.add_argument("targets", nargs="*", metavar="CATEGORY|TOOL", help="for example: shell, or fs_read")
        switch.add_argument(
            "--effect",
            action="append",
            choices=EFFECTS,
            help=f"switch every tool that can do this {state}, wrapped and mounted ones included",
        )
        if name == "disable":
            _add_stop_sessions(switch)
        switch.set_defaults(enabled=name == "enable", stop_sessions=False)


def _add_mount_commands(commands: Commands) -> None:
    mount = add_command(commands, "mount", "offer the tools of another MCP server as a category", "mount.mount")
    mount.usage = "mcp-agent mount [flags] NAME -- COMMAND ARGS…  |  NAME --url URL  |  --from FILE  |  --restart NAME"
    mount.add_argument("name", nargs="?", metavar="NAME", help="the category; without one, all mounts are listed")
    mount.add_argument("--url", metavar="URL", help="a server that is reached over Streamable HTTP")
    mount.add_argument(
        "--header", action="append", metavar="NAME:VALUE", help="a header for it; kept out of tools.json"
    )
    mount.add_argument("--env", action="append", metavar="NAME=VALUE", help="a variable; kept out of tools.json")
    mount.add_argument("--cwd", metavar="FOLDER", help="the folder to start it in (default: the daemon's)")
    mount.add_argument("--only", nargs="+", metavar="TOOL", help="offer only these of its tools")
    mount.add_argument("--except", dest="without", nargs="+", metavar="TOOL", help="offer all but these")
    text = "an argument of its tools that is a path: the deny rules for paths hold for it"
    mount.add_argument("--path-argument", action="append", metavar="NAME", help=text)
    mount.add_argument("--per-caller", action="store_true", help="start a server for each caller, not one for all")
    mount.add_argument("--timeout", type=float, metavar="SECONDS", help="the longest a call may take (default: 120)")
    text = "take over the servers that another client has, such as ~/.claude.json; with NAME, only that one"
    mount.add_argument("--from", dest="source", metavar="FILE", help=text)
    add_json_flag(mount)
    mount.add_argument("--restart", metavar="NAME", help="start a mounted server again, also one that was given up")
    unmount = add_command(commands, "unmount", "remove a mounted server with its switches", "mount.unmount")
    unmount.add_argument("name", metavar="NAME", help="its category")

    wrap = add_command(commands, "wrap", "offer a command line program as a tool", "wrap_program.wrap")
    wrap.add_argument("program", metavar="PROGRAM", help="for example: git")
    wrap.add_argument("--id", metavar="NAME", help="the name of the tool (default: PROGRAM_run)")
    wrap.add_argument("--block", action="append", metavar="SUBCOMMAND[=REASON]", help="refuse a subcommand")
    text = "a global option that takes a value, so that the subcommand behind it is found (default: by its --help)"
    wrap.add_argument("--value-option", action="append", metavar="OPTION", help=text)
    wrap.add_argument("--timeout", type=float, metavar="SECONDS", help="end it after that time (default: 30)")
    wrap.add_argument("--env", action="append", metavar="NAME=VALUE", help="a variable for it")
    wrap.add_argument("--cwd-required", action="store_true", help="callers must say in which folder it runs")
    wrap.add_argument("--description", metavar="TEXT", help="what a model reads (default: made from its --help)")
    wrap.add_argument("--category", metavar="NAME", help="the category of the tool (default: cli)")
    unwrap = add_command(commands, "unwrap", "remove a wrapped program", "wrap_program.unwrap")
    unwrap.add_argument("id", metavar="NAME", help="the name of its tool")


def _add_undo(commands: Commands) -> None:
    undo = add_command(commands, "undo", "take back a change that a tool made to a file", "undo.undo")
    undo.description = "Take back a change that a tool made to a file, and show it. Each time one step further back."
    undo.add_argument("id", nargs="?", metavar="ID", help="the undo_id of the change (default: the last one)")
    undo.add_argument("--list", action="store_true", help="show what can be undone, the newest first")
    undo.add_argument("--json", action="store_true", help="with --list: print the list as JSON")
    undo.add_argument("--force", action="store_true", help="undo even if the file has changed since")


def _add_artifacts(commands: Commands) -> None:
    actions = add_group(
        commands, "artifacts", "list, show and remove artifacts: results that were too large", "list|show|rm"
    )
    listing = add_command(actions, "list", "all artifacts, the newest first", "artifacts.list_artifacts")
    add_json_flag(listing)
    show = add_command(actions, "show", "print an artifact", "artifacts.show")
    show.add_argument("ref", help="ax://<domain>/<id>")
    remove = add_command(actions, "rm", "remove artifacts", "artifacts.remove")
    remove.add_argument("refs", nargs="+", metavar="ref", help="ax://<domain>/<id>")


def _add_audit(commands: Commands) -> None:
    text = "show who did what: every call, policy change and refused login"
    audit = add_command(commands, "audit", text, "audit.audit")
    audit.add_argument("--tool", metavar="NAME", help="only calls of this tool; may be a glob such as fs_*")
    audit.add_argument("--caller", metavar="NAME", help="only calls with the token of this name; may be a glob")
    audit.add_argument("--outcome", metavar="CODE", help="only calls with this outcome: ok, DENIED, NOT_FOUND …")
    audit.add_argument("--rule", metavar="ID", help="only calls that this deny rule refused")
    audit.add_argument(
        "--event",
        metavar="KIND",
        help="only lines of this kind instead of calls: connect, policy, policy_rejected, login_refused, start, "
        "terminal_closed, or *",
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


def _add_sessions(commands: Commands) -> None:
    text = "list, watch and stop the shell sessions of the running daemon"
    actions = add_group(commands, "sessions", text, "list|tail|stop")
    listing = add_command(
        actions, "list", "every session, running or finished within the hour", "sessions.list_sessions"
    )
    add_json_flag(listing)
    tail = add_command(actions, "tail", "print the output of a session until it ends", "sessions.tail_session")
    tail.add_argument("id", metavar="ID", help="the session")
    tail.add_argument("--since", type=int, default=-8192, metavar="BYTES", help="where to begin (default: -8192)")
    stop = add_command(actions, "stop", "stop a session and every process that it started", "sessions.stop_session")
    stop.add_argument("id", metavar="ID", help="the session")
    stop.add_argument("--signal", default="TERM", metavar="SIGNAL", help="by name or number (default: TERM)")


def _add_token(commands: Commands) -> None:
    actions = add_group(
        commands, "token", "a token and a profile for each client", "create|list|show|header|revoke|rotate"
    )
    text = "create a token for a client; it is shown once"
    create = add_command(actions, "create", text, "token.create", (*TOKENS, "profile"))
    create.add_argument("--name", required=True, help="a name for the client")
    create.add_argument(
        "--form",
        choices=("auto", "json", "text"),
        default="auto",
        help="format of its results (default: auto, chosen by the name of the client)",
    )
    create.add_argument("--expires", metavar="TIME", help="how long it is valid: 12h, 30d, 8w (default: until revoked)")
    add_json_flag(add_command(actions, "list", "every token's name, profile and form", "token.show_all", TOKENS))
    show = add_command(actions, "show", "print the owner's token", "token.show", TOKENS)
    show.add_argument("name", nargs="?", help="only the owner's can be shown")
    add_command(actions, "header", "print the Authorization header as JSON, for clients", "token.header", TOKENS)
    text = "revoke a client's token and close its streams"
    revoke = add_command(actions, "revoke", text, "token.revoke", TOKENS)
    revoke.add_argument("name")
    text = "replace the token of the owner or of a client"
    rotate = add_command(actions, "rotate", text, "token.rotate", TOKENS)
    rotate.add_argument("name", nargs="?", help="the client (default: the owner)")


def _add_doctor(commands: Commands) -> None:
    doctor = add_command(commands, "doctor", "find out why a client does not connect", "doctor.doctor", TOKENS)
    doctor.description = "Connect to a daemon as clients do, and say what is wrong and what to do."
    doctor.add_argument("url", nargs="?", metavar="URL", help="the daemon (default: the one that runs here)")
    add_json_flag(doctor)


def _add_call(commands: Commands) -> None:
    call = add_command(commands, "call", "call a tool and print its result", "call.call", COMMON)
    call.description = "Call a tool of the running daemon, or in this process if none is running."
    call.add_argument("tool", metavar="TOOL")
    call.add_argument(
        "arguments",
        nargs="*",
        metavar="key=value",
        help="a value that is valid JSON is read as JSON, any other as text",
    )
    call.add_argument("--json", action="store_true", help="print the result as JSON instead of text")


def _add_service(commands: Commands) -> None:
    actions = add_group(
        commands, "service", "run the daemon as a service of the user (systemd)", "install|status|uninstall"
    )
    text = "write a unit for systemd with these settings, and start it; it then starts at login"
    install = add_command(actions, "install", text, "service.install", EVERY)
    install.add_argument(
        "--no-sudo", action="store_true", help="keep sudo and other setuid programs from giving commands more rights"
    )
    add_json_flag(add_command(actions, "status", "whether the service is installed and runs", "service.status"))
    add_command(actions, "uninstall", "stop the service and remove its unit", "service.uninstall")


def _add_gateway(commands: Commands) -> None:
    text = "serve the tools of all boxes of a fleet over HTTP"
    settings = (*TOKENS, "profile", "host", "port", "allow_host", "allow_origin", "tls_cert", "tls_key", "fleet",
                "creds", "text_bytes", "log_level")  # fmt: skip
    gateway = add_command(commands, "gateway", text, "serve_gateway.serve_gateway", settings)
    gateway.add_argument("--name", metavar="NAME", help="name of this gateway (default: the host's name)")
    gateway.add_argument("-q", "--quiet", action="store_true", help="show nothing on the terminal but warnings")


def _add_fleet(commands: Commands) -> None:
    text = "make a fleet of boxes: its keys, its NATS server, and who may join"
    actions = add_group(commands, "fleet", text, "try|init|invite|invited|revoke|boxes")
    text = "start a NATS server, a gateway and two boxes on this machine, to see a fleet"
    trial = add_command(actions, "try", text, "fleet_trial.try_fleet", ())
    trial.add_argument("--port", type=int, default=0, metavar="PORT", help="port of the gateway (default: a free one)")
    text = "make the keys of a fleet, and write a configuration for nats-server that believes them"
    init = add_command(actions, "init", text, "fleet.init")
    init.add_argument("--out", default=".", metavar="FOLDER", help="where to write it (default: the current folder)")
    text = "address of the server (default: 0.0.0.0:4222)"
    init.add_argument("--listen", default="0.0.0.0:4222", metavar="ADDRESS", help=text)
    text = "write a credentials file with which a box joins, or a gateway calls"
    invite = add_command(actions, "invite", text, "fleet.invite")
    invite.add_argument("name", metavar="NAME", help="the box: letters, digits, - and _")
    text = "for a gateway of this name, which may call every box"
    invite.add_argument("--gateway", dest="role", action="store_const", const="gateway", help=text)
    invite.add_argument("--out", metavar="FILE", help="the file to write (default: NAME.creds)")
    invite.add_argument("--expires", metavar="TIME", help="how long it is valid: 12h, 30d, 8w (default: until revoked)")
    add_json_flag(add_command(actions, "invited", "every credentials file that was written", "fleet.invited"))
    revoke = add_command(actions, "revoke", "take back the credentials of a box or a gateway", "fleet.revoke")
    revoke.add_argument("name", metavar="NAME", help="the box or the gateway")
    boxes = add_command(actions, "boxes", "the boxes that the gateway on this machine knows", "fleet_trial.list_boxes")
    boxes.add_argument("filter", nargs="?", metavar="FILTER", help="labels such as gpu=1, or a name with *")
    add_json_flag(boxes)


def _add_completion(commands: Commands) -> None:
    completion = add_command(
        commands, "completion", "print the completion script of a shell", "completion.completion", ()
    )
    completion.description = (
        'For bash: eval "$(mcp-agent completion bash)" in ~/.bashrc. docs/commands.md has the others.'
    )
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))


def _add_stop_sessions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--stop-sessions", action="store_true", help="end every running shell session, too")


def _parse_count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"needs a whole number, 0 or more, not {text!r}")
    return int(text)


_ADDERS: dict[str, Callable[[Commands], None]] = {
    "serve": _add_serve,
    "stdio": _add_stdio,
    "connect": _add_connect,
    "init": _add_init,
    "open": _add_open,
    "tools": _add_tools,
    "check": _add_check,
    "profile": _add_profile,
    "enable": _add_switches,
    "disable": _add_switches,
    "mount": _add_mount_commands,
    "unmount": _add_mount_commands,
    "wrap": _add_mount_commands,
    "unwrap": _add_mount_commands,
    "undo": _add_undo,
    "artifacts": _add_artifacts,
    "audit": _add_audit,
    "sessions": _add_sessions,
    "token": _add_token,
    "doctor": _add_doctor,
    "call": _add_call,
    "service": _add_service,
    "gateway": _add_gateway,
    "fleet": _add_fleet,
    "completion": _add_completion,
}
