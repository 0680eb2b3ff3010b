"""The HTTP server: a socket of our own, uvicorn on it, and an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from mcp_agent.config import Config
from mcp_agent.daemon import Daemon
from mcp_agent.host import Host
from mcp_agent.process import signals
from mcp_agent.process.logs import event
from mcp_agent.process.memory import collect_as_usual, return_free_memory
from mcp_agent.process.runtime_file import RuntimeFile
from mcp_agent.security import addresses
from mcp_agent.security.auth_tokens import BadToken, Tokens
from mcp_agent.settings import BadConfig
from mcp_agent.transports.connection import MOST_MESSAGE_BYTES, Connection
from registry.tools_json_file import watch

log = logging.getLogger(__name__)

_BACKLOG = 512
_DRAIN_S = 3
_HANDSHAKE_S = 10.0
# With the drain, well within the ten seconds that a service manager or a person waits.
_GRACE_S = 4.0

Follower = Callable[[], Coroutine[None, None, None]]


class PortTaken(BadConfig):
    """Another program listens on the port."""


def bind(host: str, port: int, advice: str = "pass --port") -> socket.socket:
    """A listening socket. Raises BadConfig with one sentence, and `advice` if another port would do."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol is named because asyncio sets TCP_NODELAY only then; without it an answer takes 40 ms more.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(f"port {port} of {host} is taken; stop what uses it, or {advice}") from None
        reason = (error.strerror or str(error)).lower()
        raise BadConfig(f"cannot listen on {host} port {port}: {reason}") from None
    except (UnicodeError, OverflowError):
        listener.close()
        raise BadConfig(f"{host!r} is no address to listen on") from None
    return listener


def check_tls(config: Config) -> None:
    """Raise BadConfig unless the certificate and its key can be served with."""
    if config.tls_cert is None:
        return
    import ssl

    try:
        # An empty password: a key that needs one is refused here instead of asking for it on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(config.tls_cert, config.tls_key, "")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        keys = f"--tls-cert {config.tls_cert} and --tls-key {config.tls_key}"
        raise BadConfig(f"{keys} cannot be served with: {reason}") from None


def serve(
    daemon: Daemon,
    app: ASGIApp,
    tokens: Tokens,
    listener: socket.socket | None,
    announce: Callable[[str], None],
    *,
    join: Follower | None = None,
    followers: Sequence[Follower] = (),
) -> int:
    """Serve until a signal ends it; `announce` is called with the URL once connections are accepted.

    `join` is awaited before; what it raises ends it. Without a listener, the daemon is reached by its fleet alone, and
    its URL is empty.
    """
    config = daemon.config
    url = ""
    if listener is not None:
        port = listener.getsockname()[1]
        url = f"{'https' if config.tls_cert else 'http'}://{addresses.in_url(config.host)}:{port}"
    with RuntimeFile(config, url, has_token_file=not tokens.is_owner_fixed):
        run(
            daemon,
            app,
            listener,
            lambda: announce(url),
            [lambda: _follow_tokens(daemon, tokens), *followers],
            (config.tls_cert, config.tls_key),
            join,
        )
    return 0


def run(
    host: Host,
    app: ASGIApp,
    listener: socket.socket | None,
    ready: Callable[[], None],
    followers: Sequence[Follower] = (),
    tls: tuple[Path | None, Path | None] = (None, None),
    join: Follower | None = None,
) -> None:
    """Serve `app` until a signal ends it, with `followers` beside it; `ready` is called once it can be reached."""
    # Here, because only what serves needs it.
    import uvloop

    server = _Server(
        uvicorn.Config(
            app,
            loop="uvloop",
            http=Connection,
            # Loaded by `Connection` when the first one is opened.
            ws="none",
            ws_max_size=MOST_MESSAGE_BYTES,
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=_DRAIN_S,
            timeout_keep_alive=5,
            ssl_certfile=tls[0],
            ssl_keyfile=tls[1],
        ),
        host,
        ready,
        [host.follow_registry, return_free_memory, *followers],
        join,
    )
    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(server.run_until_stopped(listener))


class _Server(uvicorn.Server):
    """uvicorn's server, which ends our streams before it waits for connections to drain."""

    def __init__(
        self,
        config: uvicorn.Config,
        host: Host,
        ready: Callable[[], None],
        followers: Sequence[Follower],
        join: Follower | None,
    ) -> None:
        super().__init__(config)
        self._join = join
        self._host = host
        self._ready = ready
        self._followers = followers

    async def run_until_stopped(self, listener: socket.socket | None) -> None:
        self._host.clean_up()
        if self._join is not None:
            await self._join()
        async with asyncio.TaskGroup() as tasks:
            followers = [tasks.create_task(follow()) for follow in self._followers]
            try:
                # In a separate task: the ticks of uvicorn, ten a second, do not wake this one.
                await tasks.create_task(self.serve(sockets=[] if listener is None else [listener]))
            finally:
                for follower in followers:
                    follower.cancel()
                self._host.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # As uvicorn does it, with a limit on the time of a TLS handshake, which it has no setting for.
        loop, ssl = asyncio.get_running_loop(), self.config.ssl
        limit_s = None if ssl is None else _HANDSHAKE_S
        make_connection = partial(Connection, self.config, self.server_state, {})
        self.servers = [
            await loop.create_server(
                make_connection, sock=listener, ssl=ssl, ssl_handshake_timeout=limit_s, backlog=_BACKLOG
            )
            for listener in sockets or ()
        ]
        self.started = True
        collect_as_usual()
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # First, because uvicorn waits for connections to drain, and a stream drains only when it is ended.
        await self._host.stop(_GRACE_S)
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop gracefully at the first signal and at once at the second. A signal is no failure: the exit code is 0."""
        signals.on_signals(self._stop)
        yield

    def _stop(self) -> None:
        if not self.should_exit:
            event(log, logging.INFO, "server.stopping", sessions=len(self._host.sessions.live))
        self.force_exit = self.should_exit
        self.should_exit = True


async def _follow_tokens(daemon: Daemon, tokens: Tokens) -> None:
    """Until cancelled, put the tokens into force as their files change; what was revoked loses its streams."""
    async with asyncio.TaskGroup() as tasks:
        for path in tokens.files:
            tasks.create_task(watch(path, partial(_apply_tokens, daemon, tokens)))
        tasks.create_task(_end_expired_streams(daemon, tokens))


async def _end_expired_streams(daemon: Daemon, tokens: Tokens) -> None:
    """Until cancelled, end the streams of tokens that expire. Requests with such a token are refused at once."""
    has_changed = asyncio.Event()
    tokens.on_reload = has_changed.set
    while True:
        has_changed.clear()
        expiry = tokens.next_expiry()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if expiry is None else max(expiry - time.time(), 0.01)):
                await has_changed.wait()
        if expired := tokens.expired_names():
            daemon.streams.end(expired)


async def _apply_tokens(daemon: Daemon, tokens: Tokens) -> None:
    try:
        daemon.apply_tokens(tokens)
    except BadToken as error:
        event(log, logging.WARNING, "security.tokens_rejected", message=str(error))


def leave(code: int) -> None:
    """End the process now. A worker thread that hangs in a dead disk must not keep it."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
