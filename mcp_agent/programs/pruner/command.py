"""`mcp-pruner`: the pruning tools as a program of their own, over standard input and output or over HTTP."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from mcp_agent import __version__
from mcp_agent.config import BadConfig, Config, load
from mcp_agent.logs import event, logging_to, standard_error
from mcp_agent.programs.pruner.host import PRUNING, READING, PrunerHost
from mcp_agent.pruning_service import settings as pruning_settings
from mcp_agent.pruning_service.settings import DEFAULT_SERVICE, VARIABLES, PruningSettings
from mcp_agent.security import addresses, auth_tokens, state_folder

log = logging.getLogger(__name__)

_STATE_VARIABLE = "MCP_AGENT_STATE_DIR"


def run(arguments: Sequence[str]) -> int:
    """Carry out a command line of `mcp-pruner`; the number is the exit code."""
    options = _parser().parse_args(arguments)
    is_http = options.way == "http"
    # Who starts us over stdio follows a request by its events, the small ones too.
    with logging_to(standard_error(), "info" if is_http else "debug"):
        try:
            # The service stands beside the server over stdio; the one over HTTP is such a service itself.
            here = Path.cwd()
            settings = pruning_settings.load(os.environ, here, None if is_http else DEFAULT_SERVICE)
            if is_http:
                return _serve_http(settings)
            _serve_stdio(settings)
        except (BadConfig, auth_tokens.BadToken) as error:
            event(log, logging.ERROR, "mcp_pruner.start_failed", message=str(error))
            return 2
    os._exit(0)


def _parser() -> argparse.ArgumentParser:
    variables = "\n".join(f"  {each.name:28}{each.help} ({each.default})" for each in VARIABLES)
    parser = argparse.ArgumentParser(
        prog="mcp-pruner",
        description="The pruning tools as a program of their own: read, bash and grep over standard input and output.",
        epilog=f"It is set up by environment variables:\n{variables}\n",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mcp-pruner {__version__}")
    parser.add_argument(
        "way", nargs="?", choices=("stdio", "http"), default="stdio", help="http serves prune_text and recover_text"
    )
    return parser


def _serve_stdio(settings: PruningSettings) -> None:
    from mcp_agent.transports.stdio import serve_stdio

    auth_tokens.from_environment()
    host = PrunerHost(settings, _config(), READING)
    event(log, logging.INFO, "mcp_pruner.ready", root=str(settings.root))
    with _telling_of_the_end():
        try:
            asyncio.run(serve_stdio(host))
        finally:
            host.close()


def _serve_http(settings: PruningSettings) -> int:
    from mcp_agent import server
    from mcp_agent.programs.pruner.routes import pruner_app

    config = _config()
    token = auth_tokens.from_environment()
    is_open = not addresses.is_loopback(settings.host)
    known = auth_tokens.Tokens(config.token_file, config.clients_file, token)
    if is_open or token is not None:
        known.reload()
    listener = server.bind(settings.host, settings.port, "set MCP_PRUNER_PORT")
    url = f"http://{addresses.in_url(settings.host)}:{listener.getsockname()[1]}"
    host = PrunerHost(settings, config, PRUNING)
    app = pruner_app(host, known if is_open or token is not None else None, is_open_to_the_network=is_open)

    def announce() -> None:
        event(log, logging.INFO, "mcp_pruner.ready", root=str(settings.root), url=url)
        print(f'{{"event":"ready","url":"{url}","pid":{os.getpid()}}}', flush=True)

    with _telling_of_the_end():
        server.run(host, app, listener, announce, [host.pruner.workers.prepare])
    sys.stdout.flush()
    return 0


@contextlib.contextmanager
def _telling_of_the_end() -> Iterator[None]:
    began = time.monotonic()
    is_graceful = False
    try:
        yield
        is_graceful = True
    finally:
        took_ms = round((time.monotonic() - began) * 1000)
        event(log, logging.INFO, "mcp_pruner.stopped", graceful=is_graceful, duration_ms=took_ms)


def _config() -> Config:
    """Where things are kept. The daemon's other settings are not the pruner's."""
    config = load({}, {name: os.environ[name] for name in (_STATE_VARIABLE,) if name in os.environ})
    state_folder.secure_state_dir(config)
    if (problem := state_folder.exposure(config)) is not None:
        event(log, logging.WARNING, "security.state_is_open", message=problem)
    return config
