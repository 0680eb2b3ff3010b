"""`mcp-agent token`: a token and a profile for each client."""

from __future__ import annotations

import argparse
import re
import time
from datetime import datetime
from pathlib import Path

import orjson
from msgspec.structs import replace

from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.changing import read_registry
from mcp_agent.cli.commands.daemon_client import RunningDaemon
from mcp_agent.cli.tables import Cell, print_table
from mcp_agent.config import load
from mcp_agent.process.printing import print_json
from mcp_agent.security import auth_tokens
from mcp_agent.security.auth_tokens import ClientToken
from registry.user_error import UserError

_LIFETIME = re.compile(r"(\d{1,6})([mhdw])")
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def create(options: argparse.Namespace) -> int:
    config = load(vars(options))
    daemon = daemon_client.find_by(options, config)
    # The flag alone: the profile that a setting gives is the daemon's, and a token without one follows it anyway.
    profile: str | None = options.profile
    if profile is not None:
        # Raises UnknownName for a profile that does not exist.
        read_registry(config, daemon)[1][profile]
    lifetime_s = None if options.expires is None else parse_lifetime(options.expires)
    token = auth_tokens.create(config.clients_file, options.name, profile, options.form, lifetime_s)
    until = "" if lifetime_s is None else f", valid until {_time(int(time.time()) + lifetime_s)}"
    print(f"{options.name}: {_profile_phrase(profile)}, form {options.form}{until}. The token is shown this once:")
    print(token)
    # Last: if the daemon cannot be told, it notices by itself, and the token is shown all the same.
    put_into_force(daemon)
    return 0


def show_all(options: argparse.Namespace) -> int:
    config = load(vars(options))
    clients = auth_tokens.clients(config.clients_file)
    if options.json:
        print_json(
            [{"name": auth_tokens.OWNER, "profile": None, "file": str(config.token_file)}, *map(_facts, clients)]
        )
        return 0
    owner: list[Cell | str] = [Cell(auth_tokens.OWNER, "cyan"), "the active profile", "", "", f"in {config.token_file}"]
    print_table([owner, *map(_row, clients)], "")
    return 0


def show(options: argparse.Namespace) -> int:
    """Print the owner's token. Only a hash of the other tokens is kept."""
    config = load(vars(options))
    if options.name not in (None, auth_tokens.OWNER):
        auth_tokens.find(auth_tokens.clients(config.clients_file), options.name)
        raise UserError(
            f"only a hash of {options.name!r} is kept; `mcp-agent token rotate {options.name}` makes a new token"
        )
    daemon = daemon_client.find(config)
    if daemon is not None and not daemon.token_file:
        raise UserError(f"the running daemon has the owner's token from {auth_tokens.VARIABLE}")
    print(auth_tokens.from_file(config.token_file if daemon is None else Path(daemon.token_file)))
    return 0


def header(options: argparse.Namespace) -> int:
    """Print the header that a request carries, as JSON: clients run this, so that no secret is in their files."""
    config = load(vars(options))
    token = auth_tokens.from_environment() or auth_tokens.from_existing_file(config.token_file)
    print(orjson.dumps({"Authorization": f"Bearer {token}"}).decode())
    return 0


def revoke(options: argparse.Namespace) -> int:
    config = load(vars(options))
    if options.name == auth_tokens.OWNER:
        raise UserError("the owner's token cannot be revoked; `mcp-agent token rotate` replaces it")
    daemon = daemon_client.find(config)
    auth_tokens.revoke(config.clients_file, options.name)
    put_into_force(daemon)
    print(f"{options.name} is revoked: its token is no longer accepted")
    return 0


def rotate(options: argparse.Namespace) -> int:
    config = load(vars(options))
    # Found before the change: the owner's old token is the one that it still accepts.
    daemon = daemon_client.find(config)
    if options.name not in (None, auth_tokens.OWNER):
        token = auth_tokens.rotate(config.clients_file, options.name)
    elif daemon is not None and not daemon.token_file:
        raise UserError(
            f"the running daemon has the owner's token from {auth_tokens.VARIABLE}; start it with another one there"
        )
    else:
        token = auth_tokens.rotate_owner(config.token_file if daemon is None else Path(daemon.token_file))
    try:
        put_into_force(daemon)
    except UserError:
        if daemon is None or options.name not in (None, auth_tokens.OWNER):
            raise
        # It may have noticed the owner's new token by itself, and refuse the old one.
        put_into_force(replace(daemon, token=token))
    print(f"{options.name or auth_tokens.OWNER} has a new token; the old one is no longer accepted:")
    print(token)
    return 0


def put_into_force(daemon: RunningDaemon | None) -> None:
    """Have the daemon read the token files now, and not when it notices that they have changed."""
    if daemon is not None:
        daemon.ask("POST", "/api/tokens/reload", {})


def parse_lifetime(text: str) -> int:
    """The seconds of 30m, 12h, 30d or 8w."""
    found = _LIFETIME.fullmatch(text.strip())
    if found is None or int(found[1]) == 0:
        raise UserError(f"--expires takes 30m, 12h, 30d or 8w, not {text!r}")
    return int(found[1]) * _SECONDS[found[2]]


def _facts(client: ClientToken) -> dict[str, object]:
    return {
        "name": client.name,
        "profile": client.profile,
        "form": client.form,
        "created": client.created,
        "expires": client.expires,
    }


def _row(client: ClientToken) -> list[Cell | str]:
    until = "" if client.expires is None else f"until {_time(client.expires)}"
    if client.expires is not None and client.expires <= time.time():
        until = f"expired {_time(client.expires)}"
    made = f"made {datetime.fromtimestamp(client.created):%Y-%m-%d}"
    return [
        Cell(client.name, "cyan"),
        _profile_phrase(client.profile),
        f"form {client.form}",
        made,
        Cell(until, "red" if until.startswith("expired") else "plain"),
    ]


def _profile_phrase(profile: str | None) -> str:
    return "the active profile" if profile is None else f"profile {profile}"


def _time(at: int) -> str:
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M}"
