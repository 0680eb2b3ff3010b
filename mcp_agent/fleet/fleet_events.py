"""/events of a gateway: the sessions of all boxes.

    GET /events                             every session of every box, from now on
    GET /events?box=NAME                    every session of one box
    GET /events?session_id=ID&since=OFFSET  one session, from a byte of its output on; negative counts from the end
    Last-Event-ID: box.boot.number,…        what came after that event, whichever gateway sent it

The ids are good at any gateway.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mcp_agent.events.hub import EventHub
from mcp_agent.events.output_cursor import OutputCursor
from mcp_agent.events.output_frames import gap_frame, named_frame
from mcp_agent.events.types import Condition, Gap, SessionEvent, SessionExit, SessionOutput
from mcp_agent.fleet.box_calls import CannotRead
from mcp_agent.fleet.bus import BusError
from mcp_agent.fleet.directory import list_names
from mcp_agent.fleet.fleet_output import Missed, OutputWatch, StreamPosition, parse_positions
from mcp_agent.fleet.gateway import Gateway
from mcp_agent.fleet.messages import OutputRow
from mcp_agent.fleet.subjects import boxes_in
from mcp_agent.transports.events import (
    CONNECTED_FRAME,
    RESUMED_FRAME,
    AskedEvents,
    EventsWire,
    StreamRefused,
    no_session,
)
from registry.gate import Access, Gate


class FleetEvents(EventsWire):
    parameters = ("session_id", "since", "box")
    most_id_bytes = 32_000

    def __init__(self, hub: EventHub, gate: Gate, gateway: Gateway) -> None:
        super().__init__(hub, gate)
        self._gateway = gateway
        self._directory = gateway.directory

    def _may_hear(self, access: Access) -> bool:
        # While no box is there that has a shell, there is nothing to hear: that switches nobody off.
        return super()._may_hear(access) or not self._gate.catalog.categories.get("shell")

    @asynccontextmanager
    async def _open(self, asked: AskedEvents, may_hear: Condition) -> AsyncGenerator[AsyncGenerator[bytes, None], None]:
        positions, first = _read_id(asked.last_id)
        box = self._box_of(asked)
        watch = self._gateway.output.watch(box=box, session=asked.session_id, positions=positions)
        if asked.session_id is not None and box is not None:
            position = None if positions is None else positions.get(box)
            if position is not None and position.boot != self._directory.boxes[box].boot:
                yield _end_with(gap_frame(f"{box} was restarted, and its sessions have ended", box=box))
                return
            await self._open_session(watch, asked.session_id, asked.since)
        # It follows no log of this daemon, but the hub ends it when the client may not hear any more.
        cursor = OutputCursor(())
        cursor.wake = watch.end
        self._hub.follow(cursor, may_hear)
        try:
            # Before the client knows that it is connected: what it starts then is heard from the first byte on.
            watch.start()
            yield self._output(watch, first)
        finally:
            watch.close()
            self._hub.unfollow(cursor)

    def _box_of(self, asked: AskedEvents) -> str | None:
        """The box that a client asks for, by its name or that of a session; None: all of them. Raises StreamRefused."""
        box = asked.box
        if asked.session_id is not None:
            box = next(iter(boxes_in({"session_id": asked.session_id})), None)
            if box is None or box not in self._directory.boxes or asked.box not in (None, box):
                raise no_session(asked.session_id, [])
        if box is not None and box not in self._directory.boxes:
            known = list_names(self._directory.find())
            hint = f"there are {known}" if known else "no box is there"
            raise StreamRefused(404, f"there is no box {box[:60]!r}", hint)
        return box

    async def _open_session(self, watch: OutputWatch, session_id: str, since: int | None) -> None:
        try:
            await watch.open_session(since)
        except CannotRead as error:
            if error.why == "gone":
                raise no_session(session_id, list(error.known)) from None
            raise StreamRefused(403, str(error)) from None
        except BusError:
            raise StreamRefused(
                503, "the box of the session cannot be reached now", "try again with the same id"
            ) from None

    async def _output(self, watch: OutputWatch, first: bytes) -> AsyncGenerator[bytes, None]:
        yield first
        async for item in watch.items():
            if isinstance(item, Missed):
                self._hub.gaps += 1
                id_line = b"" if item.position is None else watch.id_line(item.box) % item.position.number
                yield id_line + gap_frame(item.reason, box=item.box)
                if item.is_end:
                    return
            elif item.rows:
                yield _frames(item.rows, watch.id_line(item.box))


def _frames(rows: list[OutputRow], id_line: bytes) -> bytes:
    """Each row as an event, with its id before it."""
    parts: list[bytes] = []
    for row in rows:
        if row.number:
            parts.append(id_line % row.number)
        parts.append(named_frame(_event(row)))
    return b"".join(parts)


def _event(row: OutputRow) -> SessionEvent:
    match row.kind:
        case "exit":
            return SessionExit(row.session_id, row.exit_code, row.signal, row.ended_by)
        case "lost":
            return Gap(row.session_id, row.offset, row.end)
        case stream:
            return SessionOutput(row.session_id, stream, row.data.decode("utf-8", "replace"), row.offset)


def _read_id(last_id: str | None) -> tuple[dict[str, StreamPosition] | None, bytes]:
    """The positions that an id has, and the first frame of the stream."""
    if last_id is None:
        return None, CONNECTED_FRAME
    found = parse_positions(last_id)
    if found is None:
        return None, gap_frame("this Last-Event-ID is of no gateway of this fleet; what came before now is not sent")
    positions, is_whole = found
    if not is_whole:
        return positions, gap_frame(
            "so many boxes had sessions that an id does not name all; read the others with since"
        )
    return positions, RESUMED_FRAME


async def _end_with(frame: bytes) -> AsyncGenerator[bytes, None]:
    yield frame
