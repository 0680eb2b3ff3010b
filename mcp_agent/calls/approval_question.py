"""What the owner is asked about a call: the command that it runs, or the change that it would make."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

import orjson
from msgspec import Struct
from msgspec.structs import replace

from mcp_agent.calls.call import Call
from registry.asking import AskReason, ToolAsk
from tools.context import ToolContext
from tools.files.diffs import WHOLE_CHARS
from tools.files.sources import is_reference
from tools.kit.errors import Denied
from tools.kit.spec import ChangePreview, Tool

_T = TypeVar("_T")
ReportProgress = Callable[[float, float | None, str | None], None]


class PolicyChanged(Exception):
    """The switches or rules have changed while a call waited: it begins again."""


class ApprovalQuestion(Struct, frozen=True):
    """A call that may need approval. `command` is what it runs or types; None if it is no such call."""

    call: Call
    tool: Tool
    asks: tuple[ToolAsk, ...]
    arguments: Mapping[str, Any]
    command: str | None
    # Where its relative paths begin.
    folder: str
    # Looks at what it would change; raises the error with which it would fail. None: it cannot be told.
    look: Callable[[], Awaitable[ChangePreview | None]]
    # Whether its arguments do not say all of it, so that no other call is the same.
    is_unique: bool = False

    @property
    def reasons(self) -> list[AskReason]:
        is_plain = self.tool.typed is None and not self.arguments.get("env")
        found = (each.reason(self.tool.name, self.command, is_plain=is_plain) for each in self.asks)
        return [reason for reason in found if reason is not None]

    @property
    def key(self) -> str:
        """What the question is known by."""
        caller = self.call.caller
        who = [caller.owner, caller.client, caller.user, caller.chat, self.folder, self.tool.name]
        if self.is_unique:
            return self.call.id
        whole = orjson.dumps([who, dict(self.arguments)], default=repr, option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(whole).hexdigest()


class Approver(Protocol):
    """Asks the owner about calls."""

    async def run(self, question: ApprovalQuestion, run: Callable[[], Awaitable[_T]]) -> _T:
        """Do what `run` does, if the call needs no approval or has it. Raises ToolError, PolicyChanged.

        A call that is sent twice is run once, and both have what it gives.
        """


class Nobody(Approver):
    """For a program without an owner to ask."""

    async def run(self, question: ApprovalQuestion, run: Callable[[], Awaitable[_T]]) -> _T:
        if question.reasons:
            raise Denied(f"{question.tool.name} needs approval, and nobody is there to give it")
        return await run()


def command_of(tool: Tool, context: ToolContext, arguments: Mapping[str, Any]) -> str | None:
    """What a call runs, or types into something that runs; None for a tool that does neither. Raises ToolError."""
    if tool.typed is not None:
        return tool.typed(context, **arguments)
    keyword = tool.command_keyword
    return None if keyword is None else str(arguments.get(keyword) or "")


def look_at(
    tool: Tool, context: ToolContext, arguments: Mapping[str, Any], command: str | None
) -> ChangePreview | None:
    """What a call would change; None where only its arguments tell. Nothing is changed.

    Raises the error with which the call would fail: what is denied is not asked about.
    """
    check_denied(tool, context, arguments, command)
    if tool.preview is None:
        return None
    return tool.preview(replace(context, diff_chars=WHOLE_CHARS, report=lambda *_: None), **arguments)


def check_denied(tool: Tool, context: ToolContext, arguments: Mapping[str, Any], command: str | None) -> None:
    """Raise Denied for a call that a deny rule is against, as far as its arguments tell."""
    if command:
        context.check_command(command)
    for keyword in tool.own_parameters.path_keywords:
        path = arguments.get(keyword, arguments.get(keyword.removesuffix("_")))
        if isinstance(path, str) and path and not is_reference(path):
            context.paths.resolve(path)


def later_progress(report: ReportProgress, passed_s: float) -> ReportProgress:
    """Progress of a tool that began after a wait: progress only grows."""

    def report_later(done: float, total: float | None, message: str | None) -> None:
        report(done + passed_s, None if total is None else total + passed_s, message)

    return report_later
