"""The hub: what clients hear without having asked, offered to every one of them at once.

There are two kinds of events. A change ("look again") is kept once by a subscription that has not been read. Session
output stays in its log: each client has a cursor, so publishing copies nothing and a client that sleeps costs nothing.
A client that stops reading delays nobody. It loses only bytes that the spool has let go, and a gap event names them.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from typing import Literal

from mcp_agent.events.output_cursor import OutputCursor
from mcp_agent.events.subscription import Subscription
from mcp_agent.events.types import Change, Gap, MayHear, ResourceUpdated, ToolsChanged
from mcp_agent.sessions.output_log import Exit, OutputLog
from tools.context import EndedBy

Topic = Literal["tools", "sessions"]


def _never() -> bool:
    return False


class EventHub:
    """All subscriptions of this daemon, and the session output that they have cursors in."""

    def __init__(self, boot: str | None = None) -> None:
        self.boot = boot or secrets.token_hex(5)
        self._subscriptions: set[Subscription] = set()
        # The cursors of /events, each with the question whether its client may hear of sessions.
        self._cursors: dict[OutputCursor, MayHear] = {}
        self._logs: dict[str, OutputLog] = {}
        # The number of the newest event: starts, output and exits of all sessions are counted in one sequence.
        self.last_number = 0
        # Logs whose child waits for a lossless client to read on, each with what resumes it (backpressure).
        self._waiting: dict[OutputLog, Callable[[], None]] = {}
        # Called with what is different now, for those who look again by themselves.
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
    def lossless_clients(self) -> int:
        return len(self._cursors)

    @property
    def logs(self) -> tuple[OutputLog, ...]:
        return tuple(self._logs.values())

    def log(self, session_id: str) -> OutputLog | None:
        return self._logs.get(session_id)

    def publish(self, event: Change) -> None:
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
        for cursor in self._all_cursors():
            cursor.add(log, offset)

    def notify_output(self, log: OutputLog) -> None:
        """Wake every client that follows `log`: it has more output, or has ended. Returns at once, copies nothing."""
        for cursor in self._all_cursors():
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
        for cursor in self._all_cursors():
            cursor.drop(log)
        self._notify_observers("sessions")

    def resume(self, cursor: OutputCursor, number: int) -> None:
        """Give `cursor` all that came after the event with `number`, as far as it is stored."""
        for log in self._logs.values():
            if log.exit is None or log.exit.number > number:
                cursor.add(log, log.offset_after(number))

    def observe(self, observer: Callable[[Topic], None]) -> None:
        """Call `observer` whenever tools or sessions are different from before. It must be fast."""
        self._observers.add(observer)

    def unobserve(self, observer: Callable[[Topic], None]) -> None:
        self._observers.discard(observer)

    def subscribe(self, may_hear: MayHear = _never) -> Subscription:
        cursor = OutputCursor()
        for log in self._logs.values():
            if log.exit is None:
                cursor.add(log, log.end)
        subscription = Subscription(self, cursor, may_hear)
        if self.is_closed:
            subscription.close()
        else:
            self.add(subscription)
        return subscription

    @property
    def has_listeners(self) -> bool:
        """Whether a client on an MCP wire has an open stream on which it may hear of sessions."""
        return any(subscription.hears_sessions for subscription in self._subscriptions)

    def add(self, subscription: Subscription) -> None:
        self._subscriptions.add(subscription)

    def forget(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)

    def follow(self, cursor: OutputCursor, may_hear: MayHear) -> None:
        """Keep `cursor` up to date without loss: no byte is let go while its client keeps taking."""
        if self.is_closed:
            cursor.close()
        elif not may_hear():
            # It was switched off after the request was admitted.
            cursor.revoke()
        else:
            self._cursors[cursor] = may_hear
            cursor.on_move = self._release

    def unfollow(self, cursor: OutputCursor) -> None:
        self._cursors.pop(cursor, None)
        for release in list(self._waiting.values()):
            release()

    def is_needed(self, log: OutputLog, to: int, release: Callable[[], None]) -> bool:
        """Whether a client that keeps taking has yet to read before `to`. If so, `release` is called when it moves."""
        now = asyncio.get_running_loop().time()
        if any(cursor.needs(log, to, now) for cursor in self._cursors):
            self._waiting[log] = release
            return True
        self._waiting.pop(log, None)
        return False

    def gap(self, session_id: str, offset: int, next_offset: int) -> Gap:
        """The event for a client that does not get these bytes."""
        self.gaps += 1
        self.gap_bytes += next_offset - offset
        return Gap(session_id, offset, next_offset)

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

    def _all_cursors(self) -> Iterator[OutputCursor]:
        for subscription in self._subscriptions:
            yield subscription.cursor
        yield from self._cursors

    def _release(self, log: OutputLog) -> None:
        release = self._waiting.get(log)
        if release is not None:
            release()
