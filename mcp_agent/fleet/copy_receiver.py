"""The box that a file is copied to: it pulls the file from the other one, and puts it in its place when it is whole.

What has arrived is kept beside the target, so that a copy goes on where it stopped, whoever was killed. The target
itself is changed by the journal: in one step, when the checksum of the whole is right, and with an undo_id.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

from mcp_agent.fleet.bus import Bus, BusError, NoResponders
from mcp_agent.fleet.call_protocol import MOST_PIECE_BYTES, pack, unpack
from mcp_agent.fleet.messages import BadMessage
from mcp_agent.fleet.subjects import verb_subject
from tools.context import ToolContext
from tools.files import disk
from tools.files.paths import to_wire
from tools.files.sources import open_existing
from tools.filesystem.changes import make_parents
from tools.journal.journal import Journal
from tools.journal.journal_records import Receipt
from tools.kit.errors import AlreadyExists, BoxUnreachable, IoError, StaleRev, ToolError, from_os_error
from tools.kit.params import Field
from tools.kit.results import Result, ResultFacts
from tools.kit.spec import Tool, tool

_T = TypeVar("_T")

RECEIVE = "box_receive"
DEADLINE_S = 24 * 3600.0
# What has arrived of a copy that was given up is kept for so long.
KEEP_S = 24 * 3600.0
_IN_FLIGHT = 8
_ANSWER_S = 5.0
# So long the other box may be silent, and so long nobody may answer for it. Then the gateway looks what became of it.
_SILENT_S = 15.0
_NOBODY_S = 3.0
_RETRY_S = 0.05
_REPORT_EVERY_S = 0.25
_READ_BYTES = 4 * 1024 * 1024
# Of a message, besides the bytes of the file.
_HEAD_BYTES = 1_000


class Received(Result, frozen=True):
    """The file is in its place. `resumed_from`: how much of it was here already."""

    path: str
    bytes: int
    sha256: str
    resumed_from: int = 0
    unchanged: bool = False
    undo_id: str | None = None
    undoable: bool | None = None
    why: str | None = None

    @property
    def facts(self) -> ResultFacts:
        return ResultFacts(change_id=self.undo_id)

    def render(self) -> str:
        return f"{self.bytes} bytes received as {self.path}"


class _Pull:
    """One copy while it runs."""

    def __init__(self, ctx: ToolContext, target: Path, size: int) -> None:
        self.ctx = ctx
        self.target = target
        self.shown = to_wire(target)
        self.size = size
        self.is_superseded = False
        self.is_over = asyncio.Event()
        self.heard_at = _now()
        self._reported_at = 0.0

    def check(self) -> None:
        if self.is_superseded:
            raise AlreadyExists(f"another copy to {self.shown} was begun, and this one was given up")

    def report(self, done: int) -> None:
        now = _now()
        if now - self._reported_at >= _REPORT_EVERY_S or done == self.size:
            self._reported_at = now
            self.ctx.progress(done, self.size, f"{done} of {self.size} bytes")


class CopyReceiver:
    """Pulls files for this box. `folder` remembers where unfinished ones are."""

    def __init__(self, box: str, folder: Path) -> None:
        self._box = box
        self._folder = folder
        self._bus: Bus | None = None
        self._active: dict[Path, _Pull] = {}
        # New files get the mode that any program would give them. There is no way to ask without setting it.
        self._umask = os.umask(0o077)
        os.umask(self._umask)

    def join(self, bus: Bus) -> None:
        self._bus = bus

    @property
    def tool(self) -> Tool:
        @tool("fleet", effect="write", name=RECEIVE, destructive=True, deadline_s=DEADLINE_S)
        async def box_receive(
            ctx: ToolContext,
            *,
            path: Annotated[str, Field.of_path("Where to put the file.")],
            from_box: Annotated[str, Field(description="The box that offers it.", audited=True)],
            source: Annotated[str, Field(description="The file there.", audited=True)],
            boot: Annotated[str, Field(description="Its boot id.")],
            ticket: Annotated[str, Field(description="The offer.")],
            size: Annotated[int, Field(minimum=0)],
            mode: Annotated[int, Field(minimum=0, maximum=0o777)],
            rev: Annotated[str, Field(description="Which content it is.")],
            copy: Annotated[str, Field(description="The same for every attempt of one copy.")],
        ) -> Received:
            """Pull a file from another box."""
            target = await _in_thread(_resolve_target, ctx, path)
            pull = _Pull(ctx, target, size)
            while (earlier := self._active.get(target)) is not None:
                # Its gateway may be gone. What it has is not lost.
                earlier.is_superseded = True
                await earlier.is_over.wait()
            self._active[target] = pull
            try:
                sender = _Sender(self._connected_bus, verb_subject(from_box, boot, "copy", self._box), ticket, pull)
                key = hashlib.sha256(json.dumps([from_box, source, rev, str(target)]).encode()).hexdigest()[:20]
                return await self._receive(pull, sender, key, copy, mode)
            except OSError as error:
                raise from_os_error(error, pull.shown) from error
            finally:
                del self._active[target]
                pull.is_over.set()

        return box_receive

    @property
    def _connected_bus(self) -> Bus:
        assert self._bus is not None, "the member has not joined"
        return self._bus

    async def _receive(self, pull: _Pull, sender: _Sender, key: str, copy: str, mode: int) -> Received:
        note = self._folder / f"{key}.json"
        partial = pull.target.with_name(f".mcp-agent-copy-{key}.part")
        if await _in_thread(_size_of, pull.target) == pull.size:
            # It may be there already, from an attempt whose answer was lost.
            digest = await sender.digest()
            if await _in_thread(_digest_of, pull.target) == digest:
                undo_id = await _in_thread(_undo_id, pull.ctx.journal, pull.target, note, copy)
                return Received(pull.shown, pull.size, digest, 0, True, undo_id)
        await _in_thread(self._remember, note, partial, copy)
        resumed_from = 0
        for is_last in (False, True):
            with await _in_thread(_open_partial, partial, pull.size) as written:
                resumed_from = written.size
                await self._fill(pull, sender, written)
                digest = await sender.digest()
                if written.digest == digest:
                    break
                # What was here was torn by a crash of the machine.
                await _in_thread(written.restart)
                if is_last or not resumed_from:
                    raise IoError(f"what arrived for {pull.shown} has another checksum than what was sent")
        pull.check()
        receipt = await _in_thread(_place, pull, partial, mode & ~self._umask)
        return Received(pull.shown, pull.size, digest, resumed_from, **receipt.fields())

    async def _fill(self, pull: _Pull, sender: _Sender, written: _Partial) -> None:
        """Pull what is missing, several pieces in flight, and write it in order."""
        step = min(MOST_PIECE_BYTES, self._connected_bus.max_payload - _HEAD_BYTES)
        starts = iter(range(written.size, pull.size, step))
        waiting: deque[asyncio.Task[memoryview]] = deque()

        def ask() -> None:
            start = next(starts, None)
            if start is not None:
                waiting.append(asyncio.create_task(sender.piece(start, min(step, pull.size - start))))

        try:
            for _ in range(_IN_FLIGHT):
                ask()
            while waiting:
                data = await waiting[0]
                waiting.popleft()
                pull.check()
                ask()
                await _in_thread(written.append, data)
                pull.report(written.size)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    def _remember(self, note: Path, partial: Path, copy: str) -> None:
        """Put on record where the unfinished file is, and remove those that nobody went on with."""
        disk.private_folder(self._folder)
        if _read_note(note).get("copy") != copy:
            disk.replace_file(note, json.dumps({"partial": str(partial), "copy": copy, "at": time.time()}).encode())
        for other in self._folder.glob("*.json"):
            said = _read_note(other)
            with contextlib.suppress(OSError):
                if time.time() - other.stat().st_mtime > KEEP_S:
                    _forget(other, Path(said["partial"]) if "partial" in said else other)


class _Sender:
    """The other end: asked again while it may only be the connection that is lost."""

    def __init__(self, bus: Bus, subject: str, ticket: str, pull: _Pull) -> None:
        self._bus = bus
        self._subject = subject
        self._ticket = ticket
        self._pull = pull

    async def piece(self, start: int, size: int) -> memoryview:
        head, body = await self._ask({"from": start, "most": size})
        if head.get("is") == "piece" and len(body) == size:
            return body
        # A file that became shorter gives less.
        raise self._refusal(head if head.get("is") != "piece" else {"is": "changed"})

    async def digest(self) -> str:
        while True:
            head, _ = await self._ask({"digest": True})
            if head.get("is") == "digest":
                return str(head["sha256"])
            if head.get("is") != "running":
                raise self._refusal(head)

    async def _ask(self, asked: dict[str, Any]) -> tuple[dict[str, Any], memoryview]:
        request = pack({"ticket": self._ticket, **asked})
        while True:
            self._pull.check()
            try:
                answer = await self._bus.request(self._subject, request, _ANSWER_S)
                self._pull.heard_at = _now()
                return unpack(answer)
            except BadMessage as error:
                raise self._unreachable(str(error)) from None
            except BusError as error:
                # Nobody can answer while we are away, and the other box may come back a little later than we.
                heard_at = max(self._pull.heard_at, self._bus.connected_at)
                patience_s = _NOBODY_S if isinstance(error, NoResponders) else _SILENT_S
                if _now() - heard_at > patience_s:
                    raise self._unreachable(str(error)) from None
                await asyncio.sleep(_RETRY_S)

    def _refusal(self, head: dict[str, Any]) -> ToolError:
        match head.get("is"):
            case "changed":
                return StaleRev("the file was changed while it was copied; nothing was changed here", hint="try again")
            case "failed":
                return IoError(f"the other box cannot read the file any more: {head.get('message')}")
        return self._unreachable("it does not offer the file any more")

    def _unreachable(self, why: str) -> BoxUnreachable:
        return BoxUnreachable(
            f"the box that the file comes from cannot be asked: {why}; what has arrived is kept", may_have_run=False
        )


class _Partial:
    """The open file that has arrived up to `size`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._hash = hashlib.sha256()
        self.size = 0

    def __enter__(self) -> _Partial:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def hash_present(self) -> None:
        while data := os.pread(self._descriptor, _READ_BYTES, self.size):
            self._hash.update(data)
            self.size += len(data)

    def append(self, data: memoryview) -> None:
        done = 0
        while done < len(data):
            done += os.pwrite(self._descriptor, data[done:], self.size + done)
        self._hash.update(data)
        self.size += len(data)

    def restart(self) -> None:
        os.ftruncate(self._descriptor, 0)
        self._hash = hashlib.sha256()
        self.size = 0

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


