"""/events: the output of sessions as named server-sent events, without loss to a client that keeps taking.

GET /events                             every session, from now on
GET /events?session_id=ID&since=OFFSET  one session, from a byte of its output on; negative counts from the end
Last-Event-ID: boot.number              what came after that event, from the spool
"""

from __future__ import annotations

import asyncio
import urllib.parse
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

from msgspec import Struct
from starlette.types import Receive, Scope, Send

from mcp_agent.events.hub import EventHub
from mcp_agent.events.output_cursor import OutputCursor
from mcp_agent.events.output_frames import OutputFrames, gap_frame
from mcp_agent.events.types import Condition
from mcp_agent.transports.http import caller, header, send_error
from mcp_agent.transports.sse_frames import KEEP_ALIVE_S, send_frames
from registry.gate import Access, Gate

MOST_CLIENTS = 256

CONNECTED_FRAME = b": connected\n\n"
RESUMED_FRAME = b": resumed\n\n"


class StreamRefused(Exception):
    """A request that gets an answer with this status instead of a stream."""

    def __init__(self, status: int, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.hint = status, message, hint


class AskedEvents(Struct, frozen=True):
    """What a client asked for. `since` comes only with a session, and `last_id` is that of the last event it heard."""

    session_id: str | None
    since: int | None
    box: str | None
    last_id: str | None


class EventsWire(ABC):
    """The ASGI application behind /events: who may hear, and what is asked for. Subclasses know what there is."""

    parameters: tuple[str, ...] = ("session_id", "since")
    # An id is the id of a start of the daemon and a number of an event.
    most_id_bytes = 64

    def __init__(self, hub: EventHub, gate: Gate, keep_alive_s: float = KEEP_ALIVE_S) -> None:
        self._hub = hub
        self._gate = gate
        self._keep_alive_s = keep_alive_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await send_error(send, 405, "use GET here", headers={"allow": "GET"})
            return
        who = caller(scope, "events")
        access = who.access

        def may_hear() -> bool:
            return self._may_hear(access)

        try:
            if not may_hear():
                raise StreamRefused(403, "the shell tools are switched off for this token")
            if self._hub.followers >= MOST_CLIENTS:
                raise StreamRefused(503, f"{MOST_CLIENTS} clients are connected, and that is as many as there may be")
            async with self._open(self._read_query(scope), may_hear) as frames:
                scope["state"]["listener"] = lambda: who
                await send_frames(frames, scope, receive, send, keep_alive_s=self._keep_alive_s)
        except StreamRefused as error:
            await send_error(send, error.status, error.message, error.hint)

    @abstractmethod
    def _open(
        self, asked: AskedEvents, may_hear: Condition
    ) -> AbstractAsyncContextManager[AsyncGenerator[bytes, None]]:
        """The frames of one client, for as long as it is connected. Raises StreamRefused before there are any."""

    def _may_hear(self, access: Access) -> bool:
        return self._gate.offers(access, "shell")

    def _read_query(self, scope: Scope) -> AskedEvents:
        query = urllib.parse.parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        unknown = set(query) - set(self.parameters)
        if unknown:
            known = f"{', '.join(self.parameters[:-1])} and {self.parameters[-1]} are"
            raise StreamRefused(400, f"there is no parameter {min(unknown)[:60]!r}", known)
        session_id = query["session_id"][-1] if "session_id" in query else None
        since = _offset(query["since"][-1]) if "since" in query else None
        if since is not None and session_id is None:
            raise StreamRefused(400, "since counts the bytes of one session: pass session_id too")
        last = header(scope, b"last-event-id")
        if last and len(last) > self.most_id_bytes:
            raise StreamRefused(400, f"Last-Event-ID has {len(last)} characters, and no id of ours has so many")
        box = query["box"][-1] if "box" in query else None
        return AskedEvents(session_id, since, box, last.decode("latin-1") if last else None)


class Events(EventsWire):
    """The sessions of this daemon."""

    def __init__(self, hub: EventHub, gate: Gate, keep_alive_s: float = KEEP_ALIVE_S) -> None:
        super().__init__(hub, gate, keep_alive_s)
        self._frames = OutputFrames(hub.session_event)
        self._id_line = f"id: {hub.boot}.".encode() + b"%d\n"

    @asynccontextmanager
    async def _open(self, asked: AskedEvents, may_hear: Condition) -> AsyncGenerator[AsyncGenerator[bytes, None], None]:
        cursor, first = self._cursor(asked)
        woken = asyncio.Event()
        cursor.wake = woken.set
        # In the same step as the cursor: a session can print and exit before the stream has begun.
        self._hub.follow(cursor, may_hear)
        try:
            yield cursor.follow(woken, first, partial(self._frames.take, cursor, self._id_line))
        finally:
            self._hub.unfollow(cursor)
            if not self._hub.followers:
                self._frames.clear()

    def _cursor(self, asked: AskedEvents) -> tuple[OutputCursor, bytes]:
        """Where the client begins, and the first frame, which comes before all output."""
        session_id, since = asked.session_id, asked.since
        cursor = OutputCursor(None if session_id is None else (session_id,))
        if session_id is not None and self._hub.log(session_id) is None and asked.last_id is None:
            raise no_session(session_id, [log.session_id for log in self._hub.logs])
        if asked.last_id:
            return cursor, self._resume(cursor, asked.last_id)
        for log in self._hub.logs:
            if since is not None:
                cursor.add(log, log.absolute(since))
            elif log.exit is None or session_id is not None:
                cursor.add(log, log.end)
        return cursor, CONNECTED_FRAME

    def _resume(self, cursor: OutputCursor, last: str) -> bytes:
        boot, _, text = last.partition(".")
        if boot != self._hub.boot or not text.isdecimal():
            # An id of another start of the daemon: those sessions are gone, and of these the client has seen nothing.
            self._hub.resume(cursor, 0)
            self._hub.gaps += 1
            return gap_frame("the daemon has been restarted; the output of its earlier sessions is gone")
        self._hub.resume(cursor, int(text))
        return RESUMED_FRAME


def no_session(session_id: str, known: list[str]) -> StreamRefused:
    listed = ", ".join(known)
    hint = f"there are: {listed}" if listed else "no session is running, and none has ended in the last hour"
    return StreamRefused(404, f"there is no session {session_id[:60]!r}", hint)


def _offset(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise StreamRefused(400, f"since is {text[:40]!r} and must be a whole number") from None
