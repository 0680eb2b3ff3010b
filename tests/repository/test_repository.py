"""Promises that the repository makes about itself."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from rs_bpe.bpe import openai

from mcp_agent.protocol.methods import tool_entry
from registry.catalog import Catalog, discover
from tools.kit import errors

_SNAPSHOT = Path(__file__).parent / "snapshots" / "tools.json"


def test_the_list_of_tools_is_the_one_that_was_reviewed() -> None:
    """After a deliberate change: `python -m tests.repository.test_repository` writes the snapshot anew."""
    assert json.loads(_SNAPSHOT.read_text("utf-8")) == _listed()


def test_two_tools_of_one_name_refuse_to_start() -> None:
    tools = discover().tools
    with pytest.raises(ValueError, match=f"two tools are called {tools[0].name}"):
        Catalog([*tools, tools[0]])


def test_every_error_code_is_in_the_drawing() -> None:
    drawn = set(re.findall(r"\b[A-Z]+(?:_[A-Z]+)*\b", errors.__doc__ or ""))
    declared = {each.code for each in vars(errors).values() if isinstance(each, type) and hasattr(each, "code")}
    assert declared <= drawn


def test_the_tools_cost_a_caller_little() -> None:
    """The whole list is context that every caller pays for, with every message."""
    shown = [
        {"name": tool.name, "description": tool.description, "inputSchema": tool.listed_schema}
        for tool in discover().tools
        if tool.category in ("filesystem", "shell")
    ]
    assert openai.o200k_base().count(orjson.dumps(shown).decode()) <= 2_200


def test_starting_loads_nothing_heavy() -> None:
    """What is only needed later is imported later: `serve` and `stdio` must be there at once."""
    script = (
        "import sys, mcp_agent.app, mcp_agent.transports.stdio, mcp_agent.cli.commands.serve\n"
        "from registry.catalog import discover; discover()\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"mcp", "pydantic", "numpy", "watchfiles", "charset_normalizer", "starlette", "uvicorn", "httpx", "anyio"}
    heavy |= {"websockets", "python_multipart", "PIL"}
    assert heavy & set(loaded) == set()


def _listed() -> list[dict[str, object]]:
    return [tool_entry(tool) for tool in discover().tools]


if __name__ == "__main__":
    _SNAPSHOT.parent.mkdir(exist_ok=True)
    _SNAPSHOT.write_text(json.dumps(_listed(), indent=2, ensure_ascii=False) + "\n", "utf-8")
