"""Messages are read strictly, whichever of its checks `decode` needs for them."""

from __future__ import annotations

import time
from typing import Any

import pytest

from mcp_agent.protocol.jsonrpc import INVALID_REQUEST, MOST_DEPTH, MOST_ELEMENTS, PARSE_ERROR, RpcError, decode


def _nested(depth: int) -> Any:
    return {"a": _nested(depth - 1)} if depth else 1


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a":1,"b":{"a":2}}', {"a": 1, "b": {"a": 2}}),
        (b'{"a:b":"c:d","e":"\\":"}', {"a:b": "c:d", "e": '":'}),
        (b'"' + b"[" * 100 + b'"', "[" * 100),
        (b'{"a":' * MOST_DEPTH + b"1" + b"}" * MOST_DEPTH, _nested(MOST_DEPTH)),
        (b"[" + b"1," * (MOST_ELEMENTS - 2) + b"1]", [1] * (MOST_ELEMENTS - 1)),
    ],
    ids=["plain", "colons-in-strings", "brackets-in-strings", "deepest", "widest"],
)
def test_what_is_within_bounds_is_read(data: bytes, value: object) -> None:
    assert decode(data) == value


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'{"a":1,"a":2}', INVALID_REQUEST),
        (b'{"a":1,"\\u0061":2}', INVALID_REQUEST),
        (b'[{"x":{"a:":1,"a:":2}}]', INVALID_REQUEST),
        (b"[" * (MOST_DEPTH + 1) + b"]" * (MOST_DEPTH + 1), INVALID_REQUEST),
        (b"[" * 100_000, INVALID_REQUEST),
        (b"[" + b"1," * MOST_ELEMENTS + b"1]", INVALID_REQUEST),
        (b'{"a":NaN}', PARSE_ERROR),
        (b'{"a":1', PARSE_ERROR),
    ],
    ids=["twice", "twice-escaped", "twice-nested", "too-deep", "unclosed", "too-wide", "nan", "cut"],
)
def test_what_is_ambiguous_or_out_of_bounds_is_refused(data: bytes, code: int) -> None:
    with pytest.raises(RpcError) as refused:
        decode(data)
    assert refused.value.code == code


def test_text_of_nothing_but_quotes_is_refused_before_it_is_split() -> None:
    """Seen: eight megabytes of them took the event loop for a second."""
    began = time.process_time()
    with pytest.raises(RpcError, match="has more than 50000 elements"):
        decode(b'"' * 8_000_000)
    assert time.process_time() - began < 0.3
