"""The events of sessions as named server-sent events, for every wire that sends those."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from mcp_agent.events.output_cursor import AT_ONCE_BYTES, CursorItem, OutputCursor
from mcp_agent.events.types import SessionEvent
from tools.sessions.output_log import Lost, OutputLog, PieceSpan

_FRAMES_BYTES = 4 * 1024 * 1024
# What a frame in memory costs besides its bytes.
_ENTRY_BYTES = 400


class OutputFrames:
    """The output of sessions, encoded once for all clients at the same place: the events of the last few megabytes.

    They are without their ids: the sender puts the line of the id before each.
    """

    def __init__(self, session_event: Callable[[OutputLog, CursorItem], SessionEvent]) -> None:
        """`session_event` is `EventHub.session_event`."""
        self._session_event = session_event
        self._frames: dict[tuple[str, int, int], bytes] = {}
        self._size = 0

    def frame(self, log: OutputLog, item: CursorItem) -> bytes:
        if not isinstance(item, PieceSpan):
            return named_frame(self._session_event(log, item))
        # The end too: a client that asked for an offset within a piece is not at the place of another.
        key = log.session_id, item.offset, item.end
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = named_frame(self._session_event(log, item))
            self._size += len(frame) + _ENTRY_BYTES
            while self._size > _FRAMES_BYTES:
                self._size -= len(self._frames.pop(next(iter(self._frames)))) + _ENTRY_BYTES
        return frame

    def take(self, cursor: OutputCursor, id_line: bytes) -> list[bytes]:
        """The next events for a client, each with its number in `id_line` before it."""
        frames: list[bytes] = []
        for log, item in cursor.take(AT_ONCE_BYTES):
            if not isinstance(item, Lost):
                frames.append(id_line % item.number)
            frames.append(self.frame(log, item))
        return frames

    def clear(self) -> None:
        self._frames.clear()
        self._size = 0


def named_frame(event: SessionEvent) -> bytes:
    """An event of a session as a named server-sent event."""
    return b"".join((b"event: ", event.name.encode(), b"\ndata: ", orjson.dumps(event.as_object()), b"\n\n"))


def gap_frame(reason: str, **facts: str) -> bytes:
    """The event for lost output of unknown size."""
    return b"event: gap\ndata: " + orjson.dumps({"type": "gap", "reason": reason, **facts}) + b"\n\n"
