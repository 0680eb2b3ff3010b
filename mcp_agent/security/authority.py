"""The host and port that a request says it goes to, or comes from: read strictly, in one place for Host and Origin.

A loose reader takes `127.0.0.1:1@evil.example` for a name of this machine. Here a value is a name or an address, then
perhaps a port, and nothing else.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import NamedTuple

_AUTHORITY = re.compile(rb"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_](?:[A-Za-z0-9_.-]*)))(?::([0-9]{1,5}))?")
_ORIGIN = re.compile(rb"(https?)://(.+)", re.I | re.S)
_DEFAULT_PORTS = {b"http": 80, b"https": 443}


class Authority(NamedTuple):
    """A name or an address in lower case, an IPv6 one without brackets, and the port if there is one."""

    name: str
    port: int | None


# Few values are in use at a time, and every request has one.
@lru_cache(maxsize=256)
def parse_authority(value: bytes) -> Authority | None:
    """The authority that a Host header holds; None if it holds anything else."""
    match = _AUTHORITY.fullmatch(value)
    if match is None:
        return None
    bracketed, name, digits = match.groups()
    port = None if digits is None else int(digits)
    if port is not None and not 0 < port < 65_536:
        return None
    if bracketed is None:
        return Authority(name.decode("ascii").lower(), port)
    try:
        return Authority(str(ipaddress.IPv6Address(bracketed.decode("ascii"))), port)
    except ValueError:
        return None


def is_same_origin(origin: bytes, host: Authority) -> bool:
    """Whether an Origin header names the very host and port that the request goes to, by HTTP or HTTPS."""
    match = _ORIGIN.fullmatch(origin)
    if match is None:
        return False
    scheme, value = match[1].lower(), match[2]
    found = parse_authority(value)
    if found is None or found.name != host.name:
        return False
    default = _DEFAULT_PORTS[scheme]
    return (found.port or default) == (host.port or default)
