"""The names and addresses of this machine on the network."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
from pathlib import Path

_SIOCGIFADDR = 0x8915
DOCKER_HOST = "host.docker.internal"


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def own_names() -> tuple[str, ...]:
    """The host names of this machine, and the name that a container has for it."""
    name = socket.gethostname().lower()
    short = name.partition(".")[0]
    return tuple(dict.fromkeys(each for each in (name, short, f"{short}.local", DOCKER_HOST) if each))


def own_addresses() -> tuple[str, ...]:
    """Every address of every interface but loopback, IPv4 first."""
    return tuple(dict.fromkeys((*_ipv4(), *_ipv6())))


def in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _ipv4() -> list[str]:
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(asking.fileno(), _SIOCGIFADDR, request)
            except OSError:
                continue
            address = socket.inet_ntoa(answer[20:24])
            if not address.startswith("127."):
                found.append(address)
    return found


def _ipv6() -> list[str]:
    try:
        lines = Path("/proc/net/if_inet6").read_text().splitlines()
    except OSError:
        return []
    addresses = [ipaddress.IPv6Address(bytes.fromhex(line.split()[0])) for line in lines]
    return [str(address) for address in addresses if not address.is_loopback and not address.is_link_local]
