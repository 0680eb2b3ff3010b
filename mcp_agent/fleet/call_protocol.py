"""What a gateway and a member say to each other about a call. Every message is a line of JSON, and bytes behind it.

A gateway sends a call under an id, and the member answers within `HOLD_S`: with the result, or that it is running.
Then the gateway asks again under the same id. That is the retry, the dedupe, the sign of life and the lease in one:
a member runs an id once, and cancels what nobody has asked for in `LEASE_S`.

    gateway                                     member
    call     {"id", "tool", "arguments"}     →  {"is": "running", "progress": […]}
             and {"caller", …}
    read     {"id", "resource", "caller"}    →  {"is": "done", "kind": "contents"} and JSON
    ask      {"id"}                          →  {"is": "done", "kind", …} and the result as its wire writes it
    piece    {"id", "from": offset}          →  {"is": "piece"} and bytes, of a result that fits no message
    part     {"id", "part", "of"} and bytes  →  {"is": "taken"}, of a call that fits no message

The member writes the whole result for the gateway's client. The gateway puts the bytes into its answer as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import orjson

from mcp_agent.answers.reply import Blocks, Compact, Written
from mcp_agent.calls.call import Call, Caller, Failure, Narrowing, Outcome, Page, Refusal, Success
from mcp_agent.fleet.messages import BadMessage
from registry.gate import Access, Grant
from tools.kit.errors import ToolError
from tools.kit.results import Media, Result, ResultFacts
from tools.kit.rules import NOTHING, CommandRules, Deny, PathRules, Rule

# A member answers within that time, at the latest that the call is running.
HOLD_S = 2.0
# A call that no gateway has asked for in so long is cancelled, if the member was connected all the time.
LEASE_S = 60.0
# Of a call or a result in one message; most servers of NATS take 1 MiB with the head.
MOST_PIECE_BYTES = 900_000
MOST_CALL_BYTES = 32 * 1024 * 1024

_TRANSPORTS = frozenset(("http", "sse", "stdio", "rpc", "openapi", "open-terminal", "page"))
_FORMS = frozenset(("auto", "json", "text"))
_SHAPES = _FORMS | {"compact"}
_MOST_NAME = 200
_NOTHING = memoryview(b"")
# What a member keeps of the settings that it has read.
_MOST_SETTINGS = 1_000
_MOST_SETTING_BYTES = 10_000


def pack(head: Mapping[str, Any], *parts: bytes) -> bytes:
    return b"".join((orjson.dumps(head), b"\n", *parts)) if parts else orjson.dumps(head)


def unpack(data: bytes) -> tuple[dict[str, Any], memoryview]:
    """The line of JSON, and the bytes behind it. Raises BadMessage."""
    end = data.find(b"\n")
    try:
        head = orjson.loads(data if end < 0 else data[:end])
    except orjson.JSONDecodeError as error:
        raise BadMessage(f"the head is no JSON: {error}") from None
    if not isinstance(head, dict):
        raise BadMessage("the head is no object")
    return head, _NOTHING if end < 0 else memoryview(data)[end + 1 :]


def pack_call(call: Call, grant: Grant) -> bytes:
    """A call, and behind it for whom it is: the caller that the gateway vouches for, and the rules of its profile.

    The second is the same for many calls, and the member reads it once.
    """
    setting: dict[str, Any] = {
        "caller": _caller_to_wire(call.caller),
        "progress": call.report is not None,
        "log": call.tell is not None,
    }
    if grant.form != "auto":
        setting["form"] = grant.form
    if grant.root is not None:
        setting["root"] = str(grant.root)
    if grant.deny.paths is not None:
        setting["deny_paths"] = _rules_to_wire(grant.deny.paths.rules)
    if grant.deny.commands is not None:
        setting["deny_commands"] = _rules_to_wire(grant.deny.commands.rules)
    return pack({"id": call.id, "tool": call.tool, "arguments": call.arguments}, orjson.dumps(setting))


def pack_resource(call_id: str, caller: Caller, uri: str) -> bytes:
    """A resource of the box to be read."""
    return pack({"id": call_id, "resource": uri, "caller": _caller_to_wire(caller)})


def _caller_to_wire(caller: Caller) -> dict[str, str]:
    return {
        "name": caller.name,
        "transport": caller.transport,
        "client": caller.client,
        "form": caller.form,
        "connection": caller.connection,
        "chat": caller.chat,
        "user": caller.user,
    }


class AskedResource(NamedTuple):
    """A resource that a member is to read."""

    uri: str
    caller: Caller


class Setting(NamedTuple):
    """For whom a member runs calls, and how."""

    caller: Caller
    wants_progress: bool
    wants_log: bool
    narrowing: Narrowing | None


class AskedCall(NamedTuple):
    """A call as a member reads it."""

    tool: str
    arguments: dict[str, Any]
    setting: Setting


class MessageReader:
    """Reads what gateways ask for. `access` is what they may use here, whoever they vouch for."""

    def __init__(self, access: Access) -> None:
        self._access = access
        # By gateway, and as it was written: most calls have one that was there before.
        self._settings: dict[tuple[str, bytes], Setting] = {}

    def read(self, head: Mapping[str, Any], body: memoryview, gateway: str) -> AskedCall | AskedResource:
        """Raises BadMessage."""
        uri = head.get("resource")
        if isinstance(uri, str):
            return AskedResource(uri, _read_caller(head.get("caller"), gateway, self._access))
        tool, arguments = head.get("tool"), head.get("arguments")
        if not isinstance(tool, str) or not isinstance(arguments, dict):
            raise BadMessage("a call has a tool and arguments")
        if not body:
            # A gateway may write all in one.
            return AskedCall(tool, arguments, self._read_setting(head, gateway))
        key = gateway, bytes(body)
        setting = self._settings.get(key)
        if setting is None:
            setting = self._read_setting(unpack(key[1])[0], gateway)
            if len(self._settings) >= _MOST_SETTINGS:
                self._settings.clear()
            if len(body) <= _MOST_SETTING_BYTES:
                self._settings[key] = setting
        return AskedCall(tool, arguments, setting)

    def _read_setting(self, head: Mapping[str, Any], gateway: str) -> Setting:
        caller = _read_caller(head.get("caller"), gateway, self._access)
        return Setting(caller, head.get("progress") is True, head.get("log") is True, _read_narrowing(head))


def caller_name(name: str) -> str:
    """What a box calls somebody whom a gateway vouches for, in its audit log and as an owner."""
    return f"fleet/{name}"


def _read_caller(who: Any, gateway: str, access: Access) -> Caller:
    if not isinstance(who, dict):
        raise BadMessage("a call has a caller")
    texts = {name: who.get(name, "") for name in ("name", "client", "connection", "chat", "user")}
    if not all(isinstance(text, str) and len(text) <= _MOST_NAME for text in texts.values()) or not texts["name"]:
        raise BadMessage("the caller has no name, or a text that is too long")
    transport, form = who.get("transport"), who.get("form", "auto")
    if transport not in _TRANSPORTS or form not in _FORMS:
        raise BadMessage(f"there is no transport {transport!r} or no form {form!r}")
    return Caller(
        name=caller_name(texts["name"]),
        access=access,
        transport=transport,
        client=texts["client"],
        form=form,
        connection=texts["connection"],
        chat=texts["chat"],
        user=texts["user"],
        gateway=gateway,
    )


def _read_narrowing(head: Mapping[str, Any]) -> Narrowing | None:
    form, root = head.get("form", "auto"), head.get("root")
    if form not in _SHAPES or not (root is None or isinstance(root, str)):
        raise BadMessage("form or root of the call cannot be read")
    paths, commands = _rules_from_wire(head.get("deny_paths", ())), _rules_from_wire(head.get("deny_commands", ()))
    if form == "auto" and root is None and not paths and not commands:
        return None
    try:
        deny = Deny(PathRules(paths) if paths else None, CommandRules(commands) if commands else None)
    except ToolError as error:
        raise BadMessage(f"a deny rule of the gateway cannot be used here: {error.message}") from None
    return Narrowing(form, deny if paths or commands else NOTHING, None if root is None else Path(root))


def _rules_to_wire(rules: tuple[Rule, ...]) -> list[list[Any]]:
    return [[rule.id, rule.patterns, rule.reason, rule.where] for rule in rules]


def _rules_from_wire(value: Any) -> tuple[Rule, ...]:
    try:
        return tuple(Rule(str(id_), tuple(map(str, found)), str(why), str(where)) for id_, found, why, where in value)
    except (TypeError, ValueError):
        raise BadMessage("a deny rule of the gateway cannot be read") from None


def pack_outcome(outcome: Outcome, caller: Caller) -> bytes:
    """What came of a call, with the result as the wire of `caller` writes it."""
    if isinstance(outcome, Refusal):
        return pack(
            {
                "is": "done",
                "kind": "refusal",
                "code": outcome.error_code,
                "message": outcome.message,
                "data": outcome.data,
                "reason": outcome.reason,
            }
        )
    form, first, second = _write(outcome.written, caller)
    head: dict[str, Any] = {"is": "done", "kind": "page", "form": form, "sizes": [len(first), len(second)]}
    if isinstance(outcome, Success):
        facts = outcome.result.facts
        head |= {"kind": "success", "whole": outcome.whole_bytes, "exit": facts.exit_status, "undo": facts.change_id}
    elif isinstance(outcome, Failure):
        error = outcome.error
        head |= {"kind": "failure", "whole": outcome.whole_bytes, "code": error.code, "message": error.message[:1_000]}
        if error.rule is not None:
            head["rule"] = error.rule
    if isinstance(outcome.written, Media):
        head["type"] = outcome.written.type
    return pack(head, first, second)


def _write(written: Written, caller: Caller) -> tuple[str, bytes, bytes]:
    """The form, and the bytes that the gateway puts into its answer: for clients of MCP, content and the object."""
    if isinstance(written, Media):
        return "media", written.data, b""
    if isinstance(written, Blocks):
        return "blocks", written.encoded, written.structured or b""
    if not caller.takes_media:
        text = written if isinstance(written, str) else (written if isinstance(written, bytes) else written.encoded)
        shown = text if isinstance(text, str) else text.decode()
        content = orjson.dumps([{"type": "text", "text": shown}])
        return "blocks", content, written if isinstance(written, bytes) else b""
    if isinstance(written, Compact):
        return "compact", written.encoded, b""
    return ("text", written.encode("utf-8", "replace"), b"") if isinstance(written, str) else ("json", written, b"")


def pack_contents(contents: list[dict[str, Any]] | None) -> bytes:
    return pack({"is": "done", "kind": "contents"}, orjson.dumps(contents))


def read_contents(head: Mapping[str, Any], body: memoryview) -> list[dict[str, Any]] | None:
    """What `pack_contents` wrote. Raises BadMessage."""
    try:
        found: list[dict[str, Any]] | None = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadMessage(f"the contents of a resource are no JSON: {error}") from None
    if head.get("kind") != "contents" or not isinstance(found, list | None):
        raise BadMessage("the contents of a resource cannot be read")
    return found


def read_outcome(head: Mapping[str, Any], body: memoryview, box: str) -> Outcome:
    """The outcome that `pack_outcome` wrote on a box. Raises BadMessage."""
    try:
        kind = head["kind"]
        if kind == "refusal":
            return Refusal(head["code"], head["message"], head["data"], head["reason"])
        size, beside = head["sizes"]
        written = _read_written(head, bytes(body[:size]), bytes(body[size : size + beside]))
        if kind == "success":
            return Success(RemoteResult(written, head["exit"], head["undo"]), written, head["whole"], box)
        if kind == "failure":
            error = RemoteError(head["code"], head["message"], head.get("rule"), written)
            return Failure(error, written, head["whole"], box)
        if kind == "page" and isinstance(written, Compact | Blocks):
            return Page(written)
    except (KeyError, TypeError, ValueError) as problem:
        raise BadMessage(f"the outcome of a call cannot be read: {problem!r}") from None
    raise BadMessage(f"there is no outcome {kind!r}")


def _read_written(head: Mapping[str, Any], first: bytes, second: bytes) -> Written:
    form: Literal["blocks", "media", "compact", "text", "json"] = head["form"]
    match form:
        case "blocks":
            return Blocks(first, second or None)
        case "media":
            return Media(head["type"], first)
        case "compact":
            return Compact(first)
        case "text":
            return first.decode()
        case "json":
            return first
    raise BadMessage(f"there is no form {form!r}")


class RemoteResult(Result, frozen=True):
    """A result that a box has written. It is read only where somebody looks into it, as the Tools page does."""

    _written: Written
    _exit: int | None = None
    _undo: str | None = None

    def as_object(self) -> dict[str, Any]:
        return _object_of(self._written)

    def render(self) -> str:
        return _text_of(self._written)

    @property
    def facts(self) -> ResultFacts:
        return ResultFacts(self._exit, self._undo)


class RemoteError(ToolError):
    """An error that a box has written."""

    def __init__(self, code: str, message: str, rule: str | None, written: Written) -> None:
        super().__init__(message)
        self.code = code
        self.rule = rule
        self._written = written

    def as_object(self) -> dict[str, Any]:
        found = _object_of(self._written)
        return found if "error" in found else super().as_object()

    def render(self) -> str:
        return _text_of(self._written)


def _object_of(written: Written) -> dict[str, Any]:
    encoded = written.structured if isinstance(written, Blocks) else written if isinstance(written, bytes) else None
    if isinstance(written, Compact):
        encoded = written.encoded
    if encoded is None:
        return {"text": _text_of(written)}
    found: dict[str, Any] = orjson.loads(encoded)
    return found


def _text_of(written: Written) -> str:
    if isinstance(written, Blocks):
        return "\n".join(str(block.get("text", "")) for block in orjson.loads(written.encoded))
    if isinstance(written, Media):
        return f"{written.type}, {len(written.data)} bytes"
    found = written.encoded if isinstance(written, Compact) else written
    return found if isinstance(found, str) else found.decode()
