"""What each tool says of its result in a line, and the items of those that list something."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.answers.compact import shorten_middle
from mcp_agent.answers.pages import shorten
from registry.catalog import discover
from tests.answers.host import CompactHost, compact_host
from tools.filesystem.matches import matches_summary
from tools.kit.results import (
    Result,
    any_item,
    last_line,
    line_count,
    quantity,
    short_path,
)
from tools.kit.spec import Tool


@pytest.mark.parametrize("tool", discover().tools, ids=lambda tool: tool.name)
def test_every_tool_has_words_of_its_own(tool: Tool) -> None:
    assert tool.result_type.summary is not Result.summary


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A small project."""
    folder = tmp_path / "shop"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "app.py").write_text("def total(net):\n    return net * TAX\n\n\ndef tax():\n    return TAX\n")
    (folder / "src" / "rates.py").write_text("TAX = 0.19\n")
    (folder / "README").write_text("A shop.\n")
    return folder


def _operation(**change: Any) -> list[dict[str, Any]]:
    return [{"type": "replace_first", "pattern": "A shop.", "replacement": "Two\nshops.", **change}]


_OPTIONS = {
    "max_prune_ratio": 0.5,
    "min_keep_lines": 1,
    "timeout_ms": 9_000,
    "annotate_lines": False,
    "include_markers": True,
}
_TEXT = "".join(f"line {number}\n" for number in range(40)) + "the needle\n"
_PRUNED = {"text": _TEXT, "goal_hint": "needle", "source_type": "docs", "options": _OPTIONS}


