"""`mcp-agent status`, `stop`, `restart`, `open` and `version`: the daemon that runs."""

from __future__ import annotations

import getpass
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp_agent import __version__
from mcp_agent.cli.clients.reach import program
from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.declaration import TOKENS, CommandReply, argument, command
from mcp_agent.cli.tables import Cell, Row, age, print_table
from mcp_agent.config import Config, load
from mcp_agent.process.printing import progress
from mcp_agent.process.runtime_file import RuntimeFacts, any_daemon
from registry.user_error import UserError
from tools.files import disk
from tools.sessions.process_tree import ProcessId, is_alive

_START_S = 20.0
_OTHER_S = 2.0
_STOP_S = 30.0
_LOOK_EVERY_S = 0.1


@command("status", settings=TOKENS, examples=("mcp-agent status", "mcp-agent status --json"))
def status(options: Namespace) -> CommandReply:
    """Whether the daemon runs, where, and what it does. The exit code is 3 if none runs."""
    config = load(vars(options))
    found = any_daemon(config.runtime_file)
    if found is None:
        print("no daemon is running; start one with: mcp-agent serve")
        return CommandReply({"running": False, "state_dir": str(config.state_dir)}, daemon_client.NoDaemon.exit_code)
    facts: dict[str, Any] = {"running": True, "pid": found.pid, "url": found.url or None}
    daemon = daemon_client.find(config)
    health: dict[str, Any] = {} if daemon is None else daemon.ask("GET", "/health")
    facts |= {"state_dir": str(config.state_dir), "tools_file": found.config, "log": str(config.log_file), **health}
    rows: list[Row] = [
        [Cell("daemon", "dim"), f"runs at {found.url or 'no port'}, process {found.pid}"],
        [Cell("tools", "dim"), found.config],
        [Cell("state", "dim"), str(config.state_dir)],
    ]
    if health:
        registry, clients = health["registry"], health["clients"]
        broken = [name for name, mount in health["mounts"].items() if "problem" in mount]
        more = f", {len(broken)} of them with a problem: {', '.join(broken)}" if broken else ""
        rows[1:1] = [
            [Cell("version", "dim"), f"{health['version']}, started {age(health['uptime_s'])} ago"],
            [Cell("profile", "dim"), registry["active_profile"]],
            [Cell("clients", "dim"), f"{clients['sessions']} connected, {clients['streams']} streams"],
            [Cell("sessions", "dim"), f"{health['sessions']['running']} running, {health['sessions']['kept']} kept"],
            [Cell("mounts", "dim"), f"{len(health['mounts'])}{more}"],
        ]
        rows += [[Cell("problem", "red"), each["message"]] for each in registry["problems"]]
    print_table(rows, "")
    return CommandReply(facts)


@command("stop", settings=TOKENS, examples=("mcp-agent stop", "mcp-agent stop --state-dir /srv/agent"))
def stop(options: Namespace) -> CommandReply:
    """End the daemon, and wait until it and its sessions are gone."""
    found = stop_daemon(load(vars(options)))
    print(f"The daemon has stopped: process {found.pid}{', ' + found.url if found.url else ''}.")
    return CommandReply({"stopped": True, "pid": found.pid, "url": found.url or None})


@command("restart", settings=TOKENS, examples=("mcp-agent restart", "mcp-agent restart --json"))
def restart(options: Namespace) -> CommandReply:
    """End the daemon, and start it again with the flags it was started with: by systemd where it is the service,
    else in the background.
    """
    config = load(vars(options))
    fresh, how = restart_daemon(config)
    print(f"The daemon runs again at {fresh.url or 'no port'}, process {fresh.pid}, {how}")
    return CommandReply({"pid": fresh.pid, "url": fresh.url or None, "log": str(config.log_file)})


