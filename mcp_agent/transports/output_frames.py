"""The output of sessions as named server-sent events: each chunk is encoded once for all who are at the same place."""

from __future__ import annotations

import orjson

from mcp_agent.events.hub import EventHub
from mcp_agent.events.output_cursor import Item
from mcp_agent.events.types import Event, Gap, SessionExit, SessionOutput
from mcp_agent.sessions.output_log import Exit, Lost, Mark, OutputLog

_FRAMES_BYTES = 4 * 1024 * 1024
# What a frame in memory costs besides its bytes.
_ENTRY_BYTES = 400


class OutputFrames:
    """Encoded events of the last few megabytes, without their ids: who sends them puts the line of the id before."""

    def __init__(self, hub: EventHub) -> None:
        self._hub = hub
        self._frames: dict[tuple[str, int, int], bytes] = {}
        self._size = 0

    def frame(self, log: OutputLog, item: Item) -> bytes:
        if isinstance(item, Lost):
            return named_frame(self._hub.gap(log.session_id, item.offset, item.end))
        if isinstance(item, Exit):
            return named_frame(SessionExit.of(log.session_id, item))
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
        return named_frame(SessionOutput(log.session_id, mark.stream, data.decode("utf-8", "replace"), mark.offset))


def named_frame(event: Event) -> bytes:
    """An event of a session as a named server-sent event, for every wire that sends those."""
    assert isinstance(event, SessionOutput | SessionExit | Gap), "only these have a name of their own"
    return b"".join((b"event: ", event.name.encode(), b"\ndata: ", orjson.dumps(event.as_object()), b"\n\n"))


def gap_frame(reason: str, **facts: str) -> bytes:
    """What says that output is gone whose size nobody knows."""
    return b"event: gap\ndata: " + orjson.dumps({"type": "gap", "reason": reason, **facts}) + b"\n\n"
