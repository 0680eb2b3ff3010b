"""What clients hear without having asked: typed events, offered to every subscription at once.

Two kinds. "This is different now, look again": a subscription that has not been read keeps one of each and never
grows. And the output of sessions: a subscription has a place in the output of each, and the bytes stay where they
are, so publishing copies nothing and a client that sleeps costs nothing. A client that stops reading costs nobody's
time; only what the spool has let go by then is lost to it, and a gap event says which bytes.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

from mcp_agent.events.output_cursor import Reader
from mcp_agent.sessions.output_log import Exit, Lost, OutputLog, Stream
from tools.kit.records import record

_MOST_PENDING = 256
# What a client on an MCP wire hears of output: this often, this much a second, this much in one notification.
COALESCE_S = 0.1
RATE_BYTES = 256 * 1024
MOST_CHUNK_BYTES = 64 * 1024


@record
class ToolsChanged:
    """Some caller's list of tools is not what it was."""


@record
class ResourceUpdated:
    """The resource at `uri` reads differently now."""

    uri: str


@record
class Notice:
    """Something a person should know, for clients that show log messages."""

    level: str
    text: str

    def as_object(self) -> dict[str, Any]:
        return {"level": self.level, "logger": "mcp-agent", "data": self.text}


@record
class SessionOutput:
    """A session has printed `chunk`, which begins at the byte `offset` of its output."""

    session_id: str
    stream: Stream
    chunk: str
    offset: int

    name = "shell_session_output"

    def as_object(self) -> dict[str, Any]:
        return {
            "type": self.name,
            "session_id": self.session_id,
            "stream": self.stream,
            "chunk": self.chunk,
            "offset": self.offset,
        }


@record
class SessionExit:
    """A session is over; all that its leader printed has been told before."""

    session_id: str
    exit_code: int
    signal: str | None

    name = "shell_session_exit"

    @classmethod
    def of(cls, session_id: str, exited: Exit) -> SessionExit:
        return cls(session_id, exited.exit_code, exited.signal)

    def as_object(self) -> dict[str, Any]:
        told: dict[str, Any] = {"type": self.name, "session_id": self.session_id, "exit_code": self.exit_code}
        if self.signal is not None:
            told["signal"] = self.signal
        return told


@record
class Gap:
    """This client does not get these bytes of a session's output. They may still be in the spool."""

    session_id: str
    offset: int
    next_offset: int

    name = "gap"

    def as_object(self) -> dict[str, Any]:
        return {
            "type": self.name,
            "session_id": self.session_id,
            "offset": self.offset,
            "next_offset": self.next_offset,
            "lost_bytes": self.next_offset - self.offset,
        }


SessionEvent = SessionOutput | SessionExit | Gap
Event = ToolsChanged | ResourceUpdated | Notice | SessionEvent
Level = ToolsChanged | ResourceUpdated | Notice
MayHear = Callable[[], bool]


def session_uri(session_id: str) -> str:
    return f"session://{session_id}"


def _never() -> bool:
    return False