def restart_daemon(config: Config) -> tuple[RuntimeFacts, str]:
    """End the daemon, start it again, and say what it is now and how it was started. Raises NoDaemon and UserError."""
    found = any_daemon(config.runtime_file)
    if found is None:
        raise daemon_client.NoDaemon(config, "")
    from mcp_agent.cli.commands import service

    if service.main_pid() == found.pid:
        with progress("waiting for systemd"):
            service.restart(config)
        how = "by systemd"
    else:
        # Before the end of the old one, whose file has it.
        arguments, folder = found.arguments, Path(found.folder)
        stop_daemon(config)
        start_in_background(config, arguments, folder)
        how = f"in the background; its log: mcp-agent logs ({config.log_file})"
    fresh = any_daemon(config.runtime_file)
    assert fresh is not None, "it was waited for"
    return fresh, how


@command(
    "open",
    argument("--print", action="store_true", help="print the link and start no browser"),
    settings=TOKENS,
    examples=("mcp-agent open", "mcp-agent open --print"),
)
def open_page(options: Namespace) -> CommandReply:
    """Open the Tools page of the running daemon in a browser, or print how to."""
    daemon = daemon_client.require(load(vars(options)), ", so there is no page")
    ticket = daemon.ask("POST", "/api/ticket", {})
    parts = urllib.parse.urlsplit(daemon.reachable_url)
    link = f"{daemon.reachable_url}{ticket['path']}"
    is_open = not options.print and _has_display() and _open_in_browser(link)
    if is_open:
        print("The Tools page opens in your browser. If it does not, use this link, once, within a minute:")
    else:
        print("Open this link in a browser. It works once, within a minute:")
    print(f"\n  {link}\n")
    if not _has_display():
        print(
            "If your browser is on another machine, run this there first, and leave it running:\n\n"
            f"  ssh -L {parts.port}:{parts.netloc} {getpass.getuser()}@{socket.gethostname()}\n"
        )
    return CommandReply({"link": link, "opened": is_open})


@command("version", examples=("mcp-agent version", "mcp-agent version --json"))
def version(options: Namespace) -> CommandReply:
    """Print the version of this program, and of the daemon if one runs."""
    found = any_daemon(load(vars(options)).runtime_file)
    running = None if found is None else found.version
    print(f"mcp-agent {__version__}")
    if running not in (None, __version__):
        print(f"the daemon that runs is {running}; mcp-agent restart starts this version")
    python = ".".join(map(str, sys.version_info[:3]))
    return CommandReply({"version": __version__, "daemon": running, "python": python, "program": program()})


def start_in_background(config: Config, arguments: Sequence[str], folder: Path) -> RuntimeFacts:
    """Start a daemon that outlives us, and give what it says of itself. Raises UserError if it does not come up."""
    log_file = config.state_dir / "serve.log"
    try:
        with open(log_file, "ab", opener=disk.open_private) as log:
            process: subprocess.Popen[bytes] | None = subprocess.Popen(
                [program(), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                start_new_session=True,
            )
    except OSError as error:
        raise UserError(f"no daemon could be started: {error}") from None
    until = time.monotonic() + _START_S
    while time.monotonic() < until:
        if (found := any_daemon(config.runtime_file)) is not None:
            return found
        if process is not None and process.poll() is not None:
            # Another may be starting at the same time, and have the state folder; it is there in a moment.
            until, process = min(until, time.monotonic() + _OTHER_S), None
        time.sleep(_LOOK_EVERY_S)
    raise UserError(f"no daemon could be started; {log_file} says why")


def stop_daemon(config: Config) -> RuntimeFacts:
    """End the daemon, and give what it said of itself. Raises NoDaemon, and UserError if it does not end."""
    found = any_daemon(config.runtime_file)
    if found is None:
        raise daemon_client.NoDaemon(config, "")
    daemon = ProcessId(found.pid, found.started)
    os.kill(daemon.pid, signal.SIGTERM)
    until = time.monotonic() + _STOP_S
    with progress("waiting for the end of the daemon"):
        while is_alive(daemon):
            if time.monotonic() > until:
                raise UserError(f"the daemon, process {found.pid}, has not ended within {_STOP_S:.0f} s")
            time.sleep(_LOOK_EVERY_S)
    return found


def _has_display() -> bool:
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _open_in_browser(link: str) -> bool:
    import webbrowser

    try:
        return webbrowser.open(link)
    except webbrowser.Error:
        return False
