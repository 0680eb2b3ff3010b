"""JSON-RPC messages: what is read, and what is refused before anything is built of it."""

from __future__ import annotations

import json
import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_agent.protocol import jsonrpc
from mcp_agent.protocol.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR, RpcError, RpcMessage

# Whole numbers of 64 bits: beyond them readers of JSON disagree, and ours takes the nearest float.
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=5)
    ),
    max_leaves=20,
)
_PIECES = st.lists(
    st.sampled_from(
        [*'[]{},:"\\ \n', '\\"', '"a"', '"a":', "1", "1e999", "-", "null", "tru", "NaN", "\\u12", "\ud7ff"]
    ),
    max_size=40,
).map(lambda pieces: "".join(pieces).encode())


@given(_JSON, st.sampled_from([None, 2]), st.booleans())
def test_a_value_is_read_as_any_reader_of_json_reads_it(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert jsonrpc.decode(text.encode()) == json.loads(text) == value


@given(_PIECES | st.binary(max_size=60) | st.text().map(str.encode))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        value = jsonrpc.decode(data)
    except RpcError:
        return
    assert value == json.loads(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b" ",
        b"NaN",
        b"[Infinity]",
        b"-Infinity",
        b"1e999",
        b'{"a":1,}',
        b"[1] [2]",
        b"'a'",
        b'"\\ud800"',
        b'"\\udc00\\ud800"',
        b"\xef\xbb\xbf{}",
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b'"a\nb"',
        b'"\\\n"',
        b'"open',
        b'"open\\',
        b'{"a" "b"}',
        b"]",
        b"// no\n1",
        b'{"a":1}\0',
        "{}".encode("utf-16"),
    ],
)
def test_what_is_no_json_is_a_parse_error(data: bytes) -> None:
    with pytest.raises(RpcError, match=r"^no JSON: ") as refused:
        jsonrpc.decode(data)
    assert refused.value.code == PARSE_ERROR


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":1}',
        '{"a":1,"\\u0061":2}',
        '[{"b":{"x":1,"x":2}}]',
        '{"a":{"a":1},"b":{"a":1,"b":2,"a":3}}',
        '{"":1,"":2}',
    ],
)
def test_a_key_that_stands_twice_is_refused(text: str) -> None:
    with pytest.raises(RpcError, match=r"^an object in this message has a key twice$") as refused:
        jsonrpc.decode(text.encode())
    assert refused.value.code == INVALID_REQUEST


@pytest.mark.parametrize("text", ['{"a":"::,{[","b":{"a":"\\"a\\":"}}', '{"a\\\\":1,"a":2}', '{"k":["\\\\",":"]}'])
def test_brackets_and_colons_in_strings_are_text(text: str) -> None:
    assert jsonrpc.decode(text.encode()) == json.loads(text)


def test_nesting_is_bounded_at_64() -> None:
    assert jsonrpc.decode(b"[" * 64 + b"]" * 64)
    for opening, closing in ((b"[", b"]"), (b'{"a":', b"}")):
        with pytest.raises(RpcError, match=r"^this message is nested more than 64 levels deep$"):
            jsonrpc.decode(opening * 65 + b"1" + closing * 65)
    with pytest.raises(RpcError):
        jsonrpc.decode(b"[" * 1_000_000)


def test_elements_are_bounded_at_50_000() -> None:
    assert len(jsonrpc.decode(json.dumps([0] * 50_000).encode())) == 50_000
    objects = "[" + ",".join(["{}"] * 25_001) + "]"
    for text in (json.dumps([0] * 50_001), json.dumps({str(n): 0 for n in range(50_001)}), objects):
        with pytest.raises(RpcError, match=r"^this message has more than 50000 elements$"):
            jsonrpc.decode(text.encode())


