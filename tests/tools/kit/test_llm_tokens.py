"""The estimate of tokens against a real vocabulary, on what it is used for."""

from __future__ import annotations

import json

import pytest
from rs_bpe.bpe import openai

from mcp_agent.protocol.methods import tool_entry
from registry.catalog import discover
from tests.support import ROOT
from tools.kit.llm_tokens import estimate


def _read(*patterns: str) -> str:
    return "\n".join(path.read_text("utf-8") for pattern in patterns for path in sorted(ROOT.glob(pattern)))


def _tool_list(indent: int | None) -> str:
    return json.dumps({"tools": [tool_entry(tool) for tool in discover().tools]}, indent=indent)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(_tool_list(None), id="tool list"),
        pytest.param(_tool_list(2), id="tool list, indented"),
        pytest.param(_read("mcp_agent/**/*.py"), id="code of mcp_agent"),
        pytest.param(_read("registry/*.py", "tools/**/*.py"), id="code of registry and tools"),
        pytest.param(_read("tests/**/*.py"), id="tests"),
        pytest.param(_read("README.md", "LICENSE", "CHANGELOG.md", "docs/**/*.md"), id="prose"),
    ],
)
def test_the_estimate_is_within_a_tenth_of_the_vocabulary(text: str) -> None:
    counted = len(openai.o200k_base().encode(text))
    assert estimate(text) == pytest.approx(counted, rel=0.1)


def test_the_estimate_of_each_tool_is_within_a_fifth() -> None:
    costs = {tool.name: json.dumps(tool_entry(tool)) for tool in discover().tools}
    counted = {name: len(openai.o200k_base().encode(text)) for name, text in costs.items()}
    assert {name: estimate(text) for name, text in costs.items()} == pytest.approx(counted, rel=0.2)


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("word", 1), ("two words", 2), ("a\n\n\nb", 3)])
def test_the_smallest_texts_are_counted_exactly(text: str, tokens: int) -> None:
    assert estimate(text) == tokens == len(openai.o200k_base().encode(text))
