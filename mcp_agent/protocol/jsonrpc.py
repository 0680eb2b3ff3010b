"""JSON-RPC 2.0 messages: strict reading, exact writing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson
from msgspec import Struct

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800

MOST_STRING = 4 * 1024 * 1024
MOST_BATCH = 20
MOST_ID = 1_000
# How much there is in a JSON text is counted before any of it is built: a few bytes can be many objects.
MOST_DEPTH = 64
MOST_ELEMENTS = 50_000
# An element is a key and a value at most.
_MOST_QUOTES = 4 * MOST_ELEMENTS + 4
_BRACKET = re.compile(rb"[\[\]{}]")

RequestId = str | int
# A decoded result, or one that has been encoded already.
Payload = dict[str, Any] | orjson.Fragment

# A string that is not closed reaches to the end. If it did not match, the search would begin again at each quote
# in it, and a message of nothing but quotes would take the square of its length.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
_TOKEN = re.compile(_STRING.pattern + rb"|[\[\]{}]", re.DOTALL)
_ID_VALUE = rb'\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)'
_ID_AFTER_KEY = re.compile(_ID_VALUE)
_ID_MEMBER = re.compile(rb'"id"' + _ID_VALUE)
# Behind an id: only members with plain values, so that the brace which closes them closes the message.
_PLAIN_END = re.compile(rb'(?:\s*,\s*"[^"\\]*"\s*:\s*(?:"[^"\\]*"|[\w.+-]+))*+\s*}\s*\Z')
# More could only be in a message that was made to keep us busy: each is followed to the end.
_MOST_IDS_TRIED = 4
# Where the id of a message is looked for that is too large to be read.
_ID_IN_HEAD_BYTES = 65_536
ID_IN_TAIL_BYTES = 8_192


class RpcError(Exception):
    """A request that is answered with a JSON-RPC error."""

    # The id of a message that was refused before it was read, if it could be found.
    request_id: RequestId | None = None

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data

    def as_object(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return error


class MessageTooLarge(RpcError):
    """A message that is not read, because it is larger than one may be. `data` is the message, or its two ends."""

    def __init__(self, message: str, data: bytes) -> None:
        super().__init__(INVALID_REQUEST, message)
        self.request_id = _find_id(data)


class JsonTooLarge(ValueError):
    """A text with too many elements, or nested too deep. Its message goes on after the name of the text."""


class NoParams(RpcError):
    """Parameters that are no object, of a request whose method could be read."""

    def __init__(self, method: str) -> None:
        super().__init__(INVALID_PARAMS, "params must be an object")
        self.method = method


JSON = "application/json"


class WireAnswer(Struct, frozen=True):
    """The body of a response, and the HTTP status that goes with it."""

    body: bytes
    status: int = 200
    media_type: str = JSON


class RpcMessage(Struct, frozen=True):
    """A request (with an id) or a notification (without one)."""

    id: RequestId | None
    method: str
    params: Mapping[str, Any]

    @property
    def meta(self) -> Mapping[str, Any]:
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}


def decode(data: bytes, *, most_string: int = MOST_STRING) -> Any:
    """The JSON value in `data`. Raises RpcError for bad JSON, and for JSON that is too deep, too wide or ambiguous.

    The size is judged before anything is built.
    """
    try:
        skeleton = check_size(data)
    except JsonTooLarge as error:
        raise MessageTooLarge(f"this message {error}", data) from None
    if len(data) > most_string and any(len(text) > most_string + 2 for text in _STRING.findall(data)):
        raise MessageTooLarge(f"a string in this message is longer than {most_string} bytes", data)
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise RpcError(PARSE_ERROR, f"no JSON: {error}") from None
    # Most clients write JSON as we do: what reads the same when written again has lost nothing.
    if orjson.dumps(value) != data and _has_key_twice(data, skeleton, value):
        raise RpcError(INVALID_REQUEST, "an object in this message has a key twice")
    return value


def check_size(data: bytes) -> bytes | None:
    """Raise JsonTooLarge for a text that is too much to be read. Gives the skeleton, if it was needed.

    By counting alone where that is enough: a text has no more elements than bytes and is no deeper than it has
    brackets.
    """
    if len(data) <= MOST_ELEMENTS and data.count(b"{") + data.count(b"[") <= MOST_DEPTH:
        return None
    found = _skeleton(data)
    if found.count(b",") + found.count(b"[") + found.count(b"{") > MOST_ELEMENTS:
        raise JsonTooLarge(f"has more than {MOST_ELEMENTS} elements")
    depth = 0
    for bracket in _BRACKET.findall(found):
        depth += 1 if bracket in b"[{" else -1
        if depth > MOST_DEPTH:
            raise JsonTooLarge(f"is nested more than {MOST_DEPTH} levels deep")
    return found


def _skeleton(data: bytes) -> bytes:
    """`data` without its strings: only brackets, commas, colons and plain values are left.

    Without escaped backslashes and then without escaped quotes, every other piece between quotes is a string. Plain
    searches take a millisecond for a megabyte, where a regular expression takes ten, on the event loop. Raises
    JsonTooLarge for more strings than the elements may have.
    """
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in data else data
    if plain.count(b'"') > _MOST_QUOTES:
        raise JsonTooLarge(f"has more than {MOST_ELEMENTS} elements")
    return b"".join(plain.split(b'"')[::2])


def check_batch(values: list[Any]) -> None:
    """Raise RpcError for an array that has too many messages, or none."""
    if not values or len(values) > MOST_BATCH:
        raise RpcError(INVALID_REQUEST, f"a batch has 1 to {MOST_BATCH} messages, not {len(values)}")


def message(value: Any) -> RpcMessage | None:
    """The request or notification in a decoded value; None for a response, which we never wait for."""
    if not isinstance(value, dict):
        raise RpcError(INVALID_REQUEST, "a message must be a JSON object")
    if value.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, 'a message must say "jsonrpc": "2.0"')
    method = value.get("method")
    if not isinstance(method, str):
        if method is None and "method" not in value and ("result" in value or "error" in value):
            return None
        raise RpcError(INVALID_REQUEST, "a message needs a method, which is a string")
    request_id = value.get("id")
    if type(request_id) is not int and "id" in value and not is_id(request_id):
        raise RpcError(INVALID_REQUEST, f"the id of a request must be a whole number, or at most {MOST_ID} characters")
    # Some clients write null where they have none.
    params = value.get("params")
    if params is None:
        params = {}
    if not isinstance(params, dict):
        raise NoParams(method)
    return RpcMessage(request_id, method, params)


def is_id(value: Any) -> bool:
    """Whether `value` can be the id of a request. It is sent back with every answer, so it has a bound."""
    if isinstance(value, str):
        return len(value) <= MOST_ID
    return isinstance(value, int) and not isinstance(value, bool)


def id_of(value: Any) -> RequestId | None:
    """The id to answer a message with that could not be read as one."""
    request_id = value.get("id") if isinstance(value, dict) else None
    return request_id if is_id(request_id) else None


def response(request_id: RequestId, result: Payload) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": request_id, "result": result})


def failure(request_id: RequestId | None, error: RpcError) -> bytes:
    if request_id is None:
        request_id = error.request_id
    return orjson.dumps({"jsonrpc": "2.0", "id": request_id, "error": error.as_object()})


def notification(method: str, params: Mapping[str, Any] | None = None) -> bytes:
    if params is None:
        return orjson.dumps({"jsonrpc": "2.0", "method": method})
    return orjson.dumps({"jsonrpc": "2.0", "method": method, "params": params})


def _find_id(data: bytes) -> RequestId | None:
    """The id of a message that is too large to be read: near its beginning, or among the last of it."""
    depth = 0
    for token in _TOKEN.finditer(data, 0, _ID_IN_HEAD_BYTES):
        text = token[0]
        if text in (b"{", b"["):
            depth += 1
        elif text in (b"}", b"]"):
            depth -= 1
        elif text == b'"id"' and depth == 1 and (found := _ID_AFTER_KEY.match(data, token.end())):
            return _id_of_text(found[1])
    members = list(_ID_MEMBER.finditer(data, max(0, len(data) - ID_IN_TAIL_BYTES)))[-_MOST_IDS_TRIED:]
    found = next((each for each in members if _PLAIN_END.match(data, each.end())), None)
    return None if found is None else _id_of_text(found[1])


def _id_of_text(text: bytes) -> RequestId | None:
    try:
        return id_of({"id": orjson.loads(text)})
    except orjson.JSONDecodeError:
        return None


def _has_key_twice(data: bytes, skeleton: bytes | None, value: Any) -> bool:
    """Whether an object in `data` has a key that `value`, read from it, has lost to a later one of the same name."""
    keys = 0
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            keys += len(each)
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
    if skeleton is None:
        if keys == data.count(b":"):
            return False
        skeleton = _skeleton(data)
    return keys != skeleton.count(b":")
