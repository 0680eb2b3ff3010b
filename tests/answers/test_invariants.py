"""The six promises of short results, held against every tool with made-up inputs, in both eras and on /rpc."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.answers import promises
from tests.answers.host import ERAS, EVERY_TOOL, CompactHost, compact_host
from tests.answers.inputs import INPUTS, World

_IS_LONG = bool(os.environ.get("MCP_AGENT_TEST_LONG"))
_SEEDS = 20 if _IS_LONG else 2
_CALLS = 500 if _IS_LONG else 150
_FILES = 10_000 if _IS_LONG else 2_000
_MOST_PAGES = 4


def test_every_tool_has_made_up_inputs() -> None:
    assert set(INPUTS) == set(EVERY_TOOL.names)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(_SEEDS))
async def test_no_result_breaks_a_promise(tmp_path: Path, seed: int) -> None:
    """Every tool in turn, so that each is called about equally often; pages that follow are calls of their own."""
    world = World(tmp_path, seed, _FILES)
    found: list[tuple[str, dict[str, Any], list[str]]] = []
    seen = Counter[str]()
    async with compact_host(tmp_path) as host:
        for number in range(_CALLS):
            tool = EVERY_TOOL.names[(number + seed * _CALLS) % len(EVERY_TOOL.names)]
            arguments = world.arguments(tool)
            for _ in range(_MOST_PAGES):
                answer = await host.answer(tool, era=ERAS[number % len(ERAS)], **arguments)
                if "result" not in answer:
                    break
                result = orjson.dumps(answer["result"])
                if problems := promises.broken(result, tool):
                    found.append((tool, arguments, problems))
                    break
                shown = promises.shown(result)
                world.learn(shown)
                seen.update(["result", "done" if shown["success"] else "failed"])
                if "artifactRef" in shown:
                    seen["cut"] += 1
                    assert host.kept(shown), tool
                if "nextCursor" not in shown:
                    break
                arguments = {"cursor": shown["nextCursor"]}
    assert found == []
    # What is made up must not be nonsense alone.
    assert min(seen["done"], seen["cut"]) > _CALLS / 5, seen


@pytest.mark.parametrize("era", ERAS)
async def test_long_lists_are_told_shortly_and_kept_whole(host: CompactHost, tmp_path: Path, era: Any) -> None:
    many, costly = tmp_path / "many", 'é"' * 400
    many.mkdir()
    for number in range(10_000):
        (many / f"{number:05} {'long name ' * 12}").touch()
    for name, count in (("a.txt", 1_000), ("b.txt", 4_000)):
        (tmp_path / name).write_text("".join(f"needle {number} {costly}\n" for number in range(count)))
    listed = await host.call("fs_list", era=era, path=str(many), max_entries=100_000)
    assert (listed["count"], listed["totalCount"], listed["hasMore"]) == (10_000, 10_000, True)
    assert len(json.loads(host.kept(listed))["entries"]) == 10_000
    found = await host.call("fs_grep", era=era, base=str(tmp_path), pattern="needle", max_matches=10_000, glob="*.txt")
    assert (found["count"], len(found["items"]) >= 5) == (5_000, True)
    assert found["summary"].startswith("5,000 matches in 2 files, most in ")
    assert len(json.loads(host.kept(found))["matches"]) == 5_000


@pytest.mark.parametrize("era", ERAS)
async def test_a_hundred_megabytes_of_output_are_told_shortly(tmp_path: Path, era: Any) -> None:
    command = "yes 'a line of output with \"quotes\"' | head -c 100000000; exit 4"
    async with compact_host(tmp_path, artifacts_caller_mb=200) as host:
        shown = await host.call("shell_exec", era=era, command=command)
        assert (shown["exit_code"], shown["success"]) == (4, False)
        assert shown["stdout"]["head"] == ['a line of output with "quotes"'] * 10
        # Of the output of one command 64 MiB are kept.
        assert len(host.kept(shown)) > 60_000_000


@pytest.mark.parametrize("era", ERAS)
async def test_what_no_short_text_can_hold_is_told_and_kept(host: CompactHost, era: Any) -> None:
    """JSON of thirty levels, and an image."""
    shown = await host.call("nested", era=era, depth=30, width=1)
    assert shown["nested"] == [{"key 0": "[1 item]"}]
    deepest: Any = json.loads(host.kept(shown))["nested"]
    for _ in range(29):
        deepest = deepest[0] if isinstance(deepest, list) else deepest["key 0"]
    assert deepest == "leaf"
    seen = await host.call("picture", era=era, size=300_000, text="look")
    assert seen["content"] == [
        {"type": "image", "mimeType": "image/png", "bytes": 300_000},
        {"type": "text", "text": "look"},
    ]
    assert len(json.loads(host.kept(seen))["content"][0]["data"]) == 400_000
