"""Finds which of our processes listen on a port that this machine reaches by its loopback address."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_LISTENING = "0A"
_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_SOCKET = "socket:["


class PortListener(NamedTuple):
    """A process that listens. `address` is where it is reached."""

    port: int
    address: str
    pid: int
    program: str


def find_listeners(pids: Mapping[int, object]) -> list[PortListener]:
    """Each port that one of these processes listens on, with the first process that does."""
    sockets = _listening_sockets()
    found: dict[int, PortListener] = {}
    for pid in sorted(pids) if sockets else ():
        for inode in _sockets_of(pid) & sockets.keys():
            address, port = sockets[inode]
            found.setdefault(port, PortListener(port, address, pid, _program(pid)))
    return [found[port] for port in sorted(found)]


def _listening_sockets() -> dict[str, tuple[str, int]]:
    """The inode of every socket that listens for connections by loopback, with its address and port."""
    found = {}
    for table in _TABLES:
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] != _LISTENING:
                continue
            host, _, port = fields[1].partition(":")
            address = _reachable_address(host)
            if address is not None:
                found[fields[9]] = (address, int(port, 16))
    return found


def _reachable_address(host: str) -> str | None:
    """The loopback address by which a socket is reached that is bound to `host`, as the kernel writes it."""
    # Words of four bytes, each in the byte order of the machine.
    packed = b"".join(socket.htonl(int(host[at : at + 8], 16)).to_bytes(4, "big") for at in range(0, len(host), 8))
    address = ipaddress.ip_address(packed)
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        elif address.is_loopback or address.is_unspecified:
            return "::1"
    if address.is_unspecified:
        return "127.0.0.1"
    return str(address) if address.is_loopback else None


def _sockets_of(pid: int) -> set[str]:
    found = set()
    try:
        with os.scandir(f"/proc/{pid}/fd") as entries:
            for entry in entries:
                target = os.readlink(entry.path)  # noqa: PTH115 - a Path for each would take longer than the call
                if target.startswith(_SOCKET):
                    found.add(target[len(_SOCKET) : -1])
    except OSError:
        # It has ended, or closes what we look at.
        return found
    return found


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
