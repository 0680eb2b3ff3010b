"""One client's share of the events on an MCP wire.

A subscription that is not read keeps one event of each kind and an offset into each session's output, so it never
grows. Output is coalesced and rate-limited: what a client is too slow for becomes a gap event.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

from mcp_agent.events.output_cursor import OutputCursor
from mcp_agent.events.types import Change, Event, MayHear, ResourceUpdated, SessionExit, SessionOutput, session_uri
from mcp_agent.sessions.output_log import Lost, OutputLog

if TYPE_CHECKING:
    from mcp_agent.events.hub import EventHub

_MOST_PENDING = 256
# What a client on an MCP wire hears of output: this often, this much a second, this much in one notification.
COALESCE_S = 0.1
RATE_BYTES = 256 * 1024
MOST_CHUNK_BYTES = 64 * 1024


class Subscription:
    """One client's pending events: changes oldest first and each once, and session output, coalesced.

    `may_hear` says whether this client may hear of sessions. It is asked each time, because a reload can change that.
    """

    def __init__(self, hub: EventHub, cursor: OutputCursor, may_hear: MayHear) -> None:
        self._hub = hub
        self.cursor = cursor
        self._may_hear = may_hear
        self._pending: dict[Change, None] = {}
        self._answers: deque[bytes] = deque()
        self._woken = asyncio.Event()
        self._allowance = float(RATE_BYTES)
        self._sent_at = 0.0
        self.is_closed = False
        # Whether the client has its stream open.
        self._is_read = False
        cursor.wake = self._woken.set

    def offer(self, event: Change) -> None:
        if len(self._pending) >= _MOST_PENDING and event not in self._pending:
            del self._pending[next(iter(self._pending))]
        self._pending[event] = None
        self._woken.set()

    def put_answer(self, message: bytes) -> None:
        """Send `message` on the same stream as the events, before all of them that wait."""
        self._answers.append(message)
        self._woken.set()

    @property
    def hears_sessions(self) -> bool:
        return self._is_read and self._may_hear()

    @property
    def unsent(self) -> int:
        """How many answers wait for the client to take them."""
        return len(self._answers)

    async def messages(self, encode: Callable[[Event], bytes | None]) -> AsyncGenerator[bytes, None]:
        """Answers as they are, and events as `encode` writes them, until the subscription is closed.

        What is pending then is still given. An event that `encode` gives None for is left out.
        """
        loop = asyncio.get_running_loop()
        self._set_read(is_read=True)
        try:
            while True:
                self._woken.clear()
                while self._answers or self._pending:
                    if self._answers:
                        yield self._answers.popleft()
                        continue
                    change = next(iter(self._pending))
                    del self._pending[change]
                    if (message := encode(change)) is not None:
                        yield message
                if self.cursor.behind and (self.is_closed or loop.time() >= self._sent_at + COALESCE_S):
                    for event in self._due_output(loop.time()):
                        while self._answers:
                            yield self._answers.popleft()
                        if (message := encode(event)) is not None:
                            yield message
                if self.is_closed:
                    return
                if self.cursor.behind:
                    await self._wait_for_output()
                else:
                    await self._woken.wait()
        finally:
            self._set_read(is_read=False)

    async def _wait_for_output(self) -> None:
        """Return when the time has come for output that waits, or an event or an answer is there."""
        due = max(self._sent_at + COALESCE_S, asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout_at(due):
                await self._woken.wait()
        except TimeoutError:
            pass

    def hand_over(self, may_hear: MayHear | None = None) -> Subscription:
        """A new subscription with what is pending here; this one ends without giving it."""
        successor = Subscription(self._hub, self.cursor, may_hear or self._may_hear)
        successor._pending, self._pending = self._pending, {}
        successor._allowance, successor._sent_at = self._allowance, self._sent_at
        successor._woken.set()
        self.cursor = OutputCursor()
        self.close()
        self._hub.add(successor)
        return successor

    def _set_read(self, *, is_read: bool) -> None:
        self._is_read = is_read
        self._hub.on_listener()

    def close(self) -> None:
        self.is_closed = True
        self._woken.set()
        self._hub.forget(self)

    def _due_output(self, now: float) -> list[Event]:
        """What is due now: up to the allowance in whole, the rest left for later or given up with a gap."""
        cursor = self.cursor
        if not self._may_hear():
            cursor.skip_all()
            return []
        self._allowance = min(float(RATE_BYTES), self._allowance + (now - self._sent_at) * RATE_BYTES)
        self._sent_at = now
        events: list[Event] = []
        for log in list(cursor.behind):
            before = len(events)
            self._collect(log, events)
            if len(events) > before:
                events.append(ResourceUpdated(session_uri(log.session_id)))
        return events

    def _collect(self, log: OutputLog, events: list[Event]) -> None:
        cursor = self.cursor
        stop = log.end if log.exit is None else log.exit.offset
        place = cursor.place(log)
        if stop - place > RATE_BYTES + self._allowance:
            # It prints faster than this client may be sent: the newest output is worth most.
            behind = log.piece_at(max(place, stop - MOST_CHUNK_BYTES))
            newest = behind.end if isinstance(behind, Lost) else stop if behind is None else behind.offset
            events.append(self._hub.gap(log.session_id, place, newest))
            place = newest
        while place < stop and self._allowance > 0:
            found = log.piece_at(place)
            if found is None:
                break
            if isinstance(found, Lost):
                events.append(self._hub.gap(log.session_id, place, found.end))
                place = found.end
                continue
            data, offset, stream = [found.data], place, found.stream
            size = len(found.data)
            place = found.end
            while size < MOST_CHUNK_BYTES // 2 and place < stop:
                found = log.piece_at(place)
                if found is None or isinstance(found, Lost) or found.stream != stream:
                    break
                data.append(found.data)
                size += len(found.data)
                place = found.end
            self._allowance -= size
            events.append(SessionOutput(log.session_id, stream, b"".join(data).decode("utf-8", "replace"), offset))
        cursor.move(log, place)
        if place >= stop and log.exit is not None:
            events.append(SessionExit.of(log.session_id, log.exit))
            cursor.drop(log)
