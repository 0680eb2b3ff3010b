"""Both ends of a copy on a box: an open file that is sent in pieces, and one that is made of pieces.

A gateway reads the pieces here and writes them there, in order; the last one is empty and carries the checksum
of the whole. What has arrived is in the state folder. When it is whole, the journal puts it to its place in one step,
with an undo_id.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

from mcp_agent.fleet.bus import Message
from mcp_agent.fleet.messages import (
    BadMessage,
    CopyAnswer,
    CopyFailed,
    CopyGone,
    CopyPiece,
    PieceWritten,
    ReadPiece,
    WritePiece,
    encode,
    read_copy_question,
)
from mcp_agent.process.logs import event
from tools.context import ToolContext
from tools.files import disk
from tools.files.paths import to_wire
from tools.files.sources import open_existing, open_source
from tools.filesystem.changes import ChangeResult, make_parents
from tools.journal.journal_records import Receipt
from tools.kit.errors import IoError, TooLarge, from_os_error
from tools.kit.params import Field
from tools.kit.results import Result
from tools.kit.spec import Tool, tool

log = logging.getLogger(__name__)

SEND, RECEIVE = "box_send", "box_receive"
DEADLINE_S = 24 * 3600.0
# A file whose pieces nobody reads or writes for so long is given up.
IDLE_S = 30.0
_REPORT_EVERY_S = 0.25
_MOST_COPIES = 200
_MOST_PIECE_BYTES = 8 * 1024 * 1024
_T = TypeVar("_T")


class Offer(Result, frozen=True):
    """A file whose pieces a gateway may read now, under the ticket."""

    path: str
    size: int
    mode: int
    ticket: str

    def render(self) -> str:
        return f"{self.path} is offered"


class Received(ChangeResult, frozen=True):
    """The file is in its place."""

    path: str
    bytes: int
    sha256: str

    def render(self) -> str:
        return f"{self.bytes} bytes received as {self.path}"


class Copy:
    """An open file, read or written in order and hashed on the way. It holds no piece: a lost one is read anew."""

    def __init__(self, descriptor: int, size: int, *, is_written: bool) -> None:
        self.size = size
        self.is_written = is_written
        self.offset = 0
        self.used_at = _now()
        # One piece at a time.
        self.turn = asyncio.Lock()
        # The checksum that came with the last piece, of a file that is written.
        self.expected: str | None = None
        self.is_whole = asyncio.Event()
        self._descriptor = descriptor
        self._before = os.fstat(descriptor)
        self._hash = hashlib.sha256()
        # Where the last piece began: a gateway that did not get the answer asks again.
        self._piece_at = 0
        # What is said at the end of a file that is read.
        self._end: CopyPiece | None = None

    @property
    def is_open(self) -> bool:
        return self._descriptor >= 0

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    async def answer(self, question: ReadPiece | WritePiece) -> CopyAnswer:
        async with self.turn:
            self.used_at = _now()
            if self._end is not None and question.offset == self.offset:
                return self._end
            if question.offset not in (self.offset, self._piece_at) or not self.is_open:
                return CopyFailed(f"the next piece begins at {self.offset}, not at {question.offset}")
            try:
                found = await _in_thread(self._take, question)
            except OSError as error:
                return CopyFailed((error.strerror or str(error)).lower())
            if self.expected is not None:
                self.is_whole.set()
            return found

    def _take(self, question: ReadPiece | WritePiece) -> CopyAnswer:
        is_new = question.offset == self.offset
        if isinstance(question, WritePiece):
            data = question.data
            if is_new:
                disk.write_all(self._descriptor, data)
            self.expected = question.sha256
        else:
            size = min(question.size, self.size - question.offset, _MOST_PIECE_BYTES)
            data = os.pread(self._descriptor, size, question.offset)
        if is_new:
            self._hash.update(data)
            self._piece_at, self.offset = self.offset, self.offset + len(data)
        if isinstance(question, WritePiece):
            return PieceWritten()
        if data:
            return CopyPiece(data)
        if disk.identity(os.fstat(self._descriptor)) != disk.identity(self._before):
            return CopyFailed("the file was changed while it was copied")
        self.close()
        self._end = CopyPiece(b"", self.digest)
        return self._end

    def close(self) -> None:
        if self.is_open:
            os.close(self._descriptor)
            self._descriptor = -1


class MemberCopies:
    """The copies under way on this box. `folder` has the files that are not whole yet."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._copies: dict[str, Copy] = {}
        # Those of a daemon that was killed.
        shutil.rmtree(folder, ignore_errors=True)

    @property
    def tools(self) -> tuple[Tool, Tool]:
        @tool("fleet", effect="read", name=SEND, deadline_s=DEADLINE_S)
        async def box_send(
            ctx: ToolContext,
            *,
            path: Annotated[str, Field.of_path("File to offer.")],
            to_box: Annotated[str, Field(description="The box that it is for.", audited=True)],
        ) -> Offer:
            """Offer a file to a gateway, for another box."""
            descriptor, shown = await asyncio.to_thread(_open_source, ctx, path)
            status, ticket = os.fstat(descriptor), secrets.token_urlsafe(24)
            self._add(ticket, Copy(descriptor, status.st_size, is_written=False))
            return Offer(shown, status.st_size, status.st_mode & 0o777, ticket)

        @tool("fleet", effect="write", name=RECEIVE, destructive=True, deadline_s=DEADLINE_S)
        async def box_receive(
            ctx: ToolContext,
            *,
            path: Annotated[str, Field.of_path("Where to put the file.")],
            from_box: Annotated[str, Field(description="The box that it comes from.", audited=True)],
            source: Annotated[str, Field(description="The file there.", audited=True)],
            ticket: Annotated[str, Field(description="What the pieces come under.")],
            size: Annotated[int, Field(minimum=0)],
            mode: Annotated[int, Field(minimum=0, maximum=0o777)],
        ) -> Received:
            """Make a file of the pieces that a gateway writes."""
            target = await _in_thread(_resolve_target, ctx, path)
            shown = to_wire(target)
            staged = self._folder / secrets.token_hex(8)
            try:
                disk.private_folder(self._folder)
                copy = Copy(os.open(staged, disk.NEW_FLAGS, 0o600), size, is_written=True)
                self._add(ticket, copy)
                try:
                    await _wait_until_whole(ctx, copy)
                    receipt = await _in_thread(_place, ctx, target, staged, mode)
                finally:
                    async with copy.turn:
                        copy.close()
                    self._copies.pop(ticket, None)
            except OSError as error:
                raise from_os_error(error, shown) from error
            finally:
                staged.unlink(missing_ok=True)
            return Received(shown, size, copy.digest, **receipt.fields())

        return box_send, box_receive

    async def serve(self, message: Message) -> None:
        """Answer a message on the subject `copy`."""
        try:
            question = read_copy_question(message.data)
        except BadMessage as error:
            event(log, logging.WARNING, "fleet.bad_message", message=str(error))
            return
        copy = self._copies.get(question.ticket)
        is_ours = copy is not None and copy.is_written == isinstance(question, WritePiece)
        await message.respond(encode(await copy.answer(question) if copy is not None and is_ours else CopyGone()))

    def stop(self) -> None:
        for copy in self._copies.values():
            copy.close()
        self._copies.clear()

    def _add(self, ticket: str, copy: Copy) -> None:
        if sum(each.is_open for each in self._copies.values()) >= _MOST_COPIES or ticket in self._copies:
            copy.close()
            raise TooLarge(f"{_MOST_COPIES} files are being copied here already", hint="try again later")
        self._copies[ticket] = copy
        if not copy.is_written:
            self._expire(ticket)

    def _expire(self, ticket: str) -> None:
        """Close a file that nobody reads on, now or later."""
        copy = self._copies.get(ticket)
        if copy is None:
            return
        left_s = copy.used_at + IDLE_S - _now()
        if left_s > 0 or copy.turn.locked():
            asyncio.get_running_loop().call_later(max(left_s, 1.0), self._expire, ticket)
            return
        copy.close()
        del self._copies[ticket]