class Subscription:
    """One client's pending events. What changed comes oldest first, no event twice; output comes coalesced.

    `may_hear` says whether this client may hear of sessions, asked anew each time: a reload can take that away.
    """

    def __init__(self, hub: EventHub, reader: Reader, may_hear: MayHear) -> None:
        self._hub = hub
        self.reader = reader
        self._may_hear = may_hear
        self._pending: dict[Level, None] = {}
        self._answers: deque[bytes] = deque()
        self._woken = asyncio.Event()
        self._allowance = float(RATE_BYTES)
        self._told_at = 0.0
        self.is_closed = False
        reader.woken = self._woken.set

    def offer(self, event: Level) -> None:
        if len(self._pending) >= _MOST_PENDING and event not in self._pending:
            del self._pending[next(iter(self._pending))]
        self._pending[event] = None
        self._woken.set()

    def answer(self, message: bytes) -> None:
        """Send `message` on the same stream as the events, before all of them that wait."""
        self._answers.append(message)
        self._woken.set()

    @property
    def unsent(self) -> int:
        """How many answers wait for the client to take them."""
        return len(self._answers)

    async def messages(self, written: Callable[[Event], bytes | None]) -> AsyncGenerator[bytes, None]:
        """Answers as they are, and events as `written` writes them, until the subscription is closed.

        What was pending then is still given. An event that `written` makes nothing of is passed over.
        """
        loop = asyncio.get_running_loop()
        while True:
            self._woken.clear()
            while self._answers or self._pending:
                if self._answers:
                    yield self._answers.popleft()
                    continue
                event = next(iter(self._pending))
                del self._pending[event]
                if (message := written(event)) is not None:
                    yield message
            if self.reader.is_behind and (self.is_closed or loop.time() >= self._told_at + COALESCE_S):
                for told in self._output(loop.time()):
                    while self._answers:
                        yield self._answers.popleft()
                    if (message := written(told)) is not None:
                        yield message
            if self.is_closed:
                return
            await self._something_to_tell()

    async def _something_to_tell(self) -> None:
        """Return when an event or an answer is there, or the time has come for output that waits."""
        if not self.reader.is_behind:
            await self._woken.wait()
            return
        due = max(self._told_at + COALESCE_S, asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout_at(due):
                await self._woken.wait()
        except TimeoutError:
            pass

    def handed_over(self, may_hear: MayHear | None = None) -> Subscription:
        """A new subscription with what is pending here; this one ends without giving it."""
        successor = Subscription(self._hub, self.reader, may_hear or self._may_hear)
        successor._pending, self._pending = self._pending, {}
        successor._allowance, successor._told_at = self._allowance, self._told_at
        successor._woken.set()
        self.reader = Reader()
        self.close()
        self._hub.add(successor)
        return successor

    def close(self) -> None:
        self.is_closed = True
        self._woken.set()
        self._hub.forget(self)

    def _output(self, now: float) -> list[Event]:
        """What is due now: up to the allowance in whole, the rest left for later or given up with a gap."""
        reader = self.reader
        if not self._may_hear():
            reader.skip_all()
            return []
        self._allowance = min(float(RATE_BYTES), self._allowance + (now - self._told_at) * RATE_BYTES)
        self._told_at = now
        told: list[Event] = []
        for log in reader.behind():
            before = len(told)
            self._tell(log, told)
            if len(told) > before:
                told.append(ResourceUpdated(session_uri(log.session_id)))
        return told

    def _tell(self, log: OutputLog, told: list[Event]) -> None:
        reader = self.reader
        stop = log.end if log.exit is None else log.exit.offset
        place = reader.place(log)
        if stop - place > RATE_BYTES + self._allowance:
            # It prints faster than it may be told: what is newest is worth most.
            behind = log.at(max(place, stop - MOST_CHUNK_BYTES))
            newest = behind.end if isinstance(behind, Lost) else stop if behind is None else behind.offset
            told.append(self._hub.gap(log.session_id, place, newest))
            place = newest
        while place < stop and self._allowance > 0:
            found = log.at(place)
            if found is None:
                break
            if isinstance(found, Lost):
                told.append(self._hub.gap(log.session_id, place, found.end))
                place = found.end
                continue
            data, offset, stream = [found.data], place, found.stream
            size = len(found.data)
            place = found.end
            while size < MOST_CHUNK_BYTES // 2 and place < stop:
                found = log.at(place)
                if found is None or isinstance(found, Lost) or found.stream != stream:
                    break
                data.append(found.data)
                size += len(found.data)
                place = found.end
            self._allowance -= size
            told.append(SessionOutput(log.session_id, stream, b"".join(data).decode("utf-8", "replace"), offset))
        reader.move(log, place)
        if place >= stop and log.exit is not None:
            told.append(SessionExit.of(log.session_id, log.exit))
            reader.drop(log)


class EventHub:
    """All subscriptions of this daemon, and the output that they have places in."""

    def __init__(self, boot: str | None = None) -> None:
        self.boot = boot or secrets.token_hex(5)
        self._subscriptions: set[Subscription] = set()
        self._readers: set[Reader] = set()
        self._logs: dict[str, OutputLog] = {}
        self._number = 0
        self._waiting: dict[OutputLog, Callable[[], None]] = {}
        self.is_closed = False
        # How often clients had to be told that they missed something, and how many bytes that were.
        self.gaps = 0
        self.gap_bytes = 0

    @property
    def count(self) -> int:
        return len(self._subscriptions) + len(self._readers)

    @property
    def readers(self) -> int:
        """How many clients read output without loss."""
        return len(self._readers)

    def subscribe(self, may_hear: MayHear = _never) -> Subscription:
        reader = Reader()
        for log in self._logs.values():
            if log.exit is None:
                reader.add(log, log.end)
        subscription = Subscription(self, reader, may_hear)
        if self.is_closed:
            subscription.close()
        else:
            self.add(subscription)
        return subscription

    def add(self, subscription: Subscription) -> None:
        self._subscriptions.add(subscription)

    def follow(self, reader: Reader) -> None:
        """Keep `reader` up to date; for it alone, no byte is let go while it keeps taking."""
        if self.is_closed:
            reader.close()
        else:
            self._readers.add(reader)
            reader.moved = self._moved

    def unfollow(self, reader: Reader) -> None:
        self._readers.discard(reader)
        for release in list(self._waiting.values()):
            release()

    def publish(self, event: Level) -> None:
        """Offer an event to every client. Returns at once."""
        for subscription in self._subscriptions:
            subscription.offer(event)
        if isinstance(event, ToolsChanged):
            for reader in self._readers:
                reader.wake()

    def started(self, log: OutputLog) -> None:
        """A session has begun, or has become one that clients hear of: they are told all of its output."""
        log.publish(self._next_number)
        self._logs[log.session_id] = log
        for reader in self._all_readers():
            reader.add(log, 0)
        if log.end:
            self.stirred(log)

    def stirred(self, log: OutputLog) -> None:
        """A session has printed something, or has ended. Returns at once, and copies nothing."""
        for reader in self._all_readers():
            reader.stir(log)

    def exited(self, log: OutputLog, exit_code: int, signal: str | None) -> None:
        """A session's leader has ended, and what it printed is in the log."""
        log.exit = Exit(self._next_number(), log.end, exit_code, signal)
        self.stirred(log)

    def dropped(self, log: OutputLog) -> None:
        """A session is forgotten; nobody can read it any more."""
        self._logs.pop(log.session_id, None)
        self._waiting.pop(log, None)
        for reader in self._all_readers():
            reader.drop(log)

    def log(self, session_id: str) -> OutputLog | None:
        return self._logs.get(session_id)

    @property
    def logs(self) -> tuple[OutputLog, ...]:
        return tuple(self._logs.values())

    def is_needed(self, log: OutputLog, to: int, release: Callable[[], None]) -> bool:
        """Whether a client that keeps taking has yet to read before `to`. If so, `release` is called when it moves."""
        now = asyncio.get_running_loop().time()
        if any(reader.needs(log, to, now) for reader in self._readers):
            self._waiting[log] = release
            return True
        self._waiting.pop(log, None)
        return False

    def gap(self, session_id: str, offset: int, next_offset: int) -> Gap:
        """What a client is told that does not get these bytes."""
        self.gaps += 1
        self.gap_bytes += next_offset - offset
        return Gap(session_id, offset, next_offset)

    def forget(self, subscription: Subscription) -> None:
        self._subscriptions.discard(subscription)

    def close(self) -> None:
        """End every stream; the daemon is about to stop."""
        self.is_closed = True
        for subscription in list(self._subscriptions):
            subscription.close()
        for reader in self._readers:
            reader.close()

    def _all_readers(self) -> Iterator[Reader]:
        for subscription in self._subscriptions:
            yield subscription.reader
        yield from self._readers

    def _moved(self, log: OutputLog) -> None:
        release = self._waiting.get(log)
        if release is not None:
            release()

    def _next_number(self) -> int:
        self._number += 1
        return self._number