async def _in_thread(function: Callable[..., _T], *arguments: Any) -> _T:
    """What a function gives in a thread. If the call is cancelled, it ends first: it works on an open file."""
    work = asyncio.ensure_future(asyncio.to_thread(function, *arguments))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        raise


def _resolve_target(ctx: ToolContext, path: str) -> Path:
    """The path that is written, with its folder. Raises a ToolError if it may not or cannot be."""
    target = ctx.paths.real(ctx.paths.resolve(path))
    shown = to_wire(target)
    ctx.journal.protected.check_write(target)
    with open_existing(ctx.paths, target, shown) as found:
        if found is None:
            make_parents(target, shown, create=True)
    return target


def _open_partial(path: Path, size: int) -> _Partial:
    found = disk.lstat(path)
    if found is not None and (found.st_size > size or found.st_nlink > 1):
        # A second name is that of a target, which a crash has left.
        path.unlink()
    descriptor = disk.open_regular(path, disk.WRITE_FLAGS | os.O_CREAT, 0o600)
    written = _Partial(descriptor)
    try:
        written.hash_present()
    except BaseException:
        os.close(descriptor)
        raise
    return written


def _place(pull: _Pull, partial: Path, mode: int) -> Receipt:
    ctx, target = pull.ctx, pull.target
    with ctx.journal.lock(target), open_existing(ctx.paths, target, pull.shown) as found:
        if found is None:
            partial.chmod(mode)
        return ctx.journal.place(target, partial, seen=None if found is None else found.status)


def _size_of(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _digest_of(path: Path) -> str:
    with path.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _undo_id(journal: Journal, target: Path, note: Path, copy: str) -> str | None:
    """The id of the change that an earlier attempt of this copy made."""
    said = _read_note(note)
    if said.get("copy") != copy:
        return None
    made = (entry.id for entry in journal.entries() if entry.path == str(target) and entry.at >= said["at"])
    return next(made, None)


def _read_note(note: Path) -> dict[str, Any]:
    try:
        said = json.loads(disk.read_small_file(note))
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def _forget(note: Path, partial: Path) -> None:
    for path in (partial, note):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def _now() -> float:
    return asyncio.get_running_loop().time()
