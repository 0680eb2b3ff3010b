"""Bounds how often strangers may try tokens and codes, where the daemon is public.

Each address has a number of wrong ones in a minute; after that it is told to wait, and the owner's token, which a
person may have chosen, is not taken from there either. All other tokens are ours, too long to be found by trying, and
stay good: nobody can lock out the clients that share an address with him, as all of claude.ai do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from starlette.types import Scope

from mcp_agent.security.addresses import is_loopback
from mcp_agent.security.origins import parse_authority

WINDOW_S = 60
MOST_WRONG = 20
_MOST_ADDRESSES = 1_000


class WrongLogins:
    """How many wrong tokens and codes each address has sent in the last minute."""

    def __init__(self) -> None:
        # By address: when its minute began, and how many.
        self._counts: dict[str, tuple[float, int]] = {}

    def add(self, address: str | None) -> None:
        if address is None:
            return
        began, count = self._counts.pop(address, (0.0, 0))
        now = time.monotonic()
        if now - began >= WINDOW_S:
            began, count = now, 0
        while len(self._counts) >= _MOST_ADDRESSES:
            del self._counts[next(iter(self._counts))]
        self._counts[address] = began, count + 1

    def are_too_many(self, address: str | None) -> bool:
        if address is None:
            return False
        began, count = self._counts.get(address, (0.0, 0))
        return count >= MOST_WRONG and time.monotonic() - began < WINDOW_S


def sender(scope: Scope, headers: Mapping[bytes, bytes]) -> str | None:
    """The address that a request comes from; None for a program on this machine, which is not counted.

    A proxy on this machine adds the address of its client at the end of X-Forwarded-For. What others say there of
    themselves is before that, or it comes by another address, and is not looked at.
    """
    peer = (scope.get("client") or ("",))[0]
    if not is_loopback(peer):
        return str(peer)
    forwarded = headers.get(b"x-forwarded-for")
    if forwarded is not None:
        return forwarded.rpartition(b",")[2].strip().decode("latin-1")[:64]
    host = parse_authority(headers.get(b"host", b""))
    return None if host is not None and is_loopback(host.name) else str(peer)
