"""Log lines on stderr: JSON for programs, readable text on a terminal.

One object a line, `{ts, level, event, request_id?, data?}`. Control characters are escaped in both forms, so what
a client puts into a name cannot forge a line or drive a terminal. Lines are written by a thread of their own:
a parent that does not read our stderr must not stop the event loop.
"""

from __future__ import annotations

import json
import logging
import queue
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO

import orjson

LEVELS = ("debug", "info", "warning", "error")
_WIRE_LEVELS = {"WARNING": "warn", "CRITICAL": "error"}
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_MOST_WAITING = 10_000


def event(
    logger: logging.Logger, level: int, name: str, *, request_id: str | None = None, exc: bool = False, **data: Any
) -> None:
    """Log the event `name` with its data. Secrets and the contents of files do not belong into `data`."""
    if logger.isEnabledFor(level):
        logger.log(level, name, extra={"request_id": request_id, "data": data}, exc_info=exc)


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
        # JSON escapes C0 by itself; DEL and C1 are legal in it and reach a terminal unescaped.
        return _escaped(_dumped(line))


class TerminalText(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        data = getattr(record, "data", None) or {}
        facts = " ".join(f"{key}={value}" for key, value in data.items())
        line = _escaped(f"{at} {record.levelname.lower():7} {record.getMessage()} {facts}".rstrip())
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Writer(logging.Handler):
    """Hands finished lines to a thread. When that is 10,000 lines behind, lines are dropped and counted."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._waiting: queue.Queue[str | None] = queue.Queue(_MOST_WAITING)
        self._dropped = 0
        self._thread = threading.Thread(target=self._write, name="log-writer", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._waiting.put_nowait(self.format(record))
        except queue.Full:
            self._dropped += 1

    def close(self) -> None:
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            pass
        else:
            self._thread.join(timeout=1.0)
        super().close()

    def _write(self) -> None:
        while (line := self._waiting.get()) is not None:
            if self._dropped:
                line += f"\n{self._told_dropped()}"
            try:
                self._stream.write(line + "\n")
                self._stream.flush()
            except (OSError, ValueError):
                return

    def _told_dropped(self) -> str:
        """A line like all others, in the place of those that are missing."""
        record = logging.LogRecord(__name__, logging.WARNING, "", 0, "log.lines_dropped", None, None)
        record.data, self._dropped = {"count": self._dropped}, 0
        return self.format(record)


@contextmanager
def logging_to(stream: TextIO, level: str) -> Iterator[None]:
    """Send every logger of this process to `stream` until the block ends."""
    handler = _Writer(stream)
    handler.setFormatter(TerminalText() if stream.isatty() else JsonLines())
    root = logging.getLogger()
    before = root.handlers[:], root.level
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("uvicorn", "uvicorn.error", "watchfiles", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
    try:
        yield
    finally:
        root.handlers[:], _ = before
        root.setLevel(before[1])
        handler.close()


def standard_error() -> TextIO:
    return sys.stderr


def _dumped(line: dict[str, Any]) -> str:
    try:
        return orjson.dumps(line, default=str).decode()
    except TypeError:
        # Half a surrogate pair, as Python has it for a byte of a file name that is not UTF-8.
        return json.dumps(line, default=str)


def _escaped(text: str) -> str:
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
