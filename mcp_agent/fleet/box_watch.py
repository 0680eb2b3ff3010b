"""The gateway's end of a watch on the sessions of one box: it reads on, and begins again where it broke."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

from mcp_agent.fleet.bus import Bus, BusError, Disconnected, NoResponders, NotPermitted, TimedOut
from mcp_agent.fleet.call_protocol import HOLD_S, pack, unpack
from mcp_agent.fleet.messages import BadMessage
from mcp_agent.fleet.subjects import verb_subject
from mcp_agent.fleet.watch_protocol import Form, Opening

# Longer than a busy box takes: a read that is given up is read once more.
_ANSWER_S = HOLD_S + 6.0
_RETRY_S = 0.05
# After an answer of that size it is worth it to have several reads under way.
_MUCH_BYTES = 32 * 1024


class WatchEnded(Exception):
    """The box has no more for this watch."""


class Idle(WatchEnded):
    """No session is left that could say more; `events` is the number of the newest event of the box."""

    def __init__(self, events: int) -> None:
        super().__init__("all sessions have ended")
        self.events = events


class SwitchedOff(WatchEnded):
    """The box does not let gateways hear of its sessions."""


class BoxStops(WatchEnded):
    """The box is being stopped, and all that its sessions said has been given."""


class NoSuchSession(WatchEnded):
    def __init__(self, known: list[str]) -> None:
        super().__init__("there is no such session")
        self.known = known


class Unreachable(WatchEnded):
    """Nobody serves this start of the box."""


class Batch(NamedTuple):
    """An answer of a box: the rows of its head, and bytes."""

    rows: list[Any]
    body: bytes | memoryview


class BoxWatch:
    """One watch. `at` is where it goes on: it moves with each batch that was given."""

    def __init__(
        self,
        bus: Bus,
        gateway: str,
        box: str,
        boot: str,
        at: Opening,
        *,
        session: str | None = None,
        form: Form = "frames",
    ) -> None:
        self.box = box
        self.boot = boot
        self.at = at
        # How many reads may be under way, how large their answers, and how long to wait after one with output.
        self.most_reads = 1
        self.most_bytes: int | None = None
        self.pause_s = 0.0
        self._bus = bus
        self._subject = verb_subject(box, boot, "read", gateway)
        self._session = session
        self._form: Form = form
        self._id: str | None = None
        self._reads: deque[asyncio.Task[tuple[dict[str, Any], memoryview]]] = deque()
        self._is_abandoned = False

    def abandon(self) -> None:
        """This start of the box is gone: what it has answered is still given, and nothing more is waited for."""
        self._is_abandoned = True
        for read in self._reads:
            read.cancel()

    async def open(self) -> None:
        """Begin at `at`. Raises WatchEnded; waits while the gateway has no connection of its own."""
        while self._id is None:
            if self._is_abandoned:
                raise Unreachable("it runs anew")
            id_ = secrets.token_hex(8)
            head = {"watch": id_, "open": self.at, "form": self._form}
            if self._session is not None:
                head["session"] = self._session
            try:
                answer, _ = await self._request(head)
            except (TimedOut, Disconnected):
                await asyncio.sleep(_RETRY_S)
                continue
            match answer.get("is"):
                case "begins":
                    self._id, self.at = id_, answer["at"]
                case "none":
                    raise NoSuchSession(list(answer.get("known", ())))
                case "busy":
                    await asyncio.sleep(1.0)
                case _:
                    _raise_end(answer)

    async def batches(self) -> AsyncGenerator[Batch, None]:
        """What the sessions say, in order, until the watch is ended. Raises WatchEnded."""
        while True:
            await self.open()
            try:
                async for batch in self._read():
                    yield batch
            except (TimedOut, Disconnected):
                pass
            finally:
                await self._close()

    async def _read(self) -> AsyncGenerator[Batch, None]:
        """Read on, several reads at a time while there is much. Returns when the box has given the watch up."""
        reads = self._reads
        wanted, expected = 1, 0
        whole: list[memoryview] = []
        rows: list[Any] = []
        try:
            while True:
                while len(reads) < wanted and not self._is_abandoned:
                    reads.append(asyncio.create_task(self._request(self._question())))
                if self._is_abandoned and (not reads or reads[0].cancelled() or reads[0].cancelling()):
                    raise Unreachable("it runs anew")
                await asyncio.wait((reads[0],))
                if reads[0].cancelled():
                    raise Unreachable("it runs anew")
                head, body = reads[0].result()
                if head.get("is") == "unknown":
                    return
                if head.get("is") != "output":
                    _raise_end(head)
                reads.popleft()
                expected += 1
                if head["seq"] != expected:
                    # One was lost in between.
                    return
                wanted = self.most_reads if len(body) >= _MUCH_BYTES else 1
                if not body and not head["frames"]:
                    continue
                # A frame that fits no message comes in several.
                whole.append(body)
                rows += head["frames"]
                if head.get("rest"):
                    continue
                batch = Batch(rows, whole[0] if len(whole) == 1 else b"".join(whole))
                last = self.last_number(batch)
                if last is not None:
                    self.at = {"after": last}
                yield batch
                whole, rows = [], []
                if self.pause_s:
                    await asyncio.sleep(self.pause_s)
        finally:
            for read in reads:
                read.cancel()
            await asyncio.gather(*reads, return_exceptions=True)
            reads.clear()

    def _question(self) -> dict[str, Any]:
        asked: dict[str, Any] = {"watch": self._id, "hold": HOLD_S}
        if self.most_bytes is not None:
            asked["most"] = self.most_bytes
        return asked

    def last_number(self, batch: Batch) -> int | None:
        """The number of the last event of a batch that has one."""
        numbers = batch.rows[1::2] if self._form == "frames" else [row[2] for row in batch.rows]
        return next((number for number in reversed(numbers) if number), None)

    async def _request(self, head: dict[str, Any]) -> tuple[dict[str, Any], memoryview]:
        if not self._bus.is_connected:
            await self._bus.wait_connected(_ANSWER_S)
        try:
            answer, body = unpack(await self._bus.request(self._subject, pack(head), _ANSWER_S))
        except NoResponders:
            raise Unreachable(f"nobody serves {self._subject}") from None
        except NotPermitted as error:
            raise SwitchedOff(str(error)) from None
        except BadMessage as error:
            raise Unreachable(str(error)) from None
        if answer.get("is") == "output" and not (
            isinstance(answer.get("seq"), int) and isinstance(answer.get("frames"), list)
        ):
            raise Unreachable("an answer cannot be read")
        return answer, body

    async def _close(self) -> None:
        id_, self._id = self._id, None
        if id_ is not None and self._bus.is_connected:
            # If it gets lost, the box gives the watch up by itself.
            with contextlib.suppress(BusError):
                await self._bus.publish(self._subject, pack({"watch": id_, "close": True}))


def _raise_end(answer: dict[str, Any]) -> None:
    match answer.get("is"):
        case "idle":
            raise Idle(int(answer["at"]))
        case "off":
            raise SwitchedOff("the shell tools are switched off for gateways there")
        case "bad":
            raise SwitchedOff(f"it does not take this gateway: {answer.get('message')}")
        case "ends":
            raise BoxStops("it is being stopped")
        case found:
            raise Unreachable(f"there is no answer {found!r}")
