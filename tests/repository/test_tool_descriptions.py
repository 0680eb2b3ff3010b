from __future__ import annotations

import orjson
import pytest
from rs_bpe.bpe import openai

from registry.catalog import discover

_MOST_TOKENS = 1_500
_MOST_TOKENS_OF_ALL = 3_000


def test_the_nine_filesystem_tools_are_cheap_to_list() -> None:
    """Every caller pays for the list in context, in each conversation."""
    tools = discover().categories["filesystem"]
    assert len(tools) == 9
    shown = [{"name": each.name, "description": each.description, "inputSchema": each.listed_schema} for each in tools]
    assert openai.o200k_base().count(orjson.dumps(shown).decode()) <= _MOST_TOKENS


def test_all_tools_of_the_default_profile_are_cheap_to_list() -> None:
    shown = [
        {"name": each.name, "description": each.description, "inputSchema": each.listed_schema}
        for each in discover().tools
    ]
    assert openai.o200k_base().count(orjson.dumps(shown).decode()) <= _MOST_TOKENS_OF_ALL


def test_a_model_is_not_shown_the_bounds_that_only_a_validator_needs() -> None:
    bash = discover().by_name["bash"]
    assert bash.input_schema["properties"]["command"]["maxLength"] == 50_000
    assert bash.listed_schema["properties"]["command"] == {
        "type": "string",
        "description": "Command line for bash -lc.",
    }
    # What a model might get wrong stays.
    assert bash.listed_schema["properties"]["keep"]["minimum"] == 0.1
    assert bash.listed_schema["required"] == ["command"]


@pytest.mark.parametrize(
    ("tool", "fact"),
    [
        ("shell_exec", "on the daemon's machine"),
        ("shell_exec", "read it with shell_send_input"),
        ("fs_patch", "Undo: fs_move from undo://<undo_id>"),
    ],
)
def test_what_matters_most_is_said_where_every_client_shows_it(tool: str, fact: str) -> None:
    """Some clients show a model no instructions."""
    assert fact in discover().by_name[tool].description
