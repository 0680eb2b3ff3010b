"""Whether a connection comes from a process that this daemon has started for a client.

Its two ends are on one machine, so the kernel's table of connections has the end of the client, with the number of its
socket, and the process that holds the socket has the mark of its session in its environment.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import struct
from pathlib import Path

from tools.sessions.manager import SessionManager

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")


def is_from_session(address: str, port: int, sessions: SessionManager) -> bool:
    """Whether the client of a connection, with this address and port, is one of our sessions' processes. Blocks."""
    sockets = _sockets(address, port)
    return bool(sockets) and any(_holds(pid, sockets) for pid in sessions.processes())


def _sockets(address: str, port: int) -> set[str]:
    """What the sockets at that end are called under /proc/<pid>/fd."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return set()
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    wanted = {f"{_in_table(each)}:{port:04X}" for each in (ip, mapped, _as_v6(ip)) if each is not None}
    found: set[str] = set()
    for table in _TABLES:
        with contextlib.suppress(OSError):
            for line in Path(table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[1] in wanted:
                    found.add(f"socket:[{fields[9]}]")
    return found


def _as_v6(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> ipaddress.IPv6Address | None:
    return ipaddress.IPv6Address(f"::ffff:{ip}") if isinstance(ip, ipaddress.IPv4Address) else None


def _in_table(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """An address as the kernel prints it: words of four bytes, in the order of this machine."""
    words = struct.unpack(f"={len(ip.packed) // 4}I", ip.packed)
    return "".join(f"{word:08X}" for word in words)


def _holds(pid: int, sockets: set[str]) -> bool:
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):  # noqa: PTH208 - names alone
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/fd/{name}") in sockets:  # noqa: PTH115 - it is no path
                    return True
    return False
