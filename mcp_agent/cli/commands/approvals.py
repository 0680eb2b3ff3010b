"""`mcp-agent approvals` shows the calls that wait for the owner, tells of new ones, and answers them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import urllib.parse
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.daemon_client import NotReached, RunningDaemon
from mcp_agent.cli.declaration import YES, Argument, CommandReply, argument, command, is_confirmed
from mcp_agent.cli.tables import Cell, Row, age, print_table
from mcp_agent.config import load
from mcp_agent.process.printing import one_line
from registry.user_error import UsageError

_MOST_LINE = 500
_RETRY_S = 2.0
_NOTIFY_S = 30.0
_NEEDS_DAEMON = ", so no call waits"


def _id() -> Argument:
    return argument("id", metavar="ID", help="the call, as `mcp-agent approvals list` names it")


@command("approvals list", examples=("mcp-agent approvals list", "mcp-agent approvals list --json"))
def list_approvals(options: Namespace) -> CommandReply:
    """The calls that wait for your approval, the oldest first."""
    found = _pending(_daemon(options))
    rows: list[Row] = [
        [Cell(each["id"], "cyan"), Cell(age(each["age_s"]), to_right=True), _who(each), each["tool"], _what(each)]
        for each in found
    ]
    print_table(rows, "no call waits for approval")
    return CommandReply(found)


@command(
    "approvals watch",
    argument("--notify", metavar="COMMAND", help="run this for each new call, such as a push to your phone"),
    examples=("mcp-agent approvals watch", "mcp-agent approvals watch --notify 'notify-send \"$MCP_AGENT_APPROVAL\"'"),
    streams=True,
)
def watch_approvals(options: Namespace) -> CommandReply:
    """Print each call that begins to wait, until you end it. With `--json`, each is a line."""
    config = load(vars(options))
    told: set[str] = set()
    daemon = daemon_client.require(config, _NEEDS_DAEMON)
    while True:
        with contextlib.suppress(NotReached):
            for found in _changes(daemon):
                for each in found:
                    if each["id"] not in told:
                        link = f"{config.public_url or daemon.reachable_url}/#/ask/{each['id']}"
                        _tell(each, link, options)
                told = {each["id"] for each in found}
        # It may be restarting.
        time.sleep(_RETRY_S)
        daemon = daemon_client.find(config) or daemon


@command(
    "approvals approve",
    _id(),
    argument("--hour", action="store_true", help="and what the same rule asks of the same client, for an hour"),
    argument("--always", action="store_true", help="and add an exception to the rule, which is shown first"),
    YES,
    examples=("mcp-agent approvals approve 1a2b3c", "mcp-agent approvals approve 1a2b3c --hour"),
)
def approve(options: Namespace) -> CommandReply:
    """Let a call run that waits."""
    if options.hour and options.always:
        raise UsageError("--hour and --always are two answers: give one of them")
    daemon = _daemon(options)
    if options.always:
        found = _find(daemon, options.id)
        if found["always"] is None:
            raise UsageError("its rule takes no exceptions: approve it once, or with --hour")
        for each in found["always"]:
            print(one_line(each["text"] + (f": {each['pattern']}" if each["pattern"] else "")))
        if not options.yes and not is_confirmed("Add it and let the call run?", as_json=options.json):
            return CommandReply({"id": options.id, "decision": None}, 1)
    decision = "always" if options.always else "hour" if options.hour else "once"
    return _decide(daemon, options.id, {"decision": decision}, "is approved")


@command(
    "approvals deny",
    _id(),
    argument("--reason", metavar="TEXT", help="what the model is told"),
    examples=("mcp-agent approvals deny 1a2b3c", "mcp-agent approvals deny 1a2b3c --reason 'use the test database'"),
)
def deny(options: Namespace) -> CommandReply:
    """Refuse a call that waits."""
    return _decide(_daemon(options), options.id, {"decision": "deny", "reason": options.reason}, "is denied")


def _decide(daemon: RunningDaemon, approval_id: str, body: Mapping[str, Any], done: str) -> CommandReply:
    daemon.ask("POST", f"/api/approvals/{urllib.parse.quote(approval_id, safe='')}", dict(body))
    print(one_line(f"{approval_id} {done}"))
    return CommandReply({"id": approval_id, "decision": body["decision"]})


def _tell(request: Mapping[str, Any], link: str, options: Namespace) -> None:
    line = one_line(f"{_who(request)}: {request['tool']} {_what(request)}")
    if options.json:
        print(orjson.dumps({**request, "link": link}).decode(), flush=True)
    else:
        print(f"{request['id']}  {line}\n  {link}", flush=True)
    if options.notify:
        variables = {
            "MCP_AGENT_APPROVAL": line,
            "MCP_AGENT_APPROVAL_ID": request["id"],
            "MCP_AGENT_APPROVAL_LINK": link,
        }
        try:
            done = subprocess.run(
                ["sh", "-c", options.notify],
                input=orjson.dumps(dict(request)),
                env={**os.environ, **variables},
                # What it prints must not be taken for a line of ours.
                stdout=sys.stderr,
                timeout=_NOTIFY_S,
                check=False,
            )
            if done.returncode:
                print(f"mcp-agent: the command of --notify ended with {done.returncode}", file=sys.stderr)
        except subprocess.TimeoutExpired:
            print(f"mcp-agent: the command of --notify took longer than {_NOTIFY_S:.0f} s", file=sys.stderr)


def _changes(daemon: RunningDaemon) -> Iterator[list[dict[str, Any]]]:
    """What waits, now and after every change. Raises NotReached."""
    for name, data in daemon.events("/ui/stream"):
        if name == "hello" or (name == "changed" and data["topic"] == "approvals"):
            yield _pending(daemon)


def _pending(daemon: RunningDaemon) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = daemon.ask("GET", "/api/approvals")["approvals"]
    return found


def _find(daemon: RunningDaemon, approval_id: str) -> dict[str, Any]:
    found = next((each for each in _pending(daemon) if each["id"] == approval_id), None)
    if found is None:
        raise UsageError(f"no call {approval_id[:60]!r} waits for approval; mcp-agent approvals list shows them")
    return found


def _who(request: Mapping[str, Any]) -> str:
    program = f" ({request['program']})" if request["program"] else ""
    return f"{request['client']}{program}"


def _what(request: Mapping[str, Any]) -> str:
    text = request["command"]
    if text is None:
        text = " ".join(f"{name}={value}" for name, value in request["arguments"].items())
    return " ".join(text.split())[:_MOST_LINE]


def _daemon(options: Namespace) -> RunningDaemon:
    return daemon_client.require(load(vars(options)), _NEEDS_DAEMON)
