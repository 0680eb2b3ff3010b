"""The clients that put a result before a model as it is, by the name in their `clientInfo`: they are sent text.

Some of them cut what is longer than they like, and the model does not learn what is missing. They are sent no more
than they take.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple


class TextClient(NamedTuple):
    """A client by its name; a `*` at the end stands for anything. What is longer than the rest says, it cuts itself."""

    name: str
    most_bytes: int | None = None
    most_lines: int | None = None
    # Whether it shows its model the result as JSON, and counts that.
    shows_json: bool = False
    # Whether it gives up for good when its subscription cannot be renewed within a second, as at a restart of the
    # daemon. After a handshake it comes back, so that is what it is offered.
    needs_handshake: bool = False


TEXT_CLIENTS = (
    # So much only where the list of tools says `anthropic/maxResultSizeChars`; without it 48,000.
    TextClient("claude-code", 131_000),
    TextClient("claude-ai"),
    # It has 12,000 with a head of its own.
    TextClient("codex-mcp-client", 11_900),
    TextClient("gemini-cli-mcp-client*"),
    TextClient("qwen-cli-mcp-client*", 24_900, 990),
    TextClient("copilot-cli", 16_000, needs_handshake=True),
    TextClient("github-copilot-developer", 16_000),
    TextClient("@cline/core", 7_900, shows_json=True),
    TextClient("opencode", 50_000, 1_990),
    TextClient("Visual Studio Code"),
    TextClient("cursor-vscode"),
    TextClient("Zed"),
    TextClient("goose"),
)
# A bridge puts its own name behind that of the client.
_BRIDGE = re.compile(r" \(via mcp-remote\b[^)]*\)$")


@lru_cache(maxsize=256)
def text_client(name: str) -> TextClient | None:
    """The client of that name; None for a program, which is sent the object."""
    lowered = _BRIDGE.sub("", name).lower()
    return next((client for client in TEXT_CLIENTS if _is_named(client.name.lower(), lowered)), None)


def takes_claude_hints(name: str) -> bool:
    """Whether the client lets a tool say how long its results may be, and that it is to be shown at once."""
    client = text_client(name)
    return client is not None and client.name == "claude-code"


def needs_handshake(name: str) -> bool:
    client = text_client(name)
    return client is not None and client.needs_handshake


def _is_named(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
