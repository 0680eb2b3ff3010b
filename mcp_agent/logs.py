"""Log lines on stderr: JSON for programs, readable text on a terminal.

One object a line, `{ts, level, event, request_id?, data?}`. Control characters are escaped in both forms, so what
a client puts into a name cannot forge a line or control a terminal.
"""

from __future__ import annotations

import json
import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TextIO

import orjson

LEVELS = ("debug", "info", "warning", "error")
_WIRE_LEVELS = {"WARNING": "warn", "CRITICAL": "error"}
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")


def event(
    logger: logging.Logger, level: int, name: str, *, request_id: str | None = None, exc: bool = False, **data: Any
) -> None:
    """Log the event `name` with its data. Never put secrets or file contents into `data`."""
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
        try:
            text = orjson.dumps(line, default=str).decode()
        except TypeError:
            # Half a surrogate pair: Python uses it for a byte of a file name that is not UTF-8.
            text = json.dumps(line, default=str)
        # JSON escapes the C0 controls. DEL and the C1 controls are legal in JSON and would reach a terminal.
        return _escape(text)


class TerminalText(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        data = getattr(record, "data", None) or {}
        facts = " ".join(f"{key}={value}" for key, value in data.items())
        line = _escape(f"{at} {record.levelname.lower():7} {record.getMessage()} {facts}".rstrip())
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


@contextmanager
def logging_to(stream: TextIO, level: str) -> Iterator[None]:
    """Send every logger of this process to `stream` until the block ends."""
    # Imported here because it costs 3 ms, and most commands write no log.
    from mcp_agent.log_writer import BoundedQueueHandler, LogWriter

    handler = BoundedQueueHandler(TerminalText() if stream.isatty() else JsonLines())
    writer = LogWriter(handler, stream)
    writer.start()
    root = logging.getLogger()
    before, level_before = root.handlers[:], root.level
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for noisy in ("uvicorn", "uvicorn.error", "watchfiles", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
    try:
        yield
    finally:
        root.handlers[:] = before
        root.setLevel(level_before)
        writer.stop()


def standard_error() -> TextIO:
    return sys.stderr


def _escape(text: str) -> str:
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