def test_a_string_is_bounded_at_4_mib() -> None:
    most = jsonrpc.MOST_STRING
    assert len(jsonrpc.decode(b'["' + b"x" * most + b'"]')[0]) == most
    for text in (b"x" * (most + 1), b"\\n" * (most // 2 + 1)):
        with pytest.raises(RpcError, match=rf"^a string in this message is longer than {most} bytes$"):
            jsonrpc.decode(b'["' + text + b'"]')


@pytest.mark.alone
@pytest.mark.parametrize(
    "data",
    [b'\\"' * 2_000_000, b'"\\' * 2_000_000, b'"' * 4_000_001, b'"' + b'\\"' * 2_000_000, b'"a' * 2_000_000],
    ids=["escaped quotes", "quotes and backslashes", "quotes", "an open string", "short strings"],
)
def test_a_message_of_quotes_is_judged_in_a_moment(data: bytes) -> None:
    """What was seen: 40 KB of backslashes and quotes held the event loop for six seconds."""
    before = time.process_time()
    with pytest.raises(RpcError):
        jsonrpc.decode(data)
    assert time.process_time() - before < 2


@pytest.mark.parametrize("request_id", [0, -1, 2**63, "", "a", "x" * 1_000])
def test_an_id_is_a_whole_number_or_a_text(request_id: str | int) -> None:
    value = {"jsonrpc": "2.0", "id": request_id, "method": "ping"}
    assert jsonrpc.message(value) == RpcMessage(request_id, "ping", {})
    assert jsonrpc.id_of(value) == request_id
    answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "result": {}}
    assert orjson.loads(jsonrpc.response(request_id, {})) == answer


@pytest.mark.parametrize("request_id", [None, True, 1.5, 1.0, [], {}, "x" * 1_001])
def test_anything_else_is_no_id(request_id: Any) -> None:
    value = {"jsonrpc": "2.0", "id": request_id, "method": "ping"}
    with pytest.raises(RpcError, match=r"^the id of a request must be") as refused:
        jsonrpc.message(value)
    assert refused.value.code == INVALID_REQUEST
    assert jsonrpc.id_of(value) is None


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("text", INVALID_REQUEST),
        ([], INVALID_REQUEST),
        (None, INVALID_REQUEST),
        ({}, INVALID_REQUEST),
        ({"jsonrpc": "1.0", "method": "ping"}, INVALID_REQUEST),
        ({"jsonrpc": 2.0, "method": "ping"}, INVALID_REQUEST),
        ({"jsonrpc": "2.0"}, INVALID_REQUEST),
        ({"jsonrpc": "2.0", "id": 1, "method": 5}, INVALID_REQUEST),
        ({"jsonrpc": "2.0", "id": 1, "method": None}, INVALID_REQUEST),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}, INVALID_PARAMS),
        ({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": "x"}, INVALID_PARAMS),
    ],
)
def test_what_is_no_message_is_refused(value: Any, code: int) -> None:
    with pytest.raises(RpcError) as refused:
        jsonrpc.message(value)
    assert refused.value.code == code


@given(_JSON)
def test_any_value_is_a_message_or_is_refused(value: Any) -> None:
    for each in (
        value,
        {"jsonrpc": "2.0", "method": value},
        {"jsonrpc": "2.0", "id": value, "method": "x", "params": value},
    ):
        try:
            found = jsonrpc.message(each)
        except RpcError as error:
            orjson.dumps(error.as_object())
        else:
            assert found is None or isinstance(found.meta, dict)


def test_a_message_without_an_id_is_a_notification_and_a_response_is_none_of_ours() -> None:
    told = jsonrpc.message({"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert told == RpcMessage(None, "notifications/initialized", {})
    assert jsonrpc.message({"jsonrpc": "2.0", "id": 1, "result": {}}) is None
    assert jsonrpc.message({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}) is None


def test_meta_that_is_no_object_is_none() -> None:
    assert RpcMessage(1, "ping", {"_meta": "x"}).meta == {}
    assert RpcMessage(1, "ping", {"_meta": {"a": 1}}).meta == {"a": 1}


def test_a_failure_carries_its_data_only_where_there_is_some() -> None:
    plain = {"jsonrpc": "2.0", "id": None, "error": {"code": -1, "message": "x"}}
    assert orjson.loads(jsonrpc.failure(None, RpcError(-1, "x"))) == plain
    told = {"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "x", "data": {"a": 1}}}
    assert orjson.loads(jsonrpc.failure(1, RpcError(-1, "x", {"a": 1}))) == told


@pytest.mark.parametrize("tail", [b'"id":1,' * 1_100, (b'"id":1' + b" " * 40 + b",") * 170, b'"id":"' * 1_300])
def test_the_id_behind_much_else_is_found_in_time_that_grows_with_the_message(tail: bytes) -> None:
    """Seen: each of a thousand ids in the last 8 KiB was followed to the end, 40 ms for one message."""
    params = b'{"jsonrpc":"2.0","method":"ping","params":["' + b"x" * 5_000_000 + b'"],'
    with pytest.raises(jsonrpc.MessageTooLarge) as refused:
        jsonrpc.decode(params + b'"note":"a","id":7}')
    assert refused.value.request_id == 7
    began = time.process_time()
    for _ in range(100):
        jsonrpc._find_id(tail + b"[")
    assert time.process_time() - began < 2.0
