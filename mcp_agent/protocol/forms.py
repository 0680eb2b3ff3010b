"""An outcome as the result of `tools/call`: the object as JSON, or the text that a model reads with fewer tokens.

Some clients show a model only `content`, some only `structuredContent`, and one appends the second where the two
differ. So an object is sent as both, letter for letter the same; a rendering, or what was made short, is sent alone.
"""

from __future__ import annotations

from typing import Any

import orjson

from mcp_agent.calls.call import Answer, Blocks, Failure


def tool_result(outcome: Answer) -> dict[str, Any]:
    """What the dispatcher has written, in the envelope of MCP."""
    written = outcome.written
    is_error = isinstance(outcome, Failure)
    if isinstance(written, bytes):
        return {
            "content": [{"type": "text", "text": written.decode()}],
            "structuredContent": orjson.Fragment(written),
            "isError": is_error,
        }
    if isinstance(written, Blocks):
        return {"content": orjson.Fragment(written.encoded), "isError": is_error}
    text = written if isinstance(written, str) else written.encoded.decode()
    return {"content": [{"type": "text", "text": text}], "isError": is_error}
