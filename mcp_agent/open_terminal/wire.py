"""/open-terminal: what Open WebUI asks of a terminal that is connected to it, with everything that the daemon has.

A person sees the machine's files, a live tab for each command and session of the chat, and a shell; the model has the
tools. All of it comes through Open WebUI's own server: no browser reaches the daemon. Open WebUI knows one key for all
of its users and says in headers whom it asks for.

A daemon whose tools run elsewhere shows no files and gives no shell: those would be of its own
machine, which is none of the boxes.
"""

from __future__ import annotations

import asyncio
import mimetypes
from pathlib import Path
from typing import Any

from starlette.types import Receive, Scope, Send

from mcp_agent.calls.call import OPEN_TERMINAL
from mcp_agent.daemon import Daemon
from mcp_agent.open_terminal.display_file import display_file, display_paths
from mcp_agent.open_terminal.files import Files
from mcp_agent.open_terminal.notebooks import Notebooks
from mcp_agent.open_terminal.processes import Processes
from mcp_agent.open_terminal.requests import TerminalRefusal, TerminalRequest
from mcp_agent.open_terminal.searches import Searches
from mcp_agent.open_terminal.skills import list_skills, read_skill
from mcp_agent.open_terminal.terminals import Terminals
from mcp_agent.open_terminal.uploads import upload
from mcp_agent.previews.sites import Sites
from mcp_agent.protocol.instructions import instructions
from mcp_agent.transports.http import ClientLeft, send_json, send_object, wait_until_left
from mcp_agent.transports.openapi import OpenApi, operation_ids_for
from tools.filesystem.raw_files import RawFile
from tools.kit.results import Result

PREFIX = "/open-terminal"
# The names under which Open WebUI knows its own terminal's tools: after these it refreshes what a person sees.
_OPERATION_IDS = {"fs_write": "write_file", "fs_patch": "replace_file_content", "shell_exec": "run_command"}
# After these it wants to know which file was changed.
_WITH_PATH = frozenset({"fs_write", "fs_patch"})
_CHUNK_BYTES = 256 * 1024
_PLAIN_IN_A_HEADER = frozenset(map(chr, range(0x20, 0x7F))) - {'"', "\\"}
# What a file holds must do nothing in a browser: it is shown by the page that asked for it.
_INERT = [
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; sandbox"),
    (b"cache-control", b"private, no-store"),
]


