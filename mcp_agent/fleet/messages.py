"""Every message of a fleet, as the type that both ends read and write it by.

A message is MessagePack, so bytes stand in it as they are. What does not fit its type is refused as a whole, with the
place that does not fit; fields that are not known are passed over, for later versions.

Who is there:

    box      on `beat`    Beat every ten seconds, with About at its start and for a gateway that asks; Leaves at its end
    gateway  on `who`     Who  →  Beat, with all facts and, unless the gateway has them, the tools

A call, on `call`. The gateway sends it under an id, and the box answers within `HOLD_S`: with the result, or that it is
running. Then the gateway asks again under the same id. That is the retry, the dedupe, the sign of life and the lease in
one: a box runs an id once, and cancels what nobody has asked for in `LEASE_S`.

    gateway               box
    RunTool            →  StillRunning, with what the tool reported, or Ran, or CallRefused
    ReadResource       →  StillRunning or Contents
    Ask                →  the same
                          NoResult instead of any of them
    Cancel on `cancel`    no answer

What a box shows, on `read`. On `output`, a box publishes Output while a gateway has read some in the last `WANTED_S`;
who missed some reads it:

    ReadOutput         →  Output or NotShown
    ReadSessions       →  Sessions or NotShown
    ReadApprovals      →  WaitingCalls or NotShown: calls that wait for an owner, one answered before
    ReadPiece          →  FilePiece or NotShown, of an artifact, or of a file that a call has offered under a ticket
    WritePiece         →  PieceWritten or NotShown, of a file that a call waits for under a ticket

A message has at most the bytes that the NATS server takes; `fleet init` has it take 8 MB.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from tools.context import LogLevel
from tools.kit.rules import Rule
from tools.kit.spec import Effect, Tool
from tools.sessions.origin import EndedBy

# The default of NATS. Only a call may be larger.
LEAST_PAYLOAD_BYTES = 1024 * 1024
# A box answers within that time, at the latest that the call is running.
HOLD_S = 1.0
# A call that no gateway has asked for in so long is cancelled, if the box was connected all the time.
LEASE_S = 60.0
# Output is published for so long after a gateway has read some; it reads again with each beat of the box.
WANTED_S = 25.0

_Short = Annotated[str, Meta(max_length=200)]
_Path = Annotated[str, Meta(max_length=4_096)]
_CallId = Annotated[str, Meta(min_length=8, max_length=64)]
_Count = Annotated[int, Meta(ge=0, le=2**53)]
_MOST_TOOLS = 2_000
# Of the schema of a tool, which a gateway writes into its list for everybody.
_MOST_DEPTH = 64
_DIGEST_CHARS = 32


class BadMessage(Exception):
    """A message that is not of its type: its sender has another version, or means no good."""


encode: Callable[[object], bytes] = msgspec.msgpack.Encoder().encode


def _decoder(kind: Any) -> Callable[[bytes | memoryview], Any]:
    """What reads a message of a type. Raises BadMessage."""
    return _reader(msgspec.msgpack.Decoder(kind).decode)


def _reader(decode: Callable[[bytes | memoryview], Any]) -> Callable[[bytes | memoryview], Any]:
    def read(data: bytes | memoryview) -> Any:
        try:
            return decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadMessage(f"a message cannot be read: {error}") from None

    return read


class About(Struct, frozen=True):
    """The facts of a box that change seldom. `tools` is the digest of its tools."""

    labels: Annotated[Mapping[_Short, _Short], Meta(max_length=200)]
    directory: _Path
    version: _Short
    host: _Short
    tools: _Short
    # The names of tools that it has and lets no gateway use.
    off: Annotated[tuple[_Short, ...], Meta(max_length=500)] = ()
    # The number of the last event before it joined: of sessions of an earlier start, which are no news.
    joined_after: _Count = 0


class Beat(Struct, frozen=True, tag="beat", omit_defaults=True):
    """A box is there. `facts` is the digest of its About, so that a gateway knows when to ask for it."""

    boot: _Short
    facts: _Short
    load: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    sessions: _Count = 0
    # The number of the newest event of its sessions.
    events: _Count = 0
    calls: _Count = 0
    # Which calls wait for the owner of the box: another number as soon as it is others, and 0 for none.
    approvals: _Count = 0
    about: About | None = None
    # What `pack_tools` wrote.
    tools: bytes | None = None


class Leaves(Struct, frozen=True, tag="leaves"):
    """This start of the box ends."""

    boot: _Short


class Who(Struct, frozen=True, omit_defaults=True):
    """Who is there under this name? A daemon that is about to take the name says its own boot id."""

    boot: _Short = ""
    # The digests of tools that the gateway has.
    has: Annotated[tuple[_Short, ...], Meta(max_length=1_000)] = ()


class ToolEntry(Struct, frozen=True, omit_defaults=True):
    """A tool as a box offers it."""

    name: Annotated[str, Meta(pattern="^[A-Za-z0-9_.-]{1,128}$")]
    category: Annotated[str, Meta(min_length=1, max_length=200)]
    effect: Effect
    title: str = ""
    description: str = ""
    input_schema: dict[str, Any] = {}
    listed_schema: dict[str, Any] = {}
    destructive: bool = True
    idempotent: bool = False
    aliases: tuple[str, ...] = ()
    known_as: tuple[str, ...] = ()
    hints: Mapping[str, str] = {}

    @classmethod
    def of(cls, tool: Tool) -> ToolEntry:
        return msgspec.convert(tool, cls, from_attributes=True)


class CallerFacts(Struct, frozen=True, omit_defaults=True):
    """Whom a gateway vouches for."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    transport: Annotated[str, Meta(pattern="^(http|sse|stdio|rpc|openapi|open-terminal|page)$")]
    client: _Short = ""
    form: Literal["auto", "json", "text"] = "auto"
    connection: _Short = ""
    chat: _Short = ""
    user: _Short = ""
    token_id: _Short = ""


