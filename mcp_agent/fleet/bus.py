"""One connection to NATS, made anew for ever, with errors that say what became of a message.

nats-py speaks the protocol. What it cannot do stands here, each with a test in tests/fleet/test_bus.py that shows it:

- Its own reconnect sends what was left in the buffer when the connection broke, however late, `pending_size` or not; it
  speaks to the next server before anybody can look whether that one may be spoken to; an error of the server other than
  a refused subject ends it for good. So it is told not to reconnect: each connection is a new client, and there is one
  place where it is checked and subscribed.
- A request waits for its time-out when the connection breaks or the server refuses its subject. So the answers have an
  inbox of ours.
- A full buffer makes `publish` wait and go on as if it was sent, also when it is cancelled. So we wait before it.
- `flush` sends its PING past what is still in the buffer, and ends the reading task if it is cancelled.
- The callbacks of a subscription run one at a time, and an answer carries the headers of its request.
- `tls://` is spoken in plain text if the server offers no TLS. Credentials without their lines are read for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import random
import re
import secrets
import ssl
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mcp_agent.fleet.nats_address import (
    FleetError,
    Server,
    check_authentication,
    check_server_authenticates,
    parse_servers,
)
from mcp_agent.process import signals
from mcp_agent.process.extras import import_extra

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

_logger = logging.getLogger(__name__)

# What the prefix of every inbox begins with. The server lets us answer wherever a request asks for its answer, also on
# subjects that we may not publish on: only an inbox is answered.
_INBOX = "_INBOX."
_CONNECT_S, _ATTEMPT_S, _FLUSH_S, _SEND_S, _PING_S = 15.0, 5, 10, 5.0, 10
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 10.0
# A loss is announced, unless the client hangs while it closes a connection that nobody reads.
_LOOK_S = 1.0
_CANCEL_AGAIN_S = 0.1
# Above this a publisher waits.
_BUFFER_BYTES = 16 * 1024 * 1024
_BUFFER_PAUSE_S = 0.003
# How many messages of one subject are served side by side; more wait in the client, and beyond its limit are lost.
_SERVED_AT_ONCE = 1_024
_WAITING_MESSAGES, _WAITING_BYTES = 65_536, 256 * 1024 * 1024
_NO_RESPONDERS = "503"
_REFUSED = re.compile(r'permissions violation for (publish|subscription) (?:to|with reply of) "([^"]*)"', re.IGNORECASE)


class BusError(Exception):
    """A message was not delivered, or its answer did not come."""


class NoResponders(BusError):
    """Nobody serves the subject: the request was not delivered."""


class TimedOut(BusError):
    """No answer within the time, or no room to send: the request may have been delivered."""


class Disconnected(BusError):
    """There is no connection. `is_sent`: it broke before the answer came, so the request may have been delivered."""

    def __init__(self, message: str, *, is_sent: bool) -> None:
        super().__init__(message)
        self.is_sent = is_sent


class PayloadTooLarge(BusError):
    """The payload is over the server's limit (`Bus.max_payload`); nothing was sent."""


class NotPermitted(BusError):
    """The credentials do not allow the subject; nothing was delivered."""


class _CannotConnect(Exception):
    """One attempt failed. `is_unreachable`: nothing is known of the server; otherwise it refused us, or we it."""

    def __init__(self, server: Server, reason: str, *, is_unreachable: bool = False) -> None:
        super().__init__(f"NATS at {server} cannot be used: {reason}")
        self.is_unreachable = is_unreachable


class Message(Struct, frozen=True):
    """What arrived on a subject."""

    subject: str
    data: bytes
    reply: str
    _publish: Callable[[str, bytes], Awaitable[None]]

    async def respond(self, payload: bytes) -> None:
        """Answer a request; what was only published has nobody to answer. The errors are those of `Bus.publish`."""
        if self.reply:
            await self._publish(self.reply, payload)


Serve = Callable[[Message], Awaitable[None]]
Receive = Callable[["Msg"], Awaitable[None]]


