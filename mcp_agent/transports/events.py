"""/events: the output of sessions as named server-sent events, without loss to a client that keeps taking.

    GET /events                             every session, from now on
    GET /events?session_id=ID&since=OFFSET  one session, from a byte of its output on; negative counts from the end
    Last-Event-ID: boot.number              what came after that event, from the spool

Each chunk is encoded once for all clients that are at the same place.
"""

from __future__ import annotations

import asyncio
import urllib.parse
from collections.abc import AsyncGenerator

import orjson
from starlette.types import Receive, Scope, Send

from mcp_agent.events.hub import EventHub
from mcp_agent.events.output_cursor import Item, OutputCursor
from mcp_agent.events.types import Event, Gap, SessionExit, SessionOutput
from mcp_agent.sessions.output_log import Exit, Lost, Mark, OutputLog
from mcp_agent.transports.http import caller, header, send_error
from mcp_agent.transports.sse_frames import KEEP_ALIVE_S, send_frames
from registry.gate import Gate

MOST_CLIENTS = 256
_AT_ONCE_BYTES = 128 * 1024
_FRAMES_BYTES = 4 * 1024 * 1024
# What a frame in memory costs besides its bytes.
_ENTRY_BYTES = 400
# An id is the id of a start of the daemon and a number of an event.
_MOST_ID_BYTES = 64


