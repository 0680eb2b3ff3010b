from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import orjson
import pytest
from rs_bpe.bpe import openai

from registry.catalog import discover
from registry.gate import Access
from tests.support.shell_host import shell_host
from tools.kit.spec import Tool

_MOST_TOKENS = 1_500
_MOST_TOKENS_OF_ALL = 3_000
_MOST_TOKENS_WITH_FOCUS = 3_300
_MOST_TOKENS_OF_LEAN = 2_300


def test_the_nine_filesystem_tools_are_cheap_to_list() -> None:
    """Every caller pays for the list in context, in each conversation."""
    tools = discover().categories["filesystem"]
    assert len(tools) == 9
    assert _count(tools) <= _MOST_TOKENS


def test_all_tools_are_cheap_to_list() -> None:
    assert _count(discover().tools) <= _MOST_TOKENS_OF_ALL


async def test_the_list_of_the_default_profile_costs_what_mcp_agent_tools_says(tmp_path: Path) -> None:
    """Callers are shown more than the tools have: the arguments of focus questions."""
    async with shell_host(tmp_path) as host:
        shown = host.daemon.gate.visible(Access())
    assert _count(shown) <= _MOST_TOKENS_WITH_FOCUS
    assert sum(each.list_tokens for each in shown) == pytest.approx(_count(shown), rel=0.05)


async def test_our_own_tools_in_the_profile_of_coding_clients_are_thirteen_and_cheap(tmp_path: Path) -> None:
    async with shell_host(tmp_path) as host:
        shown = host.daemon.gate.visible(Access("lean"))
    assert len(shown) == 13
    assert _count(shown) <= _MOST_TOKENS_OF_LEAN


def _count(tools: Iterable[Tool]) -> int:
    """The tokens of a list of tools, as a model is shown it."""
    shown = [{"name": each.name, "description": each.description, "inputSchema": each.listed_schema} for each in tools]
    return int(openai.o200k_base().count(orjson.dumps(shown).decode()))


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
