"""The configuration files of nats-server: one that people change, and beside it the accounts, which are ours."""

from __future__ import annotations

import re
from pathlib import Path

from mcp_agent.fleet.credentials import FleetKeys
from mcp_agent.fleet.nats_address import FleetError
from tools.files.disk import replace_file

SERVER_FILE, ACCOUNTS_FILE = "nats-server.conf", "nats-accounts.conf"

_ADDRESS = re.compile(r"[\w.\[\]:-]+:\d{1,5}")
_SERVER = """\
# A NATS server for a fleet of mcp-agent. Change what you like; the accounts are in a file of their own.
listen: {listen}
# A box that vanished without a word is noticed after two of these.
ping_interval: "20s"
ping_max: 2
# Boxes come and go; a server that is full is worse than one that is slow.
max_connections: 64K
# A call or a result that is larger than this is refused.
max_payload: 8MB

# Beyond a trusted network, encrypt: boxes and gateways then say tls:// instead of nats://.
# tls {{ cert_file: "server.pem", key_file: "server.key" }}

# For three servers or more, on each of them:
# cluster {{ name: fleet, listen: 0.0.0.0:6222, routes: [nats://first:6222, nats://second:6222] }}

include ./{accounts}
"""


def write_server_config(folder: Path, listen: str) -> tuple[Path, bool]:
    """Write the file that people change, unless it is there. Gives its path, and whether it was written."""
    if _ADDRESS.fullmatch(listen) is None:
        raise FleetError(f"{listen[:60]!r} is no address to listen on; it is for example 0.0.0.0:4222")
    path = folder / SERVER_FILE
    if path.exists():
        return path, False
    _write(path, _SERVER.format(listen=listen, accounts=ACCOUNTS_FILE))
    return path, True


def write_accounts(keys: FleetKeys, folder: Path | None = None) -> Path:
    """Write the accounts into `folder`, or where they were written last. Gives the path."""
    if folder is None:
        folder = keys.accounts_folder()
    else:
        keys.remember_accounts_folder(folder)
    path = folder / ACCOUNTS_FILE
    _write(path, keys.server_accounts())
    return path


def _write(path: Path, text: str) -> None:
    try:
        replace_file(path, text.encode())
        # The server may run as somebody else, and there is no secret in it.
        path.chmod(0o644)
    except OSError as error:
        raise FleetError(f"{path} cannot be written: {(error.strerror or str(error)).lower()}") from None