class OpenTerminal:
    """The ASGI application behind /open-terminal/…"""

    def __init__(self, daemon: Daemon, sites: Sites) -> None:
        self._daemon = daemon
        self._sites = sites
        self._has_machine = daemon.elsewhere.has_machine
        self._files = Files(daemon.dispatcher, daemon.gate, daemon.directory)
        self._openapi = OpenApi(
            daemon.gate,
            daemon.dispatcher,
            transport=OPEN_TERMINAL,
            form="text",
            operation_ids=_OPERATION_IDS,
            with_path=_WITH_PATH,
            captions=True,
            own_paths=display_paths if self._has_machine else lambda _: {},
            folder=self._files.opened_folder,
        )
        self._searches = Searches(self._files)
        self._processes = Processes(daemon.sessions, daemon.gate)
        self._terminals = Terminals(daemon, sites)
        self._notebooks = Notebooks(daemon.sessions, self._files, self._terminals.is_allowed)

    async def connect(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A WebSocket: the shell of a person."""
        await self._terminals.attach(scope, receive, send)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parts = scope["path"].removeprefix(f"{PREFIX}/").rstrip("/").split("/")
        match parts:
            case ["openapi.json"]:
                await self._openapi.describe(scope, receive, send)
                return
            case ["tools", name]:
                scope["path_params"] = {"name": name}
                await self._openapi.call(scope, receive, send)
                return
        try:
            request = TerminalRequest.of(scope, receive)
            self._terminals.note_chat(request.person)
            answer = await self._answer(request, parts)
        except ClientLeft:
            return
        except TerminalRefusal as refused:
            await refused.send(send)
            return
        if isinstance(answer, RawFile):
            await _send_file(answer, scope, receive, send)
        elif isinstance(answer, Result):
            content = answer.body.content
            media = None if content is None else content.media
            assert media is not None, "only an image is sent as it is"
            await send_json(send, 200, media.data, media_type=media.type)
        else:
            await send_object(send, 200, answer)

    async def _answer(self, request: TerminalRequest, parts: list[str]) -> dict[str, Any] | list[Any] | Result:
        files = self._files
        if not self._has_machine and (
            parts[0] in ("files", "notebooks") or parts[:2] in (["api", "terminals"], ["skills", "read"])
        ):
            raise TerminalRefusal(
                501,
                "the tools run on other machines, so there are no files and no shell here",
                "use the tools with `box`, or connect to the box itself",
            )
        match "GET" if request.scope["method"] == "HEAD" else request.scope["method"], parts:
            case "GET", ["execute"]:
                return self._processes.list_processes(request)
            case "GET", ["execute", session_id, "status"]:
                return await self._processes.output(request, session_id)
            case "GET", ["api", "config"]:
                has_shell = self._has_machine and self._terminals.is_allowed(request.person)
                return {"features": {"terminal": has_shell, "notebooks": has_shell, "system": True}}
            case "POST", ["api", "terminals"]:
                return self._terminals.reserve(request, files.folder(request))
            case "DELETE", ["api", "terminals", terminal_id]:
                return self._terminals.drop(request, terminal_id)
            case "GET", ["system"]:
                return {"prompt": self._prompt(request)}
            case "GET", ["skills"]:
                # Asked for before every answer of a model.
                return await list_skills(files, request) if self._has_machine and files.can_read(request) else []
            case "GET", ["skills", "read"]:
                return await read_skill(files, request)
            case "GET", ["ports"]:
                return {"ports": await self._ports(request)}
            case "POST", ["files", "display"]:
                return await display_file(files, request)
            case "POST", ["notebooks"]:
                return await self._notebooks.open(request)
            case "POST", ["notebooks", notebook_id, "execute"]:
                return await self._notebooks.run(request, notebook_id)
            case "GET", ["notebooks", notebook_id]:
                return self._notebooks.status(request, notebook_id)
            case "DELETE", ["notebooks", notebook_id]:
                return await self._notebooks.stop(request, notebook_id)
            case "GET", ["files", "cwd"]:
                return files.cwd(request)
            case "POST", ["files", "cwd"]:
                return await files.open_folder(request)
            case "GET", ["files", "list"]:
                return await files.list_folder(request)
            case "GET", ["files", "read"]:
                return await files.read(request)
            case "GET", ["files", "view"]:
                return await files.view(request)
            case "GET", ["files", "search"]:
                return await self._searches.by_name(request)
            case "GET", ["files", "matches"]:
                return await self._searches.by_content(request)
            case "POST", ["files", "upload"]:
                return await upload(files, request)
            case "POST", ["files", "mkdir"]:
                return await files.make_folder(request)
            case "POST", ["files", "move"]:
                return await files.move(request)
            case "POST", ["files", "archive"]:
                return await files.archive(request)
            case "DELETE", ["files", "delete"]:
                return await files.delete(request)
        raise TerminalRefusal(404, f"there is nothing at {request.scope['method']} {request.scope['path'][:100]}")

    async def _ports(self, request: TerminalRequest) -> list[dict[str, Any]]:
        """What is listened on by what was started in the chat."""
        person = request.person
        sees_all = request.is_owner and not person.user and not person.chat
        found = [each.listener for each in await self._sites.of(person, sees_all=sees_all)]
        return [{"port": each.port, "pid": each.pid, "process": each.program} for each in found]

    def _prompt(self, request: TerminalRequest) -> str:
        """What the model is told: the instructions of the other wires, without what changes from chat to chat."""
        directory = Path(self._files.folder(request)) if self._has_machine else None
        access = request.person.access
        ids = operation_ids_for({tool.name for tool in self._daemon.gate.visible(access)}, _OPERATION_IDS)
        renamed = [f"{name} is called {other}" for name, other in sorted(ids.items()) if name != other]
        told = instructions(self._daemon.gate, access, directory, reads_resources=False)
        return f"{told}\nHere some tools have other names: {', '.join(renamed)}." if renamed else told


async def _send_file(raw: RawFile, scope: Scope, receive: Receive, send: Send) -> None:
    """Send an open file in pieces, each read in a thread, as long as the client takes them, and close it."""
    kind = mimetypes.guess_type(raw.path)[0] or "application/octet-stream"
    headers = [(b"content-type", kind.encode("latin-1")), *_INERT]
    if raw.size:
        # Files in /proc have no size and yet something in them.
        headers.append((b"content-length", b"%d" % raw.size))
    if raw.path.endswith(".zip"):
        # A file name may hold anything, and a line end would end the header.
        shown = (each if each in _PLAIN_IN_A_HEADER else "_" for each in raw.path.rpartition("/")[2])
        headers.append((b"content-disposition", b'attachment; filename="%b"' % "".join(shown).encode()))
    leaving = asyncio.create_task(wait_until_left(receive))
    try:
        with raw.file as file:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            left = raw.size or None
            while scope["method"] != "HEAD" and (left is None or left > 0):
                data = await asyncio.to_thread(file.read, _CHUNK_BYTES if left is None else min(_CHUNK_BYTES, left))
                if not data or leaving.done():
                    break
                left = None if left is None else left - len(data)
                await send({"type": "http.response.body", "body": data, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
    finally:
        leaving.cancel()