class CallContext(Struct, frozen=True, omit_defaults=True):
    """For whom a box runs a call, and what the gateway's own profile adds to the rules there."""

    caller: CallerFacts
    wants_progress: bool = False
    wants_log: bool = False
    form: Literal["auto", "json", "text", "compact"] = "auto"
    root: str | None = None
    deny_paths: tuple[Rule, ...] = ()
    deny_commands: tuple[Rule, ...] = ()


class RunTool(Struct, frozen=True, tag="run"):
    id: _CallId
    tool: _Short
    arguments: dict[str, Any]
    context: CallContext


class ReadResource(Struct, frozen=True, tag="resource"):
    id: _CallId
    uri: _Path
    caller: CallerFacts


class Ask(Struct, frozen=True, tag="ask"):
    """What came of a call."""

    id: _CallId


class Cancel(Struct, frozen=True):
    id: _CallId


class StillRunning(Struct, frozen=True, tag="running", omit_defaults=True):
    """The call runs. With what the tool has reported since the last answer."""

    progress: tuple[tuple[float, float | None, str | None], ...] = ()
    logs: tuple[tuple[LogLevel, str], ...] = ()


class Ran(Struct, frozen=True, tag="ran", omit_defaults=True):
    """What a tool gave, as the wire of the gateway's client writes it. The gateway sends the bytes on as they are."""

    kind: Literal["success", "failure", "page"]
    form: Literal["blocks", "media", "compact", "text", "json"]
    content: bytes
    # The object that goes beside blocks.
    structured: bytes | None = None
    media_type: str = ""
    whole_bytes: int | None = None
    exit_status: int | None = None
    undo_id: str | None = None
    # Of a failure.
    code: str = ""
    message: str = ""
    rule: str | None = None


class CallRefused(Struct, frozen=True, tag="refused"):
    """No tool answers the call."""

    code: int
    message: str
    data: dict[str, Any] | None
    reason: str


class Contents(Struct, frozen=True, tag="contents"):
    """The contents of a resource; None if there is none for this caller."""

    contents: list[dict[str, Any]] | None


class NoResult(Struct, frozen=True, tag="none", omit_defaults=True):
    """Why there is none. Calls that are `busy` or `misunderstood` were not begun; `unknown` may have been, long ago."""

    why: Literal["busy", "cancelled", "too large", "unknown", "misunderstood"]
    detail: str = ""


class OutputRow(Struct, frozen=True, array_like=True):
    """A piece of the output of a session, its exit, or bytes that the spool has let go (`lost`, without a number)."""

    kind: Literal["stdout", "stderr", "exit", "lost"]
    session_id: _Short
    number: _Count
    offset: _Count
    end: _Count
    data: bytes = b""
    exit_code: int = 0
    signal: str | None = None
    ended_by: EndedBy | None = None


class Output(Struct, frozen=True, tag="output", omit_defaults=True):
    """What sessions printed: all events after the number `after`, up to `last`.

    Without rows, a published one says that there is more than is published: read it.
    """

    boot: _Short
    after: _Count
    last: _Count
    rows: tuple[OutputRow, ...] = ()
    # An answer: whether that is all until now.
    is_whole: bool = True


class ReadOutput(Struct, frozen=True, tag="output", omit_defaults=True):
    """Output after a number; of one session, or from an offset of it on; or from now on, and all of sessions that began
    after a number.

    It also says that this gateway wants output to be published. `watcher` is who reads on: for its sake a child may be
    kept waiting. `is_newest`: of much, only the end is worth reading.
    """

    watcher: _Short
    after: _Count | None = None
    session: _Short | None = None
    since: int | None = None
    begun_after: _Count | None = None
    most_bytes: _Count = 0
    is_newest: bool = False


