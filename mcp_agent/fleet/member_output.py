"""What this box shows to gateways of its sessions and their output.

Output is published while a gateway wants it, and read by who missed some.

Published is what is new, or, if that is much, only that there is more. A read is served from the spool and needs
nothing that an earlier one left here. While a watcher reads much, its cursor is kept between two reads: then a child
waits for it, as for a client on this machine.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import NamedTuple

from mcp_agent.daemon import Daemon
from mcp_agent.events.hub import MOST_CHUNK_BYTES, RATE_BYTES
from mcp_agent.events.output_cursor import CursorItem, OutputCursor
from mcp_agent.events.types import Condition
from mcp_agent.fleet.bus import Bus, BusError
from mcp_agent.fleet.messages import (
    WANTED_S,
    BadMessage,
    NotShown,
    Output,
    OutputQuestion,
    OutputRow,
    ReadOutput,
    ReadSessions,
    Sessions,
    encode,
)
from mcp_agent.fleet.subjects import output_subject
from tools.sessions.output_log import Exit, Lost, OutputLog, PieceSpan
from tools.sessions.session import describe_session

# More than that at once is not published, but announced, so often at most.
_MOST_PUBLISHED_BYTES = 128 * 1024
_PUBLISH_EVERY_S = 0.01
_ANNOUNCE_EVERY_S = 0.05
# Rows in one message; so its head stays small beside its bytes.
_MOST_ROWS = 4_000
_MOST_READ_BYTES = 512 * 1024
# Between two reads of a watcher that keeps reading.
_READS_ON_S = 2.0
_MOST_READERS = 2_000
_MOST_KNOWN = 100
_MOST_SHOWN_BYTES = 64 * 1024


class _Reader(NamedTuple):
    """A watcher that reads on, and the number up to which it has read."""

    cursor: OutputCursor
    number: int
    read_at: float


class _Followed(OutputCursor):
    """No child waits for it: what it does not publish can be read."""

    def needs(self, log: OutputLog, to: int, now: float) -> bool:
        return False


class MemberOutput:
    """`may_hear` says whether gateways may hear of sessions at this moment."""

    def __init__(self, daemon: Daemon, bus: Bus, box: str, may_hear: Condition) -> None:
        self._bus = bus
        self._hub = daemon.hub
        self._sessions = daemon.sessions
        self._subject = output_subject(box)
        self._may_hear = may_hear
        self._readers: dict[tuple[str, str], _Reader] = {}
        self._is_wanted = asyncio.Event()
        self._wanted_until = 0.0

    def answer(self, question: OutputQuestion, gateway: str) -> Output | Sessions | NotShown:
        """Raises BadMessage."""
        if not self._may_hear():
            return NotShown("off", "the shell tools are switched off for gateways there")
        if question.session is not None and self._hub.log(question.session) is None:
            known = tuple(each.session_id for each in self._hub.logs)[:_MOST_KNOWN]
            return NotShown("gone", "there is no such session", known)
        return self._read(question, gateway) if isinstance(question, ReadOutput) else self._read_sessions(question)

    async def publish(self) -> None:
        """Until cancelled, or the daemon stops: publish what is new while a gateway wants it."""
        while not self._hub.is_closed:
            await self._is_wanted.wait()
            cursor, woken = _Followed(), asyncio.Event()
            cursor.wake = woken.set
            number = self._hub.last_number
            self._hub.resume(cursor, number)
            self._hub.follow(cursor, self._may_hear)
            try:
                while not cursor.is_closed or cursor.behind:
                    woken.clear()
                    if cursor.behind:
                        number = await self._publish(cursor, number)
                        continue
                    async with asyncio.timeout_at(self._wanted_until):
                        await woken.wait()
            except TimeoutError:
                if _now() >= self._wanted_until:
                    self._is_wanted.clear()
            finally:
                self._hub.unfollow(cursor)
            if cursor.is_closed and not self._hub.is_closed:
                # Switched off for gateways. It may be switched on again, and then they read.
                self._is_wanted.clear()

    async def stop(self) -> None:
        """Let watchers that read on have what there is to the end."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_READS_ON_S / 2):
                while self._readers:
                    self._expire()
                    await asyncio.sleep(_PUBLISH_EVERY_S)
        for key in list(self._readers):
            self._forget(key)

    async def _publish(self, cursor: OutputCursor, after: int) -> int:
        """Publish what is new, and return the number up to which that is."""
        rows = _take(cursor, _MOST_PUBLISHED_BYTES)
        is_much = bool(cursor.behind)
        if is_much:
            cursor.skip_all()
        last = self._hub.last_number
        output = Output(self._hub.boot, last, last) if is_much else Output(self._hub.boot, after, last, rows)
        with contextlib.suppress(BusError):
            await self._bus.publish(self._subject, encode(output))
        await asyncio.sleep(_ANNOUNCE_EVERY_S if is_much else _PUBLISH_EVERY_S)
        return last

    def _read(self, question: ReadOutput, gateway: str) -> Output:
        """Raises BadMessage."""
        self._wanted_until = _now() + WANTED_S
        self._is_wanted.set()
        self._expire()
        key = gateway, question.watcher
        reader = self._readers.get(key)
        if reader is None or reader.number != question.after:
            self._forget(key)
            cursor, after = self._cursor(question)
        else:
            cursor, after = reader.cursor, reader.number
        if question.is_newest:
            lost = [(each, cursor.skip_old(each, 2 * RATE_BYTES, MOST_CHUNK_BYTES)) for each in list(cursor.behind)]
        else:
            lost = []
        rows = _take(cursor, min(question.most_bytes, _MOST_READ_BYTES))
        rows = (*(_row(each, item) for each, item in lost if item is not None), *rows)
        is_whole = not cursor.behind
        last = self._hub.last_number if is_whole else max([after, *(row.number for row in rows)])
        if is_whole or question.is_newest or not question.most_bytes or len(self._readers) >= _MOST_READERS:
            self._forget(key)
        else:
            if key not in self._readers:
                self._hub.follow(cursor, self._may_hear)
            self._readers[key] = _Reader(cursor, last, _now())
            cursor.count_taken(sum(len(row.data) for row in rows), _now())
        return Output(self._hub.boot, after, last, rows, is_whole)

    def _cursor(self, question: ReadOutput) -> tuple[OutputCursor, int]:
        """Where a watcher begins, and the number of the last event before that. Raises BadMessage."""
        hub, session = self._hub, question.session
        cursor = OutputCursor(None if session is None else (session,))
        if question.after is not None:
            hub.resume(cursor, question.after)
            return cursor, question.after
        if session is not None and (found := hub.log(session)) is not None:
            cursor.add(found, found.end if question.since is None else found.absolute(question.since))
            return cursor, 0
        if question.begun_after is None:
            raise BadMessage("output is read after a number, from an offset of a session, or from now on")
        for each in hub.logs:
            is_new = each.offset_after(question.begun_after) == 0
            if is_new or each.exit is None:
                cursor.add(each, 0 if is_new else each.end)
        return cursor, 0

    def _read_sessions(self, question: ReadSessions) -> Sessions:
        if question.session is None:
            return Sessions([describe_session(each) for each in self._sessions.all])
        session = self._sessions.find(question.session)
        start = max(0, session.end + question.offset if question.offset < 0 else question.offset)
        return Sessions([describe_session(session)], *session.text(start, _MOST_SHOWN_BYTES))

    def _expire(self) -> None:
        for key, reader in list(self._readers.items()):
            if _now() - reader.read_at > _READS_ON_S:
                self._forget(key)

    def _forget(self, key: tuple[str, str]) -> None:
        reader = self._readers.pop(key, None)
        if reader is not None:
            self._hub.unfollow(reader.cursor)


def _take(cursor: OutputCursor, most_bytes: int) -> tuple[OutputRow, ...]:
    """What comes next for a cursor, about so much of it."""
    rows: list[OutputRow] = []
    for each, item in cursor.take(most_bytes):
        if len(rows) >= _MOST_ROWS:
            # Not taken yet: the cursor moves on when the next one is asked for.
            break
        rows.append(_row(each, item))
    return tuple(rows)


def _row(output: OutputLog, item: CursorItem) -> OutputRow:
    if isinstance(item, Exit):
        ended = item.exit_code, item.signal, item.ended_by
        return OutputRow("exit", output.session_id, item.number, item.offset, item.offset, b"", *ended)
    data = output.data(item) if isinstance(item, PieceSpan) else b""
    if isinstance(item, Lost) or len(data) < item.end - item.offset:
        return OutputRow("lost", output.session_id, 0, item.offset, item.end)
    return OutputRow(item.stream, output.session_id, item.number, item.offset, item.end, data)


def _now() -> float:
    return asyncio.get_running_loop().time()
