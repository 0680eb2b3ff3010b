"""An outcome as the result of `tools/call`: the object as JSON, or the text that a model reads with fewer tokens.

Some clients show a model only `content`, some only `structuredContent`, and one appends the second where the two
differ. So an object is sent as both, letter for letter the same, and a rendering is sent alone.
"""

from __future__ import annotations

from typing import Any

import orjson

from mcp_agent.calls import Blocks, Outcome


def tool_result(outcome: Outcome) -> dict[str, Any]:
    """What the dispatcher has written, in the envelope of MCP."""
    written = outcome.written
    assert written is not None, "a refusal has no result"
    if isinstance(written, Blocks):
        return {"content": orjson.Fragment(written.encoded), "isError": outcome.is_error}
    if isinstance(written, str):
        return {"content": [{"type": "text", "text": written}], "isError": outcome.is_error}
    return {
        "content": [{"type": "text", "text": written.decode()}],
        "structuredContent": orjson.Fragment(written),
        "isError": outcome.is_error,
    }
