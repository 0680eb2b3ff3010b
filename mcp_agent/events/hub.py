"""The hub: what clients hear without having asked, offered to every one of them at once.

There are two kinds of events. A change ("look again") is kept once by a subscription that has not been read. Session
output stays in its log: each client has a cursor, so publishing copies nothing and a client that sleeps costs nothing.
A client that stops reading delays nobody. It loses only bytes that the spool has let go, and a gap event names them.

A client on an MCP wire has a subscription. An unread subscription is bounded: one event per kind, and one number to
resume after, or an offset for each session if it was read before. Output is coalesced there. Some of these clients put
what they hear before a model: for them it is rate-limited too, and what is too much becomes a gap event.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import aclosing
from functools import partial
from typing import Literal

from mcp_agent.events.output_cursor import AT_ONCE_BYTES, CursorItem, OutputCursor
from mcp_agent.events.types import (
    Announcement,
    Condition,
    Event,
    Gap,
    ResourceUpdated,
    SessionEvent,
    SessionExit,
    SessionOutput,
    ToolsChanged,
    session_uri,
)
from tools.sessions.origin import EndedBy
from tools.sessions.output_log import Exit, OutputLog, PieceSpan

Topic = Literal["tools", "sessions", "approvals"]
# An event as it goes out to one client; None: the client does not hear it.
Encode = Callable[[Event], bytes | None]

_MOST_PENDING = 256
# Output for a client on an MCP wire waits so long for more of it; a rated client gets so much a second; one
# notification has so much.
COALESCE_S = 0.1
RATE_BYTES = 256 * 1024
MOST_CHUNK_BYTES = 64 * 1024


def _never() -> bool:
    return False


def _always() -> bool:
    return True


class EventHub:
    """All subscriptions of this daemon, and the session output that they have cursors in."""

    def __init__(self, boot: str | None = None) -> None:
        self.boot = boot or secrets.token_hex(5)
        self._subscriptions: set[Subscription] = set()
        # The cursors of clients that hear of sessions alone, each with what says whether it may.
        self._cursors: dict[OutputCursor, Condition] = {}
        self._logs: dict[str, OutputLog] = {}
        # The number of the newest event: starts, output and exits of all sessions are counted in one sequence.
        self.last_number = 0
        # Logs whose child waits for a lossless client to read on, each with what resumes it (backpressure).
        self._waiting: dict[OutputLog, Callable[[], None]] = {}
        # Called with what has changed, for observers that then look themselves.
        self._observers: set[Callable[[Topic], None]] = set()
        # Called when a client on an MCP wire has opened or closed its stream.
        self.on_listener: Callable[[], None] = lambda: None
        self.is_closed = False
        # How many gap events there were, and how many bytes they were about.
        self.gaps = 0
        self.gap_bytes = 0

    @property
    def clients(self) -> int:
        return len(self._subscriptions) + len(self._cursors)

    @property
    def followers(self) -> int:
        """How many clients hear of sessions alone."""
        return len(self._cursors)

    @property
    def logs(self) -> tuple[OutputLog, ...]:
        return tuple(self._logs.values())

    @property
    def cursors(self) -> Iterator[OutputCursor]:
        """Those of all clients."""
        for subscription in self._subscriptions:
            yield subscription.cursor
        yield from self._cursors

    def log(self, session_id: str) -> OutputLog | None:
        return self._logs.get(session_id)

    def publish(self, event: Announcement) -> None:
        """Offer a change to every client. Returns at once."""
        if not isinstance(event, ResourceUpdated):
            self._notify_observers("tools")
        for subscription in self._subscriptions:
            subscription.offer(event)
        if isinstance(event, ToolsChanged):
            for cursor, may_hear in self._cursors.items():
                if not may_hear():
                    cursor.revoke()

    def add_log(self, log: OutputLog, offset: int = 0) -> None:
        """Make a session known. Every client gets all of its output, from the byte `offset` on."""
        self._take_number()
        log.publish(self._take_number)
        self._logs[log.session_id] = log
        self._notify_observers("sessions")
        for cursor in self.cursors:
            cursor.add(log, offset)

    def notify_output(self, log: OutputLog) -> None:
        """Wake every client that follows `log`: it has more output, or has ended. Returns at once, copies nothing."""
        for cursor in self.cursors:
            cursor.notify(log)

    def notify_exit(self, log: OutputLog, exit_code: int, signal: str | None, ended_by: EndedBy | None = None) -> None:
        """The leader has ended, and all that it printed is in the log."""
        log.exit = Exit(self._take_number(), log.end, exit_code, signal, ended_by)
        self.notify_output(log)
        self._notify_observers("sessions")

    def drop_log(self, log: OutputLog) -> None:
        """Forget a session: nobody can read it any more."""
        self._logs.pop(log.session_id, None)
        self._waiting.pop(log, None)
        for cursor in self.cursors:
            cursor.drop(log)
        self._notify_observers("sessions")

    def resume(self, cursor: OutputCursor, number: int) -> None:
        """Give `cursor` all that came after the event with `number`, as far as it is stored."""
        for log in self._logs.values():
            if log.exit is None or log.exit.number > number:
                cursor.add(log, log.offset_after(number))

    def begin(self, cursor: OutputCursor) -> None:
        """Let `cursor` follow what came after its `resume_after`, if it has not begun yet."""
        if cursor.resume_after is not None:
            number, cursor.resume_after = cursor.resume_after, None
            self.resume(cursor, number)

    def observe(self, observer: Callable[[Topic], None]) -> None:
        """Call `observer` whenever tools, sessions or approvals are different from before. It must be fast."""
        self._observers.add(observer)

    def announce(self, topic: Topic) -> None:
        """Tell the observers that something of this kind is different."""
        self._notify_observers(topic)

    def unobserve(self, observer: Callable[[Topic], None]) -> None:
        self._observers.discard(observer)

    def subscribe(self, may_hear: Condition = _never, is_rated: Condition = _always) -> Subscription:
        cursor = OutputCursor()
        # Many clients never read: an offset for each session would cost each of them more than all else it has.
        cursor.resume_after = self.last_number
        subscription = Subscription(self, cursor, may_hear, is_rated)
        if self.is_closed:
            subscription.close()
        else:
            self.add(subscription)
        return subscription

    @property
    def listening(self) -> set[OutputCursor]:
        """The cursors of clients on MCP wires with an open stream on which they may hear of sessions."""
        return {subscription.cursor for subscription in self._subscriptions if subscription.hears_sessions}

    def add(self, subscription: Subscription) -> None:
        self._subscriptions.add(subscription)
        subscription.cursor.on_move = self._release

    def forget(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)

    def follow(self, cursor: OutputCursor, may_hear: Condition) -> None:
        """Keep `cursor` up to date without loss: no byte is let go while its client keeps taking."""
        if self.is_closed:
            cursor.close()
        elif not may_hear():
            # It was switched off after the request was admitted.
            cursor.revoke()
        else:
            self._cursors[cursor] = may_hear
            cursor.is_lossless = True
            cursor.on_move = self._release

    def unfollow(self, cursor: OutputCursor) -> None:
        self._cursors.pop(cursor, None)
        self.release_all()

    def release_all(self) -> None:
        """Let every child that waits for a client go on if it need not wait any longer."""
        for release in list(self._waiting.values()):
            release()

    def is_needed(self, log: OutputLog, to: int, release: Callable[[], None]) -> bool:
        """Whether a client that keeps taking has yet to read before `to`. If so, `release` is called when it moves."""
        now = asyncio.get_running_loop().time()
        if any(cursor.is_lossless and cursor.needs(log, to, now) for cursor in self.cursors):
            self._waiting[log] = release
            return True
        self._waiting.pop(log, None)
        return False

    def session_event(self, log: OutputLog, item: CursorItem) -> SessionEvent:
        """The event for what a cursor gives. Bytes that are no longer stored become a gap, which is counted."""
        if isinstance(item, Exit):
            return SessionExit.of(log.session_id, item)
        data = log.data(item) if isinstance(item, PieceSpan) else b""
        if isinstance(item, PieceSpan) and len(data) == item.end - item.offset:
            return SessionOutput(log.session_id, item.stream, data.decode("utf-8", "replace"), item.offset)
        self.gaps += 1
        self.gap_bytes += item.end - item.offset
        return Gap(log.session_id, item.offset, item.end)

    def close(self) -> None:
        """End every stream; the daemon is about to stop."""
        self.is_closed = True
        for subscription in list(self._subscriptions):
            subscription.close()
        for cursor in self._cursors:
            cursor.close()

    def _take_number(self) -> int:
        self.last_number += 1
        return self.last_number

    def _notify_observers(self, topic: Topic) -> None:
        for observer in self._observers:
            observer(topic)

    def _release(self, log: OutputLog) -> None:
        release = self._waiting.get(log)
        if release is not None:
            release()


class Subscription:
    """What one client has yet to hear: changes oldest first and each once, answers, and session output, coalesced.

    `may_hear` says whether this client may hear of sessions; it is asked each time, because a reload can change that.
    `is_rated` says whether its output is rate-limited: a client says who it is when its stream may be open already.
    """

    def __init__(self, hub: EventHub, cursor: OutputCursor, may_hear: Condition, is_rated: Condition) -> None:
        self._hub = hub
        self.cursor = cursor
        self._may_hear = may_hear
        self._is_rated = is_rated
        self._pending: dict[Announcement, None] = {}
        self._answers: deque[bytes] = deque()
        self._woken = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._allowance = float(RATE_BYTES)
        self._sent_at = 0.0
        self.is_closed = False
        # Whether the client has its stream open.
        self._is_read = False
        cursor.wake = self._woken.set

    def offer(self, event: Announcement) -> None:
        if len(self._pending) >= _MOST_PENDING and event not in self._pending:
            del self._pending[next(iter(self._pending))]
        self._pending[event] = None
        self._woken.set()

    def put_answer(self, message: bytes) -> None:
        """Send `message` on the same stream as the events, before all of them that wait."""
        self._answers.append(message)
        self._woken.set()

    def withdraw(self, event: Announcement) -> bool:
        """Withdraw a pending change, because the client learns of it in another way. False if it is not pending."""
        waits = event in self._pending
        self._pending.pop(event, None)
        return waits

    @property
    def hears_sessions(self) -> bool:
        return self._is_read and self._may_hear()

    @property
    def unsent(self) -> int:
        """How many answers wait for the client to take them."""
        return len(self._answers)

    async def stream(self, encode: Encode, first: bytes = b"") -> AsyncGenerator[bytes, None]:
        """`first`, then answers as they are and events as `encode` writes them, until the subscription is closed.

        What is pending then is still given. `encode` gives None for an event that this client does not hear.
        """
        self._hub.begin(self.cursor)
        self._set_read(is_read=True)
        try:
            async with aclosing(
                self.cursor.follow(self._woken, first, partial(self._take, encode), lambda: self.is_closed)
            ) as bodies:
                async for body in bodies:
                    yield body
        finally:
            if self._timer is not None:
                self._timer.cancel()
            self._set_read(is_read=False)

    def hand_over(self, may_hear: Condition | None = None, is_rated: Condition | None = None) -> Subscription:
        """A new subscription with what is pending here; this one ends without giving it."""
        successor = Subscription(self._hub, self.cursor, may_hear or self._may_hear, is_rated or self._is_rated)
        successor._pending, self._pending = self._pending, {}
        successor._answers, self._answers = self._answers, deque()
        successor._allowance, successor._sent_at = self._allowance, self._sent_at
        successor._woken.set()
        self.cursor = OutputCursor()
        self.close()
        self._hub.add(successor)
        return successor

    def close(self) -> None:
        self.is_closed = True
        self._woken.set()
        self._hub.forget(self)

    def _set_read(self, *, is_read: bool) -> None:
        self._is_read = is_read
        self.cursor.is_lossless = is_read and not self._is_rated()
        self._hub.on_listener()
        self._hub.release_all()

    def _take(self, encode: Encode) -> list[bytes]:
        """What is sent next: answers before changes, and both before output."""
        taken: list[bytes] = []
        size = 0
        while self._answers and size < AT_ONCE_BYTES:
            taken.append(self._answers.popleft())
            size += len(taken[-1])
        if taken:
            return taken
        events: list[Event] = list(self._pending) or self._due_output(asyncio.get_running_loop().time())
        self._pending.clear()
        return [frame for event in events if (frame := encode(event)) is not None]

    def _due_output(self, now: float) -> list[Event]:
        """The output that is due now, and none while more of it is waited for, or before the allowance permits it."""
        if not self.cursor.behind:
            return []
        if not self._may_hear():
            self.cursor.skip_all()
            return []
        self.cursor.is_lossless = self._is_read and not self._is_rated()
        is_flood = self.cursor.is_lossless and self.cursor.has_waiting(MOST_CHUNK_BYTES)
        events: list[Event] = []
        if self.is_closed or is_flood or now >= self._sent_at + COALESCE_S:
            self._allowance = min(float(RATE_BYTES), self._allowance + (now - self._sent_at) * RATE_BYTES)
            self._sent_at = now
            events = self._next_events()
        if not events and self.cursor.behind:
            self._timer = asyncio.get_running_loop().call_later(
                max(0.0, self._sent_at + COALESCE_S - now), self._woken.set
            )
        return events

    def _next_events(self) -> list[Event]:
        """As much output as the client may have at once; for a rated one, what is too much is left out with a gap."""
        found: dict[OutputLog, list[SessionEvent]] = defaultdict(list)
        # The last events of a stream are exits, which must not wait for an allowance.
        most_bytes = float(RATE_BYTES) if self.is_closed else self._allowance
        if self.cursor.is_lossless:
            most_bytes = AT_ONCE_BYTES
        else:
            for log in list(self.cursor.behind):
                lost = self.cursor.skip_old(log, RATE_BYTES + most_bytes, MOST_CHUNK_BYTES)
                if lost is not None:
                    found[log].append(self._hub.session_event(log, lost))
        for log, item in self.cursor.take(most_bytes):
            found[log].append(self._hub.session_event(log, item))
            if isinstance(item, PieceSpan):
                self._allowance -= item.end - item.offset
        return [
            event
            for log, events in found.items()
            for event in (*_coalesce(events), ResourceUpdated(session_uri(log.session_id)))
        ]


def _coalesce(events: Iterable[SessionEvent]) -> Iterator[SessionEvent]:
    """The events of one session, with small chunks of one stream in a row joined to larger ones."""
    joined: list[SessionOutput] = []
    size = 0
    for event in events:
        output = event if isinstance(event, SessionOutput) else None
        is_next = joined and output and output.stream == joined[0].stream and size < MOST_CHUNK_BYTES // 2
        if joined and not is_next:
            yield joined[0]._replace(chunk="".join(each.chunk for each in joined))
            joined, size = [], 0
        if output is None:
            yield event
        else:
            joined.append(output)
            size += len(output.chunk)
    if joined:
        yield joined[0]._replace(chunk="".join(each.chunk for each in joined))
