"""/ui/stream: all that an open page has to hear, on one connection.

A browser has six connections to a daemon, for all of its tabs together. So the page has one stream, which carries the
output of the sessions it shows, the lines of the audit log, and the news that tools or sessions are different now.

    GET /ui/stream?sessions=ID:OFFSET,ID:OFFSET

    event: hello     first; the id of this start of the daemon, and its name if its tools run on other machines
    event: changed   {"topic": "tools" | "sessions"}: ask again
    event: line      one line of the audit log
    event: missed    lines were left out, because the page was too slow: ask again
    event: output, exit, gap   of the sessions that were asked for
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.types import Receive, Scope, Send

from mcp_agent import __version__
from mcp_agent.daemon import Daemon
from mcp_agent.events.hub import Topic
from mcp_agent.events.output_cursor import AT_ONCE_BYTES, CursorItem, OutputCursor
from mcp_agent.storage.audit_log import encode_line
from mcp_agent.transports.http import principal, query_value, send_error
from mcp_agent.transports.sse_frames import send_frames
from tools.sessions.output_log import Exit, Lost, OutputLog

_MOST_LINES = 2_000
_MOST_SESSIONS = 32


class PageStream:
    """The ASGI application behind /ui/stream."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "GET":
            await send_error(send, 405, "use GET here", headers={"allow": "GET"})
            return
        if not principal(scope).is_owner:
            await send_error(send, 403, "only the owner hears what all clients do")
            return
        try:
            places = _places(query_value(scope, "sessions") or "")
        except ValueError:
            await send_error(send, 400, "sessions must be a list such as ID:0,ID:1024")
            return
        hub, audit = self._daemon.hub, self._daemon.audit
        feed = _Feed()
        cursor = OutputCursor(frozenset(places))
        for log in hub.logs:
            if log.session_id in places:
                cursor.add(log, log.absolute(places[log.session_id]))
        cursor.wake = feed.woken.set

        def take() -> list[bytes]:
            return [*feed.take(), *(_output(log, item) for log, item in cursor.take(AT_ONCE_BYTES))]

        hello = _frame("hello", {"boot": hub.boot, "version": __version__, "elsewhere": self._daemon.elsewhere.name})
        hub.follow(cursor, lambda: True)
        hub.observe(feed.add_topic)
        audit.listeners.add(feed.add_line)
        try:
            await send_frames(cursor.follow(feed.woken, hello, take), scope, receive, send)
        finally:
            hub.unfollow(cursor)
            hub.unobserve(feed.add_topic)
            audit.listeners.discard(feed.add_line)


class _Feed:
    """What one page has yet to hear. A page that does not read keeps one event of each topic and the newest lines."""

    def __init__(self) -> None:
        self.woken = asyncio.Event()
        self._topics: dict[Topic, None] = {}
        self._lines: deque[Mapping[str, Any]] = deque(maxlen=_MOST_LINES)
        self._has_missed = False

    def add_topic(self, topic: Topic) -> None:
        self._topics[topic] = None
        self.woken.set()

    def add_line(self, line: Mapping[str, Any]) -> None:
        self._has_missed |= len(self._lines) == _MOST_LINES
        self._lines.append(line)
        self.woken.set()

    def take(self) -> list[bytes]:
        frames = [_frame("changed", {"topic": topic}) for topic in self._topics]
        if self._has_missed:
            frames.append(_frame("missed", {}))
        frames += [b"event: line\ndata: " + encode_line(line) + b"\n" for line in self._lines]
        self._topics, self._has_missed = {}, False
        self._lines.clear()
        return frames


def _output(log: OutputLog, item: CursorItem) -> bytes:
    if isinstance(item, Exit):
        exited = {"session_id": log.session_id, "exit_code": item.exit_code, "signal": item.signal}
        return _frame("exit", exited)
    place = {"session_id": log.session_id, "offset": item.offset, "next_offset": item.end}
    if isinstance(item, Lost):
        return _frame("gap", place)
    data = log.data(item)
    if len(data) < item.end - item.offset:
        return _frame("gap", place)
    return _frame("output", {**place, "stream": item.stream, "chunk": data.decode("utf-8", "replace")})


def _frame(name: str, value: dict[str, Any]) -> bytes:
    return b"".join((f"event: {name}\ndata: ".encode(), orjson.dumps(value), b"\n\n"))


def _places(text: str) -> dict[str, int]:
    """The sessions that a page shows, each with the offset from which it wants the output. Raises ValueError."""
    places: dict[str, int] = {}
    for each in filter(None, text.split(",")[:_MOST_SESSIONS]):
        session_id, _, offset = each.rpartition(":")
        places[session_id] = int(offset)
    return places
