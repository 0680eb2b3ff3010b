"""The resources of wrapped programs, as tools.json names them: what a program prints, or a file."""

from __future__ import annotations

import base64
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from mcp_agent.answers.reply import ToolReply
from mcp_agent.calls.call import Call, Caller, Failure, Outcome, Success
from mcp_agent.calls.dispatcher import Dispatcher
from mcp_agent.resources.resources import FILE_TOOL, CannotBeRead
from registry.catalog import LiveCatalog
from registry.gate import Gate
from tools.kit.errors import NotInitialized
from tools.kit.results import Result

if TYPE_CHECKING:
    from tools.cli.wrap import WrappedDocument
    from tools.cli.wrapped_tools import WrappedProgram


_MOST_BYTES = 800_000
# What the `_meta` of a resource that was cut says.
_CUT_FACTS = ("truncated", "size", "missing_bytes", "next_line", "artifactRef", "output_path")


class WrappedResources:
    """For callers that may use the program. Reading one is a call like any other: gated, bounded and audited."""

    def __init__(self, gate: Gate, catalog: LiveCatalog, dispatcher: Dispatcher, folder: Path) -> None:
        self._gate = gate
        self._catalog = catalog
        self._dispatcher = dispatcher
        self._folder = folder

    def entries(self, caller: Caller) -> list[dict[str, Any]]:
        return [
            {
                "uri": document.uri,
                "name": document.uri,
                "description": document.description,
                "mimeType": "text/plain",
            }
            for _, document in self._documents(caller)
        ]

    def templates(self, caller: Caller) -> list[dict[str, Any]]:
        return []

    async def read(self, caller: Caller, uri: str) -> list[dict[str, Any]] | None:
        found = next((each for each in self._documents(caller) if each[1].uri == uri), None)
        if found is None:
            return None
        program, document = found
        if document.args is not None:
            tool = program.wrap.id
            arguments: dict[str, Any] = {"args": list(document.args)}
            if program.agents is None:
                arguments["cwd"] = str(self._folder)
        else:
            tool = FILE_TOOL
            arguments = {"path": str(self._file_of(caller, program, document)), "max_bytes": _MOST_BYTES}
        outcome = await self._dispatcher.call(Call(secrets.token_hex(6), caller, tool, arguments))
        if isinstance(outcome, Failure) and isinstance(outcome.error, NotInitialized):
            # A client that puts the resource before its model shows what to do, and no fault of the server.
            return [{"uri": uri, "mimeType": "text/plain", "text": outcome.error.message}]
        if not isinstance(outcome, Success):
            raise CannotBeRead(f"{uri} cannot be read: {_reason(outcome)}")
        return [{"uri": uri, **_contents(outcome.result)}]

    async def completions(self, caller: Caller, template: str, argument: str, value: str) -> list[str] | None:
        return None

    def _documents(self, caller: Caller) -> list[tuple[WrappedProgram, WrappedDocument]]:
        visible = {tool.name for tool in self._gate.visible(caller.access)}
        return [
            (program, document)
            for program in self._catalog.programs
            if program.wrap.id in visible
            for document in program.wrap.resources
            # `os.path`: a folder that we may not search has no such file, and is no error.
            if document.file is None
            or (FILE_TOOL in visible and os.path.isfile(self._file_of(caller, program, document)))  # noqa: PTH113
        ]

    def _file_of(self, caller: Caller, program: WrappedProgram, document: WrappedDocument) -> Path:
        """The file of a document, in the folder of the caller's conversation."""
        assert document.file is not None, "the other documents are output"
        link = program.agents.link_of(caller.origin) if program.agents else None
        return (link.cwd if link else self._folder) / Path(document.file).expanduser()


def _contents(result: Result) -> dict[str, Any]:
    """What a result holds, as far as it fits one message."""
    content = result.body.content
    if content is not None and content.media is not None:
        return {"mimeType": content.media.type, "blob": base64.b64encode(content.media.data).decode()}
    facts = result.as_object()
    if len(orjson.dumps(facts)) > _MOST_BYTES:
        part = ToolReply(result).largest_part(
            lambda part: len(orjson.dumps(part.as_object())) <= _MOST_BYTES, _MOST_BYTES
        )
        facts = facts if part is None else part.as_object()
    contents: dict[str, Any] = {"mimeType": "text/plain", "text": facts["stdout" if "stdout" in facts else "content"]}
    if facts.get("truncated"):
        contents["_meta"] = {name: facts[name] for name in _CUT_FACTS if name in facts}
    return contents


def _reason(outcome: Outcome) -> str:
    return outcome.error.message if isinstance(outcome, Failure) else "there is no such tool"
