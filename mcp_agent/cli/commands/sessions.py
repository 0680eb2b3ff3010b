"""`mcp-agent sessions` lists, watches and stops the shell sessions of the running daemon."""

from __future__ import annotations

import argparse
import sys
import urllib.parse
from collections.abc import Mapping
from typing import Any

from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.daemon_client import NoDaemon, RunningDaemon
from mcp_agent.cli.tables import Cell, Row, print_table
from mcp_agent.config import load
from mcp_agent.process.printing import print_json, progress, write_content
from tools.shell.shell_exec import reason

_MOST_COMMAND = 500


def list_sessions(options: argparse.Namespace) -> int:
    sessions = _daemon(options).ask("GET", "/api/sessions")["sessions"]
    if options.json:
        print_json(sessions)
        return 0
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
    return 0


def _end(session: Mapping[str, Any]) -> str:
    by = f" ({session['ended_by']})" if session["ended_by"] else ""
    return f"exit {session['exit_code']}{by}"


def tail_session(options: argparse.Namespace) -> int:
    path = f"/events?session_id={urllib.parse.quote(options.id)}&since={options.since}"
    code = 0
    # An offset from the end is usually inside a line: begin with the next line, as `tail` does.
    is_within_line = options.since < 0
    for name, event in _daemon(options).events(path):
        if name == "shell_session_output":
            chunk = event["chunk"]
            if is_within_line and event["offset"] > 0 and "\n" in chunk:
                chunk = chunk.partition("\n")[2]
            is_within_line = False
            stream = sys.stderr if event["stream"] == "stderr" else sys.stdout
            write_content(chunk, stream)
        elif name == "gap":
            print(f"[{event.get('lost_bytes', 'some')} bytes are gone here]", file=sys.stderr)
        elif name == "shell_session_exit":
            code = event["exit_code"]
            if "ended_by" in event:
                print(f"[exit {code}{reason(event['ended_by'])}]", file=sys.stderr)
            break
    return code


def stop_session(options: argparse.Namespace) -> int:
    path = f"/api/sessions/{urllib.parse.quote(options.id)}/stop"
    with progress(f"stopping {options.id}"):
        session = _daemon(options).ask("POST", path, {"signal": options.signal})
    how = f"exit {session['exit_code']}" + (f", signal {session['signal']}" if session["signal"] else "")
    print(f"{session['id']} has ended: {how}{', killed after its grace period' if session['escalated'] else ''}")
    for each in session["left"]:
        print(f"a process that it started is still alive: {each}", file=sys.stderr)
    return 1 if session["left"] else 0


def _daemon(options: argparse.Namespace) -> RunningDaemon:
    config = load(vars(options))
    daemon = daemon_client.find(config)
    if daemon is None:
        raise NoDaemon(config, ", so there are no sessions; start one with: mcp-agent serve")
    return daemon
