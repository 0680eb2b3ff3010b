"""Which NATS servers a member or a gateway may use: one that authenticates nobody only if it is on this machine."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from mcp_agent.security.addresses import in_url, is_loopback
from registry.user_error import UserError

_PORT = 4222
_SCHEMES = ("nats", "tls")
_INFO_S = 5.0
# What stands before the host of each server.
_USER = re.compile(r"(^|//|,)[^,]*@")


class FleetError(UserError):
    """The fleet cannot be joined or served as it was asked for."""


class Server(Struct, frozen=True):
    """One NATS server; `url` may hold a user and a password and is never shown."""

    url: str
    host: str
    port: int
    has_user: bool
    # The name in its certificate, where that is not its host: servers of a cluster tell each other's addresses.
    tls_name: str | None = None

    @property
    def must_encrypt(self) -> bool:
        return self.url.startswith("tls://")

    def names(self, host: str, port: int) -> Server:
        """Another server of its cluster, which this one has named."""
        scheme, _, rest = self.url.partition("://")
        user, at, _ = rest.rpartition("@")
        url = f"{scheme}://{user}{at}{in_url(host)}:{port}"
        return Server(url, host, port, self.has_user, self.tls_name or self.host)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def parse_servers(text: str) -> list[Server]:
    """The servers of `nats://host:4222`, or of several with commas between them. Raises FleetError."""
    servers = [_parse_server(part.strip()) for part in text.split(",") if part.strip()]
    if not servers:
        raise FleetError("the address of NATS is empty; it is for example nats://127.0.0.1:4222")
    return servers


def without_password(address: str) -> str:
    """An address of NATS as it may be shown, whether it is a good one or not."""
    return _USER.sub(r"\1", address)


def check_authentication(servers: list[Server], credentials: Path | None) -> None:
    """Raise FleetError if a server is beyond this machine and we have nothing to show there."""
    for server in servers:
        if credentials is None and not server.has_user and not is_loopback(server.host):
            raise FleetError(
                f"NATS at {server} is not on this machine and no credentials are given: whoever reaches such a server "
                "could run commands on every box; make a file with `mcp-agent fleet invite` and name it with --creds"
            )


async def check_server_authenticates(server: Server) -> None:
    """Raise FleetError if a server beyond this machine takes clients without asking who they are."""
    if not is_loopback(server.host):
        await refuse_open_server(server)


async def refuse_open_server(server: Server) -> None:
    """Read the greeting of a server, which says whether it asks for a name. An unreachable one passes."""
    try:
        async with asyncio.timeout(_INFO_S):
            reader, writer = await asyncio.open_connection(server.host, server.port, limit=1 << 20)
            try:
                greeting = await reader.readline()
            finally:
                writer.transport.abort()
        info = json.loads(greeting.removeprefix(b"INFO "))
    except (OSError, TimeoutError, ValueError):
        return
    if not (isinstance(info, dict) and info.get("auth_required")):
        raise FleetError(
            f"NATS at {server} accepts anonymous clients; a NATS server on another machine must require "
            "authentication: `mcp-agent fleet init` writes a configuration for nats-server that does"
        )


def _parse_server(text: str) -> Server:
    given, shown = text if "://" in text else f"nats://{text}", without_password(text)
    try:
        parts = urlsplit(given)
        host, port = parts.hostname, parts.port or _PORT
    except ValueError as error:
        raise FleetError(f"{shown!r} is no address of NATS ({error}); it is for example nats://host:4222") from None
    if parts.scheme not in _SCHEMES or not host:
        raise FleetError(f"{shown!r} is no address of NATS; it is for example nats://host:4222 or tls://host:4222")
    return Server(given, host, port, has_user=parts.username is not None)
