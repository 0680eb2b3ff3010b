"""Reads the audit log: all its files in order, filtered, and new lines as they are written.

The current file is `audit.jsonl`; rotated ones are `audit.jsonl.1` (the newest) and so on. A follower identifies a
file by its inode, so it loses no line when files are rotated while it reads.
"""

from __future__ import annotations

import fnmatch
import os
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct

from mcp_agent.storage.audit_log import FILE_NAME
from tools.files import disk

_AGO = re.compile(r"(\d+)\s*(s|m|h|d|w)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LOOK_EVERY_S = 0.2
_READ_BYTES = 1024 * 1024

Line = dict[str, Any]


class LineFilter(Struct, frozen=True):
    """Which lines to show. None matches every line; the patterns are globs."""

    tool: str | None = None
    caller: str | None = None
    outcome: str | None = None
    rule: str | None = None
    event: str | None = None
    since: datetime | None = None
    only_errors: bool = False

    def matches(self, line: Line) -> bool:
        asked = (
            ("tool", self.tool),
            ("client", self.caller),
            ("outcome", self.outcome),
            ("rule", self.rule),
            ("event", self.event),
        )
        for key, pattern in asked:
            if pattern is not None and (
                key not in line or not fnmatch.fnmatchcase(str(line[key]).lower(), pattern.lower())
            ):
                return False
        if self.only_errors and line.get("outcome", "ok") == "ok" and line.get("event") not in _BAD_EVENTS:
            return False
        return self.since is None or _time(line) >= self.since


_BAD_EVENTS = ("login_refused", "policy_rejected")


class Trail(Struct, eq=False):
    """The audit files of a state folder. `on_damaged_line` is called for every line that cannot be read.

    With another `file_name` it reads other lines that have a time and are rotated in the same way, such as the log.
    """

    folder: Path
    on_damaged_line: Callable[[], None]
    file_name: str = FILE_NAME

    def last(self, count: int | None, wanted: LineFilter) -> list[Line]:
        """The newest `count` matching lines, or all of them, oldest first."""
        found: list[Line] = []
        for path in self._files():
            if wanted.since is not None and _mtime(path) < wanted.since.timestamp():
                break
            own = [line for line in self._lines(path) if wanted.matches(line)]
            found = [*own, *found]
            if count is not None and len(found) >= count:
                break
        return found if count is None else found[max(len(found) - count, 0) :]

    def end(self) -> int | None:
        """The current file, opened at its end, for `follow`; None if there is none yet."""
        descriptor = _open(self.folder / self.file_name)
        if descriptor is not None:
            os.lseek(descriptor, 0, os.SEEK_END)
        return descriptor

    def follow(self, descriptor: int | None, wanted: LineFilter) -> Iterator[Line]:
        """New lines after the position of `descriptor`, across rotations, for ever."""
        try:
            rest = b""
            while True:
                # Checked before we read: lines may still be written to the old file until we leave it.
                newer = self._newer(descriptor)
                while descriptor is not None and (data := os.read(descriptor, _READ_BYTES)):
                    *whole, rest = (rest + data).split(b"\n")
                    yield from self._parse_wanted(whole, wanted)
                if newer:
                    if descriptor is not None:
                        os.close(descriptor)
                    descriptor, rest = _open(newer[0]), b""
                else:
                    time.sleep(_LOOK_EVERY_S)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _newer(self, descriptor: int | None) -> list[Path]:
        """The files that are newer than the one being read, oldest first."""
        own = None if descriptor is None else os.fstat(descriptor).st_ino
        newer: list[Path] = []
        for path in self._files():
            try:
                if path.stat().st_ino == own:
                    break
            except FileNotFoundError:
                continue
            newer.append(path)
        # If the file being read is gone, it was the oldest, so all files are newer.
        return newer[::-1]

    def _files(self) -> list[Path]:
        """The newest first."""
        try:
            names = [path.name for path in self.folder.iterdir()]
        except FileNotFoundError:
            return []
        rotated = re.compile(re.escape(self.file_name) + r"\.(\d+)")
        numbers = sorted(int(match[1]) for name in names if (match := rotated.fullmatch(name)))
        current = [self.folder / self.file_name] if self.file_name in names else []
        return [*current, *(self.folder / f"{self.file_name}.{number}" for number in numbers)]

    def _lines(self, path: Path) -> Iterator[Line]:
        try:
            with open(disk.open_regular(path), "rb") as file:
                for text in file:
                    yield from self._parse(text)
        except FileNotFoundError:
            # It was rotated, or it was the oldest and is deleted.
            return

    def _parse_wanted(self, texts: list[bytes], wanted: LineFilter) -> Iterator[Line]:
        for text in texts:
            yield from (line for line in self._parse(text) if wanted.matches(line))

    def _parse(self, text: bytes) -> Iterator[Line]:
        if not text.strip():
            return
        try:
            line = orjson.loads(text)
            _time(line)
        except (orjson.JSONDecodeError, TypeError, KeyError, ValueError):
            self.on_damaged_line()
            return
        yield line


def parse_time(text: str, now: datetime | None = None) -> datetime:
    """`2h`, `30m` or `7d` ago, or a date, or a date with a time. Raises ValueError."""
    ago = _AGO.fullmatch(text.strip())
    if ago is not None:
        return (now or datetime.now(UTC)) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
    at = datetime.fromisoformat(text.strip())
    # A time without a zone is local time.
    return at.astimezone() if at.tzinfo is None else at


def _time(line: Line) -> datetime:
    return datetime.fromisoformat(line["ts"])


def _mtime(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _open(path: Path) -> int | None:
    try:
        return disk.open_regular(path)
    except FileNotFoundError:
        return None
