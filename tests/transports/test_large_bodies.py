"""A body has up to 16 MiB on every path, and what the pruner answers to a long one is whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon

_MOST = 16 * 1024 * 1024


def _message(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


@pytest.mark.parametrize("path", ["/mcp", "/rpc", "/tools/fs_write"])
async def test_a_file_of_eight_megabytes_is_written_in_one_call(
    shared_daemon: Daemon, tmp_path: Path, path: str
) -> None:
    text = "a line of thirty-two characters\n" * 262_144
    arguments = {"path": str(tmp_path / "x"), "content": text, "mode": "overwrite"}
    async with shared_daemon.http(Accept="application/json, text/event-stream") as http:
        body = arguments if path.startswith("/tools") else _message("fs_write", **arguments)
        answer = await http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    assert (tmp_path / "x").read_text() == text


@pytest.mark.parametrize("path", ["/mcp", "/rpc", "/tools/fs_write"])
async def test_a_longer_body_is_refused_with_the_limit(shared_daemon: Daemon, path: str) -> None:
    async with shared_daemon.http(Accept="application/json, text/event-stream") as http:
        answer = await http.post(path, content=b" " * (_MOST + 1), headers={"Content-Type": "application/json"})
    assert answer.status_code == 413
    assert f"at most {_MOST} bytes" in answer.json()["error"]["message"]


def _numbered(lines: int) -> str:
    return "".join(
        f"{number} the parser reads a {'token' if number % 9 else 'marker'} here\n" for number in range(lines)
    )


_OPTIONS = {
    "max_prune_ratio": 0.55,
    "min_keep_lines": 40,
    "timeout_ms": 60_000,
    "annotate_lines": False,
    "include_markers": True,
}


@pytest.mark.parametrize("options", [_OPTIONS, {**_OPTIONS, "max_prune_ratio": 0.0}])
async def test_what_prune_text_answers_on_rpc_is_never_cut(shared_daemon: Daemon, options: dict[str, Any]) -> None:
    text = _numbered(50_000)
    assert len(text) > 1_500_000
    pruning = {"text": text, "goal_hint": "where is the marker read", "source_type": "code", "options": options}
    answer = (await shared_daemon.rpc("tools/call", name="prune_text", arguments=pruning))["result"]
    pruned = answer["structuredContent"]
    assert "truncated" not in pruned
    assert "artifactRef" not in pruned
    kept = [line for line in pruned["pruned_text"].split("\n") if not line.startswith("⟦")]
    # The empty string behind the last line end is no line.
    assert len(kept) - 1 == pruned["stats"]["kept_lines"]
    if not options["max_prune_ratio"]:
        assert pruned["pruned_text"] == text
    every = {"prune_id": pruned["prune_id"], "ranges": [{"start_line": 1, "end_line": 50_000}]}
    back = await shared_daemon.rpc(
        "tools/call", name="recover_text", arguments={**every, "include_line_numbers": False}
    )
    assert back["result"]["structuredContent"]["raw_text"] == text.removesuffix("\n")


@pytest.mark.parametrize("form", ["json", "text"])
async def test_recover_text_on_mcp_gives_a_range_whole_or_says_which_fits(shared_daemon: Daemon, form: str) -> None:
    text = _numbered(40_000)
    pruning = {"text": text, "goal_hint": "where is the marker read", "source_type": "code", "options": _OPTIONS}
    pruned = (await shared_daemon.rpc("tools/call", name="prune_text", arguments=pruning))["result"][
        "structuredContent"
    ]
    lines = text.split("\n")[:-1]
    read: list[str] = []
    async with shared_daemon.http(
        **{"Accept": "application/json, text/event-stream", "X-MCP-Agent-Form": form}
    ) as http:
        start, end = 30_000, 40_000 if form == "json" else 32_000
        while start <= end:
            ranges = [{"start_line": start, "end_line": end}]
            asked = _message("recover_text", prune_id=pruned["prune_id"], ranges=ranges, include_line_numbers=False)
            result = (await http.post("/mcp", json=asked)).json()["result"]
            if result["isError"]:
                said = result["content"][0]["text"]
                assert "TOO_LARGE" in said
                fitting = int(said.partition(f"what fits is lines {start} to ")[2].partition(":")[0])
                assert f"then go on from line {fitting + 1}" in said
                assert start <= fitting < end
                ranges[0]["end_line"] = fitting
                result = (await http.post("/mcp", json=asked)).json()["result"]
            assert not result["isError"]
            text_given = result["content"][0]["text"] if form == "text" else result["structuredContent"]["raw_text"]
            read += text_given.split("\n")
            start = ranges[0]["end_line"] + 1
    assert read == lines[29_999:end]


async def test_overlapping_ranges_beyond_the_limit_are_an_error_that_says_what_fits(shared_daemon: Daemon) -> None:
    text = _numbered(30_000)
    pruning = {"text": text, "goal_hint": "where is the marker read", "source_type": "code", "options": _OPTIONS}
    pruned = (await shared_daemon.rpc("tools/call", name="prune_text", arguments=pruning))["result"][
        "structuredContent"
    ]
    ranges = [{"start_line": 1, "end_line": 30_000} for _ in range(30)]
    arguments = {"prune_id": pruned["prune_id"], "ranges": ranges, "include_line_numbers": True}
    answer = (await shared_daemon.rpc("tools/call", name="recover_text", arguments=arguments))["result"]
    assert answer["isError"]
    error = answer["structuredContent"]["error"]
    assert error["code"] == "TOO_LARGE"
    assert "what fits is the ranges before number " in error["hint"]
