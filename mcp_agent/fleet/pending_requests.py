"""The requests of a bus that wait for their answer."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from msgspec import Struct

from mcp_agent.fleet.bus_errors import BusError, Disconnected, NoResponders, NotPermitted, TimedOut

if TYPE_CHECKING:
    from nats.aio.msg import Msg

_NO_RESPONDERS = "503"


class _Request(Struct, eq=False):
    subject: str
    answer: asyncio.Future[bytes]
    timer: asyncio.TimerHandle

    def fail(self, error: BusError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class PendingRequests:
    """They are known by the subject that their answer comes on; `inbox` is the beginning of all of these."""

    def __init__(self, inbox: str) -> None:
        self.subjects = f"{inbox}.*"
        self._inbox = inbox
        self._numbers = itertools.count()
        self._requests: dict[str, _Request] = {}
        self._loop = asyncio.get_running_loop()

    def add(self, subject: str, timeout_s: float) -> tuple[str, asyncio.Future[bytes]]:
        """Where the answer to a new request is to be sent, and what it comes to. `remove` is called in any case."""
        loop = self._loop
        reply = f"{self._inbox}.{next(self._numbers):x}"
        answer: asyncio.Future[bytes] = loop.create_future()
        late = TimedOut(f"no answer on {subject} within {timeout_s:g} s")
        self._requests[reply] = _Request(subject, answer, loop.call_later(timeout_s, self._fail, reply, late))
        return reply, answer

    def remove(self, reply: str) -> None:
        request = self._requests.pop(reply)
        request.timer.cancel()
        answer = request.answer
        # Of no interest any more, and an error would be logged if nobody had looked at it.
        if not answer.cancel() and not answer.cancelled():
            answer.exception()

    async def receive(self, message: Msg) -> None:
        """A message on one of `subjects`."""
        request = self._requests.get(message.subject)
        if request is None or request.answer.done():
            return
        if not message.data and message.headers and message.headers.get("Status") == _NO_RESPONDERS:
            request.fail(NoResponders(f"nobody serves {request.subject}"))
        else:
            request.answer.set_result(message.data)

    def fail_all(self) -> None:
        """The connection is lost."""
        for request in self._requests.values():
            request.fail(
                Disconnected(f"the connection to NATS broke before {request.subject} was answered", is_sent=True)
            )

    def refuse(self, subject: str) -> None:
        """The server does not let us publish on a subject; it tells us in lower case."""
        for request in self._requests.values():
            if request.subject.lower() == subject:
                request.fail(NotPermitted(f"the credentials do not allow to publish to {request.subject}"))

    def _fail(self, reply: str, error: BusError) -> None:
        self._requests[reply].fail(error)
