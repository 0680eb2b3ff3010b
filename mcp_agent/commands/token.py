"""`mcp-agent token`: a token and a profile for each client."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from mcp_agent.config import load
from mcp_agent.security import auth_tokens
from registry.catalog import discover
from registry.tools_json_file import RegistryFile
from registry.user_error import UserError


def create(options: argparse.Namespace) -> int:
    config = load(vars(options))
    profile = config.profile or "default"
    # Raises UnknownName for a profile that does not exist.
    RegistryFile(config.config, discover()).load_or_create()[profile]
    token = auth_tokens.create(config.clients_file, options.name, profile, options.form)
    print(f"{options.name}: profile {profile}, form {options.form}. The token is shown this once:")
    print(token)
    return 0


def show_all(options: argparse.Namespace) -> int:
    config = load(vars(options))
    clients = auth_tokens.clients(config.clients_file)
    print(f"{auth_tokens.OWNER:20} the active profile   in {config.token_file}")
    for client in clients:
        made = datetime.fromtimestamp(client.created, UTC).strftime("%Y-%m-%d")
        print(f"{client.name:20} profile {client.profile:12} form {client.form:5} made {made}")
    return 0


def show(options: argparse.Namespace) -> int:
    """Print the owner's token. Only a hash of the other tokens is kept."""
    config = load(vars(options))
    if options.name not in (None, auth_tokens.OWNER):
        raise UserError(
            f"only a hash of {options.name!r} is kept; `mcp-agent token rotate {options.name}` makes a new token"
        )
    print(auth_tokens.from_file(config.token_file))
    return 0


def revoke(options: argparse.Namespace) -> int:
    config = load(vars(options))
    if options.name == auth_tokens.OWNER:
        raise UserError("the owner's token cannot be revoked; `mcp-agent token rotate` replaces it")
    auth_tokens.revoke(config.clients_file, options.name)
    print(f"{options.name} is revoked: its token is no longer accepted")
    return 0


def rotate(options: argparse.Namespace) -> int:
    config = load(vars(options))
    if options.name in (None, auth_tokens.OWNER):
        token = auth_tokens.rotate_owner(config.token_file)
    else:
        token = auth_tokens.rotate(config.clients_file, options.name)
    print(f"{options.name or auth_tokens.OWNER} has a new token; the old one is no longer accepted:")
    print(token)
    return 0
