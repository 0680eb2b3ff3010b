"""Messages that nobody should send: valid ones, each with something wrong. The same seed gives the same messages."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "a-fuzz", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
_PARAMS: list[tuple[str, dict[str, Any]]] = [
    ("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}),
    ("ping", {}),
    ("server/discover", {}),
    ("tools/list", {"cursor": None}),
    ("tools/call", {"name": "fs_read", "arguments": {"path": "a.txt", "max_bytes": 100}}),
    ("tools/call", {"name": "fs_list", "arguments": {"path": ".", "recursive": False, "max_entries": 10}}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "host://tools/fs_read"}),
    ("resources/subscribe", {"uri": "host://tools"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "any", "arguments": {"a": "b"}}),
    (
        "completion/complete",
        {"ref": {"type": "ref/resource", "uri": "host://tools/{name}"}, "argument": {"name": "name", "value": "fs"}},
    ),
    ("logging/setLevel", {"level": "debug"}),
    ("subscriptions/listen", {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["host://tools"]}}),
    ("notifications/cancelled", {"requestId": 1}),
    ("notifications/initialized", {}),
]
_ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    10**15,
    10**30,
    -(10**400),
    1e308,
    float("inf"),
    float("nan"),
    "",
    "\x00",
    "\ud800",
    "🧨" * 50,
    "../" * 200,
    "x" * 70_000,
    "__proto__",
    [],
    [[[[]]]],
    [None] * 500,
    {},
    {"": {}},
    {"a": [1, {"b": None}]},
]


class Malformed:
    """A source of bad messages."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def arguments(self) -> bytes:
        """Bad arguments for a tool."""
        return self._spoilt({"path": "a.txt", "max_bytes": 100, "recursive": True, "after": "b"})

    def message(self, *, is_stateless: bool) -> tuple[dict[str, str], bytes]:
        """A bad message, and the headers that it would have had if it were good."""
        method, params = self.random.choice(_PARAMS)
        good: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": copy.deepcopy(params)}
        if not method.startswith("notifications/"):
            good["id"] = self.random.randrange(10**6)
        if is_stateless:
            good["params"]["_meta"] = copy.deepcopy(META)
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method} if is_stateless else {}
        name = params.get("name") or params.get("uri")
        if is_stateless and name is not None:
            headers["Mcp-Name"] = name
        return headers, self._spoilt(good)

    def headers(self) -> dict[str, str]:
        """A header or two that contradict the message, or make no sense."""
        choice = self.random.choice
        odd = ["", "x", "2026-07-28", "2024-11-05", "9999-99-99", "=?base64?!!?=", "=?base64?eA==?=", "a" * 3_000, "-1"]
        return dict(
            choice(
                [
                    [("MCP-Protocol-Version", choice(odd))],
                    [("Mcp-Method", choice(odd))],
                    [("Mcp-Name", choice(odd))],
                    [("Mcp-Session-Id", choice([*odd, "s" * 30]))],
                    [("Last-Event-ID", choice([*odd, "request-0-0", "session-1-99999999999999999999"]))],
                    [("Accept", choice(["", "*/*", "text/html", "text/event-stream", "application/json;q=x"]))],
                    [("Content-Type", choice(["", "text/plain", "application/json; charset=x", "application/jsonx"]))],
                    [("X-MCP-Agent-Form", choice(odd))],
                    [("Content-Encoding", choice(["gzip", "identity", "x"]))],
                ]
            )
        )

    def _spoilt(self, good: Any) -> bytes:
        # What is JSON and looks right gets furthest, so there is most of it.
        how: dict[Callable[[Any], bytes], int] = {
            self._odd_value: 12,
            self._missing_key: 3,
            self._key_twice: 1,
            self._deep: 1,
            self._batch: 1,
            self._truncated: 1,
            self._flipped: 1,
            self._no_json: 1,
        }
        return self.random.choices(list(how), list(how.values()))[0](good)

    def _place(self, good: Any) -> tuple[Any, Any]:
        """Somewhere in a message, seldom outside its params."""
        inner = good.get("params") if self.random.random() < 0.8 else None
        return self.random.choice(_places(inner) or _places(good))

    def _odd_value(self, good: Any) -> bytes:
        for _ in range(self.random.choice([1, 1, 1, 2, 4])):
            holder, key = self._place(good)
            holder[key] = copy.deepcopy(self.random.choice(_ODD))
        return _bytes(good)

    def _missing_key(self, good: Any) -> bytes:
        holder, key = self._place(good)
        del holder[key]
        return _bytes(good)

    def _key_twice(self, good: Any) -> bytes:
        holder, key = self._place(good)
        text = _bytes(good)
        doubled = f"{json.dumps(key)}: {json.dumps(holder[key])}, {json.dumps(key)}:".encode()
        return text.replace(f"{json.dumps(key)}:".encode(), doubled, 1)

    def _deep(self, good: Any) -> bytes:
        depth = self.random.choice([10, 63, 64, 65, 1_000, 20_000])
        opening, closing = self.random.choice([(b"[", b"]"), (b'{"a":', b"}")])
        holder, key = self._place(good)
        holder[key] = "HERE"
        return _bytes(good).replace(b'"HERE"', opening * depth + b"1" + closing * depth)

    def _batch(self, good: Any) -> bytes:
        return _bytes([good] * self.random.choice([0, 1, 2, 20, 21, 300]))

    def _truncated(self, good: Any) -> bytes:
        text = _bytes(good)
        return text[: self.random.randrange(len(text))]

    def _flipped(self, good: Any) -> bytes:
        text = bytearray(_bytes(good))
        for _ in range(self.random.choice([1, 2, 8])):
            text[self.random.randrange(len(text))] = self.random.randrange(256)
        return bytes(text)

    def _no_json(self, good: Any) -> bytes:
        return self.random.choice(
            [b"", b" ", b"null", b"{", b"\xff\xfe\x00", b"NaN", b"'a'", b"[" * 50_000, b"1e999999", b'"' + b"\\u00" * 9]
        )


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in a message that something could be put into."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        for key, item in value.items():
            found += [(value, key), *_places(item)]
    return found


def _bytes(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")