@pytest.mark.parametrize(
    ("tool", "arguments", "success", "summary"),
    [
        ("fs_list", {"path": "."}, True, r"1 folder and 1 file in .*/shop"),
        (
            "fs_list",
            {"path": ".", "recursive": True, "max_entries": 2},
            True,
            r"1 folder and 1 file in .*, and more follow",
        ),
        ("fs_search", {"base": ".", "glob": "*.py"}, True, r"2 files; the first is .*/src/app\.py"),
        ("fs_search", {"base": ".", "glob": "*", "max_results": 1}, True, r"1 file, and more; the first is .*/README"),
        ("fs_search", {"base": ".", "glob": "*.rs"}, True, r"nothing of that name"),
        ("fs_grep", {"base": ".", "pattern": "TAX"}, True, r"3 matches in 2 files, most in .*/src/app\.py"),
        ("fs_grep", {"base": ".", "pattern": "TAX", "max_matches": 1}, True, r"the first 1 match in .*/src/app\.py"),
        ("fs_grep", {"base": ".", "pattern": "VAT"}, True, r"no matches"),
        ("fs_read", {"path": "src/app.py"}, True, r"6 lines, 65 bytes of .*/src/app\.py"),
        ("fs_read", {"path": "src/app.py", "max_bytes": 20}, True, r"the first 2 lines of 65 bytes of .*/src/app\.py"),
        ("fs_read", {"path": "nothing"}, False, r"NOT_FOUND: .*/nothing does not exist"),
        (
            "fs_read_range",
            {"path": "src/app.py", "start_line": 2, "end_line": 3},
            True,
            r"lines 2 to 3 of 6 of .*app\.py",
        ),
        ("fs_write", {"path": "new", "content": "abc"}, True, r"3 bytes written to .*/new \(new\)"),
        ("fs_write", {"path": "README", "content": "abc"}, True, r"3 bytes written to .*/README \(changed\)"),
        (
            "fs_write",
            {"path": "README", "content": "x", "mode": "create_if_missing"},
            True,
            r".*/README is there already; nothing was written",
        ),
        ("fs_delete", {"path": "README"}, True, r".*/README deleted; undo \w+"),
        ("fs_move", {"from": "README", "to": "READ.me"}, True, r".*/README moved to .*/READ\.me"),
        (
            "fs_patch",
            {"path": "README", "operations": _operation()},
            True,
            r"1 operation applied to .*/README: \+2 -1 lines",
        ),
        (
            "fs_patch",
            {"path": "README", "operations": _operation(), "dry_run": True},
            True,
            r"dry run: 1 operation would change .*/README",
        ),
        (
            "fs_patch",
            {"path": "README", "operations": _operation(pattern="no"), "dry_run": True},
            True,
            r"dry run: 0 operations would change .*/README, 1 would not match",
        ),
        (
            "shell_exec",
            {"command": "seq 4811; echo FAILED tests/test_shop.py; exit 1"},
            False,
            r"exit 1 in [\d.e-]+ s, 4,812 lines, last: FAILED tests/test_shop\.py",
        ),
        ("shell_exec", {"command": "seq 400000"}, True, r"exit 0 in .* s, 2\.7 MB, last: 400000"),
        ("shell_exec", {"command": "true"}, True, r"exit 0 in [\d.e-]+ s, no output"),
        ("shell_exec", {"command": "echo a; echo why >&2; exit 2"}, False, r"exit 2 in .* s, 2 lines, last: why"),
        ("shell_exec", {"command": "kill -9 $$"}, False, r"ended by signal (SIG)?KILL in .* s, no output"),
        ("shell_exec", {"command": "sleep 60", "timeout_seconds": 0.1}, False, r"timed out in .* s, no output"),
        ("read", {"file_path": "src/app.py"}, True, r"6 lines, 65 bytes of src/app\.py"),
        ("bash", {"command": "seq 3"}, True, r"exit 0 in .* s, 3 lines, last: 3"),
        ("bash", {"command": "exit 3"}, False, r"exit 3 in .* s, no output"),
        ("grep", {"pattern": "TAX", "path": "src"}, True, r"3 matches in 2 files, most in .*/src/app\.py"),
        ("prune_text", _PRUNED, True, r"\d+ of 41 lines kept; recover_text brings any other back"),
        ("prune_text", {**_PRUNED, "text": "x" * 2_000_001}, True, r"not pruned \(input_too_large\): all 1 line"),
        ("health", {}, True, r"mcp-pruner [\d.]+ is healthy"),
        (
            "explode",
            {},
            False,
            r"INTERNAL_ERROR: explode failed inside the daemon \(call \w+\); its log has the details",
        ),
        ("rows", {"count": 2}, True, r"\{.*"),
    ],
)
async def test_a_summary_says_what_came_of_a_call(
    shop: Path,
    tmp_path: Path,
    tool: str,
    arguments: dict[str, Any],
    success: bool,
    summary: str,
) -> None:
    async with compact_host(tmp_path, pruner_cwd=str(shop)) as host:
        placed = {
            key: str(shop / value) if tool.startswith("fs_") and key in ("path", "base", "from", "to") else value
            for key, value in arguments.items()
        }
        shown = await host.call(tool, **placed)
    assert re.fullmatch(summary, shown["summary"]), shown["summary"]
    assert shown["success"] is success


async def test_a_session_is_told_from_its_start_to_its_end(host: CompactHost) -> None:
    started = await host.call("shell_start_session", command="echo ready; exec cat")
    name = started["session_id"]
    assert started["summary"] == f"session {name} started, pid {started['pid']}"
    sent = await host.call("shell_send_input", session_id=name, input="hello\n", wait_ms=5_000, until="hello")
    assert sent["summary"] == f"session {name}, runs, 6 bytes written, 6 bytes printed, last: hello"
    running = await host.call("shell_exec", command="echo on; exec sleep 60", yield_ms=300)
    assert running["summary"].startswith(f"still running as session {running['session_id']} in 0.")
    assert (running["success"], running["session_id"] != name) == (True, True)
    stopped = await host.call("shell_stop_session", session_id=name)
    assert re.fullmatch(rf"session {name} stopped, signal (SIG)?TERM", stopped["summary"])


