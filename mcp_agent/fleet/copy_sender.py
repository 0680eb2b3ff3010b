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
from typing import Annotated, Any

from mcp_agent.fleet.bus import BusError, Message
from mcp_agent.fleet.call_protocol import HOLD_S, MOST_PIECE_BYTES, BadMessage, pack, unpack
from mcp_agent.fleet.subjects import gateway_of
from mcp_agent.logs import event
from tools.context import ToolContext
from tools.files import disk
from tools.files.sources import open_source
from tools.kit.errors import TooLarge
from tools.kit.params import Field
from tools.kit.records import record
from tools.kit.results import Result
from tools.kit.spec import Tool, tool

log = logging.getLogger(__name__)

SEND = "box_send"
# An offer that nobody has asked for in so long is taken back.
OFFER_S = 120.0
_MOST_OFFERS = 200
_HASHED_AT_ONCE = 4 * 1024 * 1024


@record
class Offer(Result):
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
        # One read at a time, in the order of the requests.
        self.turn = asyncio.Lock()
        self.digest: asyncio.Task[str] | None = None
        self._hash = hashlib.sha256()
        self._hashed_to = 0

    def read(self, start: int, most: int) -> bytes:
        data = os.pread(self.descriptor, most, start)
        if start == self._hashed_to:
            self._hash.update(data)
            self._hashed_to += len(data)
        return data

    async def hash_rest(self) -> str:
        async with self.turn:
            return await asyncio.to_thread(self._hash_rest)

    @property
    def is_changed(self) -> bool:
        return disk.identity(os.fstat(self.descriptor)) != disk.identity(self.status)

    def _hash_rest(self) -> str:
        while self._hashed_to < self.status.st_size and self.read(self._hashed_to, _HASHED_AT_ONCE):
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
            if len(self._offers) >= _MOST_OFFERS:
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
            answer = await self._answer_piece(offered, head)
        try:
            await message.respond(answer)
        except BusError as error:
            # It asks again.
            event(log, logging.DEBUG, "fleet.answer_not_sent", message=str(error))

    async def expire(self, is_connected: Callable[[], bool]) -> None:
        """Until cancelled, take back offers that nobody asks for."""
        while True:
            await asyncio.sleep(OFFER_S / 10)
            now = time.monotonic()
            for ticket, offered in list(self._offers.items()):
                if not is_connected() or offered.turn.locked():
                    offered.used_at = now
                elif now - offered.used_at > OFFER_S:
                    del self._offers[ticket]
                    os.close(offered.descriptor)

    async def _answer_piece(self, offered: _OfferedFile, head: dict[str, Any]) -> bytes:
        start, most = head.get("from"), head.get("most")
        if not isinstance(start, int) or not isinstance(most, int) or start < 0 or most < 1:
            return pack({"is": "gone"})
        async with offered.turn:
            offered.used_at = time.monotonic()
            try:
                data = await asyncio.to_thread(offered.read, start, min(most, MOST_PIECE_BYTES))
            except OSError as error:
                return pack({"is": "failed", "message": (error.strerror or str(error)).lower()})
        return pack({"is": "piece"}, data)

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
        # The content that was sent and hashed may be of two times.
        return pack({"is": "changed"} if offered.is_changed else {"is": "digest", "sha256": digest})


def _open(ctx: ToolContext, path: str) -> tuple[int, str]:
    source = ctx.source(path)
    with open_source(ctx.paths, source) as opened:
        return os.dup(opened.descriptor), source.shown
