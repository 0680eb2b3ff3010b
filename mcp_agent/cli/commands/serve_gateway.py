"""`mcp-agent gateway`: one endpoint for all boxes of a fleet."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from mcp_agent.cli.commands.serve import QUIET, compose, serve_daemon
from mcp_agent.cli.declaration import TOKENS, argument, command
from mcp_agent.config import Config, default_box_name, gateway_places, load
from mcp_agent.process import runtime_file
from mcp_agent.security import state_folder
from mcp_agent.settings import BOX_NAME
from registry.user_error import UsageError


def gateway_config(given: Mapping[str, Any]) -> Config:
    """The settings of a gateway. A daemon of the same user may run on the same machine, with tokens of its own."""
    return load({**given, **{name: place for name, place in gateway_places().items() if given.get(name) is None}})


def check_gateway_name(name: str) -> None:
    """Raises UserError."""
    if BOX_NAME.fullmatch(name) is None:
        raise UsageError(f"--name {name[:60]!r}: lower-case letters, digits, - and _, at most 40 of them")


@command(
    "gateway",
    argument("--name", metavar="NAME", help="name of this gateway (default: the host's name)"),
    QUIET,
    settings=(
        *TOKENS,
        "profile",
        "host",
        "port",
        "allow_host",
        "allow_origin",
        "public_url",
        "tls_cert",
        "tls_key",
        "fleet",
        "creds",
        "text_bytes",
        "log_level",
    ),
    examples=(
        "mcp-agent gateway --fleet nats://hub.example:4222 --name main --creds main.creds",
        "mcp-agent gateway --fleet nats://127.0.0.1:4222 --port 8766",
    ),
    streams=True,
)
def serve_gateway(options: Namespace) -> int:
    """Serve the tools of all boxes of a fleet over HTTP."""
    config = gateway_config(vars(options))
    if config.fleet is None:
        raise UsageError("a gateway needs a fleet: --fleet nats://host:4222, or url in [fleet] of config.toml")
    name = options.name or default_box_name()
    check_gateway_name(name)
    url, credentials = config.fleet, config.creds
    # What it keeps itself has no box in its id.
    config = replace(config, fleet=None)
    state_folder.secure_state_dir(config)
    runtime_file.claim_state_dir(config)
    from mcp_agent.fleet.gateway import Gateway

    made = Gateway(url, credentials, name)
    daemon = compose(config, options, made)
    return serve_daemon(daemon, options, join=lambda: made.join(daemon), followers=[made.follow], check=made.bus.check)
