"""How much of a result a caller is sent, and in which form.

A message has at most 1,000,000 bytes. Text for a model has less, unless the call names a size: 32 KB, or the figure of
the client, where that cuts earlier and its model does not learn what is missing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, NamedTuple

import orjson

from registry.gate import Shape
from tools.kit.results import FOCUS
from tools.kit.spec import Tool

if TYPE_CHECKING:
    from mcp_agent.calls.call import Call, Caller

MOST_MESSAGE_BYTES = 1_000_000
# Room for the envelope around a result: the id, the era's fields and the framing of an event.
_ENVELOPE_BYTES = 4_096
MOST_RESULT_BYTES = MOST_MESSAGE_BYTES - _ENVELOPE_BYTES
# The header of a page of output.
_HEADER_BYTES = 400

# How long a call may wait where the client is not known to bear more: many give up after a minute.
_SHORT_WAIT_S = 30
# How long a call is held that waits for the owner's approval: the same, and for clients known to bear it.
_APPROVAL_S = 45.0
_LONG_APPROVAL_S = 240.0

# How a result is written for its caller.
WrittenForm = Literal["json", "text", "compact"]


class TextLimit(NamedTuple):
    """How much text may go out: its bytes, or those of it as JSON, and lines. No text may be larger than a message."""

    most_bytes: int = MOST_RESULT_BYTES
    most_lines: int | None = None
    counts_json: bool = False

    @property
    def is_message(self) -> bool:
        return self.most_bytes >= MOST_RESULT_BYTES

    @property
    def below_header(self) -> TextLimit:
        """The limit of the text below the header of a result."""
        most_lines = None if self.most_lines is None else self.most_lines - 1
        return self._replace(most_bytes=self.most_bytes - _HEADER_BYTES, most_lines=most_lines)

    def holds(self, text: str) -> bool:
        # A character is at most 4 bytes, and at most 6 as JSON.
        if len(text) * 4 > self.most_bytes and len(utf8(text)) > self.most_bytes:
            return False
        if self.most_lines is not None and text.count("\n") >= self.most_lines:
            return False
        if self.counts_json and len(orjson.dumps(utf8(text).decode())) > self.most_bytes:
            return False
        return len(text) * 6 <= MOST_RESULT_BYTES or len(orjson.dumps(utf8(text).decode())) <= MOST_RESULT_BYTES


MESSAGE = TextLimit()


class Budget(NamedTuple):
    """What one call may be answered with. Made once for each call. `tool` is None where no tool was admitted."""

    call: Call
    tool: Tool | None
    form: WrittenForm
    text: TextLimit
    # Whether the client replaces a text of its own with the result.
    is_never_cut: bool = False

    @property
    def question(self) -> str | None:
        """The focus question, for what has room for a few lines only."""
        question = self.call.arguments.get(FOCUS)
        return question if isinstance(question, str) and question.strip() else None


class TextClient(NamedTuple):
    """A client that puts a result before a model as it is, by the name in its `clientInfo`: it is sent text.

    A `*` at the end of the name stands for anything. The client itself cuts what is longer than the limits here.
    """

    name: str
    most_bytes: int | None = None
    most_lines: int | None = None
    # Whether it shows its model the result as JSON, and counts that.
    shows_json: bool = False
    # Whether it gives up for good when its subscription cannot be renewed within a second, as at a restart of the
    # daemon. After a handshake it comes back, so that is what it is offered.
    needs_handshake: bool = False
    # How long a call may take if the client gets progress: less than its own timeout, and no more than its own
    # tools wait.
    longest_wait_s: int = _SHORT_WAIT_S
    # Whether a call that waits for the owner's approval may be held for minutes: always, or if it gets progress.
    bears_approval: Literal["never", "with progress", "always"] = "never"
    # Whether its model sees an image; else it is given the bytes as text.
    shows_images: bool = True
    # Whether its model is shown all arguments of a call that failed, beside our text.
    echoes_arguments: bool = False


TEXT_CLIENTS = (
    # So much only where the list of tools says `anthropic/maxResultSizeChars`; without it 48,000. Each word of progress
    # begins its five minutes again; a wait of ten was seen to be borne.
    TextClient("claude-code", 131_000, longest_wait_s=600),
    TextClient("claude-ai"),
    # It has 12,000 with a head of its own. It bears 300 s, whatever it is told.
    TextClient("codex-mcp-client", 11_900, longest_wait_s=280, bears_approval="always"),
    # Ten minutes.
    TextClient("gemini-cli-mcp-client*", longest_wait_s=300, echoes_arguments=True, bears_approval="always"),
    TextClient("qwen-cli-mcp-client*", 24_900, 990, longest_wait_s=300, echoes_arguments=True, bears_approval="always"),
    # 180 s.
    TextClient("copilot-cli", 16_000, needs_handshake=True, longest_wait_s=160, bears_approval="with progress"),
    TextClient("github-copilot-developer", 16_000),
    # It asks for no progress.
    TextClient("@cline/core", 7_900, shows_json=True, shows_images=False),
    # Each word of progress begins its minute again.
    TextClient("opencode", 50_000, 1_990, longest_wait_s=300, bears_approval="with progress"),
    # Five minutes.
    TextClient("Visual Studio Code", longest_wait_s=280),
    TextClient("cursor-vscode"),
    TextClient("Zed"),
    # Five minutes.
    TextClient("goose", longest_wait_s=280),
)
# A bridge puts its own name behind that of the client.
_BRIDGE = re.compile(r" \(via mcp-remote\b[^)]*\)$")


def text_client(name: str) -> TextClient | None:
    """The client of that name; None for a program, which is sent the object."""
    lowered = _BRIDGE.sub("", name).lower()
    return next((client for client in TEXT_CLIENTS if _is_named(client.name.lower(), lowered)), None)


def takes_claude_hints(name: str) -> bool:
    """Whether the client lets a tool say how long its results may be, and that it is to be shown at once."""
    client = text_client(name)
    return client is not None and client.name == "claude-code"


def longest_wait_s(name: str) -> int:
    """How long a client that hears of progress may be kept waiting."""
    client = text_client(name)
    return _SHORT_WAIT_S if client is None else client.longest_wait_s


def approval_hold_s(name: str, *, has_progress: bool = False) -> float:
    """How long a call of that client is held that waits for the owner's approval."""
    client = text_client(name)
    if client is None or client.bears_approval == "never":
        return _APPROVAL_S
    if client.bears_approval == "with progress" and not has_progress:
        return _APPROVAL_S
    return min(_LONG_APPROVAL_S, client.longest_wait_s)


