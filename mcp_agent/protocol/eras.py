"""Two eras of MCP on one wire: clients that shake hands, and clients that say everything with every request.

Until 2025-11-25 a client opens with `initialize` and the server remembers it. From 2026-07-28 on, each request
carries its version, its client and its capabilities in `_meta`, and over HTTP repeats some of it in headers.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct

from mcp_agent.protocol.jsonrpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    RpcError,
    RpcMessage,
)

HANDSHAKE_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
STATELESS_VERSIONS = ("2026-07-28",)
LATEST_HANDSHAKE = HANDSHAKE_VERSIONS[-1]
# What a request without a version header speaks: the last revision that had no such header.
HEADERLESS_VERSION = "2025-03-26"
# Batches were part of the protocol up to here.
BATCH_VERSIONS = ("2024-11-05", "2025-03-26")

HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022

META = "io.modelcontextprotocol/"
META_VERSION = f"{META}protocolVersion"
META_CLIENT = f"{META}clientInfo"
META_CAPABILITIES = f"{META}clientCapabilities"
META_SERVER = f"{META}serverInfo"
META_LOG_LEVEL = f"{META}logLevel"
META_SUBSCRIPTION = f"{META}subscriptionId"

_VERSION_SOURCE = f"_meta.{META_VERSION}"
_NAME_PARAMS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PLAIN_HEADERS = (b"mcp-protocol-version", b"mcp-method")
_ROUTING_HEADERS = (*_PLAIN_HEADERS, b"mcp-name")
_HTTP_STATUS = {
    PARSE_ERROR: 400,
    INVALID_REQUEST: 400,
    INVALID_PARAMS: 400,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
    METHOD_NOT_FOUND: 404,
}


class Envelope(Struct, frozen=True):
    """What a stateless request says of its sender."""

    version: str
    client: str
    log_level: str | None


def is_stateless(message: RpcMessage) -> bool:
    """Whether a message is of the era without handshakes: its `_meta` names the version."""
    return META_VERSION in message.meta


def negotiate_version(requested: Any) -> str:
    """The version that a handshake settles on."""
    return requested if requested in HANDSHAKE_VERSIONS else LATEST_HANDSHAKE


def http_status(error: RpcError) -> int:
    """The HTTP status that goes with an error in answer to a stateless request."""
    return _HTTP_STATUS.get(error.code, 200)


def unsupported_version(requested: str) -> RpcError:
    supported = [*STATELESS_VERSIONS, *reversed(HANDSHAKE_VERSIONS)]
    return RpcError(
        UNSUPPORTED_VERSION, "Unsupported protocol version", {"supported": supported, "requested": requested}
    )


def envelope(message: RpcMessage, headers: Sequence[tuple[bytes, bytes]] | None = None) -> Envelope:
    """What a stateless request says of its sender, checked against its HTTP headers if it has any. Raises RpcError.

    A client that contradicts itself is told so before it is told that its version is not spoken here.
    """
    meta = message.meta
    if META_VERSION not in meta or META_CAPABILITIES not in meta:
        missing = [key for key in (META_VERSION, META_CAPABILITIES) if key not in meta]
        raise RpcError(INVALID_PARAMS, f"params._meta needs {' and '.join(missing)}")
    if headers is not None:
        _check_headers(message, headers)
    version, capabilities = meta[META_VERSION], meta[META_CAPABILITIES]
    if not isinstance(version, str):
        raise RpcError(INVALID_PARAMS, f"params._meta.{META_VERSION} must be a string")
    if version not in STATELESS_VERSIONS:
        raise unsupported_version(version)
    if not isinstance(capabilities, dict):
        raise RpcError(INVALID_PARAMS, f"params._meta.{META_CAPABILITIES} must be an object")
    level = meta.get(META_LOG_LEVEL)
    return Envelope(version, client_name(meta.get(META_CLIENT)), level if isinstance(level, str) else None)


def routing_headers(message: RpcMessage) -> dict[str, str]:
    """The HTTP headers that a stateless request repeats of its body."""
    headers = {"MCP-Protocol-Version": str(message.meta.get(META_VERSION)), "Mcp-Method": message.method}
    key = _NAME_PARAMS.get(message.method)
    if key is not None and isinstance(name := message.params.get(key), str):
        is_plain = name.isascii() and name.isprintable() and name == name.strip() and not name.startswith("=?")
        headers["Mcp-Name"] = name if is_plain else f"=?base64?{base64.b64encode(name.encode()).decode()}?="
    return headers


def check_arguments(message: RpcMessage, headers: Sequence[tuple[bytes, bytes]], named: Mapping[str, str]) -> None:
    """Raise RpcError unless each argument of a call that its tool wants repeated in a header is there, and the same.

    `named` has the header's last part by the argument's name.
    """
    arguments = message.params.get("arguments")
    arguments = arguments if isinstance(arguments, dict) else {}
    for argument, last_part in named.items():
        name = f"mcp-param-{last_part.lower()}".encode("latin-1")
        found = [value for key, value in headers if key == name]
        value = arguments.get(argument)
        if len(found) > 1:
            raise _mismatch(f"the header {_spell(name)} stands twice")
        if value is not None:
            text = value if isinstance(value, str) else orjson.dumps(value).decode()
            present = {name: found[0]} if found else {}
            _compare(name, present, text, f"params.arguments.{argument}")
        elif found:
            raise _mismatch(f"the header {_spell(name)} is there and params.arguments.{argument} is not")


def client_name(info: Any) -> str:
    """What a client calls itself, from its `clientInfo`."""
    return _said_of_client(info, "name")


def client_version(info: Any) -> str:
    return _said_of_client(info, "version")


def _said_of_client(info: Any, key: str) -> str:
    value = info.get(key) if isinstance(info, dict) else None
    return value[:200] if isinstance(value, str) else ""


def _check_headers(message: RpcMessage, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Raise RpcError unless the headers say what the body says."""
    found = dict(headers)
    if len(found) != len(headers):
        names = [name for name, _ in headers]
        for name in _ROUTING_HEADERS:
            if names.count(name) > 1:
                raise _mismatch(f"the header {_spell(name)} stands twice")
    _compare(b"mcp-protocol-version", found, message.meta.get(META_VERSION), _VERSION_SOURCE)
    _compare(b"mcp-method", found, message.method, "method")
    key = _NAME_PARAMS.get(message.method)
    if key is not None and message.params.get(key) is not None:
        _compare(b"mcp-name", found, message.params[key], f"params.{key}")


def _compare(name: bytes, found: Mapping[bytes, bytes], expected: Any, source: str) -> None:
    raw = found.get(name)
    if raw is None:
        raise _mismatch(f"the header {_spell(name)} is missing")
    raw = raw.strip(b" \t")  # The parser of HTTP leaves what follows a value on it.
    is_wrapped = raw.startswith(b"=?base64?") and name not in _PLAIN_HEADERS
    value = _unwrap(raw) if is_wrapped else raw.decode("latin-1")
    if value != expected:
        raise _mismatch(f"the header {_spell(name)} is not what {source} is")


def _unwrap(raw: bytes) -> str | None:
    """A header value out of its Base64 wrapping, if that is whole; None if it cannot be taken out."""
    if not (raw.endswith(b"?=") and len(raw) >= 11):
        return raw.decode("latin-1")
    payload = raw[9:-2]
    try:
        plain = base64.b64decode(payload, validate=True)
        return plain.decode() if base64.b64encode(plain) == payload else None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _mismatch(what: str) -> RpcError:
    return RpcError(HEADER_MISMATCH, f"Header mismatch: {what}")


def _spell(name: bytes) -> str:
    return name.decode().title().replace("Mcp-Protocol", "MCP-Protocol")
