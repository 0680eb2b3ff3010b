"""Notebooks that run: each that is open has a kernel, and what a cell gives is shown and kept in its file.

To start a kernel is a call of the tool that starts sessions, and to run a cell one of the tool that writes to them: the
same switches and rules, and lines in the audit log. The file is read again for each change of it, because others
change it, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import orjson
from msgspec import Struct, field
from starlette.types import Scope

from mcp_agent.calls.call import Caller
from mcp_agent.open_terminal.files import Files
from mcp_agent.open_terminal.kernels import Kernel, KernelEnded
from mcp_agent.open_terminal.requests import TerminalRefusal, TerminalRequest, text_field
from mcp_agent.transports.http import REVOKED, TokenRevoked, while_connected
from tools.context import ToolContext
from tools.files.paths import from_wire
from tools.filesystem import raw_files
from tools.kit.errors import InvalidPath, StaleRev
from tools.kit.results import Result
from tools.kit.spec import Tool
from tools.sessions.manager import SessionManager
from tools.shell.shell_exec import folder_for

_T = TypeVar("_T")

MOST_KERNELS = 12
MOST_OF_ONE = 6
IDLE_S = 1_800.0
# Open WebUI waits five minutes for an answer.
_RUNS_WITHIN_S = 285.0
_LOOK_EVERY_S = 1.0
_MOST_BYTES = 32 * 1024 * 1024
_START, _INPUT = "shell_start_session", "shell_send_input"


class _Place(Result, frozen=True):
    """The file of a notebook and the folder that its cells run in."""

    path: str
    folder: Path
    document: dict[str, Any]

    def render(self) -> str:
        return self.path


class _Admitted(Result, frozen=True):
    def render(self) -> str:
        return "admitted"


class Notebook(Struct, eq=False):
    """A notebook that is open, with its kernel."""

    id: str
    person: Caller
    path: str
    # What was seen of each cell, to find the cell again in a file that others change.
    sources: list[str | None]
    kernel: Kernel
    used_at: float
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Notebooks:
    """The notebooks of all persons. An id belongs to the token and the user that asked for it."""

    def __init__(self, sessions: SessionManager, files: Files, is_allowed: Callable[[Caller], bool]) -> None:
        """`is_allowed` says whether a person may have a shell."""
        self._sessions = sessions
        self._files = files
        self._is_allowed = is_allowed
        self._open: dict[str, Notebook] = {}
        self._starting = 0
        self._numbers = itertools.count(1)
        self._watching: set[asyncio.Task[None]] = set()

    async def open(self, request: TerminalRequest) -> dict[str, Any]:
        """Start a kernel for a notebook. Raises TerminalRefusal, ClientLeft."""
        asked = self._files.path(request, text_field(await request.body(), "path"))
        found = await self._files.run(request, "fs_read", lambda ctx, _: _find(ctx, asked), path=asked)
        kernelspec = found.document.get("metadata", {}).get("kernelspec", {})
        name, language = str(kernelspec.get("name") or "python3"), str(kernelspec.get("language") or "python").lower()
        call = {"command": f"a Jupyter kernel for {found.path}", "cwd": str(found.folder)}

        def admit(ctx: ToolContext, _: Tool) -> _Admitted:
            folder_for(ctx, str(found.folder))
            return _Admitted()

        await self._files.run(request, _START, admit, **call)
        await self._make_room(request.person)
        self._starting += 1
        # A program of nobody's: a kernel listens on a port for itself, which is no site to show.
        tag = f"notebook{next(self._numbers)}"
        starting = Kernel.start(self._sessions, tag, found.folder, name, language)
        try:
            kernel = await self._while_connected(request, starting)
        finally:
            self._starting -= 1
        cells = found.document["cells"]
        now = asyncio.get_running_loop().time()
        sources = [_source(each) for each in cells]
        notebook = Notebook(secrets.token_hex(8), request.person, found.path, sources, kernel, now)
        self._open[notebook.id] = notebook
        watching = asyncio.create_task(self._watch(notebook, request.scope))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)
        return {"id": notebook.id, "kernel": kernel.name, "status": "ready"}

    def status(self, request: TerminalRequest, notebook_id: str) -> dict[str, Any]:
        notebook = self._find(request, notebook_id)
        status = "busy" if notebook.kernel.is_busy else "ready"
        return {"id": notebook.id, "path": notebook.path, "kernel": notebook.kernel.name, "status": status}

    async def stop(self, request: TerminalRequest, notebook_id: str) -> dict[str, Any]:
        await self._end(self._find(request, notebook_id))
        return {"status": "stopped"}

    async def run(self, request: TerminalRequest, notebook_id: str) -> dict[str, Any]:
        """Run a cell, and keep what it gives in the file. Raises TerminalRefusal, ClientLeft."""
        notebook = self._find(request, notebook_id)
        body = await request.body()
        index, source = body.get("cell_index"), body.get("source")
        if not isinstance(index, int) or not 0 <= index < len(notebook.sources) or notebook.sources[index] is None:
            raise TerminalRefusal(400, f"the notebook has no cell {index!r} that runs; open it again")
        if not isinstance(source, str):
            source = notebook.sources[index] or ""
        await self._admit(request, source)
        kernel = notebook.kernel
        if kernel.is_busy:
            raise TerminalRefusal(409, "another cell of this notebook is running")
        try:
            answer = await self._while_connected(request, kernel.run(source, _RUNS_WITHIN_S))
        except KernelEnded as ended:
            await self._end(notebook)
            text = f"{ended}; press Restart"
            return {"status": "error", "execution_count": None, "outputs": [*ended.outputs, _note(text)]}
        finally:
            notebook.used_at = asyncio.get_running_loop().time()
        outputs: list[dict[str, Any]] = answer["outputs"]
        notes = []
        if answer["is_late"]:
            notes.append(f"interrupted after {_RUNS_WITHIN_S:g} s: a command in the shell can take longer")
        try:
            await self._keep(request, notebook, index, source, answer["execution_count"], outputs)
        except TerminalRefusal as refusal:
            notes.append(f"this is not in the file: {refusal.message}")
        shown = [*outputs, *map(_note, notes)]
        return {"status": answer["status"], "execution_count": answer["execution_count"], "outputs": shown}

    async def _admit(self, request: TerminalRequest, source: str) -> None:
        """Raise TerminalRefusal for a cell that a rule denies, or that the owner does not approve where one asks."""

        def admit(ctx: ToolContext, _: Tool) -> _Admitted:
            for line in source.splitlines():
                ctx.check_command(line.strip(" \t!%"))
            return _Admitted()

        await self._files.run(request, _INPUT, admit, input=source)

    async def _keep(
        self,
        request: TerminalRequest,
        notebook: Notebook,
        index: int,
        source: str,
        count: int | None,
        outputs: list[dict[str, Any]],
    ) -> None:
        known = {source, notebook.sources[index]}

        def change(old: bytes) -> bytes:
            document = _parse(old, notebook.path)
            cells = document["cells"]
            cell = cells[index] if index < len(cells) else {}
            if _source(cell) not in known:
                raise StaleRev(f"cell {index + 1} of {notebook.path} has changed since you opened it; open it again")
            parts = [_in_lines(each) for each in outputs]
            cell.update(source=source.splitlines(keepends=True), execution_count=count, outputs=parts)
            return _written(document)

        def work(ctx: ToolContext, _: Tool) -> Result:
            return raw_files.change_raw(ctx, notebook.path, change)

        await self._files.run(request, "fs_write", work, path=notebook.path, mode="overwrite")
        notebook.sources[index] = source

    async def _while_connected(self, request: TerminalRequest, work: Awaitable[_T]) -> _T:
        try:
            return await while_connected(request.scope, request.receive, work)
        except TokenRevoked:
            raise TerminalRefusal(401, REVOKED) from None

    def _find(self, request: TerminalRequest, notebook_id: str) -> Notebook:
        notebook, person = self._open.get(notebook_id), request.person
        owner = None if notebook is None else notebook.person
        if notebook is None or owner is None or (owner.name, owner.user) != (person.name, person.user):
            raise TerminalRefusal(404, "this notebook has no kernel any more; press Restart")
        return notebook

    async def _make_room(self, person: Caller) -> None:
        """End the kernel that the person has not used for the longest time, if there are too many. Raises
        TerminalRefusal if all of them run a cell."""
        own = [
            each for each in self._open.values() if (each.person.name, each.person.user) == (person.name, person.user)
        ]
        if len(self._open) + self._starting < MOST_KERNELS and len(own) < MOST_OF_ONE:
            return
        idle = sorted((each for each in own if not each.kernel.is_busy), key=lambda each: each.used_at)
        if not idle or self._starting >= MOST_KERNELS:
            most = f"{MOST_OF_ONE} of one user, and {MOST_KERNELS} in all"
            raise TerminalRefusal(429, f"too many notebooks have a kernel: there may be {most}", "stop one")
        await self._end(idle[0])

    async def _end(self, notebook: Notebook) -> None:
        self._open.pop(notebook.id, None)
        notebook.over.set()
        await notebook.kernel.end()

    async def _watch(self, notebook: Notebook, scope: Scope) -> None:
        """End the kernel of a person who may not have one any more, or who has not used it for long."""
        person, state = notebook.person, scope["state"]
        now = asyncio.get_running_loop().time
        streams = state["streams"].register(person.name, state["revocations"], notebook.over.set, lambda: person)
        try:
            with streams as is_valid:
                while is_valid and not notebook.over.is_set() and not notebook.kernel.has_ended:
                    is_idle = not notebook.kernel.is_busy and now() - notebook.used_at > IDLE_S
                    if is_idle or not self._is_allowed(person):
                        break
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(notebook.over.wait(), _LOOK_EVERY_S)
        finally:
            await self._end(notebook)


def _find(ctx: ToolContext, path: str) -> _Place:
    with raw_files.open_raw(ctx, path).file as file:
        data = file.read(_MOST_BYTES + 1)
    found = ctx.paths.real(ctx.paths.resolve(path))
    if len(data) > _MOST_BYTES:
        raise InvalidPath(f"{path} has more than {_MOST_BYTES:,} bytes")
    return _Place(str(found), Path(from_wire(str(found))).parent, _parse(data, path))


def _parse(data: bytes, path: str) -> dict[str, Any]:
    """The JSON of a notebook. Raises ToolError."""
    try:
        document = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidPath(f"{path} is no notebook: {error}") from None
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list) or not all(isinstance(each, dict) for each in cells):
        raise InvalidPath(
            f"{path} is no notebook of format 4; `jupyter nbconvert --to notebook` makes one of older ones"
        )
    result: dict[str, Any] = document
    return result


def _written(document: dict[str, Any]) -> bytes:
    """As Jupyter writes it, so that a version control sees what has changed and nothing else."""
    import json

    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


def _source(cell: dict[str, Any]) -> str | None:
    """The text of a cell that runs; None of any other."""
    if cell.get("cell_type") != "code":
        return None
    source = cell.get("source", "")
    return "".join(source) if isinstance(source, list) else str(source)


def _in_lines(output: dict[str, Any]) -> dict[str, Any]:
    """An output with its texts as lists of lines, as they are in a file."""
    if "text" in output:
        return {**output, "text": output["text"].splitlines(keepends=True)}
    if "data" not in output:
        return output
    data = {
        form: value.splitlines(keepends=True)
        if isinstance(value, str) and form.startswith(("text/", "image/svg"))
        else value
        for form, value in output["data"].items()
    }
    return {**output, "data": data}


def _note(text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": "stderr", "text": f"[{text}]\n"}
