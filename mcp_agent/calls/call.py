"""A call and what came of it: the two things that cross the middle of the daemon."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, NamedTuple, Protocol

from registry.gate import Access, Shape
from registry.profiles import Form
from tools.kit.context import LogLevel
from tools.kit.errors import ToolError
from tools.kit.records import mutable, record
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
    # The conversation it is, where a wire has such a thing: what one client was given, another was not.
    connection: str = ""

    @property
    def reader(self) -> str:
        """Who is meant by "what you were last given"."""
        return self.connection or f"{self.name}/{self.transport}/{self.client}"

    @property
    def is_on_mcp(self) -> bool:
        """Whether a client of MCP waits for the answer; many of those give up after a minute."""
        return self.transport in ("http", "sse", "stdio")


@mutable
class Call:
    """One request to run one tool. `report` and `tell` are there when the caller hears of progress and of the log."""

    id: str
    caller: Caller
    tool: str
    arguments: Mapping[str, Any]
    report: Callable[[float, float | None, str | None], None] | None = None
    tell: Callable[[LogLevel, str], None] | None = None
    is_cancelled: bool = field(default=False)


class Refusal(NamedTuple):
    """A call that no tool answers: on JSON-RPC wires an error, elsewhere a bad request."""

    code: int
    message: str
    data: Mapping[str, Any] | None = None


class Blocks(NamedTuple):
    """The content of a result that is no single object, such as an image: a list of MCP's blocks, as JSON."""

    encoded: bytes


class Compact(NamedTuple):
    """A result that was made short, as JSON: it goes out as text and nothing besides."""

    encoded: bytes


# What goes out: the object as JSON, its rendering, blocks, or what was made short.
Written = bytes | str | Blocks | Compact


@mutable
class Outcome:
    """What came of a call: a result, an error that the caller can mend, or a refusal. Exactly one of them.

    `written` is the result or the error as it goes out, added last; it alone is there for a further page of an earlier
    result.
    `whole_bytes` is how large the result is, where not all of it goes out.
    """

    call_id: str
    form: Shape = "auto"
    result: Result | None = None
    error: ToolError | None = None
    refusal: Refusal | None = None
    written: Written | None = None
    whole_bytes: int | None = None

    @property
    def is_error(self) -> bool:
        return self.error is not None

    @property
    def written_bytes(self) -> int:
        """How much goes out, without what a wire puts around it."""
        written = self.written
        if type(written) is bytes:
            return len(written)
        match written:
            case None:
                return 0
            case str(text):
                return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
            case Blocks(encoded) | Compact(encoded) | encoded:
                return len(encoded)

    @property
    def code(self) -> str:
        """What came of it in a word: ok, the code of the error, or the number of the refusal."""
        if self.refusal is not None:
            return f"REFUSED {self.refusal.code}"
        return "ok" if self.error is None else self.error.code

    def as_written(self, written: Written, whole_bytes: int | None = None) -> Outcome:
        """The same, with what goes out."""
        self.written, self.whole_bytes = written, whole_bytes
        return self

    @property
    def answer(self) -> Result | ToolError:
        answer = self.result or self.error
        assert answer is not None, "a refusal has neither"
        return answer

    def as_object(self) -> dict[str, Any]:
        return self.answer.as_object()

    def render(self) -> str:
        return self.answer.render()


class Witness(Protocol):
    """Who is told of every call once it is over, on the loop; what it does there, every caller waits for."""

    def record(self, call: Call, outcome: Outcome | None, took_s: float, result_bytes: int) -> None:
        """`outcome` is None for a call that was called off."""
