"""How a result is written for an MCP client: the object as JSON, or the text that a model reads with fewer tokens.

Some clients show a model only `content`, some only `structuredContent`, and one appends the second where the two
differ. So an object is sent as both, letter for letter the same, and a rendering is sent alone.
"""

from __future__ import annotations

from typing import Any, Literal

import orjson

from mcp_agent.calls import Caller, Outcome
from registry.profiles import Form
from tools.errors import TooLarge

MOST_MESSAGE_BYTES = 1_000_000
# Room for the envelope around a result: the id, the era's fields and the framing of an event.
_ENVELOPE_BYTES = 4_096

# Programs that put a result before a model as it is, by the name in their `clientInfo`.
TEXT_CLIENTS = (
    "claude-code",
    "claude-ai",
    "codex-mcp-client",
    "gemini-cli-mcp-client",
    "Visual Studio Code",
    "github-copilot-developer",
    "cursor-vscode",
    "Zed",
    "opencode",
    "goose",
)
_TEXT_CLIENTS = frozenset(name.lower() for name in TEXT_CLIENTS)


def chosen(profile_form: Form, caller: Caller) -> Literal["json", "text"]:
    """The connection's own word first, then the profile's, then what is known of the client."""
    form = profile_form if caller.form == "auto" else caller.form
    if form != "auto":
        return form
    return "text" if caller.client.lower() in _TEXT_CLIENTS else "json"


def tool_result(outcome: Outcome, caller: Caller) -> dict[str, Any]:
    """`outcome` as the result of `tools/call`, small enough for one message."""
    form = chosen(outcome.form, caller)
    result = _written(outcome, form)
    if caller.transport == "rpc" and outcome.result is not None and outcome.result.is_owed_whole:
        return result
    most = MOST_MESSAGE_BYTES - _ENVELOPE_BYTES
    # Escaping makes six bytes out of one at worst: only what could be too large is measured.
    is_one_text = len(result["content"]) == 1 and "text" in result["content"][0]
    if is_one_text and len(result["content"][0]["text"]) * 8 <= most:
        return result
    size = len(orjson.dumps(result))
    if size <= most:
        return result
    too_large = TooLarge(
        f"the result is {size} bytes and a message may have {MOST_MESSAGE_BYTES}", hint="ask for less at once"
    )
    return _written(Outcome(outcome.call_id, outcome.form, error=too_large), form)


def _written(outcome: Outcome, form: Literal["json", "text"]) -> dict[str, Any]:
    blocks = None if outcome.result is None else outcome.result.blocks()
    if blocks is not None:
        result: dict[str, Any] = {"content": list(blocks)}
    elif form == "text":
        result = {"content": [{"type": "text", "text": outcome.render()}]}
    else:
        encoded = orjson.dumps(outcome.as_object())
        result = {
            "content": [{"type": "text", "text": encoded.decode()}],
            "structuredContent": orjson.Fragment(encoded),
        }
    result["isError"] = outcome.is_error
    return result
