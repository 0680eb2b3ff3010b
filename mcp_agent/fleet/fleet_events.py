"""/events of a gateway: the sessions of all boxes.

    GET /events                             every session of every box, from now on
    GET /events?box=NAME                    every session of one box
    GET /events?session_id=ID&since=OFFSET  one session, from a byte of its output on; negative counts from the end
    Last-Event-ID: box.boot.number,…        what came after that event, whichever gateway sent it

Boxes encode the events; the gateway puts the ids before them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from mcp_agent.events.hub import EventHub
from mcp_agent.events.output_cursor import OutputCursor
from mcp_agent.events.output_frames import gap_frame
from mcp_agent.events.types import Condition
from mcp_agent.fleet.box_watch import Batch, NoSuchSession, SwitchedOff, WatchEnded
from mcp_agent.fleet.directory import list_names
from mcp_agent.fleet.fleet_watch import BadId, FleetWatch, Missed, Place, parse_places
from mcp_agent.fleet.gateway import Gateway
from mcp_agent.fleet.subjects import boxes_in
from mcp_agent.fleet.watch_protocol import Opening
from mcp_agent.transports.events import (
    CONNECTED_FRAME,
    RESUMED_FRAME,
    AskedEvents,
    EventsWire,
    StreamRefused,
    no_session,
)
from registry.gate import Access, Gate

_OPEN_S = 5.0


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
        places, first = _read_id(asked.last_id)
        box = self._box_of(asked)
        watch = self._gateway.watch(box=box, session=asked.session_id, places=places)
        if asked.session_id is not None and box is not None:
            place = None if places is None else places.get(box)
            if place is not None and place.boot != self._directory.boxes[box].boot:
                yield _end_with(gap_frame(f"{box} was restarted; the output of its earlier sessions is gone", box=box))
                return
            await self._open_session(watch, asked, place)
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

    async def _open_session(self, watch: FleetWatch, asked: AskedEvents, place: Place | None) -> None:
        assert asked.session_id is not None, "the caller has looked"
        at: Opening = {"after": place.number} if place is not None else {"since": asked.since}
        try:
            async with asyncio.timeout(_OPEN_S):
                await watch.open_session(at)
        except NoSuchSession as error:
            raise no_session(asked.session_id, error.known) from None
        except SwitchedOff as error:
            raise StreamRefused(403, str(error)) from None
        except (WatchEnded, TimeoutError):
            raise StreamRefused(
                503, "the box of the session cannot be reached now", "try again with the same id"
            ) from None

    async def _output(self, watch: FleetWatch, first: bytes) -> AsyncGenerator[bytes, None]:
        yield first
        async for item in watch.items():
            if isinstance(item, Missed):
                self._hub.gaps += 1
                id_line = b"" if item.place is None else watch.id_line(item.box) % item.place.number
                yield id_line + gap_frame(item.reason, box=item.box)
                if item.is_end:
                    return
            elif item.batch is not None:
                yield _join(item.batch, watch.id_line(item.box))


def _join(batch: Batch, id_line: bytes) -> bytes:
    """The frames of a batch, each with its id before it."""
    body, rows = memoryview(batch.body), batch.rows
    parts: list[bytes | memoryview] = []
    start = 0
    for size, number in zip(rows[::2], rows[1::2], strict=True):
        if number:
            parts.append(id_line % number)
        parts.append(body[start : start + size])
        start += size
    return b"".join(parts)


def _read_id(last_id: str | None) -> tuple[dict[str, Place] | None, bytes]:
    """The places that an id has, and the first frame of the stream."""
    if last_id is None:
        return None, CONNECTED_FRAME
    try:
        places, is_whole = parse_places(last_id)
    except BadId:
        return None, gap_frame("this Last-Event-ID is of no gateway of this fleet; what came before now is not sent")
    if not is_whole:
        return places, gap_frame("so many boxes had sessions that an id does not name all; read the others with since")
    return places, RESUMED_FRAME


async def _end_with(frame: bytes) -> AsyncGenerator[bytes, None]:
    yield frame
