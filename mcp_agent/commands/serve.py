"""`mcp-agent serve` and `mcp-agent stdio`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys

from mcp_agent import __version__
from mcp_agent.app import compose_daemon
from mcp_agent.config import Config, load, unknown_variables
from mcp_agent.daemon import Daemon
from mcp_agent.logs import event, logging_to, standard_error
from mcp_agent.security import addresses, auth_tokens, state_folder
from registry.user_error import UserError

log = logging.getLogger(__name__)


def serve(options: argparse.Namespace) -> int:
    config, daemon = _compose(options)
    token_in_environment = auth_tokens.from_environment()
    from mcp_agent import server
    from mcp_agent.routes import http_app

    is_new = token_in_environment is None and not config.token_file.exists()
    known = auth_tokens.Tokens(config.token_file, config.clients_file, token_in_environment)
    known.reload()
    server.check_tls(config)
    where = f"kept in {config.token_file}" if token_in_environment is None else "taken from MCP_AGENT_TOKEN"
    listener = server.bind(config.host, config.port)
    with logging_to(standard_error(), config.log_level):
        _warn(config)
        daemon.note_start()

        def announce(url: str) -> None:
            if sys.stdout.isatty():
                print(_banner(config, url, known.owner() if is_new else None, where), flush=True)
            else:
                _print_ready(config, url, is_from_file=token_in_environment is None)

        code = server.serve(daemon, http_app(daemon, known), known, listener, announce)
    server.leave(code)
    return code


def stdio(options: argparse.Namespace) -> int:
    config, daemon = _compose(options)
    auth_tokens.from_environment()
    from mcp_agent.transports.stdio import serve_stdio

    with logging_to(standard_error(), config.log_level):
        _warn(config)
        daemon.note_start()
        try:
            asyncio.run(serve_stdio(daemon))
        finally:
            daemon.close()
    os._exit(0)


def _compose(options: argparse.Namespace) -> tuple[Config, Daemon]:
    config = load(vars(options))
    state_folder.secure_state_dir(config)
    try:
        return config, compose_daemon(config, options.catalog)
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
        "url": url,
        "pid": os.getpid(),
        "token_file": str(config.token_file) if is_from_file else None,
        "version": __version__,
    }
    sys.stdout.buffer.write(orjson.dumps(ready) + b"\n")
    sys.stdout.buffer.flush()


def _banner(config: Config, url: str, token: str | None, where: str) -> str:
    """What a person needs to connect. The token itself is shown once, when it is new."""
    scheme, _, rest = url.partition("://")
    port = rest.rpartition(":")[2]
    hosts = [config.host]
    is_open = not addresses.is_loopback(config.host)
    if is_open:
        hosts = [*addresses.own_addresses(), *addresses.own_names()] if config.host in ("0.0.0.0", "::") else hosts
    urls = [f"{scheme}://{addresses.in_url(host)}:{port}/mcp" for host in hosts]
    lines = [
        "",
        f"  mcp-agent {__version__} is ready",
        "",
        *(f"  {'URL' if index == 0 else '   '}    {each}" for index, each in enumerate(urls)),
        *([f"  token  {token}", f"         {where}"] if token else [f"  token  {where}"]),
        f"  tools  {config.config}",
        "",
        "  Open WebUI: Settings → External Tools → add a connection",
        "    type     MCP (Streamable HTTP)",
        f"    URL      {urls[0]}",
        f"    auth     Bearer {token or '<the token; `mcp-agent token show` prints it>'}",
        '    headers  {"X-MCP-Agent-Form": "text"}',
        "",
    ]
    if is_open and config.tls_cert is None:
        warning = "This is plain HTTP: what is sent can be read on the way. Use --tls-cert and --tls-key, or a tunnel."
        lines += [f"  {warning}", ""]
    lines += ["  Ctrl-C ends it.", ""]
    return "\n".join(lines)
