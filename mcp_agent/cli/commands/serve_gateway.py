"""`mcp-agent gateway`: one endpoint for all boxes of a fleet."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from mcp_agent.cli.commands.serve import compose, serve_daemon
from mcp_agent.config import Config, config_folder, default_box_name, load
from mcp_agent.config import state_folder as default_state_folder
from mcp_agent.process import runtime_file
from mcp_agent.security import state_folder
from mcp_agent.settings import BOX_NAME
from registry.user_error import UserError


def gateway_config(given: Mapping[str, Any]) -> Config:
    """The settings of a gateway. A daemon of the same user may run on the same machine, with tokens of its own."""
    own = {"state_dir": str(default_state_folder() / "gateway"), "config": str(config_folder() / "gateway-tools.json")}
    return load({**given, **{name: place for name, place in own.items() if given.get(name) is None}})


def check_gateway_name(name: str) -> None:
    """Raises UserError."""
    if BOX_NAME.fullmatch(name) is None:
        raise UserError(f"--name {name[:60]!r}: lower-case letters, digits, - and _, at most 40 of them")


def serve_gateway(options: argparse.Namespace) -> int:
    config = gateway_config(vars(options))
    if config.fleet is None:
        raise UserError("a gateway needs a fleet: --fleet nats://host:4222, or url in [fleet] of config.toml")
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
    return serve_daemon(daemon, options, join=lambda: made.join(daemon), followers=[made.follow], check=made.check)
