"""`mcp-agent token`: a token and a profile for each client."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from argparse import Namespace
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
from msgspec.structs import asdict, replace

from mcp_agent.cli.clients import own_tokens
from mcp_agent.cli.commands import daemon_client
from mcp_agent.cli.commands.daemon_client import RunningDaemon
from mcp_agent.cli.commands.policy_change import read_registry
from mcp_agent.cli.declaration import TOKENS, Argument, CommandReply, argument, command
from mcp_agent.cli.tables import Cell, print_table
from mcp_agent.config import Config, load
from mcp_agent.security import auth_tokens
from mcp_agent.security.auth_tokens import ListedToken, Tokens
from mcp_agent.security.grants import Grants
from mcp_agent.storage.audit_log import note_command
from mcp_agent.transports.loopback_client import folder_headers
from registry.profiles import FORMS
from registry.user_error import UsageError, UserError
from tools.sessions import process_tree

_LIFETIME = re.compile(r"(\d{1,6})([mhdw])")
# Clients run their helpers with a shell, which may run another.
_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "fish", "busybox", "env"))
_MOST_SHELLS = 3
_SECONDS = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def _name(help: str, **details: Any) -> Argument:
    return argument("name", metavar="NAME", completed="tokens", help=help, **details)


@command(
    "token create",
    argument("name", metavar="NAME", help="a name for the client"),
    argument(
        "--form",
        choices=FORMS,
        default="auto",
        help="format of its results (default: auto, chosen by the name of the client)",
    ),
    argument("--expires", metavar="TIME", help="how long it is valid: 12h, 30d, 8w (default: until revoked)"),
    settings=(*TOKENS, "profile"),
    examples=(
        "mcp-agent token create laptop",
        "mcp-agent token create ci --profile read-only --expires 30d",
    ),
)
def create(options: Namespace) -> CommandReply:
    """Create a token for a client; it is shown once."""
    config = load(vars(options))
    daemon = daemon_client.find_by(options, config)
    # The flag alone: the profile that a setting gives is the daemon's, and a token without one follows it anyway.
    profile: str | None = options.profile
    if profile is not None:
        # Raises UnknownName for a profile that does not exist.
        read_registry(config, daemon)[1][profile]
    lifetime_s = None if options.expires is None else parse_lifetime(options.expires)
    token = auth_tokens.create(config.clients_file, options.name, profile, options.form, lifetime_s)
    note_command(config.audit_dir, "token_created", name=options.name, profile=profile)
    until = "" if lifetime_s is None else f", valid until {_time(int(time.time()) + lifetime_s)}"
    print(f"{options.name}: {_profile_phrase(profile)}, form {options.form}{until}. The token is shown this once:")
    print(token)
    # Last: if the daemon cannot be told, it notices by itself, and the token is shown all the same.
    put_into_force(daemon)
    return CommandReply({"name": options.name, "profile": profile, "form": options.form, "token": token})


@command("token list", settings=TOKENS, examples=("mcp-agent token list", "mcp-agent token list --json"))
def show_all(options: Namespace) -> CommandReply:
    """Every token's name, profile and form, and what was granted by OAuth."""
    config = load(vars(options))
    listed = every_token(config).listed()
    owner: list[Cell | str] = [Cell(auth_tokens.OWNER, "cyan"), "the active profile", "", "", f"in {config.token_file}"]
    print_table([owner, *map(_row, listed)], "")
    return CommandReply(
        [{"name": auth_tokens.OWNER, "profile": None, "file": str(config.token_file)}, *map(asdict, listed)]
    )


@command(
    "token show",
    _name("only the owner's can be shown", nargs="?"),
    settings=TOKENS,
    examples=(
        "mcp-agent token show",
        'curl -H "Authorization: Bearer $(mcp-agent token show)" http://127.0.0.1:8765/health',
    ),
)
def show(options: Namespace) -> CommandReply:
    """Print the owner's token. Only a hash of the other tokens is kept."""
    config = load(vars(options))
    if options.name not in (None, auth_tokens.OWNER):
        auth_tokens.find(auth_tokens.clients(config.clients_file), options.name)
        raise UsageError(
            f"only a hash of {options.name!r} is kept; `mcp-agent token rotate {options.name}` makes a new token"
        )
    daemon = daemon_client.find(config)
    if daemon is not None and not daemon.token_file:
        raise UserError(f"the running daemon has the owner's token from {auth_tokens.VARIABLE}")
    token = auth_tokens.from_file(config.token_file if daemon is None else Path(daemon.token_file))
    print(token)
    return CommandReply({"name": auth_tokens.OWNER, "token": token})


@command(
    "token header",
    settings=TOKENS,
    examples=("mcp-agent token header", "mcp-agent token header --token-file ~/devbox.token"),
)
def header(options: Namespace) -> CommandReply:
    """Print the headers of a request, as JSON: clients run this, so that no secret is in their files. Beside the token
    they name the conversation and the folder of the client."""
    config = load(vars(options))
    token = auth_tokens.from_environment() or auth_tokens.from_existing_file(config.token_file)
    fields = {"Authorization": f"Bearer {token}", **_conversation()}
    print(orjson.dumps(fields).decode())
    return CommandReply(fields)