class Bus:
    """One connection to NATS. While it is lost nothing is buffered: everything raises."""

    def __init__(
        self, url: str, *, name: str, credentials: Path | None = None, inbox_prefix: str, least_payload: int = 0
    ) -> None:
        """Servers of `url` that take no messages of `least_payload` are refused. Raises FleetError."""
        if not f"{inbox_prefix}.".startswith(_INBOX):
            raise ValueError(f"the inbox {inbox_prefix} is not one that others answer to: it begins with {_INBOX}")
        self._given_servers = parse_servers(url)
        check_authentication(self._given_servers, credentials)
        self._servers = random.sample(self._given_servers, len(self._given_servers))
        self._name = name
        self._credentials = credentials
        self._least_payload = least_payload
        self._inbox = f"{inbox_prefix}.{secrets.token_hex(8)}"
        self._numbers = itertools.count()
        # By the subject that the answer comes on: the subject of the request, and what it comes to.
        self._requests: dict[str, tuple[str, asyncio.Future[bytes]]] = {}
        self._served: dict[str, Receive] = {f"{self._inbox}.*": self._take_answer}
        # In lower case, as the server says them.
        self._refused_subscriptions: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._client: Client | None = None
        # Set by the owner: awaited whenever there is a new connection, before it counts. A BusError loses it again; a
        # FleetError is a refusal.
        self.on_connected: Callable[[], Awaitable[None]] = _do_nothing
        # When the present connection was made, by the monotonic clock.
        self.connected_at = 0.0
        # The largest payload that the server takes; the last known one while disconnected.
        self.max_payload = 0
        # Why there is no connection, as far as it is known.
        self.problem: str | None = None
        # Why this process had to end: a server that could not be reached at the start refused us later.
        self._refusal: FleetError | None = None
        self._was_connected = False
        self._lost, self._found = asyncio.Event(), asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    def serve(self, subject: str, serve: Serve, *, is_quick: bool = False) -> None:
        """Serve the messages of a subject side by side, on every connection. Called before `start`.

        One that `is_quick` waits for nothing but its answer to be sent: those are served one after another, in order.
        An error of `serve` is logged.
        """
        places = asyncio.Semaphore(_SERVED_AT_ONCE)

        async def answer(message: Msg) -> None:
            reply = message.reply if message.reply.startswith(_INBOX) else ""
            try:
                await serve(Message(message.subject, message.data, reply, self.publish))
            except BusError as error:
                _logger.info("a message on %s was not answered: %s", subject, error)
            except Exception:
                _logger.exception("a message on %s could not be served", subject)

        async def begin_answer(message: Msg) -> None:
            await places.acquire()
            self._own(answer(message)).add_done_callback(lambda _: places.release())

        self._served[subject] = answer if is_quick else begin_answer

    async def start(self) -> None:
        """Connect to a server that can be used; later, if none can be reached. Raises FleetError if none will do."""
        import_extra("fleet", ("nats.aio.client", "nkeys"), what="the client of NATS")
        problems: list[_CannotConnect] = []
        try:
            for server in self._servers:
                try:
                    await self._connect(server)
                    break
                except _CannotConnect as problem:
                    problems.append(problem)
            else:
                self.problem = "; ".join(map(str, problems))
                if not all(problem.is_unreachable for problem in problems):
                    raise FleetError(self.problem)
                _logger.warning("%s; trying on", self.problem)
        except BaseException:
            await self.close()
            raise
        self._keeper = asyncio.create_task(self._keep_connected())

    def check(self) -> None:
        """Raise FleetError if that is why this process ends."""
        if self._refusal is not None:
            raise self._refusal

    @property
    def is_connected(self) -> bool:
        return self._client is not None and self._client.is_connected

    @property
    def facts(self) -> dict[str, Any]:
        """The state of the connection as /health shows it."""
        servers = [str(server) for server in self._given_servers]
        return {"nats": servers, "connected": self.is_connected, "problem": self.problem}

    async def wait_connected(self, timeout_s: float) -> bool:
        """Wait until there is a connection; False if there is none within the time."""
        if not self.is_connected:
            self._drop_client()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._found.wait()
        return self.is_connected

    async def request(self, subject: str, payload: bytes, timeout_s: float) -> bytes:
        """The first answer to a request."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bytes] = loop.create_future()
        reply = f"{self._inbox}.{next(self._numbers):x}"
        self._requests[reply] = subject, answer
        timer = loop.call_later(timeout_s, _fail, answer, TimedOut(f"no answer on {subject} within {timeout_s:g} s"))
        try:
            await self._send(subject, payload, reply)
            return await answer
        finally:
            timer.cancel()
            del self._requests[reply]
            # An error would be logged if nobody had looked at it.
            if not answer.cancel() and not answer.cancelled():
                answer.exception()

    async def publish(self, subject: str, payload: bytes) -> None:
        """Hand a message to the server. Raises Disconnected, PayloadTooLarge and TimedOut.

        The server says only later, to the log, that a subject is not allowed.
        """
        await self._send(subject, payload, "")

    async def close(self) -> None:
        """End the connection, the subscriptions and what they serve just now."""
        if self._keeper is not None:
            await _cancel([self._keeper])
        client, self._client = self._client, None
        self._fail_requests()
        await _cancel(self._tasks)
        if client is not None:
            await _close(client)

    # Messages

    def _connected_client(self) -> Client:
        client = self._client
        if client is None or not client.is_connected:
            self._drop_client()
            raise Disconnected("there is no connection to NATS", is_sent=False)
        return client

    async def _send(self, subject: str, payload: bytes, reply: str) -> None:
        client = self._connected_client()
        if len(payload) > client.max_payload:
            raise PayloadTooLarge(f"{len(payload)} bytes are over the limit of the NATS server ({client.max_payload})")
        if client.pending_data_size > _BUFFER_BYTES:
            try:
                await _wait_for_buffer(client, _BUFFER_BYTES)
            except TimeoutError:
                raise TimedOut(f"NATS takes no more: {client.pending_data_size} bytes wait to be sent") from None
            if client is not self._connected_client():
                raise Disconnected("the connection to NATS broke", is_sent=False)
        # Nothing in there waits, so it cannot be cancelled half-way, and the state that was checked is still so.
        await client.publish(subject, payload, reply)

    async def _take_answer(self, message: Msg) -> None:
        subject, answer = self._requests.get(message.subject, ("", None))
        if answer is None or answer.done():
            return
        if not message.data and message.headers and message.headers.get("Status") == _NO_RESPONDERS:
            answer.set_exception(NoResponders(f"nobody serves {subject}"))
        else:
            answer.set_result(message.data)

    def _fail_requests(self) -> None:
        for subject, answer in self._requests.values():
            _fail(answer, Disconnected(f"the connection to NATS broke before {subject} was answered", is_sent=True))

    async def _note_error(self, error: Exception) -> None:
        """What nats-py tells only here. A refused subject fails its requests; the rest is for the log."""
        found = _REFUSED.search(str(error))
        if found is None:
            is_loss = type(error).__name__ == "SlowConsumerError"
            _logger.log(logging.WARNING if is_loss else logging.DEBUG, "NATS: %s", _describe(error))
            return
        kind, refused = found[1].lower(), found[2].lower()
        if kind == "subscription":
            self._refused_subscriptions.add(refused)
            return
        _logger.warning("the credentials do not allow to publish to %s", refused)
        for subject, answer in self._requests.values():
            if subject.lower() == refused:
                _fail(answer, NotPermitted(f"the credentials do not allow to publish to {subject}"))

    # The connection

    async def _connect(self, server: Server) -> None:
        """Use a new connection, if its server and our owner agree. Raises _CannotConnect, FleetError."""
        client = await self._open(server)
        self._client, self.max_payload, self.connected_at = client, client.max_payload, time.monotonic()
        try:
            await self.on_connected()
        except FleetError:
            self._drop_client()
            raise
        except BusError as error:
            self._drop_client()
            raise _CannotConnect(server, str(error), is_unreachable=not isinstance(error, NotPermitted)) from None
        self.problem, self._was_connected = None, True
        self._found.set()

    async def _open(self, server: Server) -> Client:
        """A new client whose server was checked, with all subscriptions. Raises _CannotConnect, FleetError."""
        from nats.aio.client import Client, RawCredentials
        from nats.errors import Error

        await check_server_authenticates(server)
        user = None if self._credentials is None else RawCredentials(_read_credentials(self._credentials))
        tls = _WatchedTls() if server.must_encrypt else None
        client = Client()
        problems: list[Exception] = []

        async def note_error(error: Exception) -> None:
            problems[:] = [error]
            await self._note_error(error)

        async def note_end() -> None:
            self._lost.set()

        try:
            async with asyncio.timeout(_CONNECT_S):
                await client.connect(
                    [server.url],
                    name=self._name,
                    user_credentials=user,
                    tls=tls,
                    tls_hostname=server.tls_name,
                    # A daemon that asks whether its name is free does not ask itself.
                    no_echo=True,
                    error_cb=note_error,
                    closed_cb=note_end,
                    connect_timeout=_ATTEMPT_S,
                    allow_reconnect=False,
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0,
                    ping_interval=_PING_S,
                    # Without one, `publish` never waits.
                    pending_size=0,
                )
                if tls is not None and not tls.is_used:
                    raise _CannotConnect(server, "it does not encrypt, although its address says tls://")
                if client.max_payload < self._least_payload:
                    reason = f"its max_payload is {client.max_payload} bytes, and a fleet needs {self._least_payload}"
                    raise _CannotConnect(server, f"{reason}; `mcp-agent fleet init` writes 8MB")
                self._refused_subscriptions.clear()
                for subject, receive in self._served.items():
                    await client.subscribe(
                        subject, cb=receive, pending_msgs_limit=_WAITING_MESSAGES, pending_bytes_limit=_WAITING_BYTES
                    )
                # Before it: the PING of a flush overtakes what is still in the buffer.
                await _wait_for_buffer(client, 0)
                await client.flush(timeout=_FLUSH_S)
            if refused := next((each for each in self._served if each.lower() in self._refused_subscriptions), None):
                reason = f"these credentials are not those of {self._name}: they do not allow to subscribe to {refused}"
                raise _CannotConnect(server, reason)
        except (asyncio.CancelledError, _CannotConnect):
            await _close(client)
            raise
        except (OSError, Error, TimeoutError) as error:
            await _close(client)
            cause = problems[0] if problems else error
            raise _CannotConnect(server, _describe(cause), is_unreachable=_is_unreachable(cause)) from None
        self._remember_servers(client, server)
        return client

    def _remember_servers(self, client: Client, named_by: Server) -> None:
        """The servers of a cluster name each other; any of them will do when this one is gone."""
        known = {(server.host, server.port) for server in self._given_servers}
        found = {(uri.hostname, uri.port) for uri in client.discovered_servers if uri.hostname and uri.port} - known
        self._servers = [*self._given_servers, *(named_by.names(host, port) for host, port in found)]
        random.shuffle(self._servers)

    async def _keep_connected(self) -> None:
        """Until cancelled, or refused by the servers that could not be reached at the start: then this process ends."""
        while True:
            while self.is_connected:
                self._lost.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await self._lost.wait()
            self._drop_client()
            if self._was_connected:
                self.problem = "the connection to NATS is lost; connecting again"
                _logger.warning(self.problem)
            for attempt in itertools.count():
                longest_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(attempt, 20))
                # Boxes do not come back in step.
                await asyncio.sleep(random.uniform(0.5, 1.0) * longest_s)
                try:
                    await self._connect(self._servers[attempt % len(self._servers)])
                    break
                except (_CannotConnect, FleetError) as problem:
                    self.problem = str(problem)
                    is_refusal = not (isinstance(problem, _CannotConnect) and problem.is_unreachable)
                    if is_refusal and not self._was_connected:
                        self._refusal = FleetError(self.problem)
                        _logger.error("%s", self.problem)
                        signals.end_process()
                        return
                    _logger.log(logging.WARNING if attempt == 4 else logging.DEBUG, "%s; trying on", problem)
            _logger.info("connected to NATS")

    def _drop_client(self) -> None:
        client, self._client = self._client, None
        self._found.clear()
        self._lost.set()
        self._fail_requests()
        if client is not None:
            self._own(_close(client))

    def _own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _do_nothing() -> None:
    pass


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


async def _wait_for_buffer(client: Client, limit_bytes: int) -> None:
    """Wait until no more than that waits to be written, or the connection is lost. Raises TimeoutError."""
    async with asyncio.timeout(_SEND_S):
        # The first turn lets the task run that writes the buffer.
        pause_s = 0.0
        while client.pending_data_size > limit_bytes and client.is_connected:
            await asyncio.sleep(pause_s)
            pause_s = _BUFFER_PAUSE_S


async def _close(client: Client) -> None:
    from nats.errors import Error

    # It may wait for a peer that has stopped reading.
    with contextlib.suppress(Error, OSError, TimeoutError):
        async with asyncio.timeout(_SEND_S):
            await client.close()


async def _cancel(tasks: Iterable[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for their end.

    More than once: in Python 3.11, a cancellation that comes together with the result of a `wait_for` gets lost, and
    nats-py connects by that.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        done, left = await asyncio.wait(left, timeout=_CANCEL_AGAIN_S)
        for task in done:
            # Of no interest any more, and it would be logged if nobody had looked at it.
            task.cancelled() or task.exception()


def _fail(answer: asyncio.Future[bytes], error: BusError) -> None:
    if not answer.done():
        answer.set_exception(error)


def _describe(error: Exception) -> str:
    from nats.errors import UnexpectedEOF

    # Its refusal is lost if it closes the connection before it has read all that we sent.
    if isinstance(error, ConnectionError | UnexpectedEOF) and not isinstance(error, ConnectionRefusedError):
        return "it closed the connection, as servers do that refuse the credentials (--creds)"
    if "authorization violation" in str(error).lower():
        return "it wants other credentials (--creds): ours are missing, revoked, expired, or not of this fleet"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message} (SSL_CERT_FILE names a file with more of them)"
    if isinstance(error, OSError) and error.errno and not isinstance(error, ssl.SSLError):
        return os.strerror(error.errno)
    return str(error).removeprefix("nats: ") or type(error).__name__


def _is_unreachable(reason: Exception) -> bool:
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