async def _wait_until_whole(ctx: ToolContext, copy: Copy) -> None:
    """Until the last piece has come. Raises IoError if it does not, or if the whole is not what was sent."""
    while not copy.is_whole.is_set():
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REPORT_EVERY_S):
                await copy.is_whole.wait()
        ctx.progress(copy.offset, copy.size, f"{copy.offset} of {copy.size} bytes")
        if _now() - copy.used_at > IDLE_S:
            raise IoError(f"nothing more of the file has come for {IDLE_S:g} s", hint="copy it again")
    if copy.offset != copy.size or copy.digest != copy.expected:
        raise IoError("what has arrived has another checksum than what was sent", hint="copy it again")


async def _in_thread(function: Callable[..., _T], *arguments: Any) -> _T:
    """What a function gives in a thread. If the call is cancelled, it ends first: it works on an open file."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        raise


def _open_source(ctx: ToolContext, path: str) -> tuple[int, str]:
    source = ctx.source(path)
    with open_source(ctx.paths, source) as opened:
        return os.dup(opened.descriptor), source.shown


def _resolve_target(ctx: ToolContext, path: str) -> Path:
    """The path that is written, with its folder. Raises a ToolError if it may not or cannot be."""
    target = ctx.paths.real(ctx.paths.resolve(path))
    shown = to_wire(target)
    ctx.journal.protected.check_write(target)
    with open_existing(ctx.paths, target, shown) as found:
        if found is None:
            make_parents(target, shown, create=True)
    return target


def _place(ctx: ToolContext, target: Path, staged: Path, mode: int) -> Receipt:
    def fill(descriptor: int) -> None:
        disk.copy_out(staged, descriptor)
        if found is None:
            # New files get the mode that any program would give them: nobody may execute what they may not read.
            allowed = os.fstat(descriptor).st_mode & 0o777
            os.fchmod(descriptor, mode & (allowed | (allowed & 0o444) >> 2))

    with ctx.journal.lock(target), open_existing(ctx.paths, target, to_wire(target)) as found:
        return ctx.journal.write(target, fill, seen=None if found is None else found.status)


def _now() -> float:
    return asyncio.get_running_loop().time()
