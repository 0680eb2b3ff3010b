"""The newest output of the sessions of all boxes, for the clients of a gateway on MCP wires.

Those hear output coalesced and rate-limited. All of them share one watcher, which of much reads only the end: what it
brings goes into small logs in memory, and from there it takes the same way as the output of a daemon's own sessions.
Nothing is read while no such client has a stream open. A client that comes back after that hears what it missed, as far
as the box still has it and the rate allows, and a gap for the rest. One that is new hears what is said from now on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path
from weakref import WeakSet

from mcp_agent.events.hub import EventHub, Topic
from mcp_agent.events.output_cursor import OutputCursor
from mcp_agent.events.types import Notice
from mcp_agent.fleet.directory import Directory
from mcp_agent.fleet.fleet_output import Missed, OutputWatch, StreamPosition
from mcp_agent.fleet.messages import OutputRow
from tools.sessions.output_log import OutputLog, Stream

# A client whose stream broke has so long to come back before the watch ends.
LINGER_S = 60.0
# Ended sessions whose exit a client may not have taken yet.
_MOST_ENDED = 64
_MOST_BYTES = 64 * 1024 * 1024
_MOST_LOG_BYTES = 512 * 1024
_LEAST_LOG_BYTES = 16 * 1024


class TailLog(OutputLog):
    """The end of a session's output, in memory. It begins at `start`; what is skipped is lost to its readers."""

    def __init__(self, session_id: str, box: str, start: int) -> None:
        super().__init__(session_id, Path(), 0)
        self.box = box
        self.end = start
        self._has_no_file = True

    def extend(self, stream: Stream, data: bytes, keep_bytes: int) -> None:
        self.append(stream, data)
        self.shrink(keep_bytes)

    def shrink(self, keep_bytes: int) -> None:
        self._evict_recent(keep_bytes)

    def skip(self, to: int) -> None:
        if to > self.end:
            # A piece whose bytes are not there.
            self.append("stdout", b"")
            self._evict_recent(0)
            self.end = to


class SessionTail:
    """Follows the boxes while somebody listens on an MCP wire."""

    def __init__(
        self,
        hub: EventHub,
        directory: Directory,
        watch: Callable[[dict[str, StreamPosition] | None], OutputWatch],
        linger_s: float,
    ) -> None:
        """`watch` makes a watcher that goes on from the given positions, or begins now."""
        self._hub = hub
        self._directory = directory
        self._new_watch = watch
        self._linger_s = linger_s
        self._logs: dict[str, TailLog] = {}
        self._ended: deque[TailLog] = deque()
        self._task: asyncio.Task[None] | None = None
        self._linger: asyncio.TimerHandle | None = None
        # Where the last watch ended on each box, and the clients that there were: they hear what came since.
        self._positions: dict[str, StreamPosition] = {}
        self._stayed: WeakSet[OutputCursor] = WeakSet()
        # The number up to which events of a box are of the time when nobody listened.
        self._missed_to: dict[str, int] = {}
        hub.on_listener = self._look
        hub.observe(self._on_change)

    async def close(self) -> None:
        self._hub.on_listener = lambda: None
        self._hub.unobserve(self._on_change)
        self._stop_lingering()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _on_change(self, topic: Topic) -> None:
        if topic == "tools":
            self._look()

    def _look(self) -> None:
        """Follow if somebody listens; stop a while after the last one left."""
        if self._hub.has_listeners:
            self._stop_lingering()
            if self._task is None:
                self._task = asyncio.create_task(self._follow())
        elif self._task is not None and self._linger is None:
            self._linger = asyncio.get_running_loop().call_later(self._linger_s, self._task.cancel)

    def _stop_lingering(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None

    async def _follow(self) -> None:
        watch = self._new_watch(self._rejoin())
        watch.start()
        try:
            async for item in watch.items():
                if isinstance(item, Missed):
                    self._drop_box(item.box)
                    self._hub.publish(Notice("warning", item.reason))
                else:
                    for row in item.rows:
                        self._take(item.box, row)
        finally:
            watch.close()
            self._task, self._linger = None, None
            self._positions = watch.positions
            self._stayed = WeakSet(self._hub.cursors)
            for log in self._logs.values():
                log.shrink(_LEAST_LOG_BYTES)

    def _rejoin(self) -> dict[str, StreamPosition] | None:
        """Where the watch goes on, if a client is there that has heard the last one; None: it begins now."""
        if self._stayed.isdisjoint(self._hub.cursors):
            for log in list(self._logs.values()):
                self._drop(log)
            self._ended.clear()
            return None
        self._missed_to = {
            name: box.events
            for name, box in self._directory.boxes.items()
            if name not in self._positions or box.events > self._positions[name].number
        }
        return self._positions

    def _take(self, box: str, row: OutputRow) -> None:
        log = self._logs.get(row.session_id)
        if log is None:
            log = self._logs[row.session_id] = TailLog(row.session_id, box, row.offset)
            self._hub.add_log(log, row.offset)
        if row.number > self._missed_to.get(box, 0):
            self._missed_to.pop(box, None)
        self._append(log, row)
        if box in self._missed_to:
            self._hub.skip(log, self._stayed)

    def _append(self, log: TailLog, row: OutputRow) -> None:
        if row.kind == "lost":
            log.skip(row.end)
            return
        log.skip(row.offset)
        if row.kind == "exit":
            self._hub.notify_exit(log, row.exit_code, row.signal, row.ended_by)
            self._ended.append(log)
            if len(self._ended) > _MOST_ENDED:
                self._drop(self._ended.popleft())
            return
        keep_bytes = max(_LEAST_LOG_BYTES, min(_MOST_LOG_BYTES, _MOST_BYTES // len(self._logs)))
        log.extend(row.kind, row.data, keep_bytes)
        self._hub.notify_output(log)

    def _drop_box(self, box: str) -> None:
        for log in [log for log in self._logs.values() if log.box == box]:
            self._drop(log)
        self._ended = deque(log for log in self._ended if log.box != box)

    def _drop(self, log: TailLog) -> None:
        if self._logs.get(log.session_id) is log:
            del self._logs[log.session_id]
            self._hub.drop_log(log)
