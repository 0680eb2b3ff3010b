"""A subject whose messages are served, and the messages.

nats-py runs the callbacks of a subscription one at a time; here messages are served side by side, up to a bound.
Its `Msg.respond` sends the headers of the request back; a message here has no headers.

The server lets us answer wherever a request asks for its answer, also on subjects that we may not publish on. Only an
inbox is answered: nobody makes us send something elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mcp_agent.fleet.bus_errors import BusError

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

_logger = logging.getLogger(__name__)

# What the prefix of every inbox begins with.
INBOX = "_INBOX."
# How many messages of one subscription are served side by side; more wait in the client, and beyond its limit are lost.
_SERVED_AT_ONCE = 1_024
_WAITING_MESSAGES = 65_536
_WAITING_BYTES = 64 * 1024 * 1024

Publish = Callable[[str, bytes], Awaitable[None]]


class Message(Struct, frozen=True):
    """What arrived on a subject."""

    subject: str
    data: bytes
    reply: str
    _publish: Publish

    async def respond(self, payload: bytes) -> None:
        """Answer a request; what was only published has nobody to answer. The errors are those of `Bus.publish`."""
        if self.reply:
            await self._publish(self.reply, payload)


Serve = Callable[[Message], Awaitable[None]]


class ServedSubject:
    """A subscription that outlives the connections. `own` makes the task of a message that is served."""

    def __init__(
        self,
        subject: str,
        serve: Serve,
        publish: Publish,
        own: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._subject = subject
        self._serve = serve
        self._publish = publish
        self._own = own
        self._places = asyncio.Semaphore(_SERVED_AT_ONCE)
        self._current: Subscription | None = None

    async def subscribe(self, client: Client) -> None:
        self._current = await client.subscribe(
            self._subject, cb=self._receive, pending_msgs_limit=_WAITING_MESSAGES, pending_bytes_limit=_WAITING_BYTES
        )

    async def unsubscribe(self) -> None:
        from nats.errors import Error

        if self._current is not None:
            # The connection may be gone, and the subscription with it.
            with contextlib.suppress(Error):
                await self._current.unsubscribe()

    async def _receive(self, message: Msg) -> None:
        reply = message.reply if message.reply.startswith(INBOX) else ""
        await self._places.acquire()
        task = self._own(self._answer(Message(message.subject, message.data, reply, self._publish)))
        task.add_done_callback(lambda _: self._places.release())

    async def _answer(self, message: Message) -> None:
        try:
            await self._serve(message)
        except BusError as error:
            _logger.info("a message on %s was not answered: %s", message.subject, error)
        except Exception:
            _logger.exception("a message on %s could not be served", message.subject)
