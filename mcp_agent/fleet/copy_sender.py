"""The box that a file is copied from: it offers the file to one other box, which pulls it piece by piece.

An offer is made by a call of a gateway, under the rules of this box. The ticket in it is for the box that was named:
NATS binds the name of the puller to the subject that it asks on.

    receiver                                      sender
    {"ticket", "from": offset, "most": bytes}  →  {"is": "piece"} and bytes
    {"ticket", "digest": true}                 →  {"is": "digest", "sha256"} or {"is": "running"}: ask again
                                                  {"is": "gone"}: there is no such offer; {"is": "changed"}
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import secrets
import time
from collections.abc import Callable
from typing import Annotated, Any, cast

from mcp_agent.fleet.bus import BusError, Message
from mcp_agent.fleet.call_protocol import HOLD_S, MOST_PIECE_BYTES, pack, unpack
from mcp_agent.fleet.messages import BadMessage
from mcp_agent.fleet.subjects import gateway_of
from mcp_agent.process.logs import event
from tools.context import ToolContext
from tools.files import disk
from tools.files.sources import open_source
from tools.kit.errors import TooLarge
from tools.kit.params import Field
from tools.kit.results import Result
from tools.kit.spec import Tool, tool

log = logging.getLogger(__name__)

SEND = "box_send"
# An offer that nobody has asked for in so long is taken back.
OFFER_S = 120.0
# The same for one whose checksum was given: the copy is complete, unless that answer was lost.
_GIVEN_S = 10.0
_MOST_OFFERS = 200
_HASHED_AT_ONCE = 1024 * 1024
_PIECE_HEAD = pack({"is": "piece"}, b"")


class Offer(Result, frozen=True):
    """A file that another box may pull now. `rev` is different if the file is."""

    path: str
    size: int
    mode: int
    rev: str
    ticket: str

    def render(self) -> str:
        return f"{self.path} is offered"


class _OfferedFile:
    """An open file, hashed as it is read from its beginning."""

    def __init__(self, descriptor: int, to_box: str) -> None:
        self.descriptor = descriptor
        self.to_box = to_box
        self.status = os.fstat(descriptor)
        self.used_at = time.monotonic()
        self.is_given = False
        # One read at a time, in the order of the requests.
        self.turn = asyncio.Lock()
        self.digest: asyncio.Task[str] | None = None
        self._hash = hashlib.sha256()
        self._hashed_to = 0
        # Every answer is made in it: the system takes as long to give fresh memory as to send it.
        self._answer = bytearray(_PIECE_HEAD) + bytearray(MOST_PIECE_BYTES)

    def answer(self, start: int, most: int) -> memoryview:
        """The answer with a piece of the file. It is gone with the next one."""
        size = self._read(start, memoryview(self._answer)[len(_PIECE_HEAD) :][:most])
        return memoryview(self._answer)[: len(_PIECE_HEAD) + size]

    def _read(self, start: int, place: memoryview) -> int:
        size = os.preadv(self.descriptor, [place], start)
        if start == self._hashed_to:
            self._hash.update(place[:size])
            self._hashed_to += size
        return size

    async def hash_rest(self) -> str:
        async with self.turn:
            return await asyncio.to_thread(self._hash_rest)

    @property
    def is_changed(self) -> bool:
        return disk.identity(os.fstat(self.descriptor)) != disk.identity(self.status)

    def _hash_rest(self) -> str:
        place = memoryview(bytearray(_HASHED_AT_ONCE))
        while self._hashed_to < self.status.st_size and self._read(self._hashed_to, place):
            pass
        return self._hash.hexdigest()


class CopySender:
    """The offers of this box."""

    def __init__(self) -> None:
        self._offers: dict[str, _OfferedFile] = {}

    @property
    def tool(self) -> Tool:
        @tool("fleet", effect="read", name=SEND, deadline_s=60.0)
        async def box_send(
            ctx: ToolContext,
            *,
            path: Annotated[str, Field.of_path("File to offer.")],
            to_box: Annotated[str, Field(description="The box that may pull it.", audited=True)],
        ) -> Offer:
            """Offer a file to another box."""
            if len(self._offers) >= _MOST_OFFERS and not self._make_room():
                raise TooLarge(f"this box offers {_MOST_OFFERS} files already", hint="try again later")
            descriptor, shown = await asyncio.to_thread(_open, ctx, path)
            offered = _OfferedFile(descriptor, to_box)
            ticket = secrets.token_urlsafe(24)
            self._offers[ticket] = offered
            status = offered.status
            rev = hashlib.sha256(repr(disk.identity(status)).encode()).hexdigest()[:16]
            return Offer(shown, status.st_size, status.st_mode & 0o777, rev, ticket)

        return box_send

    async def serve(self, message: Message) -> None:
        """Answer a message on the subject `copy`."""
        try:
            head, _ = unpack(message.data)
        except BadMessage as error:
            event(log, logging.WARNING, "fleet.bad_message", message=str(error))
            return
        offered = self._offers.get(str(head.get("ticket")))
        if offered is None or offered.to_box != gateway_of(message.subject):
            answer = pack({"is": "gone"})
        elif head.get("digest"):
            answer = await self._answer_digest(offered)
        else:
            await self._send_piece(offered, head, message)
            return
        await _respond(message, answer)

    async def expire(self, is_connected: Callable[[], bool]) -> None:
        """Until cancelled, take back offers that nobody asks for."""
        while True:
            await asyncio.sleep(OFFER_S / 10)
            now = time.monotonic()
            for ticket, offered in list(self._offers.items()):
                if not is_connected() or offered.turn.locked():
                    offered.used_at = now
                elif now - offered.used_at > (_GIVEN_S if offered.is_given else OFFER_S):
                    self._withdraw(ticket)

    def _make_room(self) -> bool:
        """Take back the oldest offer whose file was pulled. False if there is none."""
        given = [(each.used_at, ticket) for ticket, each in self._offers.items() if each.is_given]
        if not given:
            return False
        self._withdraw(min(given)[1])
        return True

    def _withdraw(self, ticket: str) -> None:
        os.close(self._offers.pop(ticket).descriptor)

    async def _send_piece(self, offered: _OfferedFile, head: dict[str, Any], message: Message) -> None:
        start, most = head.get("from"), head.get("most")
        if not isinstance(start, int) or not isinstance(most, int) or start < 0 or most < 1:
            await _respond(message, pack({"is": "gone"}))
            return
        # From now on its file must stay open.
        offered.is_given = False
        async with offered.turn:
            offered.used_at = time.monotonic()
            answer: bytes | memoryview
            try:
                answer = await asyncio.to_thread(offered.answer, start, min(most, MOST_PIECE_BYTES))
            except OSError as error:
                answer = pack({"is": "failed", "message": (error.strerror or str(error)).lower()})
            await _respond(message, answer)

    async def _answer_digest(self, offered: _OfferedFile) -> bytes:
        if offered.digest is None:
            offered.digest = asyncio.get_running_loop().create_task(offered.hash_rest())
        done, _ = await asyncio.wait({offered.digest}, timeout=HOLD_S)
        offered.used_at = time.monotonic()
        if not done:
            return pack({"is": "running"})
        try:
            digest = offered.digest.result()
        except OSError as error:
            return pack({"is": "failed", "message": (error.strerror or str(error)).lower()})
        offered.is_given = True
        # The content that was sent and hashed may be of two times.
        return pack({"is": "changed"} if offered.is_changed else {"is": "digest", "sha256": digest})


async def _respond(message: Message, answer: bytes | memoryview) -> None:
    try:
        # The client of NATS copies any buffer into its message, and declares only bytes.
        await message.respond(cast("bytes", answer))
    except BusError as error:
        # It asks again.
        event(log, logging.DEBUG, "fleet.answer_not_sent", message=str(error))


def _open(ctx: ToolContext, path: str) -> tuple[int, str]:
    source = ctx.source(path)
    with open_source(ctx.paths, source) as opened:
        return os.dup(opened.descriptor), source.shown
