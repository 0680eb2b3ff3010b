"""The file browser of Open WebUI. What it asks for is done by the filesystem tools, or as they do it.

Every request is a call of the tool that would do it: the gate, the rules, the journal and the audit log see that tool.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, TypeVar

from mcp_agent.calls.call import Caller
from mcp_agent.calls.dispatcher import Dispatcher
from mcp_agent.open_terminal.requests import TerminalRefusal, TerminalRequest, text_field
from mcp_agent.transports.http import REVOKED, TokenRevoked, while_connected
from registry.gate import Gate
from tools.context import ToolContext
from tools.files.paths import from_wire, to_wire
from tools.filesystem import raw_files
from tools.filesystem.fs_read import FileText
from tools.filesystem.fs_write import WrittenFile
from tools.filesystem.raw_files import RawFile
from tools.kit.errors import NotFound, TooLarge, ToolError
from tools.kit.places import Places
from tools.kit.results import Result
from tools.kit.spec import Tool

_R = TypeVar("_R", bound=Result)

# The token, the user and the chat.
_Place = tuple[str, str, str]

_MOST_ENTRIES = 20_000
_MOST_TEXT_BYTES = 16 * 1024 * 1024
# Of a larger text the beginning is shown. What is shown can be edited and saved, and this part must not take the place
# of the whole: it is remembered as what it is, and says so in its last line.
_MOST_PART_CHARS = 2 * 1024 * 1024
_PART, _AS_TEXT = "part", "as text"
_NOT_SAVED = "This is its beginning, which cannot be saved."
_MOST_CHATS = 1_000
_MOST_OPENED = 4_000
_ARCHIVES_AT_ONCE = 2
# Archives that are made or being sent: each is a file of up to 1 GiB, as long as its client takes for it.
_ARCHIVES_ON_DISK = 4


class _Listing(Result, frozen=True):
    path: str
    entries: list[dict[str, Any]]
    writable: bool

    def render(self) -> str:
        return f"{self.path} · {len(self.entries)} entries"


class _Missing(Result, frozen=True):
    message: str

    def render(self) -> str:
        return self.message


class _Deleted(Result, frozen=True):
    path: str
    type: Literal["file", "directory"]

    def render(self) -> str:
        return f"{self.path} deleted"


class Files:
    """Answers /files/…; paths that are not absolute count from the folder that the person has opened in the chat."""

    def __init__(self, dispatcher: Dispatcher, gate: Gate, directory: Path) -> None:
        self._dispatcher = dispatcher
        self._gate = gate
        self._directory = to_wire(directory)
        self._archives = Places("archives", _ARCHIVES_AT_ONCE, waiting=0)
        self._archives_on_disk = Places("archives", _ARCHIVES_ON_DISK, waiting=0)
        self._opened = OpenedTexts()
        self._folders: OrderedDict[_Place, str] = OrderedDict()

    def folder(self, request: TerminalRequest) -> str:
        """Where the person is: the folder that was opened last in this chat, at first the working directory."""
        return self.opened_folder(request.person) or self._directory

    def opened_folder(self, person: Caller) -> str:
        """As `folder`; empty where the person has opened none in the chat."""
        return self._folders.get((person.name, person.user, person.chat), "")

    def cwd(self, request: TerminalRequest) -> dict[str, Any]:
        return {"cwd": self.folder(request), "home": to_wire(Path.home())}

    async def open_folder(self, request: TerminalRequest) -> dict[str, Any]:
        path = self.path(request, text_field(await request.body(), "path"))
        found = await self.run(request, "fs_list", lambda ctx, _: raw_files.find_folder(ctx, path), path=path)
        place = _place(request)
        self._folders[place] = found.path
        self._folders.move_to_end(place)
        if len(self._folders) > _MOST_CHATS:
            self._folders.popitem(last=False)
        return {"cwd": found.path}

    async def list_folder(self, request: TerminalRequest) -> dict[str, Any]:
        path = self.path(request, request.query.get("directory") or ".")
        can_write = self.can_write(request)

        def work(ctx: ToolContext, tool: Tool) -> _Listing:
            listing = tool.function(ctx, path=path, max_entries=_MOST_ENTRIES)
            entries = [_entry(each, can_write=can_write) for each in listing.entries]
            return _Listing(listing.path, entries, can_write and os.access(from_wire(listing.path), os.W_OK))

        listing = await self.run(request, "fs_list", work, path=path)
        return {"dir": listing.path, "entries": listing.entries, "writable": listing.writable}

    async def read(self, request: TerminalRequest) -> dict[str, Any] | Result:
        """A text with its lines counted; an image as it is."""
        path = self.path(request, request.parameter("path"))
        place = _place(request)
        # Open WebUI looks for it before every answer of a model: most people have none, and that is no failure.
        may_be_missing = path == to_wire(Path.home() / "AGENTS.md")

        def work(ctx: ToolContext, tool: Tool) -> Result:
            try:
                result: Result = tool.function(ctx, path=path, max_bytes=_MOST_TEXT_BYTES)
            except NotFound as error:
                if may_be_missing:
                    return _Missing(error.message)
                raise
            if isinstance(result, FileText):
                # A document that is shown as text has no rev, and its text must not take its place.
                rev = _PART if result.truncated else result.rev or _AS_TEXT
                self._opened.remember(place, _target(ctx, path), rev)
            return result

        found = await self.run(request, "fs_read", work, path=path)
        if isinstance(found, _Missing):
            raise TerminalRefusal(404, found.message)
        if found.body.content is not None:
            return found
        text = found.as_object()
        content: str = text["content"]
        if text.get("truncated"):
            content = content[: content.rfind("\n", 0, _MOST_PART_CHARS) + 1 or _MOST_PART_CHARS]
            content += f"\n… {text['path']} has {text['size']:,} bytes and goes on. {_NOT_SAVED}\n"
        lines = content.count("\n") + (bool(content) and not content.endswith("\n"))
        return {"path": text["path"], "total_lines": lines, "content": content}

    async def save(self, request: TerminalRequest, path: str, content: BinaryIO, *, is_text: bool) -> WrittenFile:
        """Write a file as a whole. One that was opened in this chat and has changed since is refused."""
        place = _place(request)

        def work(ctx: ToolContext, _: Tool) -> WrittenFile:
            target = _target(ctx, path)
            opened_rev = self._opened.rev(place, target)
            if is_text and (opened_rev == _PART or _ends_as_a_part(content)):
                raise TooLarge(
                    f"only the beginning of {target} was opened, so it was not saved",
                    hint="download it to change it, or let a program do it",
                )
            if is_text and opened_rev == _AS_TEXT:
                raise TooLarge(f"{target} was opened as text, so it was not saved", hint="change it with its program")
            if opened_rev in (_PART, _AS_TEXT):
                opened_rev = None
            if opened_rev is None:
                return raw_files.write_raw(ctx, path, content)
            saved = raw_files.save_opened(ctx, path, content, opened_rev=opened_rev, keeps_encoding=is_text)
            if saved.rev is not None:
                # The person goes on with what is saved.
                self._opened.remember(place, target, saved.rev)
            return saved

        return await self.run(request, "fs_write", work, path=path, mode="overwrite")

    async def view(self, request: TerminalRequest) -> RawFile:
        path = self.path(request, request.parameter("path"))
        return await self.run(request, "fs_read", lambda ctx, _: raw_files.open_raw(ctx, path), path=path)

    async def archive(self, request: TerminalRequest) -> RawFile:
        paths = (await request.body()).get("paths")
        if not isinstance(paths, list) or not paths or not all(isinstance(each, str) and each for each in paths):
            raise TerminalRefusal(400, "the body must have 'paths', a list of texts")
        places = [self.path(request, each) for each in paths]

        def work(ctx: ToolContext, _: Tool) -> RawFile:
            with self._archives.take(ctx.check), ExitStack() as stack:
                stack.enter_context(self._archives_on_disk.take(ctx.check))
                archive = raw_files.make_archive(ctx, places)
                # The file ends with its descriptor, whether it was sent, broken off or never asked for again.
                weakref.finalize(archive.file, stack.pop_all().close)
                return archive

        return await self.run(request, "fs_read", work, paths=places)

    async def make_folder(self, request: TerminalRequest) -> dict[str, Any]:
        path = self.path(request, text_field(await request.body(), "path"))
        made = await self.run(request, "fs_write", lambda ctx, _: raw_files.make_folder(ctx, path), path=path)
        return {"path": made.path, "undo_id": made.undo_id}

    async def move(self, request: TerminalRequest) -> dict[str, Any]:
        body = await request.body()
        source, target = (self.path(request, text_field(body, name)) for name in ("source", "destination"))

        def work(ctx: ToolContext, tool: Tool) -> Result:
            moved: Result = tool.function(ctx, from_=source, to=target)
            return moved

        await self.run(request, "fs_move", work, **{"from": source, "to": target})
        return {"source": source, "destination": target}

    async def delete(self, request: TerminalRequest) -> dict[str, Any]:
        path = self.path(request, request.parameter("path"))

        def work(ctx: ToolContext, tool: Tool) -> Result:
            is_folder = os.path.isdir(ctx.paths.resolve(path))  # noqa: PTH112 - of a path that may be long
            deleted: Result = tool.function(ctx, path=path, recursive=True)
            return _Deleted(deleted.as_object()["path"], "directory" if is_folder else "file")

        return (await self.run(request, "fs_delete", work, path=path, recursive=True)).as_object()

    async def run(
        self, request: TerminalRequest, tool: str, work: Callable[[ToolContext, Tool], _R], **arguments: Any
    ) -> _R:
        """Do `work` as a call of `tool`, as long as the client waits for it. Raises TerminalRefusal, ClientLeft."""
        call = self._dispatcher.run_as(request.call(tool, **arguments), work)
        try:
            return await while_connected(request.scope, request.receive, call)
        except TokenRevoked:
            raise TerminalRefusal(401, REVOKED) from None
        except ToolError as error:
            raise TerminalRefusal.of(error) from error

    def path(self, request: TerminalRequest, path: str) -> str:
        """A path as the tools take it."""
        if path.startswith(("/", "~")):
            return path
        return os.path.join(self.folder(request), path)  # noqa: PTH118 - text as it is on the wire

    def can_read(self, request: TerminalRequest) -> bool:
        return self._gate.allows(request.person.access, "fs_read")

    def can_write(self, request: TerminalRequest) -> bool:
        return any(tool.name == "fs_write" for tool in self._gate.visible(request.person.access))


class OpenedTexts:
    """At which rev each person has opened which file in which chat; the oldest are forgotten."""

    def __init__(self) -> None:
        self._revs: OrderedDict[tuple[_Place, str], str] = OrderedDict()
        # Tools run in threads.
        self._lock = threading.Lock()

    def remember(self, place: _Place, path: str, rev: str) -> None:
        with self._lock:
            self._revs[place, path] = rev
            self._revs.move_to_end((place, path))
            if len(self._revs) > _MOST_OPENED:
                self._revs.popitem(last=False)

    def rev(self, place: _Place, path: str) -> str | None:
        return self._revs.get((place, path))


def _ends_as_a_part(content: BinaryIO) -> bool:
    """Whether a text is the beginning of a file, as it was shown."""
    content.seek(max(content.seek(0, os.SEEK_END) - len(_NOT_SAVED) - 2, 0))
    return _NOT_SAVED.encode() in content.read()


def _target(ctx: ToolContext, path: str) -> str:
    """The file that a path leads to, whatever way."""
    return to_wire(ctx.paths.real(ctx.paths.resolve(path)))


def _place(request: TerminalRequest) -> _Place:
    person = request.person
    return person.name, person.user, person.chat


def _entry(entry: Mapping[str, Any], *, can_write: bool) -> dict[str, Any]:
    """An entry of `fs_list` as the file browser wants it: by name, with its time as a number."""
    path: str = entry["path"]
    modified = entry.get("modified")
    return {
        "name": path.rpartition("/")[2],
        "type": entry["type"],
        "size": entry.get("size", 0),
        "modified": 0 if modified is None else datetime.fromisoformat(modified).timestamp(),
        "writable": can_write and "error" not in entry and os.access(from_wire(path), os.W_OK),
    }