class _BadRequest(Exception):
    def __init__(self, status: int, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.hint = status, message, hint


class Events:
    """The ASGI application behind /events."""

    def __init__(self, hub: EventHub, gate: Gate, keep_alive_s: float = KEEP_ALIVE_S) -> None:
        self._hub = hub
        self._gate = gate
        self._keep_alive_s = keep_alive_s
        self._frames = _Frames(hub)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await send_error(send, 405, "use GET here", headers={"allow": "GET"})
            return
        who = caller(scope, "events")
        access = who.access

        def may_hear() -> bool:
            return self._gate.offers(access, "shell")

        try:
            if not may_hear():
                raise _BadRequest(403, "the shell tools are switched off for this token")
            if self._hub.lossless_clients >= MOST_CLIENTS:
                raise _BadRequest(503, f"{MOST_CLIENTS} clients are connected, and that is as many as there may be")
            cursor, first = self._cursor(scope)
        except _BadRequest as error:
            await send_error(send, error.status, error.message, error.hint)
            return
        scope["state"]["listener"] = lambda: who
        woken = asyncio.Event()
        cursor.wake = woken.set
        # In the same step as the cursor: a session can print and exit before the stream has begun.
        self._hub.follow(cursor, may_hear)
        try:
            frames = self._output(cursor, first, woken)
            await send_frames(frames, scope, receive, send, keep_alive_s=self._keep_alive_s)
        finally:
            self._hub.unfollow(cursor)
            if not self._hub.lossless_clients:
                self._frames.clear()

    async def _output(self, cursor: OutputCursor, first: bytes, woken: asyncio.Event) -> AsyncGenerator[bytes, None]:
        """Give `first`, then output as it comes, several events at a time. `woken` is set when there is more."""
        now = asyncio.get_running_loop().time
        yield first
        while True:
            woken.clear()
            frames: list[bytes] = []
            for log, item in cursor.take(_AT_ONCE_BYTES):
                frames.append(self._frames.frame(log, item))
            if frames:
                body = b"".join(frames)
                yield body
                cursor.count_taken(len(body), now())
            elif cursor.is_closed:
                return
            else:
                cursor.note_caught_up(now())
                await woken.wait()
                cursor.note_caught_up(now())

    def _cursor(self, scope: Scope) -> tuple[OutputCursor, bytes]:
        """Where the client begins, and the first frame, which comes before all output."""
        query = urllib.parse.parse_qs(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        unknown = set(query) - {"session_id", "since"}
        if unknown:
            raise _BadRequest(400, f"there is no parameter {min(unknown)[:60]!r}", "session_id and since are")
        session_id = query["session_id"][-1] if "session_id" in query else None
        since = _offset(query["since"][-1]) if "since" in query else None
        if since is not None and session_id is None:
            raise _BadRequest(400, "since counts the bytes of one session: pass session_id too")
        last = header(scope, b"last-event-id")
        cursor = OutputCursor(None if session_id is None else (session_id,))
        if session_id is not None and self._hub.log(session_id) is None and last is None:
            known = ", ".join(log.session_id for log in self._hub.logs)
            hint = f"there are: {known}" if known else "no session is running, and none has ended in the last hour"
            raise _BadRequest(404, f"there is no session {session_id[:60]!r}", hint)
        if last and len(last) > _MOST_ID_BYTES:
            raise _BadRequest(400, f"Last-Event-ID has {len(last)} characters, and no id of ours has so many")
        if last:
            return cursor, self._resume(cursor, last.decode("latin-1"))
        for log in self._hub.logs:
            if since is not None:
                cursor.add(log, min(since if since >= 0 else max(0, log.end + since), log.end))
            elif log.exit is None or session_id is not None:
                cursor.add(log, log.end)
        return cursor, b": connected\n\n"

    def _resume(self, cursor: OutputCursor, last: str) -> bytes:
        boot, _, text = last.partition(".")
        if boot != self._hub.boot or not text.isdecimal():
            # An id of another start of the daemon: those sessions are gone, and of these the client has seen nothing.
            for log in self._hub.logs:
                cursor.add(log, 0)
            self._hub.gaps += 1
            message = "the daemon has been restarted; the output of its earlier sessions is gone"
            return b"event: gap\ndata: " + orjson.dumps({"type": "gap", "reason": message}) + b"\n\n"
        number = int(text)
        for log in self._hub.logs:
            if log.exit is None or log.exit.number > number:
                cursor.add(log, log.offset_after(number))
        return b": resumed\n\n"


class _Frames:
    """Encoded events of the last few megabytes: the second client that is at the same place gets the same bytes."""

    def __init__(self, hub: EventHub) -> None:
        self._hub = hub
        self._frames: dict[tuple[str, int, int], bytes] = {}
        self._size = 0

    def frame(self, log: OutputLog, item: Item) -> bytes:
        if isinstance(item, Lost):
            return named_frame(self._hub.gap(log.session_id, item.offset, item.end))
        if isinstance(item, Exit):
            return named_frame(SessionExit.of(log.session_id, item), f"{self._hub.boot}.{item.number}")
        # The end too: a client that asked for an offset within a piece is not at the place of another.
        key = log.session_id, item.offset, item.end
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = self._encode(log, item)
            self._size += len(frame) + _ENTRY_BYTES
            while self._size > _FRAMES_BYTES:
                self._size -= len(self._frames.pop(next(iter(self._frames)))) + _ENTRY_BYTES
        return frame

    def clear(self) -> None:
        self._frames.clear()
        self._size = 0

    def _encode(self, log: OutputLog, mark: Mark) -> bytes:
        data = log.data(mark)
        if len(data) < mark.end - mark.offset:
            return named_frame(self._hub.gap(log.session_id, mark.offset, mark.end))
        output = SessionOutput(log.session_id, mark.stream, data.decode("utf-8", "replace"), mark.offset)
        return named_frame(output, f"{self._hub.boot}.{mark.number}")


def named_frame(event: Event, event_id: str | None = None) -> bytes:
    """An event of a session as a named server-sent event, for every wire that sends those."""
    assert isinstance(event, SessionOutput | SessionExit | Gap), "only these have a name of their own"
    head = f"event: {event.name}\n" if event_id is None else f"event: {event.name}\nid: {event_id}\n"
    return b"".join((head.encode(), b"data: ", orjson.dumps(event.as_object()), b"\n\n"))


def _offset(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise _BadRequest(400, f"since is {text[:40]!r} and must be a whole number") from None
