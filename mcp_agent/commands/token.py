"""`mcp-agent token`: a token and a profile for each client."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from mcp_agent.config import BadConfig, Config, load
from mcp_agent.security import auth_tokens
from registry.catalog import discover
from registry.profiles import BadRegistry
from registry.tools_json_file import RegistryFile


def create(options: argparse.Namespace) -> int:
    config = load(vars(options))
    profile = config.profile or "default"
    _check_profile(config, profile)
    try:
        token = auth_tokens.create(config.clients_file, options.name, profile, options.form)
    except auth_tokens.BadToken as error:
        raise BadConfig(str(error)) from None
    print(f"{options.name}: profile {profile}, form {options.form}. The token is shown this once:")
    print(token)
    return 0


def show_all(options: argparse.Namespace) -> int:
    config = load(vars(options))
    try:
        known = auth_tokens.clients(config.clients_file)
    except auth_tokens.BadToken as error:
        raise BadConfig(str(error)) from None
    print(f"{auth_tokens.OWNER:20} the active profile   in {config.token_file}")
    for client in known:
        made = datetime.fromtimestamp(client.created, UTC).strftime("%Y-%m-%d")
        print(f"{client.name:20} profile {client.profile:12} form {client.form:5} made {made}")
    return 0


def show(options: argparse.Namespace) -> int:
    """The owner's token; of the others only a hash is kept."""
    config = load(vars(options))
    if options.name not in (None, auth_tokens.OWNER):
        raise BadConfig(
            f"only a hash of {options.name!r} is kept; `mcp-agent token rotate {options.name}` makes a new token"
        )
    try:
        print(auth_tokens.from_file(config.token_file))
    except auth_tokens.BadToken as error:
        raise BadConfig(str(error)) from None
    return 0


def revoke(options: argparse.Namespace) -> int:
    config = load(vars(options))
    if options.name == auth_tokens.OWNER:
        raise BadConfig("the owner's token cannot be revoked; `mcp-agent token rotate` replaces it")
    try:
        auth_tokens.revoke(config.clients_file, options.name)
    except auth_tokens.BadToken as error:
        raise BadConfig(str(error)) from None
    print(f"{options.name} opens nothing any more")
    return 0


def rotate(options: argparse.Namespace) -> int:
    config = load(vars(options))
    try:
        if options.name in (None, auth_tokens.OWNER):
            token = auth_tokens.rotate_owner(config.token_file)
        else:
            token = auth_tokens.rotate(config.clients_file, options.name)
    except auth_tokens.BadToken as error:
        raise BadConfig(str(error)) from None
    print(f"{options.name or auth_tokens.OWNER} has a new token; the old one opens nothing any more:")
    print(token)
    return 0


def _check_profile(config: Config, profile: str) -> None:
    try:
        known = RegistryFile(config.config, discover()).load_or_create().by_id
    except BadRegistry as error:
        raise BadConfig(f"{config.config} cannot be used: {error}") from None
    if profile not in known:
        raise BadConfig(f"there is no profile {profile!r}; there are {', '.join(known)}")
