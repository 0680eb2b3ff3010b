"""The newest output of the sessions of all boxes, for the clients of a gateway on MCP wires.

Those hear output coalesced and rate-limited. All of them share one watcher, which of much reads only the end: what it
brings goes into small logs in memory, and from there it takes the same way as the output of a daemon's own sessions.
It begins when a client opens a stream, and ends a while after the last one that may come back was forgotten.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from pathlib import Path

from mcp_agent.events.hub import EventHub, Topic
from mcp_agent.events.output_cursor import OutputCursor
from mcp_agent.events.types import Notice
from mcp_agent.fleet.fleet_output import Missed, OutputWatch
from mcp_agent.fleet.messages import OutputRow
from tools.sessions.output_log import OutputLog, Stream

LOOK_EVERY_S = 60.0
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
        self._evict_recent(keep_bytes)

    def skip(self, to: int) -> None:
        if to > self.end:
            # A piece whose bytes are not there.
            self.append("stdout", b"")
            self._evict_recent(0)
            self.end = to


class SessionTail:
    """Follows the boxes while somebody listens on an MCP wire, or may again."""

    def __init__(self, hub: EventHub, watch: Callable[[], OutputWatch], look_every_s: float) -> None:
        """`watch` makes a watcher that begins now."""
        self._hub = hub
        self._new_watch = watch
        self._look_every_s = look_every_s
        self._logs: dict[str, TailLog] = {}
        self._ended: deque[TailLog] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        # Those that have listened, as long as the hub knows them.
        self._clients: set[OutputCursor] = set()
        hub.on_listener = self._look
        hub.observe(self._on_change)

    async def close(self) -> None:
        self._hub.on_listener = lambda: None
        self._hub.unobserve(self._on_change)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _on_change(self, topic: Topic) -> None:
        if topic == "tools":
            self._look()

    def _look(self) -> None:
        self._clients |= self._hub.listening
        if self._clients and not self._tasks:
            watch = self._new_watch()
            watch.start()
            self._tasks = {asyncio.create_task(self._follow(watch)), asyncio.create_task(self._end(watch))}

    async def _end(self, watch: OutputWatch) -> None:
        while self._clients:
            await asyncio.sleep(self._look_every_s)
            self._clients &= set(self._hub.cursors)
        watch.end()

    async def _follow(self, watch: OutputWatch) -> None:
        try:
            async for item in watch.items():
                if isinstance(item, Missed):
                    self._drop(item.box)
                    self._hub.publish(Notice("warning", item.reason))
                else:
                    for row in item.rows:
                        self._take(item.box, row)
        finally:
            watch.close()
            self._tasks = set()
            self._drop()
            # A client may have come meanwhile.
            asyncio.get_running_loop().call_soon(lambda: self._hub.on_listener())

    def _take(self, box: str, row: OutputRow) -> None:
        log = self._logs.get(row.session_id)
        if log is None:
            log = self._logs[row.session_id] = TailLog(row.session_id, box, row.offset)
            self._hub.add_log(log, row.offset)
        self._append(log, row)

    def _append(self, log: TailLog, row: OutputRow) -> None:
        if row.kind == "lost":
            log.skip(row.end)
            return
        log.skip(row.offset)
        if row.kind == "exit":
            self._hub.notify_exit(log, row.exit_code, row.signal, row.ended_by)
            self._ended.append(log)
            if len(self._ended) > _MOST_ENDED:
                self._forget(self._ended.popleft())
            return
        keep_bytes = max(_LEAST_LOG_BYTES, min(_MOST_LOG_BYTES, _MOST_BYTES // len(self._logs)))
        log.extend(row.kind, row.data, keep_bytes)
        self._hub.notify_output(log)

    def _drop(self, box: str | None = None) -> None:
        """Forget the sessions of a box, or of all."""
        for log in [log for log in self._logs.values() if box in (None, log.box)]:
            self._forget(log)
        self._ended = deque(log for log in self._ended if box not in (None, log.box))

    def _forget(self, log: TailLog) -> None:
        if self._logs.get(log.session_id) is log:
            del self._logs[log.session_id]
            self._hub.drop_log(log)
