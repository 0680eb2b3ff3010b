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

from msgspec.structs import replace

from mcp_agent import __version__
from mcp_agent.app import compose_pruner
from mcp_agent.config import Config, load
from mcp_agent.process.logs import event, logging_to, standard_error
from mcp_agent.process.memory import limit_arenas
from mcp_agent.programs.pruner.pruner_methods import PRUNING, READING, PruningMethods, ReadingMethods
from mcp_agent.security import addresses, auth_tokens, state_folder
from mcp_agent.settings import DEFAULT_SERVICE, PRUNER_SETTINGS, BadConfig
from registry.user_error import UserError

log = logging.getLogger(__name__)

_STATE_VARIABLE = "MCP_AGENT_STATE_DIR"


def run(arguments: Sequence[str]) -> int:
    """Run a command line of `mcp-pruner` and return its exit code."""
    options = _parser().parse_args(arguments)
    is_http = options.way == "http"
    # Before the first thread, which the log begins.
    limit_arenas()
    # Over stdio the parent follows each request by its debug events.
    with logging_to(standard_error(), "info" if is_http else "debug"):
        try:
            config = _load_config()
            if is_http:
                return _serve_http(config)
            # Over stdio the default is a service beside us; over HTTP we are that service.
            url = DEFAULT_SERVICE if config.pruner_url is None else config.pruner_url
            _serve_stdio(replace(config, pruner_url=url))
        except UserError as error:
            event(log, logging.ERROR, "mcp_pruner.start_failed", message=str(error))
            return error.exit_code
    os._exit(0)


def _parser() -> argparse.ArgumentParser:
    variables = "\n".join(f"  {each.variable:28}{each.help} ({each.shown_default})" for each in PRUNER_SETTINGS)
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


def _serve_stdio(config: Config) -> None:
    from mcp_agent.transports.stdio import serve_stdio

    auth_tokens.from_environment()
    root = config.pruner_cwd or Path.cwd()
    host = compose_pruner(config, root, READING, ReadingMethods)
    event(log, logging.INFO, "mcp_pruner.ready", root=str(root))
    with _log_the_end():
        try:
            asyncio.run(serve_stdio(host))
        finally:
            host.close()


def _serve_http(config: Config) -> int:
    from mcp_agent import server
    from mcp_agent.programs.pruner.routes import pruner_app

    token = auth_tokens.from_environment()
    is_open = not addresses.is_loopback(config.pruner_host)
    known = auth_tokens.Tokens(config.token_file, config.clients_file, token)
    if is_open or token is not None:
        known.reload()
    listener = server.bind(config.pruner_host, config.pruner_port, "set MCP_PRUNER_PORT")
    url = f"http://{addresses.in_url(config.pruner_host)}:{listener.getsockname()[1]}"
    root = config.pruner_cwd or Path.cwd()
    host = compose_pruner(config, root, PRUNING, PruningMethods)
    app = pruner_app(host, known if is_open or token is not None else None, is_open_to_the_network=is_open)

    def announce() -> None:
        event(log, logging.INFO, "mcp_pruner.ready", root=str(root), url=url)
        print(f'{{"event":"ready","url":"{url}","pid":{os.getpid()}}}', flush=True)

    with _log_the_end():
        server.run(host, app, listener, announce, [host.pruner.workers.prepare])
    sys.stdout.flush()
    return 0


@contextlib.contextmanager
def _log_the_end() -> Iterator[None]:
    began = time.monotonic()
    is_graceful = False
    try:
        yield
        is_graceful = True
    finally:
        took_ms = round((time.monotonic() - began) * 1000)
        event(log, logging.INFO, "mcp_pruner.stopped", graceful=is_graceful, duration_ms=took_ms)


def _load_config() -> Config:
    """The pruner's settings and the state folder. The daemon's other variables do not count here."""
    names = (_STATE_VARIABLE, *(setting.variable for setting in PRUNER_SETTINGS))
    try:
        config = load({}, {name: os.environ[name] for name in names if name in os.environ})
    except BadConfig as error:
        event(log, logging.WARNING, "mcp_pruner.config_invalid", message=str(error))
        raise
    state_folder.secure_state_dir(config)
    if (problem := state_folder.exposure(config)) is not None:
        event(log, logging.WARNING, "security.state_is_open", message=problem)
    return config
