"""`mcp-agent fleet`: the keys of a fleet, the configuration of its NATS server, and who may join."""

from __future__ import annotations

import time
from argparse import Namespace
from pathlib import Path

from msgspec.structs import asdict

from mcp_agent.cli.commands.token import parse_lifetime
from mcp_agent.cli.declaration import CommandReply, argument, command
from mcp_agent.cli.tables import Cell, print_table
from mcp_agent.config import Config, load
from mcp_agent.fleet.credentials import FleetKeys, Role
from mcp_agent.fleet.nats_address import FleetError
from mcp_agent.fleet.nats_config import write_accounts, write_server_config
from mcp_agent.security.state_folder import secure_state_dir
from tools.files.disk import NEW_FLAGS, open_descriptor, write_all

_WORDS: dict[Role, str] = {"member": "box", "gateway": "gateway"}


@command(
    "fleet init",
    argument("--out", default=".", metavar="FOLDER", help="where to write it (default: the current folder)"),
    argument(
        "--listen",
        default="0.0.0.0:4222",
        metavar="ADDRESS",
        help="address of the server (default: 0.0.0.0:4222)",
    ),
    examples=("mcp-agent fleet init", "mcp-agent fleet init --out nats --listen 127.0.0.1:4222"),
)
def init(options: Namespace) -> CommandReply:
    """Make the keys of a fleet, and write a configuration for nats-server that believes them."""
    config = load(vars(options))
    keys = _keys(config)
    is_new = not keys.exist
    if is_new:
        keys.create()
    folder = Path(options.out).absolute()
    server, is_written = write_server_config(folder, options.listen)
    accounts = write_accounts(keys, folder)
    state = "are" if is_new else "were already"
    print(f"the keys of the fleet {state} in {config.fleet_dir}: whoever has them can invite")
    print(f"{server} {'is written' if is_written else 'was there and is kept'}; {accounts.name} beside it is written")
    print("")
    print(f"1. start the server:      nats-server -c {server}")
    print("2. invite a gateway:      mcp-agent fleet invite main --gateway")
    print("3. invite each box:       mcp-agent fleet invite gpu1")
    port = options.listen.rpartition(":")[2]
    print(f"4. on the box, with its file:  mcp-agent serve --fleet nats://SERVER:{port} --box gpu1 --creds gpu1.creds")
    return CommandReply({"keys": str(config.fleet_dir), "server": str(server), "accounts": str(accounts)})


@command(
    "fleet invite",
    argument("name", metavar="NAME", help="the box: letters, digits, - and _"),
    argument(
        "--gateway",
        dest="role",
        action="store_const",
        const="gateway",
        help="for a gateway of this name, which may call every box",
    ),
    argument("--out", metavar="FILE", help="the file to write (default: NAME.creds)"),
    argument("--expires", metavar="TIME", help="how long it is valid: 12h, 30d, 8w (default: until revoked)"),
    examples=("mcp-agent fleet invite gpu1 --expires 30d", "mcp-agent fleet invite main --gateway"),
)
def invite(options: Namespace) -> CommandReply:
    """Write a credentials file with which a box joins, or a gateway calls."""
    config = load(vars(options))
    role: Role = options.role or "member"
    lifetime_s = None if options.expires is None else parse_lifetime(options.expires)
    path = Path(options.out or f"{options.name}.creds").absolute()
    if path.exists():
        raise FleetError(f"{path} exists; move it away, or name another with --out")
    keys = _keys(config)
    try:
        # The file first: what cannot be written does not count as invited.
        with open_descriptor(path, NEW_FLAGS) as descriptor:
            try:
                write_all(descriptor, keys.invite(options.name, role, lifetime_s).encode())
            except FleetError:
                path.unlink()
                raise
    except OSError as error:
        raise FleetError(f"{path} cannot be written: {(error.strerror or str(error)).lower()}") from None
    print(f"{path} is written. Whoever has it is the {_WORDS[role]} {options.name} for NATS: move it, do not copy it.")
    if role == "member":
        print(f"on the box:  mcp-agent serve --fleet nats://SERVER:4222 --box {options.name} --creds {path.name}")
    else:
        print(f"there:  mcp-agent gateway --fleet nats://SERVER:4222 --name {options.name} --creds {path.name}")
    return CommandReply({"name": options.name, "role": role, "file": str(path)})


@command("fleet invited", examples=("mcp-agent fleet invited", "mcp-agent fleet invited --json"))
def invited(options: Namespace) -> CommandReply:
    """Every credentials file that was written."""
    config = load(vars(options))
    every = _keys(config).invited()
    rows: list[list[Cell | str]] = []
    for each in every:
        state = "revoked" if each.revoked else f"until {_day(each.expires)}" if each.expires else ""
        rows.append([Cell(each.name, "cyan"), each.role, f"since {_day(each.issued)}", state])
    print_table(rows, "nobody was invited")
    return CommandReply([{**asdict(each), "revoked": each.revoked is not None} for each in every])


@command(
    "fleet revoke",
    argument("name", metavar="NAME", help="the box or the gateway"),
    examples=("mcp-agent fleet revoke gpu1", "mcp-agent fleet revoke main --json"),
)
def revoke(options: Namespace) -> CommandReply:
    """Take back the credentials of a box or a gateway."""
    config = load(vars(options))
    keys = _keys(config)
    count = keys.revoke(options.name)
    accounts = write_accounts(keys)
    print(f"{count} file{'s' if count > 1 else ''} for {options.name} revoked in {accounts}")
    print("copy it beside the configuration of every NATS server and let them read it: nats-server --signal reload")
    return CommandReply({"name": options.name, "revoked": count, "accounts": str(accounts)})


def _keys(config: Config) -> FleetKeys:
    secure_state_dir(config)
    return FleetKeys(config.fleet_dir)


def _day(seconds: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(seconds))