def _conversation() -> dict[str, str]:
    """What the helper says of its client: the process, and the folder of that.

    Our own folder says less: Claude Code runs its helpers in the folder of its settings.
    """
    client = os.getppid()
    for _ in range(_MOST_SHELLS):
        name, parent = _process(client)
        if name not in _SHELLS or parent <= 1:
            break
        client = parent
    folder: Path | None = None
    with contextlib.suppress(OSError):
        folder = Path(f"/proc/{client}/cwd").readlink()
    started = f"{client} {process_tree.start_time(client)}"
    return {"X-Session-Id": hashlib.sha256(started.encode()).hexdigest()[:32], **folder_headers(folder)}


def _process(pid: int) -> tuple[str, int]:
    """The name of a process and its parent; no name where the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        before, _, after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        return before.partition("(")[2], int(after.split()[1])
    return "", 0


@command(
    "token revoke",
    _name("the client"),
    settings=TOKENS,
    examples=("mcp-agent token revoke laptop", "mcp-agent token revoke ci --json"),
)
def revoke(options: Namespace) -> CommandReply:
    """Revoke a client's token, or end a grant of OAuth, and close its streams."""
    config = load(vars(options))
    if options.name == auth_tokens.OWNER:
        raise UsageError("the owner's token cannot be revoked; `mcp-agent token rotate` replaces it")
    daemon = daemon_client.find(config)
    every_token(config).revoke(options.name)
    note_command(config.audit_dir, "token_revoked", name=options.name)
    put_into_force(daemon)
    print(f"{options.name} is revoked: its token is no longer accepted")
    return CommandReply({"name": options.name, "revoked": True})


@command(
    "token rotate",
    _name("the client (default: the owner)", nargs="?"),
    settings=TOKENS,
    examples=("mcp-agent token rotate", "mcp-agent token rotate laptop"),
)
def rotate(options: Namespace) -> CommandReply:
    """Replace the token of the owner or of a client."""
    config = load(vars(options))
    is_of_connect = False
    # Found before the change: the owner's old token is the one that it still accepts.
    daemon = daemon_client.find(config)
    if options.name not in (None, auth_tokens.OWNER):
        token = auth_tokens.rotate(config.clients_file, options.name)
        is_of_connect = own_tokens.renew_token(config, options.name, token)
    elif daemon is not None and not daemon.token_file:
        raise UserError(
            f"the running daemon has the owner's token from {auth_tokens.VARIABLE}; start it with another one there"
        )
    else:
        token = auth_tokens.rotate_owner(config.token_file if daemon is None else Path(daemon.token_file))
    note_command(config.audit_dir, "token_rotated", name=options.name or auth_tokens.OWNER)
    try:
        put_into_force(daemon)
    except UserError:
        if daemon is None or options.name not in (None, auth_tokens.OWNER):
            raise
        # It may have noticed the owner's new token by itself, and refuse the old one.
        put_into_force(replace(daemon, token=token))
    print(f"{options.name or auth_tokens.OWNER} has a new token; the old one is no longer accepted:")
    print(token)
    if is_of_connect:
        print(f"A client that has it in its file is given the new one by: mcp-agent connect {options.name}")
    return CommandReply({"name": options.name or auth_tokens.OWNER, "token": token})


def every_token(config: Config) -> Tokens:
    """The tokens of a state folder, and what was granted to clients of OAuth."""
    return Tokens(config.token_file, config.clients_file, grants=Grants(config.grants_file))


def put_into_force(daemon: RunningDaemon | None) -> None:
    """Have the daemon read the token files now, and not when it notices that they have changed."""
    if daemon is not None:
        daemon.ask("POST", "/api/tokens/reload", {})


def parse_lifetime(text: str) -> int:
    """The seconds of 30m, 12h, 30d or 8w."""
    found = _LIFETIME.fullmatch(text.strip())
    if found is None or int(found[1]) == 0:
        raise UsageError(f"--expires takes 30m, 12h, 30d or 8w, not {text!r}")
    return int(found[1]) * _SECONDS[found[2]]


def _row(client: ListedToken) -> list[Cell | str]:
    until = "" if client.expires is None else f"until {_time(client.expires)}"
    if client.expires is not None and client.expires <= time.time():
        until = f"expired {_time(client.expires)}"
    made = f"made {datetime.fromtimestamp(client.created):%Y-%m-%d}"
    return [
        Cell(client.name, "cyan"),
        _profile_phrase(client.profile),
        f"form {client.form}" if client.program is None else f"granted to {client.program or 'a client'}",
        made,
        Cell(until, "red" if until.startswith("expired") else "plain"),
    ]


def _profile_phrase(profile: str | None) -> str:
    return "the active profile" if profile is None else f"profile {profile}"


def _time(at: int) -> str:
    return f"{datetime.fromtimestamp(at):%Y-%m-%d %H:%M}"
