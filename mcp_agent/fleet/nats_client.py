"""A client of nats-py that is connected once, and its end.

- `flush()` sends its PING past what is still in the buffer, and when it is cancelled the PONG ends the reading task.
- A credentials file without the expected lines is read for ever.
- An address with tls:// is connected to in plain text if the server does not offer TLS, or somebody in between says so.
- `close()` fails before `connect()`, and may wait for a peer that reads no more.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_agent.fleet.bus_errors import FleetError
from mcp_agent.fleet.nats_address import Server, check_server_authenticates

if TYPE_CHECKING:
    from nats.aio.client import Client

_CONNECT_S = 15.0
# Of one attempt, of which there are two.
_ATTEMPT_S = 5
_FLUSH_S = 10
_SEND_S = 5.0
_PING_S = 10
# Never reached: beyond it `publish` swallows time-outs.
_BUFFER_LIMIT_BYTES = 1 << 40
_BUFFER_PAUSE_S = 0.003
# What a server says that does not know us.
_REFUSAL = "authorization violation"


class CannotConnect(Exception):
    """One attempt failed; the message names the server and the reason.

    `is_unreachable`: nothing is known of the server; otherwise it has refused us, or we it.
    """

    def __init__(self, message: str, *, is_unreachable: bool = False) -> None:
        super().__init__(message)
        self.is_unreachable = is_unreachable


async def open_client(
    server: Server,
    name: str,
    credentials: Path | None,
    *,
    prepare: Callable[[Client], Awaitable[None]],
    note_error: Callable[[Exception], None],
    note_end: Callable[[], None],
) -> Client:
    """A client whose subscriptions, made by `prepare`, are known to the server. Raises CannotConnect."""
    from nats.aio.client import Client, RawCredentials
    from nats.errors import Error

    await check_server_authenticates(server)
    user = None if credentials is None else RawCredentials(_read_credentials(credentials))
    tls = _WatchedTls() if server.must_encrypt else None
    client = Client()
    problems: list[Exception] = []

    async def hear_error(error: Exception) -> None:
        problems[:] = [error]
        note_error(error)

    async def hear_end() -> None:
        note_end()

    try:
        async with asyncio.timeout(_CONNECT_S):
            await client.connect(
                [server.url],
                name=name,
                user_credentials=user,
                tls=tls,
                tls_hostname=server.tls_name,
                # A daemon that asks whether its name is free does not ask itself.
                no_echo=True,
                error_cb=hear_error,
                closed_cb=hear_end,
                connect_timeout=_ATTEMPT_S,
                # One more attempt, and no pause: the pauses are those of the bus.
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                ping_interval=_PING_S,
                pending_size=_BUFFER_LIMIT_BYTES,
            )
            if tls is not None and not tls.is_used:
                raise CannotConnect("it does not encrypt, although its address says tls://")
            await prepare(client)
        if not await flush_client(client):
            raise CannotConnect("it does not answer", is_unreachable=True)
    except asyncio.CancelledError:
        await close_client(client)
        raise
    except (OSError, Error, TimeoutError, CannotConnect) as error:
        await close_client(client)
        reason = problems[0] if problems else error
        message = f"NATS at {server} cannot be used: {describe(reason)}"
        raise CannotConnect(message, is_unreachable=_is_unreachable(reason)) from None
    return client


class _WatchedTls(ssl.SSLContext):
    """Certificates are checked as usual, and it is known whether a connection was encrypted at all."""

    is_used: bool

    def __new__(cls) -> _WatchedTls:
        context = super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)
        context.load_default_certs()
        context.is_used = False
        return context

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        self.is_used = True
        return super().wrap_bio(*arguments, **options)


async def flush_client(client: Client) -> bool:
    """Wait until the server has worked off what was sent. False: it has not, and the client is to be given up.

    The caller sees to it that this is not cancelled.
    """
    from nats.errors import Error

    with contextlib.suppress(Error, TimeoutError, OSError):
        await wait_for_buffer(client, 0)
        await client.flush(timeout=_FLUSH_S)
        return client.is_connected
    return False


async def wait_for_buffer(client: Client, limit_bytes: int) -> None:
    """Wait until no more than that waits to be written, or the connection is lost. Raises TimeoutError."""
    async with asyncio.timeout(_SEND_S):
        # The first turn lets the task run that writes the buffer.
        pause_s = 0.0
        while client.pending_data_size > limit_bytes and client.is_connected:
            await asyncio.sleep(pause_s)
            pause_s = _BUFFER_PAUSE_S


async def close_client(client: Client) -> None:
    from nats.errors import Error

    with contextlib.suppress(Error, OSError, TimeoutError):
        async with asyncio.timeout(_SEND_S):
            await client.close()


def describe(error: Exception) -> str:
    from nats.errors import UnexpectedEOF

    # Its refusal is lost if it closes the connection before it has read all that we sent.
    if isinstance(error, ConnectionError | UnexpectedEOF) and not isinstance(error, ConnectionRefusedError):
        return "it closed the connection, as servers do that refuse the credentials (--creds)"
    if _REFUSAL in str(error).lower():
        return "it wants other credentials (--creds): ours are missing, revoked, expired, or not of this fleet"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message} (SSL_CERT_FILE names a file with more of them)"
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    return str(error).removeprefix("nats: ") or type(error).__name__


def _is_unreachable(reason: Exception) -> bool:
    if isinstance(reason, CannotConnect):
        return reason.is_unreachable
    if isinstance(reason, ConnectionError):
        return isinstance(reason, ConnectionRefusedError)
    # Also a name that is not known: it may be once there is a network.
    return isinstance(reason, OSError | TimeoutError) and not isinstance(reason, ssl.SSLError)


def _read_credentials(path: Path) -> str:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeError) as error:
        raise FleetError(f"the credentials {path} cannot be read: {error}") from None
    if "BEGIN NATS USER JWT" not in text or "BEGIN USER NKEY SEED" not in text:
        raise FleetError(f"{path} is no credentials file of NATS; `mcp-agent fleet invite` writes one")
    return text