async def test_what_is_brought_back_or_read_on_says_how_much_it_is(host: CompactHost) -> None:
    pruned = await host.call("prune_text", **_PRUNED)
    wanted = {"prune_id": pruned["prune_id"], "ranges": [{"start_line": 1, "end_line": 7}]}
    back = await host.call("recover_text", **wanted, include_line_numbers=False)
    assert back["summary"] == f"7 lines of {pruned['prune_id']} brought back"
    kept = host.daemon.artifacts.of("owner").keep("test", [b"0123456789"])
    part = await host.call("artifact_read", ref=kept, limit=4)
    assert part["summary"] == f"bytes 0 to 4 of 10 of {kept}"


async def test_a_question_shows_in_the_summary(host: CompactHost, tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text(_TEXT * 20)
    asked = {"path": str(tmp_path / "log.txt"), "context_focus_question": "where is the needle?"}
    shown = await host.call("fs_read", **asked)
    assert shown["summary"].endswith(" bytes")
    assert shown["pruning"]["applied"] is True


async def test_lists_have_items_that_can_be_passed_on(host: CompactHost, shop: Path) -> None:
    listed = await host.call("fs_list", path=str(shop))
    assert [item["id"] for item in listed["items"]] == [str(shop / "README"), str(shop / "src")]
    assert [item["label"].split(" · ")[0] for item in listed["items"]] == ["8 bytes", "folder"]
    found = await host.call("fs_search", base=str(shop), glob="*")
    assert {"id": str(shop / "src"), "label": "folder"} in found["items"]
    matches = await host.call("fs_grep", base=str(shop), pattern="return")
    assert matches["items"] == [
        {"id": f"{shop}/src/app.py:2", "label": "return net * TAX"},
        {"id": f"{shop}/src/app.py:6", "label": "return TAX"},
    ]
    assert "artifactRef" not in matches
    around = await host.call("fs_grep", base=str(shop), pattern="return", context=1)
    assert b"def total" in host.kept(around)


async def test_a_list_that_nobody_has_words_for_still_has_items(host: CompactHost) -> None:
    shown = await host.call("rows", count=12, text="Bug ")
    assert shown["items"][3] == {"id": "row-3", "label": "Bug 3"}
    assert (shown["count"], shown["totalCount"], shown["others"]) == (12, 12, [f"row-{n}" for n in range(6)])
    # Names of ours mean what they mean in every result; its own are told with a stroke.
    assert (shown["summary_"], shown["items_"]) == ("mine", 7)


@pytest.mark.parametrize(
    ("entry", "item"),
    [
        ({"id": 7, "title": "Seven"}, ("7", "Seven")),
        ({"path": "/a", "size": 3}, ("/a", "path /a, size 3")),
        ("plain", ("", "plain")),
        (3.5, ("", "3.5")),
        ({}, ("", "")),
    ],
)
def test_an_entry_is_told_by_the_names_it_has(entry: Any, item: tuple[str, str]) -> None:
    assert any_item(entry)[:2] == item


def test_words_for_summaries() -> None:
    assert shorten("two\n  words", 20) == "two words"
    assert (shorten("x" * 101, 100), len(shorten(" " * 5_000 + "x", 100)) <= 100) == ("x" * 97 + "...", True)
    assert (short_path("/short"), len(short_path("/" + "a" * 90)), short_path("/" + "a" * 90 + "/app.py")[-7:]) == (
        "/short",
        40,
        "/app.py",
    )
    assert [quantity(0, "line"), quantity(1, "match", "matches"), quantity(4_812, "line")] == [
        "0 lines",
        "1 match",
        "4,812 lines",
    ]
    assert [line_count(text) for text in ("", "a", "a\n", "a\nb")] == [0, 1, 1, 2]
    assert [last_line(text) for text in ("", "a\nb\n\n", " x ")] == ["", "b", "x"]
    assert (shorten_middle("short", 10), shorten_middle("a long path is not there", 16)) == (
        "short",
        "a long...t there",
    )
    assert matches_summary([{"path": "a"}] * 20_001, is_cut=False) == "20,001 matches, the first in a"
    assert matches_summary([{"path": "a"}, {"path": "b"}], is_cut=False) == "2 matches in 2 files, the first a"
