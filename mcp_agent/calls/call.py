"""A call, what its tool is handed, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from mcp_agent.storage.artifact_store import ArtifactStore, CallerArtifacts
from registry.gate import Access, Grant
from registry.profiles import Form
from tools.context import LogLevel, ToolContext
from tools.kit.errors import ToolError
from tools.kit.records import record
from tools.kit.results import Result


@record
class Caller:
    """Who is asking: the token's name, the rules that bind it, and what it says of itself.

    `client` is what the program calls itself; it chooses how results are written and nothing else.
    """

    name: str
    access: Access
    transport: str
    client: str = ""
    form: Form = "auto"
    # The id of the conversation, on a wire that has one. Each conversation has its own read positions.
    connection: str = ""

    @property
    def reader(self) -> str:
        """Identifies the conversation, so that output which one client has read is still new for another."""
        return self.connection or f"{self.name}/{self.transport}/{self.client}"

    @property
    def is_on_mcp(self) -> bool:
        """Whether a client of MCP waits for the answer; many of those give up after a minute."""
        return self.transport in ("http", "sse", "stdio")


@record
class Call:
    """One request to run one tool. `report` sends progress to the caller, `tell` log messages, if it asked for them."""

    id: str
    caller: Caller
    tool: str
    arguments: Mapping[str, Any]
    report: Callable[[float, float | None, str | None], None] | None = None
    tell: Callable[[LogLevel, str], None] | None = None


@record
class SharedContext:
    """`tools` has the services that every call shares; nothing in it belongs to one call."""

    tools: ToolContext
    artifacts: ArtifactStore

    def for_call(self, call: Call, grant: Grant) -> ToolContext:
        """What the tool of this call is handed."""
        shared, caller, deny = self.tools, call.caller, grant.deny
        return ToolContext(
            call_id=call.id,
            paths=shared.paths if deny.paths is None else shared.paths.denying(deny.paths),
            commands=deny.commands,
            report=call.report or shared.report,
            tell=call.tell or shared.tell,
            owner=caller.name,
            connection=caller.reader,
            artifacts=CallerArtifacts(self.artifacts, caller.name),
            yield_ms=shared.yield_ms if caller.is_on_mcp else 0,
            sessions=shared.sessions,
            journal=shared.journal,
            revs=shared.revs,
            line_indexes=shared.line_indexes,
            listings=shared.listings,
            engine=shared.engine,
            pruner=shared.pruner,
            root=shared.root,
        )


class Blocks(NamedTuple):
    """The content of a result that is no single object, such as an image: a list of MCP's blocks, as JSON."""

    encoded: bytes


class Compact(NamedTuple):
    """A result that was made short, as JSON: it goes out as text and nothing besides."""

    encoded: bytes


# What goes out: the object as JSON, its rendering, blocks, or what was made short.
Written = bytes | str | Blocks | Compact


@record
class Success:
    """The tool has given a result. `whole_bytes` is how large it is, where not all of it goes out."""

    code: ClassVar[str] = "ok"
    result: Result
    written: Written
    whole_bytes: int | None = None

    @property
    def answer(self) -> Result:
        return self.result


@record
class Page:
    """A further page of an earlier result. No tool was run."""

    code: ClassVar[str] = "ok"
    whole_bytes: ClassVar[int | None] = None
    written: Compact


@record
class Failure:
    """An error that the caller can correct, or a fault of ours that is reported to it."""

    error: ToolError
    written: Written
    whole_bytes: int | None = None

    @property
    def answer(self) -> ToolError:
        return self.error

    @property
    def code(self) -> str:
        return self.error.code


@record
class Refusal:
    """A call that no tool answers: on JSON-RPC wires an error, elsewhere a bad request. `reason` is for the log."""

    error_code: int
    message: str
    data: Mapping[str, Any] | None = None
    reason: str = ""

    @property
    def code(self) -> str:
        return f"REFUSED {self.error_code}"


# What came of a call. All but a refusal are written as the result of a tool.
Answer = Success | Page | Failure
Outcome = Answer | Refusal


def outgoing_bytes(outcome: Outcome) -> int:
    """How much goes out, without what a wire puts around it."""
    if isinstance(outcome, Refusal):
        return 0
    written = outcome.written
    if isinstance(written, bytes):
        return len(written)
    if isinstance(written, str):
        return len(written) if written.isascii() else len(written.encode("utf-8", "replace"))
    return len(written.encoded)
