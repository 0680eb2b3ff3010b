"""`mcp-agent sessions` lists, watches and stops the shell sessions of the running daemon."""

from __future__ import annotations

import argparse
import sys
import urllib.parse

import orjson

from mcp_agent.commands import daemon_client
from mcp_agent.commands.daemon_client import RunningDaemon
from mcp_agent.config import load
from registry.user_error import UserError


def list_sessions(options: argparse.Namespace) -> int:
    sessions = _daemon(options).ask("GET", "/api/sessions")["sessions"]
    if options.json:
        print(orjson.dumps(sessions, option=orjson.OPT_INDENT_2).decode())
        return 0
    if not sessions:
        print("no sessions")
    for each in sessions:
        state = "running" if each["running"] else f"exit {each['exit_code']}"
        command = " ".join(each["command"].split())[:80]
        print(f"{each['id']:10} {state:10} {each['age_s']:8.0f} s {each['output_bytes']:12} bytes  {command}")
    return 0


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
            stream.write(chunk)
            stream.flush()
        elif name == "gap":
            print(f"[{event.get('lost_bytes', 'some')} bytes are gone here]", file=sys.stderr)
        elif name == "shell_session_exit":
            code = event["exit_code"]
            break
    return code


def stop_session(options: argparse.Namespace) -> int:
    path = f"/api/sessions/{urllib.parse.quote(options.id)}/stop"
    session = _daemon(options).ask("POST", path, {"signal": options.signal})
    how = f"exit {session['exit_code']}" + (f", signal {session['signal']}" if session["signal"] else "")
    print(f"{session['id']} has ended: {how}{', killed after its grace period' if session['escalated'] else ''}")
    return 0


def _daemon(options: argparse.Namespace) -> RunningDaemon:
    daemon = daemon_client.find(load(vars(options)))
    if daemon is None:
        raise UserError("no daemon is running, so there are no sessions; start one with: mcp-agent serve")
    return daemon
