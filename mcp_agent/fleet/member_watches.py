"""The watches of gateways on the sessions of this box: each is a cursor, and costs nothing while nobody reads on."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from mcp_agent.daemon import Daemon
from mcp_agent.events.hub import MOST_CHUNK_BYTES, RATE_BYTES
from mcp_agent.events.output_cursor import CursorItem, OutputCursor
from mcp_agent.events.output_frames import OutputFrames
from mcp_agent.fleet.bus import BusError, Message
from mcp_agent.fleet.call_protocol import HOLD_S, pack, unpack
from mcp_agent.fleet.member_artifacts import MemberArtifacts
from mcp_agent.fleet.messages import BadMessage
from mcp_agent.fleet.subjects import gateway_of
from mcp_agent.fleet.watch_protocol import MOST_FRAMES, MOST_READS, WATCH_LEASE_S, answer_bytes
from mcp_agent.process.logs import event
from tools.sessions.output_log import Exit, Lost, OutputLog, PieceSpan

log = logging.getLogger(__name__)

_MOST_WATCHES = 2_000
_DRAIN_S = 1.0


class MemberWatches:
    """Serves the subject `read`. `may_hear` says whether gateways may hear of sessions at this moment.

    Artifacts are read on the same subject.
    """

    def __init__(self, daemon: Daemon, may_hear: Callable[[], bool]) -> None:
        self._daemon = daemon
        self._may_hear = may_hear
        self._artifacts = MemberArtifacts(daemon.artifacts)
        self._watches: dict[tuple[str, str], _Watch] = {}
        self._frames = OutputFrames(daemon.hub.session_event)
        self.max_payload: Callable[[], int] = lambda: 0

    async def serve(self, message: Message) -> None:
        gateway = gateway_of(message.subject)
        try:
            head, _ = unpack(message.data)
            if "artifact" in head:
                most_bytes = answer_bytes(self.max_payload(), head.get("most"))
                await message.respond(await self._artifacts.answer(head, most_bytes))
                return
            id_ = head.get("watch")
            if not isinstance(id_, str) or not 8 <= len(id_) <= 64:
                raise BadMessage("a watch has an id of 8 to 64 characters")
            if "open" in head:
                await message.respond(pack(self._open((gateway, id_), head)))
                return
        except BadMessage as error:
            event(log, logging.WARNING, "fleet.bad_message", gateway=gateway, message=str(error))
            await message.respond(pack({"is": "bad", "message": str(error)}))
            return
        watch = self._watches.get((gateway, id_))
        if head.get("close"):
            if watch is not None:
                watch.end()
        elif watch is None or len(watch.reads) >= MOST_READS:
            await message.respond(pack({"is": "unknown"}))
        else:
            hold = head.get("hold")
            hold_s = float(hold) if isinstance(hold, int | float) else HOLD_S
            watch.ask(message, hold_s, answer_bytes(self.max_payload(), head.get("most")))

    async def stop(self) -> None:
        """Give watchers that read on what there is to the end."""
        active = [watch.task for watch in self._watches.values() if watch.is_read]
        if active:
            await asyncio.wait(active, timeout=_DRAIN_S)
        for watch in list(self._watches.values()):
            watch.end()

    def _open(self, key: tuple[str, str], head: dict[str, Any]) -> dict[str, Any]:
        """Begin a watch, and say where it begins. Raises BadMessage."""
        opening, session, form = head["open"], head.get("session"), head.get("form", "frames")
        if not isinstance(opening, dict) or form not in ("frames", "tail"):
            raise BadMessage("a watch begins somewhere, and has the form frames or tail")
        hub = self._daemon.hub
        if not self._may_hear():
            return {"is": "off"}
        if hub.is_closed:
            return {"is": "ends"}
        if session is not None and hub.log(str(session)) is None:
            return {"is": "none", "known": [each.session_id for each in hub.logs][:100]}
        if len(self._watches) >= _MOST_WATCHES:
            return {"is": "busy"}
        only = None if session is None else (str(session),)
        cursor = OutputCursor(only) if form == "frames" else _TailCursor(only)
        begins = self._place(cursor, opening, None if only is None else hub.log(only[0]))
        watch = self._watches[key] = _Watch(
            cursor,
            self._daemon,
            _FrameAnswers(self._frames) if form == "frames" else _TailAnswers(),
            self._may_hear,
            lambda: self._watches.pop(key, None),
        )
        hub.follow(cursor, self._may_hear)
        watch.task = asyncio.create_task(watch.run())
        return {"is": "begins", "at": begins}

    def _place(self, cursor: OutputCursor, opening: dict[str, Any], session: OutputLog | None) -> dict[str, Any]:
        hub = self._daemon.hub
        after, since, young_s = opening.get("after"), opening.get("since"), opening.get("young_s")
        if isinstance(after, int):
            hub.resume(cursor, after)
            return {"after": after}
        if isinstance(since, int) and session is not None:
            offset = session.absolute(since)
            cursor.add(session, offset)
            return {"since": offset}
        if session is not None:
            cursor.add(session, session.end)
            return {"since": session.end}
        if not isinstance(young_s, int | float):
            raise BadMessage("a watch begins after a number, at an offset of a session, or at an age")
        for each in self._daemon.sessions.all:
            if young_s and each.age_s <= young_s:
                cursor.add(each.log, 0)
            elif each.log.exit is None:
                cursor.add(each.log, each.log.end)
        return {"young_s": young_s} if young_s else {"after": hub.last_number}


class _TailCursor(OutputCursor):
    """Follows as clients on MCP wires do: the newest output is worth most, and no child waits for it."""

    def needs(self, log: OutputLog, to: int, now: float) -> bool:
        return False


class _Watch:
    """One watcher: the reads that wait, and a task that answers them in order."""

    def __init__(
        self,
        cursor: OutputCursor,
        daemon: Daemon,
        answers: _FrameAnswers | _TailAnswers,
        may_hear: Callable[[], bool],
        on_end: Callable[[], object],
    ) -> None:
        self.reads: deque[tuple[Message, float, int]] = deque()
        self.task: asyncio.Task[None]
        self._cursor = cursor
        self._hub = daemon.hub
        self._answers = answers
        self._may_hear = may_hear
        self._on_end = on_end
        self._woken = asyncio.Event()
        self._count = 0
        self._asked_at = _now()
        cursor.wake = self._woken.set

    @property
    def is_read(self) -> bool:
        return _now() - self._asked_at < _DRAIN_S + HOLD_S

    def ask(self, message: Message, hold_s: float, most_bytes: int) -> None:
        self._asked_at = _now()
        self.reads.append((message, self._asked_at + min(max(hold_s, 0.0), HOLD_S), most_bytes))
        self._woken.set()

    def end(self) -> None:
        self.task.cancel()

    async def run(self) -> None:
        try:
            while True:
                self._woken.clear()
                if not self.reads:
                    async with asyncio.timeout(WATCH_LEASE_S):
                        await self._woken.wait()
                    continue
                message, until, most_bytes = self.reads[0]
                found = self._answers.take(self._cursor, most_bytes)
                if found is None:
                    last = self._last_answer()
                    if last is not None:
                        await message.respond(pack(last))
                        return
                    if await self._wait(until):
                        continue
                    found = {"frames": []}, []
                self.reads.popleft()
                head, parts = found
                self._count += 1
                await message.respond(pack({"is": "output", "seq": self._count, **head}, *parts))
                self._cursor.count_taken(sum(map(len, parts)), _now())
        except TimeoutError:
            # Nobody reads on. Who comes back opens another watch.
            pass
        except BusError as error:
            # The watcher does not get the answer either, and begins again after what it has.
            event(log, logging.DEBUG, "fleet.answer_not_sent", message=str(error))
        finally:
            self._hub.unfollow(self._cursor)
            self._on_end()

    def _last_answer(self) -> dict[str, Any] | None:
        if self._cursor.is_closed:
            return {"is": "ends"} if self._may_hear() else {"is": "off"}
        return None if self._cursor.is_following else {"is": "idle", "at": self._hub.last_number}

    async def _wait(self, until: float) -> bool:
        """Wait for output. False if there was none in time."""
        self._cursor.note_caught_up(_now())
        try:
            async with asyncio.timeout_at(until):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._cursor.note_caught_up(_now())
        return True


class _FrameAnswers:
    """Output as ready events: `frames` has the size and the number of each, 0 for one without a number."""

    def __init__(self, frames: OutputFrames) -> None:
        self._frames = frames
        self._rest = memoryview(b"")

    def take(self, cursor: OutputCursor, most_bytes: int) -> tuple[dict[str, Any], list[bytes]] | None:
        """What comes next; None if there is nothing. A frame that fits no answer is continued in the next one."""
        if self._rest:
            part, self._rest = bytes(self._rest[:most_bytes]), self._rest[most_bytes:]
            return {"frames": [], "rest": len(self._rest)}, [part]
        rows: list[int] = []
        parts: list[bytes] = []
        size = 0
        for each, item in cursor.take(most_bytes):
            frame = self._frames.frame(each, item)
            if parts and (size + len(frame) > most_bytes or len(parts) >= MOST_FRAMES):
                # Not taken yet: the cursor moves on when the next one is asked for.
                break
            parts.append(frame)
            rows += (len(frame), 0 if isinstance(item, Lost) else item.number)
            size += len(frame)
        if size > most_bytes:
            self._rest = memoryview(parts[0])[most_bytes:]
            return {"frames": rows, "rest": len(self._rest)}, [parts[0][:most_bytes]]
        return ({"frames": rows}, parts) if parts else None


class _TailAnswers:
    """Output as it is, for clients on MCP wires: what is too much for them is left out here already."""

    def take(self, cursor: OutputCursor, most_bytes: int) -> tuple[dict[str, Any], list[bytes]] | None:
        rows: list[list[Any]] = []
        parts: list[bytes] = []
        for each in list(cursor.behind):
            lost = cursor.skip_old(each, 2 * RATE_BYTES, MOST_CHUNK_BYTES)
            if lost is not None:
                rows.append(_row(each, lost))
        for each, item in cursor.take(most_bytes):
            if len(rows) >= MOST_FRAMES:
                break
            if isinstance(item, PieceSpan):
                data = each.data(item)
                if len(data) == item.end - item.offset:
                    parts.append(data)
                else:
                    item = Lost(item.offset, item.end)
            rows.append(_row(each, item))
        return ({"frames": rows}, parts) if rows else None


def _row(output: OutputLog, item: CursorItem) -> list[Any]:
    if isinstance(item, Lost):
        return ["lost", output.session_id, 0, item.offset, item.end]
    if isinstance(item, Exit):
        return ["exit", output.session_id, item.number, item.offset, item.exit_code, item.signal, item.ended_by]
    return [item.stream, output.session_id, item.number, item.offset, item.end]


def _now() -> float:
    return asyncio.get_running_loop().time()
