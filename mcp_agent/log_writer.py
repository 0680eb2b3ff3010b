"""Log lines are written by a thread: a parent that does not read our stderr must not block the event loop.

The standard library's queue handler and queue listener, with a bound: while the queue is full, lines are dropped and
counted, and the count is logged as soon as the thread can write again.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from logging.handlers import QueueHandler, QueueListener
from typing import TextIO

_MOST_WAITING = 10_000
_STOP_TIMEOUT_S = 1.0

Lines = queue.Queue[logging.LogRecord | None]


class BoundedQueueHandler(QueueHandler):
    """Formats a record at once, in the thread that logs it, and never waits for room in the queue."""

    def __init__(self, formatter: logging.Formatter) -> None:
        self.lines: Lines = queue.Queue(_MOST_WAITING)
        super().__init__(self.lines)
        self.setFormatter(formatter)
        self.dropped = 0

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            self.lines.put_nowait(record)
        except queue.Full:
            self.dropped += 1

    def take_dropped(self) -> int:
        """How many lines were dropped since the last call."""
        self.acquire()
        dropped, self.dropped = self.dropped, 0
        self.release()
        return dropped


class LogWriter(QueueListener):
    """Writes the lines of the queue to a stream.

    There is no StreamHandler: it holds its lock while it writes, and `logging.shutdown` at exit would wait for that
    lock for ever if nobody reads the stream.
    """

    def __init__(self, source: BoundedQueueHandler, stream: TextIO) -> None:
        super().__init__(source.lines)
        self._source = source
        self._stream = stream

    def handle(self, record: logging.LogRecord) -> None:
        text = f"{record.getMessage()}\n"
        if self._source.dropped:
            notice = logging.LogRecord(__name__, logging.WARNING, "", 0, "log.lines_dropped", None, None)
            notice.data = {"count": self._source.take_dropped()}
            text += f"{self._source.prepare(notice).getMessage()}\n"
        # A closed stream: nobody is left who could read the log.
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()

    def enqueue_sentinel(self) -> None:
        self._source.lines.put(None)

    def stop(self) -> None:
        """Write the lines that are left, but do not wait long: the stream may never be read again."""
        stopping = threading.Thread(target=super().stop, name="log-stop", daemon=True)
        stopping.start()
        stopping.join(_STOP_TIMEOUT_S)