class ReadSessions(Struct, frozen=True, tag="sessions", omit_defaults=True):
    """The sessions of a box; or one of them with its output from an offset on, which may count from the end."""

    session: _Short | None = None
    offset: int = 0


class Sessions(Struct, frozen=True, tag="sessions", omit_defaults=True):
    sessions: list[dict[str, Any]]
    text: str | None = None
    offset: int = 0
    next_offset: int = 0


class ReadApprovals(Struct, frozen=True, tag="approvals", omit_defaults=True):
    """The calls that wait for approval; with `id`, after the decision about that one, which is of this gateway."""

    id: _Short = ""
    decision: _Short = ""
    reason: Annotated[str, Meta(max_length=1_000)] = ""


class WaitingCalls(Struct, frozen=True, tag="approvals", omit_defaults=True):
    """`others` are of other callers: they are answered on the box alone."""

    approvals: list[dict[str, Any]]
    others: list[dict[str, Any]] = []


class ReadPiece(Struct, frozen=True, tag="piece", omit_defaults=True):
    """So many bytes of a file from an offset on. It is named by its ticket, or by its reference and owner."""

    name: _Path
    offset: _Count
    size: _Count
    owner: _Short = ""


class FilePiece(Struct, frozen=True, tag="piece"):
    """A piece of a file whose size is `whole`."""

    whole: _Count
    data: bytes
    sha256: bytes


class WritePiece(Struct, frozen=True, tag="write"):
    """The next piece of a file that a box receives."""

    ticket: _Short
    offset: _Count
    data: bytes
    sha256: bytes


class PieceWritten(Struct, frozen=True, tag="written"):
    """It is in the file."""


class NotShown(Struct, frozen=True, tag="not-shown", omit_defaults=True):
    """Why not: `off`, no gateway may hear of sessions here; `gone`, there is none such. `known` are other sessions."""

    why: Literal["off", "gone", "failed", "misunderstood"]
    detail: str = ""
    known: tuple[_Short, ...] = ()


FileQuestion = ReadPiece | WritePiece
FileAnswer = FilePiece | PieceWritten | NotShown
OutputQuestion = ReadOutput | ReadSessions
ReadQuestion = OutputQuestion | FileQuestion | ReadApprovals
ReadAnswer = Output | Sessions | FileAnswer | WaitingCalls
CallQuestion = RunTool | ReadResource | Ask
RunOutcome = Ran | CallRefused | Contents
BoxAnswer = RunOutcome | StillRunning | NoResult

read_question: Callable[[bytes], CallQuestion] = _decoder(CallQuestion)
read_answer: Callable[[bytes], BoxAnswer] = _decoder(BoxAnswer)
read_cancel: Callable[[bytes], Cancel] = _decoder(Cancel)
read_read_question: Callable[[bytes], ReadQuestion] = _decoder(ReadQuestion)
read_read_answer: Callable[[bytes], ReadAnswer] = _decoder(ReadAnswer)
read_output: Callable[[bytes], Output] = _decoder(Output)
read_beat: Callable[[bytes], Beat | Leaves] = _decoder(Beat | Leaves)
read_who: Callable[[bytes], Who] = _decoder(Who)
# JSON, and not MessagePack: a schema goes out as JSON again, and there is nothing in it that JSON has no form for.
_read_entry: Callable[[Raw], ToolEntry] = _reader(msgspec.json.Decoder(ToolEntry).decode)
_read_entries: Callable[[bytes], list[Raw]] = _reader(msgspec.json.Decoder(list[Raw]).decode)


def pack_tools(tools: Iterable[ToolEntry]) -> bytes:
    return msgspec.json.encode(list(tools))


def read_tools(data: bytes, expected_digest: str) -> tuple[ToolEntry, ...]:
    """Those of the tools of a box that can be offered. Raises BadMessage, also if they are not those of the digest.

    Boxes of one digest share their tools at a gateway. So nobody can have tools kept under the digest of others.
    """
    if digest(data) != expected_digest:
        raise BadMessage("the tools of the box are not those of its digest")
    found: dict[str, ToolEntry] = {}
    for entry in _read_entries(data)[:_MOST_TOOLS]:
        try:
            tool = _read_entry(entry)
        except BadMessage:
            continue
        if all(map(_is_schema, (tool.input_schema, tool.listed_schema))):
            found.setdefault(tool.name, tool)
    return tuple(found.values())


def _is_schema(value: dict[str, Any]) -> bool:
    return isinstance(value.get("properties", {}), dict) and _is_shallow(value, _MOST_DEPTH)


def _is_shallow(value: Any, levels: int) -> bool:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_shallow(each, levels - 1) for each in children)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGEST_CHARS]
