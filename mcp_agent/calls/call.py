"""A call, the context of its tool, and its outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from mcp_agent.answers.budget import longest_wait_s
from mcp_agent.answers.reply import NO_REMARKS, Blocks, Compact, Remarks, ToolReply, Written
from mcp_agent.storage.artifact_store import ArtifactStore, CallerArtifacts
from registry.gate import Access, Gate, Grant, Shape
from registry.profiles import Form
from tools.context import LogLevel, ToolContext
from tools.files.paths import OpenPaths
from tools.kit.errors import ToolError
from tools.kit.results import Result
from tools.kit.rules import NOTHING, Deny, merge
from tools.kit.spec import Tool
from tools.sessions.origin import Origin

# The names of the two wires that speak OpenAPI: to programs, and to the terminals of Open WebUI.
OPENAPI = "openapi"
OPEN_TERMINAL = "open-terminal"
_MCP = frozenset(("http", "sse", "stdio"))
# Where results go straight to a model, which has no use for a call that takes minutes.
_MODELS = _MCP | {OPEN_TERMINAL}


class Caller(Struct, frozen=True):
    """Who is asking: the token's name, the rules that bind it, and what it says of itself.

    `client` is what the program calls itself; it chooses how results are written and nothing else. `user` and `chat`
    are what it says of the person and the conversation: nobody has checked them.
    """

    name: str
    access: Access
    transport: str
    client: str = ""
    form: Form = "auto"
    # The id of the connection, on a wire that has one; of the chat and the user, where the client sends them.
    connection: str = ""
    chat: str = ""
    user: str = ""
    # The folder that the client works in, if it runs on this machine or came through a bridge of ours.
    folder: str = ""
    # Of a token that has one.
    token_id: str = ""
    # What passed the call on and vouches for all the rest, as the audit log names it: its kind and its name.
    passed_on_by: tuple[tuple[str, str], ...] = ()

    def with_client(self, client: str) -> Caller:
        """The same caller, once its program has said what it is called."""
        return replace(self, client=client)

    @property
    def owner(self) -> str:
        """What its artifacts and sessions belong to. A later token of the same name owns none of them."""
        return self.token_id or self.name

    @property
    def origin(self) -> Origin:
        return Origin(self.owner, self.connection, self.user, self.chat, self.client)

    @property
    def is_on_mcp(self) -> bool:
        """Whether a client of MCP waits for the answer; many of those give up after a minute."""
        return self.transport in _MCP

    @property
    def takes_media(self) -> bool:
        """Whether an image is sent as the bytes that it is, and an object once."""
        return self.transport in (OPENAPI, OPEN_TERMINAL)


class Narrowing(Struct, frozen=True):
    """What the daemon that passed a call on adds to the rules here: those of its own profile. It only takes away."""

    form: Shape = "auto"
    deny: Deny = NOTHING
    root: Path | None = None

    def narrow(self, tool: Tool, grant: Grant) -> tuple[Tool, Grant]:
        form = grant.form if self.form == "auto" or grant.form == "compact" else self.form
        root = grant.root
        if self.root is not None and (root is None or self.root.is_relative_to(root)):
            root = self.root
        narrowed = grant._replace(form=form, deny=merge([grant.deny, self.deny]), root=root)
        return tool.with_cursor if form == "compact" else tool, narrowed


class Call(Struct, frozen=True):
    """One request to run one tool. `report` sends progress to the caller, `tell` log messages, if it asked for them."""

    id: str
    caller: Caller
    tool: str
    arguments: Mapping[str, Any]
    report: Callable[[float, float | None, str | None], None] | None = None
    tell: Callable[[LogLevel, str], None] | None = None
    narrowing: Narrowing | None = None
    # How often the client has sent it, the first time included, where it sends a call again to go on waiting.
    round: int = 0


class SharedContext(Struct, frozen=True):
    """`tools` has the services that every call shares; nothing in it belongs to one call."""

    tools: ToolContext
    artifacts: ArtifactStore
    gate: Gate
    # Whether the contract of the pruning tools holds to the letter on every wire, as in `mcp-pruner`.
    is_literal: bool = False

    def for_call(self, call: Call, grant: Grant, paths: OpenPaths | None = None) -> ToolContext:
        """What the tool of this call is handed. `paths` begin where those of its conversation do."""
        shared, caller, deny = self.tools, call.caller, grant.deny
        paths = paths or shared.paths
        return replace(
            shared,
            call_id=call.id,
            paths=paths if deny.paths is None else paths.denying(deny.paths),
            commands=deny.commands,
            report=call.report or shared.report,
            tell=call.tell or shared.tell,
            owner=caller.owner,
            origin=caller.origin,
            artifacts=CallerArtifacts(self.artifacts, caller.owner, partial(self.gate.opens_artifact, caller.access)),
            yield_ms=shared.yield_ms if caller.transport in _MODELS else 0,
            most_wait_ms=shared.most_wait_ms if call.report is None else longest_wait_s(caller.client) * 1000,
            root=grant.root or shared.root,
        )


class Success(Struct, frozen=True):
    """The tool has given a result. `whole_bytes` is its full size if only a part is sent."""

    code: ClassVar[str] = "ok"
    result: Result
    written: Written
    whole_bytes: int | None = None
    # The machine of a fleet that ran it, if that was another one.
    box: str = ""
    remarks: Remarks = NO_REMARKS

    @property
    def reply(self) -> ToolReply:
        return ToolReply(self.result, self.remarks)


class Page(Struct, frozen=True):
    """A further page of an earlier result. No tool was run."""

    code: ClassVar[str] = "ok"
    whole_bytes: ClassVar[int | None] = None
    # Blocks where a box of a fleet has written it.
    written: Compact | Blocks


class Failure(Struct, frozen=True):
    """An error that the caller can correct, or a fault of ours that is reported to it."""

    error: ToolError
    written: Written
    whole_bytes: int | None = None
    box: str = ""
    remarks: Remarks = NO_REMARKS

    @property
    def reply(self) -> ToolReply:
        return ToolReply(self.error, self.remarks)

    @property
    def code(self) -> str:
        return self.error.code


class Refusal(Struct, frozen=True):
    """A call that no tool answers: on JSON-RPC wires an error, elsewhere a bad request. `reason` is for the log."""

    error_code: int
    message: str
    data: Mapping[str, Any] | None = None
    reason: str = ""

    @property
    def code(self) -> str:
        return f"REFUSED {self.error_code}"


# The outcome of a call. All but a refusal are written as the result of a tool.
Answer = Success | Page | Failure
Outcome = Answer | Refusal