def needs_handshake(name: str) -> bool:
    client = text_client(name)
    return client is not None and client.needs_handshake


def shows_images(name: str) -> bool:
    client = text_client(name)
    return client is None or client.shows_images


def echoes_arguments(name: str) -> bool:
    client = text_client(name)
    return client is not None and client.echoes_arguments


def _is_named(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def choose_form(shape: Shape, caller: Caller) -> WrittenForm:
    """Compact if the profile says so; else what the connection asks for, the profile's form, or that of the client."""
    if shape == "compact":
        return shape
    form = shape if caller.form == "auto" else caller.form
    if form != "auto":
        return form
    return "json" if text_client(caller.client) is None else "text"


def utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def text_limit(call: Call, tool: Tool | None, text_bytes: int | None) -> TextLimit:
    """All that a message holds if the call names a size, else as much as a model is to be given.

    `text_bytes` is the most that a text for a model has; None for no such limit.
    """
    sizes = () if tool is None else (value for name, value in call.arguments.items() if tool.is_size(name))
    names_size = any(value is not None for value in sizes)
    if text_bytes is None or names_size:
        return MESSAGE
    client = text_client(call.caller.client)
    if client is None:
        return TextLimit(text_bytes)
    most = text_bytes if client.most_bytes is None else min(text_bytes, client.most_bytes)
    return TextLimit(most, client.most_lines, client.shows_json)
