"""The files of a box that a gateway reads and writes in pieces: artifacts, and both ends of a copy.

A copy begins with two calls, of tools that no list has and that need no switches of their own. Each is allowed to a
gateway that may use a tool here which can do the same, under the same deny rules, and has its line in the audit log.

Every piece has a checksum. What has arrived is in the state folder. When it is whole, the journal puts it to its place
in one step, with an undo_id.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import secrets
import shutil
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar

from mcp_agent.calls.call import Call, Outcome
from mcp_agent.calls.dispatcher import Dispatcher
from mcp_agent.calls.observers import AuditObserver, CallTrace
from mcp_agent.daemon import Daemon
from mcp_agent.fleet.call_protocol import caller_name
from mcp_agent.fleet.messages import (
    FileAnswer,
    FilePiece,
    FileQuestion,
    NotShown,
    PieceWritten,
    ReadPiece,
    WritePiece,
)
from mcp_agent.storage.artifact_store import SCHEME
from registry.catalog import Catalog
from registry.gate import Access, Gate, Grant, Shape
from tools.context import ToolContext
from tools.files import disk
from tools.files.paths import to_wire
from tools.files.sources import open_existing, open_source
from tools.filesystem.changes import ChangeResult, make_parents
from tools.journal import copies
from tools.journal.journal_records import Receipt
from tools.kit.errors import IoError, TooLarge, from_os_error
from tools.kit.params import Field
from tools.kit.results import Result
from tools.kit.spec import Tool, tool

SEND, RECEIVE = "box_send", "box_receive"
# The tool that a gateway must be allowed to use here.
NEEDS = {SEND: "fs_read", RECEIVE: "fs_write"}
DEADLINE_S = 24 * 3600.0
# A file of which no piece comes for so long is given up.
IDLE_S = 30.0
_MOST_COPIES, _MOST_OFFERS = 200, 1_000
_MOST_PIECE_BYTES = 8 * 1024 * 1024
_READ_AT_ONCE = 8
_GONE = NotShown("gone", "it has given the copy up")
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


class OfferedFile(NamedTuple):
    """A file as it was when a call was allowed to read it. It is opened for each piece; another one is never read."""

    path: Path
    identity: list[int]

    def piece(self, question: ReadPiece) -> FileAnswer:
        with disk.open_descriptor(self.path) as descriptor:
            piece = _read_piece(descriptor, question)
            if copies.identity(os.fstat(descriptor)) != self.identity:
                return NotShown("failed", "the file was changed while it was copied")
        return piece


class ArrivingFile:
    """A file that is not whole yet. A piece that comes again is not written again."""

    def __init__(self, descriptor: int, size: int) -> None:
        self.turn = asyncio.Lock()
        self.has_more = asyncio.Event()
        self._descriptor = descriptor
        self._size = size
        self._offset = 0
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def take(self, piece: WritePiece) -> FileAnswer:
        if hashlib.sha256(piece.data).digest() != piece.sha256:
            return NotShown("failed", "what has arrived has another checksum than what was sent")
        if piece.offset == self._offset:
            disk.write_all(self._descriptor, piece.data)
            self._hash.update(piece.data)
            self._offset += len(piece.data)
        elif piece.offset + len(piece.data) != self._offset:
            return NotShown("failed", f"the next piece begins at {self._offset}, not at {piece.offset}")
        return PieceWritten()

    async def wait_until_whole(self) -> None:
        """Until the last piece has come. Raises IoError if nothing comes for long."""
        while self._offset < self._size:
            try:
                async with asyncio.timeout(IDLE_S):
                    await self.has_more.wait()
            except TimeoutError:
                raise IoError(f"nothing more of the file has come for {IDLE_S:g} s", hint="copy it again") from None
            self.has_more.clear()


class MemberFiles:
    """The artifacts of this box, its copies under way, and what dispatches the calls of gateways that begin them."""

    def __init__(self, daemon: Daemon) -> None:
        self._artifacts = daemon.artifacts
        self._places = asyncio.Semaphore(_READ_AT_ONCE)
        self._folder = daemon.config.copies_dir
        # The oldest first.
        self._offered: OrderedDict[str, OfferedFile] = OrderedDict()
        self._arriving: dict[str, ArrivingFile] = {}
        # Those of a daemon that was killed.
        shutil.rmtree(self._folder, ignore_errors=True)
        gate = _CopyGate(daemon.gate, Catalog(self._tools()))
        own = daemon.dispatcher.with_gate(gate, (CallTrace(), AuditObserver(daemon.audit, gate)))
        self.dispatcher: Dispatcher = _MemberDispatcher(daemon.dispatcher, own)

    def _tools(self) -> tuple[Tool, Tool]:
        @tool("fleet", effect="read", name=SEND, deadline_s=DEADLINE_S)
        async def box_send(
            ctx: ToolContext,
            *,
            path: Annotated[str, Field.of_path("File to offer.")],
            to_box: Annotated[str, Field(description="The box that it is for.", audited=True)],
        ) -> Offer:
            """Offer a file to a gateway, for another box."""
            place, status, shown = await asyncio.to_thread(_look_at, ctx, path)
            ticket = secrets.token_urlsafe(24)
            self._offered[ticket] = OfferedFile(place, copies.identity(status))
            if len(self._offered) > _MOST_OFFERS:
                self._offered.popitem(last=False)
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
            if len(self._arriving) >= _MOST_COPIES:
                raise TooLarge(f"{_MOST_COPIES} files are being copied here already", hint="try again later")
            target = await _in_thread(_resolve_target, ctx, path)
            shown, staged = to_wire(target), self._folder / secrets.token_hex(8)
            try:
                disk.private_folder(self._folder)
                with disk.open_descriptor(staged, disk.NEW_FLAGS) as descriptor:
                    arriving = self._arriving[ticket] = ArrivingFile(descriptor, size)
                    try:
                        await arriving.wait_until_whole()
                    finally:
                        del self._arriving[ticket]
                        async with arriving.turn:
                            pass
                receipt = await _in_thread(_place, ctx, target, staged, mode)
            except OSError as error:
                raise from_os_error(error, shown) from error
            finally:
                staged.unlink(missing_ok=True)
            return Received(shown, size, arriving.sha256, **receipt.fields())

        return box_send, box_receive

    async def answer(self, question: FileQuestion) -> FileAnswer:
        try:
            if isinstance(question, WritePiece):
                return await self._write(question)
            async with self._places:
                return await asyncio.to_thread(self._read, question)
        except OSError as error:
            return NotShown("failed", (error.strerror or str(error)).lower())

    def _read(self, question: ReadPiece) -> FileAnswer:
        if not question.name.startswith(SCHEME):
            offered = self._offered.get(question.name)
            return _GONE if offered is None else offered.piece(question)
        artifact = self._artifacts.find(question.name, caller_name(question.owner))
        if artifact is None:
            return NotShown("gone")
        try:
            with disk.open_descriptor(self._artifacts.path(artifact), disk.READ_FLAGS | os.O_NOFOLLOW) as descriptor:
                return _read_piece(descriptor, question)
        except OSError:
            return NotShown("gone")

    async def _write(self, question: WritePiece) -> FileAnswer:
        arriving = self._arriving.get(question.ticket)
        if arriving is None:
            return _GONE
        async with arriving.turn:
            if question.ticket not in self._arriving:
                return _GONE
            answer = await _in_thread(arriving.take, question)
            arriving.has_more.set()
            return answer


class _MemberDispatcher(Dispatcher):
    """Runs the calls of gateways: those of this module here, and all others as the box does."""

    def __init__(self, usual: Dispatcher, own: Dispatcher) -> None:
        self._usual = usual
        self._own = own

    async def call(self, call: Call) -> Outcome:
        return await (self._own if call.tool in NEEDS else self._usual).call(call)


class _CopyGate(Gate):
    """Admits a call if the box admits the tool that it needs."""

    def __init__(self, gate: Gate, catalog: Catalog) -> None:
        super().__init__(catalog, gate.profiles)
        self._gate = gate

    def admit(self, access: Access, name: str) -> tuple[Tool, Grant]:
        _, grant = self._gate.admit(access, NEEDS[name])
        tool = self.catalog.by_name[name]
        # A gateway reads the answer, and no model.
        return tool, grant._replace(form="json", deadline_s=tool.deadline_s)

    def form(self, access: Access) -> Shape:
        return "json"


def _read_piece(descriptor: int, question: ReadPiece) -> FilePiece:
    data = os.pread(descriptor, min(question.size, _MOST_PIECE_BYTES), question.offset)
    return FilePiece(os.fstat(descriptor).st_size, data, hashlib.sha256(data).digest())


async def _in_thread(function: Callable[..., _T], *arguments: Any) -> _T:
    """What a function gives in a thread. If the call is cancelled, it ends first: it works on an open file."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        raise


def _look_at(ctx: ToolContext, path: str) -> tuple[Path, os.stat_result, str]:
    """A file that may be read here."""
    source = ctx.source(path)
    with open_source(ctx.paths, source) as opened:
        return source.path, opened.status, source.shown


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
        copies.copy_out(staged, descriptor)
        if found is None:
            # New files get the mode that any program would give them: nobody may execute what they may not read.
            allowed = os.fstat(descriptor).st_mode & 0o777
            os.fchmod(descriptor, mode & (allowed | (allowed & 0o444) >> 2))

    with ctx.journal.lock(target), open_existing(ctx.paths, target, to_wire(target)) as found:
        return ctx.journal.write(target, fill, seen=None if found is None else found.status)
