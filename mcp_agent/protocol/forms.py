"""An outcome as the result of `tools/call`: the object as JSON, or the text that a model reads with fewer tokens.

Some clients show a model only `content`, some only `structuredContent`, and one appends the second where the two
differ. So an object is sent as both, letter for letter the same, and a rendering is sent alone.
"""

from __future__ import annotations

from typing import Any

import orjson

from mcp_agent.calls import Outcome
from mcp_agent.shaping import MOST_RESULT_BYTES


def tool_result(outcome: Outcome) -> dict[str, Any]:
    """What the dispatcher has written, in the envelope of MCP. Blocks of a result's own are kept if they fit."""
    blocks = None if outcome.result is None else outcome.result.blocks()
    if blocks is not None:
        result = {"content": list(blocks), "isError": outcome.is_error}
        if len(orjson.dumps(result)) <= MOST_RESULT_BYTES:
            return result
    written = outcome.written
    assert written is not None, "a refusal has no result"
    if isinstance(written, str):
        return {"content": [{"type": "text", "text": written}], "isError": outcome.is_error}
    return {
        "content": [{"type": "text", "text": written.decode()}],
        "structuredContent": orjson.Fragment(written),
        "isError": outcome.is_error,
    }
