"""One connection to NATS, with errors that say what became of a message.

nats-py speaks the protocol; `nats_client.py` has what is to be known of its connections. Besides:

- It reconnects 60 times, without jitter, and delivers then what was published meanwhile, long after everybody gave up.
  It is told not to reconnect: a lost connection is replaced by a new client, for ever, and what was under way fails.
- Errors of the server, such as a message over its limit, close it for good. That is a lost connection like any other.
- A full buffer makes `publish` wait and then go on as if it was sent; a task that is cancelled there goes on, too. A
  message is handed over only while there is room.
- What the server refuses is told to a callback alone, in lower case. The request that was refused raises it.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp_agent.fleet.bus_errors import (
    BusError,
    Disconnected,
    FleetError,
    NoResponders,
    NotPermitted,
    TimedOut,
    TooLarge,
)
from mcp_agent.fleet.nats_address import Server, check_authentication, parse_servers
from mcp_agent.fleet.nats_client import (
    CannotConnect,
    close_client,
    describe,
    flush_client,
    open_client,
    wait_for_buffer,
)
from mcp_agent.fleet.pending_requests import PendingRequests
from mcp_agent.fleet.refused_subjects import RefusedSubjects
from mcp_agent.fleet.served_subject import INBOX, Message, Serve, ServedSubject
from mcp_agent.process.extras import import_extra

if TYPE_CHECKING:
    from nats.aio.client import Client

__all__ = [
    "Bus",
    "BusError",
    "Disconnected",
    "FleetError",
    "Message",
    "NoResponders",
    "NotPermitted",
    "Serve",
    "TimedOut",
    "TooLarge",
]

_logger = logging.getLogger(__name__)

# Above this a publisher waits.
_BUFFER_BYTES = 4 * 1024 * 1024
# A loss is announced, unless the client hangs while it closes a connection that nobody reads.
_LOOK_S = 1.0
_CANCEL_AGAIN_S = 0.1
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 10.0


class Bus:
    """One connection to NATS, made anew for ever. While it is lost nothing is buffered: everything raises."""

    def __init__(self, servers: list[Server], name: str, credentials: Path | None, inbox_prefix: str) -> None:
        self._given_servers = servers
        self._servers = random.sample(servers, len(servers))
        self._name = name
        self._credentials = credentials
        if not f"{inbox_prefix}.".startswith(INBOX):
            raise ValueError(f"the inbox {inbox_prefix} is not one that others answer to: it begins with {INBOX}")
        self._requests = PendingRequests(f"{inbox_prefix}.{secrets.token_hex(8)}")
        self._served: list[ServedSubject] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._refused = RefusedSubjects()
        self._client: Client | None = None
        # When the present connection was made, by the monotonic clock.
        self.connected_at = 0.0
        self._max_payload = 0
        # Why there is no connection, as far as it is known; and why none is tried any more that there never was.
        self.problem: str | None = None
        self.refusal: FleetError | None = None
        self._lost = asyncio.Event()
        self._found = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        name: str,
        credentials: Path | None = None,
        inbox_prefix: str,
        must_be_there: bool = True,
    ) -> Bus:
        """Connect to one of the servers of `url`. Raises FleetError if none can be used now.

        Without `must_be_there`, servers that cannot be reached are tried again until one can; see `refusal`.
        """
        import_extra("fleet", ("nats.aio.client", "nkeys"), what="the client of NATS")
        servers = parse_servers(url)
        check_authentication(servers, credentials)
        bus = cls(servers, name, credentials, inbox_prefix)
        problems: list[CannotConnect] = []
        for server in bus._servers:
            try:
                await bus._open(server)
                break
            except CannotConnect as problem:
                problems.append(problem)
        else:
            bus.problem = "; ".join(map(str, problems))
            if must_be_there or not all(problem.is_unreachable for problem in problems):
                raise FleetError(bus.problem)
            _logger.warning("%s; trying on", bus.problem)
        bus._keeper = asyncio.create_task(bus._keep_connected())
        return bus

    @property
    def is_connected(self) -> bool:
        return self._client is not None and self._client.is_connected

    @property
    def max_payload(self) -> int:
        """The largest payload that the server takes; the last known one while disconnected."""
        return self._max_payload

    @property
    def facts(self) -> dict[str, Any]:
        """The state of the connection as /health shows it."""
        servers = [str(server) for server in self._given_servers]
        return {"nats": servers, "connected": self.is_connected, "problem": self.problem}

    async def wait_connected(self, timeout_s: float) -> bool:
        """Wait until there is a connection; False if there is none within the time, or never will be."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not self.is_connected and self.refusal is None:
                    self._found.clear()
                    self._lost.set()
                    await self._found.wait()
        return self.is_connected

    async def request(self, subject: str, payload: bytes, timeout_s: float) -> bytes:
        """The first answer to a request."""
        reply, answer = self._requests.add(subject, timeout_s)
        try:
            await self._send(subject, payload, reply)
            return await answer
        finally:
            self._requests.remove(reply)

    async def publish(self, subject: str, payload: bytes) -> None:
        """Hand a message to the server; raises what `request` raises.

        The server says only later that a subject is not allowed: the first message is lost, the next ones raise.
        """
        await self._send(subject, payload, "")

    async def subscribe(self, subject: str, serve: Serve) -> Callable[[], Awaitable[None]]:
        """Serve the messages of a subject side by side, also after a reconnect; the function that is given ends it.

        Raises NotPermitted or Disconnected, and then nothing is served. An error of `serve` is logged.
        """
        served = ServedSubject(subject, serve, self.publish, self._own)
        client = self._connected_client()
        self._refused.forget("subscription", subject)
        await served.subscribe(client)
        try:
            await self._settle(client)
        except BusError:
            await served.unsubscribe()
            raise
        if self._refused.has("subscription", subject):
            await served.unsubscribe()
            raise NotPermitted(f"the credentials do not allow to subscribe to {subject}")
        self._served.append(served)
        if client is not self._client:
            await served.unsubscribe()
            self._served.remove(served)
            raise Disconnected(f"the connection to NATS broke while {subject} was subscribed", is_sent=True)

        async def end() -> None:
            with contextlib.suppress(ValueError):
                self._served.remove(served)
                await served.unsubscribe()

        return end

    async def close(self) -> None:
        """End the connection, the subscriptions and what they serve just now."""
        if self._keeper is not None:
            await _cancel([self._keeper])
        client, self._client = self._client, None
        self._requests.fail_all()
        await _cancel(self._tasks)
        if client is not None:
            await close_client(client)

    # Sending

    async def _send(self, subject: str, payload: bytes, reply: str) -> None:
        client = self._connected_client()
        if len(payload) > client.max_payload:
            raise TooLarge(f"{len(payload)} bytes are over the limit of the NATS server ({client.max_payload})")
        if self._refused.has("publish", subject):
            raise NotPermitted(f"the credentials do not allow to publish to {subject}")
        if client.pending_data_size > _BUFFER_BYTES:
            await self._wait_for_room(client)
        # Nothing in there waits, so it cannot be cancelled half-way, and the state that was checked is still so.
        await client.publish(subject, payload, reply)

    def _connected_client(self) -> Client:
        client = self._client
        if client is None or not client.is_connected:
            self._lost.set()
            raise Disconnected("there is no connection to NATS", is_sent=False)
        return client

    async def _wait_for_room(self, client: Client) -> None:
        try:
            await wait_for_buffer(client, _BUFFER_BYTES)
        except TimeoutError:
            raise TimedOut(f"NATS takes no more: {client.pending_data_size} bytes wait to be sent") from None
        if not client.is_connected or client is not self._client:
            raise Disconnected("the connection to NATS broke", is_sent=False)

    async def _settle(self, client: Client) -> None:
        """Wait until the server has worked off what was sent; refusals of it have then been noted."""
        # Never cancelled: see the top of the file.
        settling = self._own(self._flush(client))
        await asyncio.shield(settling)
        if not client.is_connected or client is not self._client:
            raise Disconnected("the connection to NATS broke", is_sent=True)

    async def _flush(self, client: Client) -> None:
        # A client whose flush failed cannot be trusted to read on.
        if not await flush_client(client) and client is self._client:
            self._drop_client()

    # The connection

    async def _open(self, server: Server) -> None:
        """Connect a new client and subscribe it to everything. Raises CannotConnect."""
        lost = asyncio.Event()

        async def subscribe(client: Client) -> None:
            self._refused.clear()
            await client.subscribe(self._requests.subjects, cb=self._requests.receive)
            for served in list(self._served):
                if served in self._served:
                    await served.subscribe(client)

        client = await open_client(
            server,
            self._name,
            self._credentials,
            prepare=subscribe,
            note_error=self._note_error,
            note_end=lost.set,
        )
        if self._refused.has("subscription", self._requests.subjects):
            await close_client(client)
            # Every request would wait for an answer that never comes.
            raise CannotConnect(
                f"NATS at {server} cannot be used: answers to {self._name} may not be heard with these credentials; "
                "are they those of this name?"
            )
        self._remember_servers(client, server)
        self._lost = lost
        self._max_payload = client.max_payload
        self._client = client
        self.problem = None
        self.connected_at = time.monotonic()
        self._found.set()

    def _remember_servers(self, client: Client, named_by: Server) -> None:
        """The servers of a cluster name each other; any of them will do when this one is gone."""
        known = {(server.host, server.port) for server in self._given_servers}
        found = {(uri.hostname, uri.port) for uri in client.discovered_servers if uri.hostname and uri.port} - known
        self._servers = [*self._given_servers, *(named_by.names(host, port) for host, port in found)]
        random.shuffle(self._servers)

    async def _keep_connected(self) -> None:
        was_there = self.is_connected
        while True:
            while self.is_connected:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await self._lost.wait()
                        # Set also by those who only noticed that there is no client.
                        await asyncio.sleep(0)
            self._drop_client()
            if was_there:
                self.problem = "the connection to NATS is lost; connecting again"
                _logger.warning(self.problem)
            for attempt in itertools.count():
                await asyncio.sleep(
                    random.uniform(0.5, 1.0) * min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2 ** min(attempt, 20))
                )
                server = self._servers[attempt % len(self._servers)]
                try:
                    await self._open(server)
                    break
                except (CannotConnect, FleetError) as problem:
                    self.problem = str(problem)
                    if not was_there and not (isinstance(problem, CannotConnect) and problem.is_unreachable):
                        self.refusal = FleetError(self.problem)
                        self._found.set()
                        return
                    level = logging.WARNING if attempt == 4 else logging.DEBUG
                    _logger.log(level, "%s; trying on", problem)
            _logger.info("connected to NATS%s", " again" if was_there else "")
            was_there = True

    def _drop_client(self) -> None:
        client, self._client = self._client, None
        self._lost.set()
        self._requests.fail_all()
        if client is not None:
            self._own(close_client(client))

    def _note_error(self, error: Exception) -> None:
        """What nats-py tells only here. A refused subject fails its requests; the rest is for the log."""
        refusal = self._refused.note(error)
        if refusal is None:
            is_loss = type(error).__name__ == "SlowConsumerError"
            _logger.log(logging.WARNING if is_loss else logging.DEBUG, "NATS: %s", describe(error))
            return
        kind, subject = refusal
        _logger.warning("the credentials do not allow %s to %s", kind, subject)
        if kind == "publish":
            self._requests.refuse(subject)

    def _own(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


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
