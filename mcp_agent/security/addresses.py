"""The names and addresses of this machine on the network."""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import socket
import struct
import threading
import time
import urllib.parse
from pathlib import Path

_SIOCGIFADDR = 0x8915
# A name that nobody knows may take seconds to look up.
_TRIAL_S = 0.5
DOCKER_HOST = "host.docker.internal"


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def reachable_here(host: str) -> str:
    """The host for a client on this machine: an address that stands for all addresses cannot be connected to."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def reachable_url(url: str) -> str:
    """The URL of a server, for a client on this machine."""
    host = urllib.parse.urlsplit(url).hostname or ""
    return url.replace(in_url(host), in_url(reachable_here(host)), 1) if host != reachable_here(host) else url


def own_names() -> tuple[str, ...]:
    """The host names of this machine, and the name that a container has for it."""
    name = socket.gethostname().lower()
    short = name.partition(".")[0]
    return tuple(dict.fromkeys(each for each in (name, short, f"{short}.local", DOCKER_HOST) if each))


def own_addresses() -> tuple[str, ...]:
    """Every address of every interface but loopback, IPv4 first."""
    return tuple(dict.fromkeys((*_ipv4(), *_ipv6())))


def leading_here(host: str, port: int) -> tuple[str, ...]:
    """The addresses and names by which others reach a server that listens on `host`; what leads nowhere is left out.

    Each is tried: a server on 0.0.0.0 has no IPv6, and a name may be unknown to everybody else.
    """
    if host not in ("0.0.0.0", "::"):
        return (host,)
    candidates = (*own_addresses(), *own_names())
    tried = {candidate: threading.Event() for candidate in candidates}
    for candidate, is_reached in tried.items():
        threading.Thread(target=_try, args=(candidate, port, is_reached), daemon=True).start()
    deadline = time.monotonic() + _TRIAL_S
    reached = tuple(name for name, found in tried.items() if found.wait(max(0.0, deadline - time.monotonic())))
    return reached or ("127.0.0.1" if host == "0.0.0.0" else "::1",)


def _try(host: str, port: int, is_reached: threading.Event) -> None:
    with contextlib.suppress(OSError, UnicodeError), socket.create_connection((host, port), _TRIAL_S) as connection:
        # A name may lead to another machine with a server on that port, or only to this one.
        address = connection.getpeername()[0]
        if address in own_addresses():
            is_reached.set()


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
