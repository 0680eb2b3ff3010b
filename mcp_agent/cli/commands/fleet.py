"""`mcp-agent fleet`: the keys of a fleet, the configuration of its NATS server, and who may join."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from mcp_agent.cli.commands.token import parse_lifetime
from mcp_agent.cli.tables import Cell, print_table
from mcp_agent.config import Config, load
from mcp_agent.fleet.bus_errors import FleetError
from mcp_agent.fleet.credentials import FleetKeys, Role
from mcp_agent.fleet.nats_config import write_accounts, write_server_config
from mcp_agent.process.printing import print_json
from mcp_agent.security.state_folder import secure_state_dir
from tools.files.disk import NEW_FLAGS, open_descriptor, write_all

_WORDS: dict[Role, str] = {"member": "box", "gateway": "gateway"}


def init(options: argparse.Namespace) -> int:
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
    return 0


def invite(options: argparse.Namespace) -> int:
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
    return 0


def invited(options: argparse.Namespace) -> int:
    config = load(vars(options))
    every = _keys(config).invited()
    if options.json:
        print_json(
            [
                {
                    "name": each.name,
                    "role": each.role,
                    "key": each.key,
                    "issued": each.issued,
                    "expires": each.expires,
                    "revoked": each.is_revoked,
                }
                for each in every
            ]
        )
        return 0
    rows: list[list[Cell | str]] = []
    for each in every:
        state = "revoked" if each.is_revoked else f"until {_day(each.expires)}" if each.expires else ""
        rows.append([Cell(each.name, "cyan"), each.role, f"since {_day(each.issued)}", state])
    print_table(rows, "nobody was invited")
    return 0


def revoke(options: argparse.Namespace) -> int:
    config = load(vars(options))
    keys = _keys(config)
    count = keys.revoke(options.name)
    accounts = write_accounts(keys)
    print(f"{count} file{'s' if count > 1 else ''} for {options.name} revoked in {accounts}")
    print("copy it beside the configuration of every NATS server and let them read it: nats-server --signal reload")
    return 0


def _keys(config: Config) -> FleetKeys:
    secure_state_dir(config)
    return FleetKeys(config.fleet_dir)


def _day(seconds: int) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(seconds))
