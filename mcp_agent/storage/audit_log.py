"""Writes the audit log: one line for every call, client, policy change, start and refused login.

The lines are JSON, in a file that only its owner can read. A line is one write, so a process that dies loses no line,
and several processes can share the file. A line that is not a call has an `event`. The observer of calls decides
what the line of a call says.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from mcp_agent.process.logs import event
from tools.files import disk

log = logging.getLogger(__name__)

FILE_NAME = "audit.jsonl"
_MOST_BYTES = 50 * 1024 * 1024
_KEPT_FILES = 5
# The file is looked at after so many lines, to rotate it, and with the first line after so long, to make it again if
# it was deleted. To look at a file costs as much as to write to it.
_LOOK_EVERY = 500
_LOOK_EVERY_S = 0.05
_LINE = orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE


class AuditLog:
    """The audit file of a state folder. If the disk is full, lines are lost and the log says so, but no call fails."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._descriptor = -1
        self._boot = secrets.token_hex(4)
        self._seq = 0
        self._looked_at = 0.0
        self._is_failing = False
        # The disk became full within a line: start the next entry on a new line.
        self._is_torn = False
        self.lost_lines = 0
        # Called with the facts of every line, on the event loop. They must be fast.
        self.listeners: set[Callable[[Mapping[str, Any]], None]] = set()

    def write(self, facts: Mapping[str, Any]) -> None:
        """Write a line with `facts`, the time and the line number."""
        self._seq += 1
        facts = {"ts": datetime.now(UTC), "seq": self._seq, "boot": self._boot, **facts}
        line = encode_line(facts)
        try:
            now = time.monotonic()
            if now - self._looked_at > _LOOK_EVERY_S or self._seq % _LOOK_EVERY == 0 or self._descriptor < 0:
                self._looked_at = now
                # Nobody would ever read what is written to a file that has been deleted.
                if self._descriptor < 0 or self._seq % _LOOK_EVERY == 0 or not os.fstat(self._descriptor).st_nlink:
                    self._reopen()
            if self._is_torn:
                line = b"\n" + line
            written = os.write(self._descriptor, line)
            self._is_torn = written < len(line)
            if self._is_torn:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            self._is_failing = False
        except OSError as error:
            self.lost_lines += 1
            if not self._is_failing:
                event(log, logging.ERROR, "audit.failed", path=str(self._path), message=str(error))
            self._is_failing = True
        for listener in self.listeners:
            listener(facts)

    def note(self, event: str, **facts: Any) -> None:
        """Write the line of an event that is not a call."""
        self.write({"event": event, **facts})

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _reopen(self) -> None:
        """Rotate the file if it is full, and open the one that has the name now."""
        self.close()
        disk.private_folder(self._path.parent)
        try:
            if self._path.stat().st_size >= _MOST_BYTES:
                for number in range(_KEPT_FILES - 1, 0, -1):
                    older = self._rotation_path(number)
                    if older.exists():
                        older.replace(self._rotation_path(number + 1))
                self._path.replace(self._rotation_path(1))
        except FileNotFoundError:
            pass
        self._descriptor = disk.open_regular(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW)

    def _rotation_path(self, number: int) -> Path:
        return self._path.with_name(f"{FILE_NAME}.{number}")


def note_command(folder: Path, event: str, **facts: Any) -> None:
    """Write a line for a change that a command made itself, with or without a running daemon."""
    with closing(AuditLog(folder)) as audit:
        audit.note(event, by="command", **facts)


def encode_line(facts: Mapping[str, Any]) -> bytes:
    """A line as it is stored, with its line end."""
    try:
        return orjson.dumps(facts, option=_LINE)
    except TypeError:
        # Half a surrogate pair: Python uses it for a byte of a file name that is not UTF-8.
        return json.dumps(facts, default=datetime.isoformat, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
