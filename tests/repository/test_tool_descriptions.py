from __future__ import annotations

import orjson
from rs_bpe.bpe import openai

from registry.catalog import discover

_MOST_TOKENS = 1_500


def test_the_nine_filesystem_tools_are_cheap_to_list() -> None:
    """Every caller pays for the list in context, in each conversation."""
    tools = discover().categories["filesystem"]
    assert len(tools) == 9
    shown = [{"name": each.name, "description": each.description, "inputSchema": each.input_schema} for each in tools]
    assert openai.o200k_base().count(orjson.dumps(shown).decode()) <= _MOST_TOKENS
