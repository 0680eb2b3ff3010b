"""A strict parser for the host and port in Host and Origin headers.

A loose parser takes `127.0.0.1:1@evil.example` for a name of this machine. Here a value is a name or an address,
optionally a port, and nothing else.
"""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

_AUTHORITY = re.compile(rb"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9_](?:[A-Za-z0-9_.-]*)))(?::([0-9]{1,5}))?")
_ORIGIN = re.compile(rb"(https?)://(.+)", re.I | re.S)
_DEFAULT_PORTS = {b"http": 80, b"https": 443}


class Authority(NamedTuple):
    """A name or address in lower case, IPv6 without brackets, and the port if there is one."""

    name: str
    port: int | None


def parse_authority(value: bytes) -> Authority | None:
    """The host and port of a Host header; None if the value is anything else."""
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


def is_origin(origin: bytes) -> bool:
    """Whether an Origin header names a page on the web; `null` and others do not."""
    match = _ORIGIN.fullmatch(origin)
    return match is not None and parse_authority(match[2]) is not None


def is_same_origin(origin: bytes, host: Authority) -> bool:
    """Whether an Origin header has the same host and port as the Host header, with HTTP or HTTPS."""
    match = _ORIGIN.fullmatch(origin)
    if match is None:
        return False
    scheme, value = match[1].lower(), match[2]
    found = parse_authority(value)
    if found is None or found.name != host.name:
        return False
    default = _DEFAULT_PORTS[scheme]
    return (found.port or default) == (host.port or default)
