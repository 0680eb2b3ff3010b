"""Log lines on stderr: JSON for programs, readable text on a terminal. The daemon keeps them in a file, too.

One object a line, `{ts, level, event, request_id?, data?}`. Control characters are escaped in both forms, so what
a client puts into a name cannot forge a line or control a terminal.

A thread writes them: a parent that does not read our stderr must not block the event loop. While its queue is full,
lines are dropped and counted, and the count is logged as soon as the thread can write again.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import queue
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from pathlib import Path
from typing import Any, TextIO

import orjson

from mcp_agent.process.printing import escape_controls, write_painted
from tools.files import disk
from tools.kit.log_events import event as event

LEVELS = ("debug", "info", "warning", "error")
_MOST_WAITING = 10_000
_MOST_FILE_BYTES = 5_000_000
_STOP_TIMEOUT_S = 1.0
_WIRE_LEVELS = {"WARNING": "warn", "CRITICAL": "error"}


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": _WIRE_LEVELS.get(record.levelname, record.levelname.lower()),
            "event": record.getMessage(),
        }
        request_id = getattr(record, "request_id", None)
        if request_id is not None:
            line["request_id"] = request_id
        data = dict(getattr(record, "data", None) or {})
        if record.exc_info:
            data["traceback"] = self.formatException(record.exc_info)
        if data:
            line["data"] = data
        try:
            text = orjson.dumps(line, default=str).decode()
        except TypeError:
            # Half a surrogate pair: Python uses it for a byte of a file name that is not UTF-8.
            text = json.dumps(line, default=str)
        # JSON escapes the C0 controls. DEL and the C1 controls are legal in JSON and would reach a terminal.
        return escape_controls(text)


class TerminalText(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        data = getattr(record, "data", None) or {}
        facts = " ".join(f"{key}={value}" for key, value in data.items())
        line = escape_controls(f"{at} {record.levelname.lower():7} {record.getMessage()} {facts}".rstrip())
        line = line.replace("\n", "\\u000a")
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _BoundedQueueHandler(QueueHandler):
    """Formats a record at once, in the thread that logs it, and never waits for room in the queue."""

    def __init__(self, formatter: logging.Formatter) -> None:
        self.lines: queue.Queue[logging.LogRecord | None] = queue.Queue(_MOST_WAITING)
        super().__init__(self.lines)
        self.setFormatter(formatter)
        self.dropped = 0

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - a method of the standard library
        """Count a line that is lost: the queue is full, or the record cannot be formatted."""
        self.dropped += 1

    def take_dropped(self) -> int:
        """How many lines were dropped since the last call."""
        self.acquire()
        dropped, self.dropped = self.dropped, 0
        self.release()
        return dropped


class _Writer(QueueListener):
    """Writes the lines of a queue to a handler."""

    def __init__(self, lines: queue.Queue[logging.LogRecord | None], *handlers: logging.Handler) -> None:
        super().__init__(lines, *handlers)
        self._lines = lines

    def enqueue_sentinel(self) -> None:
        self._lines.put(None)

    def stop(self) -> None:
        """Write the lines that are left, but do not wait long: the stream may never be read again."""
        stopping = threading.Thread(target=super().stop, name="log-stop", daemon=True)
        stopping.start()
        stopping.join(_STOP_TIMEOUT_S)


class _StreamWriter(_Writer):
    """Writes the lines of the queue to a stream.

    There is no StreamHandler: it holds its lock while it writes, and `logging.shutdown` at exit would wait for that
    lock for ever if nobody reads the stream.
    """

    def __init__(self, source: _BoundedQueueHandler, stream: TextIO) -> None:
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
            # The formatters have escaped what others put into it.
            write_painted(text, self._stream)
            self._stream.flush()


class _LogFile(RotatingFileHandler):
    """The log as a file of a bounded size. A full disk loses lines of it, and nothing else."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=_MOST_FILE_BYTES, backupCount=1, encoding="utf-8", delay=True)

    def _open(self) -> io.TextIOWrapper:
        return open(self.baseFilename, "a", encoding="utf-8", opener=disk.open_private)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - a method of the standard library
        pass


@contextlib.contextmanager
def logging_to(
    stream: TextIO, level: str, on_terminal: logging.Formatter | None = None, file: Path | None = None
) -> Iterator[None]:
    """Send every logger of this process to `stream` until the block ends, and as JSON to `file`.

    `on_terminal` writes it on a terminal.
    """
    handler = _BoundedQueueHandler((on_terminal or TerminalText()) if stream.isatty() else JsonLines())
    handlers: list[_BoundedQueueHandler] = [handler]
    writers: list[_Writer] = [_StreamWriter(handler, stream)]
    if file is not None:
        handlers.append(_BoundedQueueHandler(JsonLines()))
        writers.append(_Writer(handlers[-1].lines, _LogFile(file)))
    for writer in writers:
        writer.start()
    root = logging.getLogger()
    before, level_before = root.handlers[:], root.level
    root.handlers[:] = handlers
    root.setLevel(level.upper())
    for noisy in ("uvicorn", "uvicorn.error", "watchfiles", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
    try:
        yield
    finally:
        root.handlers[:] = before
        root.setLevel(level_before)
        for writer in writers:
            writer.stop()


def standard_error() -> TextIO:
    return sys.stderr
