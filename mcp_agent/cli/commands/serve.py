"""`mcp-agent serve` and `mcp-agent stdio`."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mcp_agent import __version__
from mcp_agent.app import compose_daemon
from mcp_agent.cli.declaration import COMMON, EVERY, argument, command
from mcp_agent.cli.tables import age
from mcp_agent.config import Config, load, unknown_variables
from mcp_agent.daemon import Daemon
from mcp_agent.process import runtime_file
from mcp_agent.process.logs import JsonLines, event, logging_to, standard_error
from mcp_agent.process.memory import limit_arenas
from mcp_agent.security import addresses, auth_tokens, state_folder
from registry.profiles import FORMS
from registry.user_error import UsageError, UserError

if TYPE_CHECKING:
    from mcp_agent.fleet.gateway import Gateway
    from mcp_agent.security.grants import Grants
    from mcp_agent.server import Follower

log = logging.getLogger(__name__)

_PROBE_S = 2.0
# One that the daemon makes has 43.
_LEAST_PUBLIC_TOKEN = 24


QUIET = argument("-q", "--quiet", action="store_true", help="show nothing on the terminal but warnings")


@command(
    "serve",
    QUIET,
    argument(
        "--no-listen",
        action="store_true",
        help="be reached by the fleet alone, and listen on no port; needs --fleet",
    ),
    settings=EVERY,
    examples=("mcp-agent serve", "MCP_AGENT_PORT=9000 mcp-agent serve --profile read-only"),
    streams=True,
)
def serve(options: Namespace) -> int:
    """Run the daemon over HTTP. Every flag can also be set as an environment variable, or in config.toml.
    MCP_AGENT_TOKEN in the environment is used instead of the token file.
    """
    config = load(vars(options))
    if options.no_listen and config.fleet is None:
        raise UsageError("--no-listen needs --fleet: nothing else would reach this daemon")
    state_folder.secure_state_dir(config)
    runtime_file.claim_state_dir(config)
    daemon = compose(config, options)
    if config.fleet is None:
        return serve_daemon(daemon, options)
    from mcp_agent.fleet.member import Member

    member = Member(daemon)
    listens = not options.no_listen
    return serve_daemon(
        daemon, options, listens=listens, join=member.join, followers=[member.follow], check=member.bus.check
    )


def serve_daemon(
    daemon: Daemon,
    options: Namespace,
    *,
    listens: bool = True,
    join: Follower | None = None,
    followers: Sequence[Follower] = (),
    check: Callable[[], None] = lambda: None,
) -> int:
    """Serve until a signal ends it. `join` is awaited first, and `followers` run beside it.

    `check` raises a UserError at the end if it was no signal from outside that ended it.
    """
    config = daemon.config
    token_in_environment = auth_tokens.from_environment()
    from mcp_agent import server
    from mcp_agent.routes import http_app

    daemon.sessions.keeps_past_end = True
    is_new = token_in_environment is None and not config.token_file.exists()
    known = auth_tokens.Tokens(config.token_file, config.clients_file, token_in_environment, _grants(config))
    known.reload()
    if config.public_url is not None and len(known.owner()) < _LEAST_PUBLIC_TOKEN:
        raise UserError(
            f"the owner's token has fewer than {_LEAST_PUBLIC_TOKEN} characters, and strangers can try to guess it at "
            f"{config.public_url}; take a longer one, or none: the daemon makes its own"
        )
    server.check_tls(config)
    listener = _bind(config) if listens else None
    live: logging.Formatter | None = JsonLines() if options.json else None
    is_watched = standard_error().isatty() and not (options.quiet or options.json)
    if is_watched:
        from mcp_agent.cli.commands import terminal_view

        daemon.audit.listeners.add(terminal_view.show_line)
        live = terminal_view.LiveText(standard_error())
    level = "warning" if options.quiet and config.log_level == "info" else config.log_level
    began = time.monotonic()
    # Before the first thread, which the log begins.
    limit_arenas()
    with logging_to(standard_error(), level, live, config.log_file):
        _warn(config)
        daemon.note_start()
        if is_watched:
            terminal_view.drop_repeated_lines()

        def announce(url: str) -> None:
            event(log, logging.INFO, "server.started", url=url or None, version=__version__)
            if options.json or not sys.stdout.isatty():
                _print_ready(config, url, is_from_file=token_in_environment is None)
            elif not options.quiet and listener is not None:
                hosts = addresses.leading_here(config.host, listener.getsockname()[1])
                new_token = known.owner() if is_new else None
                from mcp_agent.cli.commands.terminal_view import print_banner

                print_banner(config, url, hosts, new_token, is_from_file=token_in_environment is None)

        app = http_app(daemon, known)
        if daemon.public_name is not None:
            followers = [*followers, daemon.public_name.follow]
        code = server.serve(daemon, app, known, listener, announce, join=join, followers=followers)
    if is_watched:
        calls = sum(sum(counts.by_code.values()) for counts in daemon.metrics.by_tool.values())
        print(f"mcp-agent has stopped after {age(time.monotonic() - began)} and {calls} calls.", file=sys.stderr)
    check()
    server.leave(code)
    return code


@command(
    "stdio",
    argument("--attach", action="store_true", help="be a bridge to the running daemon; start one if none is running"),
    argument("--form", choices=FORMS, default="auto", help="format of results (default: auto, by the client's name)"),
    settings=COMMON,
    examples=("mcp-agent stdio --profile lean", "ssh devbox mcp-agent stdio --attach"),
    streams=True,
)
def stdio(options: Namespace) -> int:
    """Serve one client over standard input and output. With `--json`, the log on a terminal is JSON, too."""
    config = load(vars(options))
    state_folder.secure_state_dir(config)
    if options.attach:
        from mcp_agent.cli.commands.attach import attach

        if attach(config, options.form):
            os._exit(0)
        print("mcp-agent: serving this client alone; its sessions end with it", file=sys.stderr)
    daemon = compose(config, options)
    auth_tokens.from_environment()
    from mcp_agent.transports.stdio import serve_stdio

    # It has no port, so nobody can answer.
    daemon.approvals.is_alone = True
    with logging_to(standard_error(), config.log_level, JsonLines() if options.json else None):
        _warn(config)
        daemon.note_start()
        try:
            asyncio.run(serve_stdio(daemon, options.form))
        finally:
            daemon.close()
    os._exit(0)


def _grants(config: Config) -> Grants | None:
    """What clients of OAuth may do, where it is on."""
    if config.public_url is None:
        return None
    from mcp_agent.security.grants import Grants

    return Grants(config.grants_file)


def _bind(config: Config) -> socket.socket:
    """The listening socket. Raises UserError, which says who has the port if it is taken."""
    from mcp_agent import server

    try:
        return server.bind(config.host, config.port)
    except server.PortTaken:
        url = f"http://{addresses.in_url(config.host)}:{config.port}"
        version = _version_of_daemon(config)
        if version is None:
            who, advice = "another program", "stop it, or choose another port"
        else:
            who = f"mcp-agent {version}, a daemon with another state folder than {config.state_dir}"
            advice = f"use that one ({url}/mcp), stop it, or choose another port"
        raise UserError(f"port {config.port} of {config.host} is taken by {who}; {advice}: --port") from None


def _version_of_daemon(config: Config) -> str | None:
    """The version of the daemon that has our port; None if another program has it."""
    import http.client
    import json

    connection = http.client.HTTPConnection(addresses.reachable_here(config.host), config.port, timeout=_PROBE_S)
    try:
        connection.request("GET", "/health", headers={"Host": "localhost"})
        answer = json.loads(connection.getresponse().read(65_536))
        return str(answer["version"])
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return None
    finally:
        connection.close()


def compose(config: Config, options: Namespace, gateway: Gateway | None = None) -> Daemon:
    try:
        return compose_daemon(config, options.catalog, gateway=gateway)
    except OSError as error:
        raise UserError(f"mcp-agent cannot start: {error}") from None


def _warn(config: Config) -> None:
    for message in unknown_variables():
        event(log, logging.WARNING, "config.unknown_variable", message=message)
    if (problem := state_folder.exposure(config)) is not None:
        event(log, logging.WARNING, "security.state_is_open", message=problem)


def _print_ready(config: Config, url: str, *, is_from_file: bool) -> None:
    import orjson

    ready = {
        "event": "ready",
        "url": url or None,
        "pid": os.getpid(),
        "token_file": str(config.token_file) if is_from_file else None,
        "version": __version__,
    }
    sys.stdout.buffer.write(orjson.dumps(ready) + b"\n")
    sys.stdout.buffer.flush()
