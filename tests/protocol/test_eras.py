"""Versions, and the headers that a stateless request repeats itself in."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_agent.protocol import eras
from mcp_agent.protocol.eras import (
    HEADER_MISMATCH,
    META_CAPABILITIES,
    META_CLIENT,
    META_LOG_LEVEL,
    META_VERSION,
    UNSUPPORTED_VERSION,
    Envelope,
)
from mcp_agent.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RpcError,
    RpcMessage,
)

Headers = list[tuple[bytes, bytes]]
_VERSION = "2026-07-28"
_META = {META_VERSION: _VERSION, META_CAPABILITIES: {}}


def _call(name: Any = "fs_read", **meta: Any) -> RpcMessage:
    return RpcMessage(1, "tools/call", {"name": name, "_meta": {**_META, **meta}})


def _headers(version: bytes = _VERSION.encode(), method: bytes = b"tools/call", name: bytes = b"fs_read") -> Headers:
    return [(b"mcp-protocol-version", version), (b"mcp-method", method), (b"mcp-name", name)]


def _wrapped(text: str) -> bytes:
    return b"=?base64?" + base64.b64encode(text.encode()) + b"?="


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_handshake_settles_on_the_version_that_was_asked_for(version: str) -> None:
    assert eras.negotiate_version(version) == version


@pytest.mark.parametrize("version", ["2026-07-28", "2030-01-01", "", "latest"])
def test_a_handshake_for_another_version_settles_on_the_latest(version: str) -> None:
    assert eras.negotiate_version(version) == "2025-11-25"


def test_a_message_belongs_to_the_stateless_era_by_its_mark() -> None:
    assert eras.is_stateless(_call())
    assert not eras.is_stateless(RpcMessage(1, "tools/call", {}))
    assert eras.is_stateless(RpcMessage(1, "initialize", {"_meta": _META}))


def test_an_envelope_says_who_is_asking() -> None:
    message = _call(**{META_CLIENT: {"name": "a-client", "version": "1"}, META_LOG_LEVEL: "debug"})
    assert eras.envelope(message, _headers()) == Envelope(_VERSION, "a-client", "debug")
    assert eras.envelope(_call()) == Envelope(_VERSION, "", None)


@pytest.mark.parametrize(
    ("info", "name"), [(None, ""), ("x", ""), ({}, ""), ({"name": 5}, ""), ({"name": "x" * 999}, "x" * 200)]
)
def test_a_client_that_does_not_say_its_name_has_none(info: Any, name: str) -> None:
    assert eras.client_name(info) == name


@pytest.mark.parametrize("name", [b"fs_read", _wrapped("fs_read")])
def test_a_name_may_stand_in_its_header_plain_or_wrapped(name: bytes) -> None:
    assert eras.envelope(_call(), _headers(name=name)) == Envelope(_VERSION, "", None)


def test_a_name_that_no_header_can_hold_is_wrapped() -> None:
    assert eras.envelope(_call("né\n"), _headers(name=_wrapped("né\n"))) == Envelope(_VERSION, "", None)


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ([], "the header MCP-Protocol-Version is missing"),
        (_headers()[1:], "the header MCP-Protocol-Version is missing"),
        (_headers()[:1], "the header Mcp-Method is missing"),
        (_headers()[:2], "the header Mcp-Name is missing"),
        ([*_headers(), _headers()[0]], "the header MCP-Protocol-Version stands twice"),
        ([*_headers(), (b"mcp-name", b"fs_read")], "the header Mcp-Name stands twice"),
        (_headers(version=b"2025-11-25"), f"the header MCP-Protocol-Version is not what _meta.{META_VERSION} is"),
        (_headers(method=b"tools/list"), "the header Mcp-Method is not what method is"),
        (_headers(method=_wrapped("tools/call")), "the header Mcp-Method is not what method is"),
        (_headers(name=b"fs_list"), "the header Mcp-Name is not what params.name is"),
        (_headers(name=b"FS_READ"), "the header Mcp-Name is not what params.name is"),
        (_headers(name=b""), "the header Mcp-Name is not what params.name is"),
        (_headers(name=b"\xff"), "the header Mcp-Name is not what params.name is"),
        (_headers(name=b"=?base64?ZnNfcmVhZA=?="), "the header Mcp-Name is not what params.name is"),
        (_headers(name=b"=?base64?ZnNfcmVhZA?="), "the header Mcp-Name is not what params.name is"),
        (_headers(name=b"=?base64?ZnNfcmVhZB==?="), "the header Mcp-Name is not what params.name is"),
        (_headers(name=b"=?base64?Zn Nf cmVhZA==?="), "the header Mcp-Name is not what params.name is"),
        (_headers(name=b"=?base64?/w==?="), "the header Mcp-Name is not what params.name is"),
        (_headers(name=b"=?base64?="), "the header Mcp-Name is not what params.name is"),
    ],
)
def test_headers_that_do_not_say_what_the_body_says_are_refused(headers: Headers, message: str) -> None:
    with pytest.raises(RpcError) as refused:
        eras.envelope(_call(), headers)
    assert (refused.value.code, refused.value.message) == (HEADER_MISMATCH, f"Header mismatch: {message}")


def test_a_header_that_is_no_business_of_the_method_is_not_needed() -> None:
    message = RpcMessage(1, "tools/list", {"_meta": _META})
    assert eras.envelope(message, _headers(method=b"tools/list")[:2]) == Envelope(_VERSION, "", None)


def test_an_envelope_without_its_parts_names_them() -> None:
    with pytest.raises(RpcError) as refused:
        eras.envelope(RpcMessage(1, "tools/list", {"_meta": {}}))
    assert refused.value.code == INVALID_PARAMS
    assert refused.value.message == f"params._meta needs {META_VERSION} and {META_CAPABILITIES}"


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({META_VERSION: 5}, INVALID_PARAMS),
        ({META_CAPABILITIES: []}, INVALID_PARAMS),
        ({META_VERSION: "2030-01-01"}, UNSUPPORTED_VERSION),
    ],
)
def test_an_envelope_with_parts_that_do_not_fit_is_refused(meta: dict[str, Any], code: int) -> None:
    with pytest.raises(RpcError) as refused:
        eras.envelope(_call(**meta))
    assert refused.value.code == code


def test_a_version_that_is_not_spoken_here_is_told_which_ones_are() -> None:
    assert eras.unsupported_version("2030-01-01").as_object() == {
        "code": UNSUPPORTED_VERSION,
        "message": "Unsupported protocol version",
        "data": {
            "supported": ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"],
            "requested": "2030-01-01",
        },
    }


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (PARSE_ERROR, 400),
        (INVALID_PARAMS, 400),
        (HEADER_MISMATCH, 400),
        (UNSUPPORTED_VERSION, 400),
        (METHOD_NOT_FOUND, 404),
        (INTERNAL_ERROR, 200),
    ],
)
def test_an_error_has_the_http_status_of_its_code(code: int, status: int) -> None:
    assert eras.http_status(RpcError(code, "x")) == status


@given(
    st.dictionaries(
        st.sampled_from([META_VERSION, META_CAPABILITIES, META_CLIENT, META_LOG_LEVEL]),
        st.none() | st.text() | st.just({}),
    ),
    st.lists(
        st.tuples(st.sampled_from([b"mcp-protocol-version", b"mcp-method", b"mcp-name", b"x"]), st.binary(max_size=12))
    ),
    st.none() | st.integers() | st.text(),
)
def test_any_envelope_is_read_or_refused(meta: dict[str, Any], headers: Headers, name: Any) -> None:
    message = RpcMessage(1, "tools/call", {"name": name, "_meta": meta})
    for said in (headers, None):
        try:
            found = eras.envelope(message, said)
        except RpcError:
            continue
        assert found.version == _VERSION
