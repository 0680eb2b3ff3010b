"""Every message of a fleet, as the type that both ends read and write it by.

A message is MessagePack, so bytes stand in it as they are. What does not fit its type is refused as a whole, with the
place that does not fit; fields that are not known are passed over, for later versions.

Who is there:

    box      on `beat`    Beat every ten seconds, with About at its start and for a gateway that asks; Leaves at its end
    gateway  on `who`     Who  →  Beat, with all facts and, unless the gateway has them, the tools
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from tools.kit.spec import Effect, Tool

_Short = Annotated[str, Meta(max_length=200)]
_Path = Annotated[str, Meta(max_length=4_096)]
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


class Beat(Struct, frozen=True, tag="beat", omit_defaults=True):
    """A box is there. `facts` is the digest of its About, so that a gateway knows when to ask for it."""

    boot: _Short
    facts: _Short
    load: Annotated[float, Meta(ge=0, le=1e6)] = 0.0
    sessions: _Count = 0
    # The number of the newest event of its sessions.
    events: _Count = 0
    calls: _Count = 0
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
    schema: dict[str, Any] = {}
    listed: dict[str, Any] = {}
    destructive: bool = True
    idempotent: bool = False
    aliases: tuple[str, ...] = ()
    known_as: tuple[str, ...] = ()
    hints: Mapping[str, str] = {}

    @classmethod
    def of(cls, tool: Tool) -> ToolEntry:
        return cls(
            tool.name,
            tool.category,
            tool.effect,
            tool.title,
            tool.description,
            tool.input_schema,
            dict(tool.listed_schema),
            tool.destructive,
            tool.idempotent,
            tool.aliases,
            tool.known_as,
            tool.hints,
        )


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
        if all(map(_is_schema, (tool.schema, tool.listed))):
            found.setdefault(tool.name, tool)
    return tuple(found.values())


def _is_schema(value: dict[str, Any]) -> bool:
    return isinstance(value.get("properties", {}), dict) and _is_shallow(value, _MOST_DEPTH)


def _is_shallow(value: Any, levels: int) -> bool:
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_shallow(each, levels - 1) for each in children)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:_DIGEST_CHARS]
