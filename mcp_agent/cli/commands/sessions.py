"""`mcp-agent sessions` lists, watches and stops the shell sessions of the running daemon."""

from __future__ import annotations

import sys
import urllib.parse
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

import orjson

from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.daemon_client import RunningDaemon
from mcp_agent.cli.declaration import Argument, CommandReply, argument, command
from mcp_agent.cli.tables import Cell, Row, print_table
from mcp_agent.config import load
from mcp_agent.process.printing import one_line, progress, write_content
from tools.shell.shell_exec import reason

_MOST_COMMAND = 500


def _id() -> Argument:
    return argument("id", metavar="ID", completed="sessions", help="the session")


@command("sessions list", examples=("mcp-agent sessions list", "mcp-agent sessions list --json"))
def list_sessions(options: Namespace) -> CommandReply:
    """Every session, running or finished within the hour."""
    sessions = _daemon(options).ask("GET", "/api/sessions")["sessions"]
    rows: list[Row] = [
        [
            Cell(each["id"], "cyan"),
            Cell("running", "green") if each["running"] else _end(each),
            Cell(f"{each['age_s']:.0f} s", to_right=True),
            Cell(f"{each['output_bytes']} bytes", to_right=True),
            " ".join(each["command"].split())[:_MOST_COMMAND],
        ]
        for each in sessions
    ]
    print_table(rows, "no sessions")
    return CommandReply(sessions)


def _end(session: Mapping[str, Any]) -> str:
    by = f" ({session['ended_by']})" if session["ended_by"] else ""
    return f"exit {session['exit_code']}{by}"


@command(
    "sessions tail",
    _id(),
    argument("--since", type=int, default=-8192, metavar="BYTES", help="where to begin (default: -8192)"),
    examples=("mcp-agent sessions tail s3", "mcp-agent sessions tail s3 --since 0 > build.log"),
    streams=True,
)
def tail_session(options: Namespace) -> CommandReply:
    """Print the output of a session until it ends. With `--json`, each event is a line."""
    path = f"/events?session_id={urllib.parse.quote(options.id)}&since={options.since}"
    code = 0
    # An offset from the end is usually inside a line: begin with the next line, as `tail` does.
    is_within_line = options.since < 0
    for name, event in _daemon(options).events(path):
        if options.json:
            print(orjson.dumps(event).decode(), flush=True)
        elif name == "shell_session_output":
            chunk = event["chunk"]
            if is_within_line and event["offset"] > 0 and "\n" in chunk:
                chunk = chunk.partition("\n")[2]
            is_within_line = False
            stream = sys.stderr if event["stream"] == "stderr" else sys.stdout
            write_content(chunk, stream)
        elif name == "gap":
            print(f"[{event.get('lost_bytes', 'some')} bytes are gone here]", file=sys.stderr)
        if name == "shell_session_exit":
            code = event["exit_code"]
            if "ended_by" in event and not options.json:
                print(f"[exit {code}{reason(event['ended_by'])}]", file=sys.stderr)
            break
    return CommandReply(None, code)


@command(
    "sessions stop",
    _id(),
    argument("--signal", default="TERM", metavar="SIGNAL", help="by name or number (default: TERM)"),
    examples=("mcp-agent sessions stop s3", "mcp-agent sessions stop s3 --signal INT"),
)
def stop_session(options: Namespace) -> CommandReply:
    """Stop a session and every process that it started."""
    path = f"/api/sessions/{urllib.parse.quote(options.id)}/stop"
    with progress(f"stopping {options.id}"):
        session = _daemon(options).ask("POST", path, {"signal": options.signal})
    how = f"exit {session['exit_code']}" + (f", signal {session['signal']}" if session["signal"] else "")
    print(f"{session['id']} has ended: {how}{', killed after its grace period' if session['escalated'] else ''}")
    for each in session["left"]:
        print(one_line(f"a process that it started is still alive: {each}"), file=sys.stderr)
    return CommandReply(session, int(bool(session["left"])))


def _daemon(options: Namespace) -> RunningDaemon:
    return daemon_client.require(load(vars(options)), ", so there are no sessions")
