"""Short results of what is only a part: counts are named as lower bounds, and the last page says how to go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.answers.host import CompactHost


@pytest.fixture
def many(tmp_path: Path) -> Path:
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(1_100):
        (folder / f"{number:04}.txt").write_text("needle\n")
    return folder


@pytest.mark.parametrize(
    ("tool", "arguments", "count", "hint"),
    [
        ("fs_list", {"path": "many", "max_entries": 25}, 25, "Go on with fs_list, after: next."),
        ("fs_search", {"base": "many", "glob": "*.txt"}, 200, "Raise max_results, or narrow the glob"),
        ("fs_grep", {"base": "many", "pattern": "needle"}, 200, "Raise max_matches, or narrow the pattern"),
    ],
)
async def test_a_list_that_was_cut_does_not_claim_to_be_all(
    host: CompactHost, many: Path, tool: str, arguments: dict[str, Any], count: int, hint: str
) -> None:
    first = await host.call(tool, **arguments)
    last = (await host.pages(tool, first))[-1]
    for page in (first, last):
        assert (page["totalCount"], page["countsAreLowerBounds"], page["hasMore"]) == (count, True, True)
    assert "All of this answer: artifact_read" in first["hint"]
    assert last["summary"].endswith(f"{count} of the first {count}")
    assert last["hint"].startswith(hint)
    if tool == "fs_list":
        following = await host.call("fs_list", path="many", after=last["next"])
        assert following["items"][0]["id"] == str(many / "0025.txt")


async def test_a_list_that_is_whole_says_so(host: CompactHost, many: Path) -> None:
    first = await host.call("fs_search", base="many", glob="00*.txt")
    assert "All of it: artifact_read" in first["hint"]
    last = (await host.pages("fs_search", first))[-1]
    for page in (first, last):
        assert (page["totalCount"], "countsAreLowerBounds" in page) == (100, False)
    assert (last["summary"], "hasMore" in last) == ("matches 91 to 100 of 100", False)


async def test_a_small_part_says_how_to_go_on(host: CompactHost, many: Path) -> None:
    shown = await host.call("fs_search", base="many", glob="*.txt", max_results=3)
    assert (shown["totalCount"], shown["countsAreLowerBounds"], shown["hasMore"]) == (3, True, True)
    assert shown["hint"] == "Raise max_results, or narrow the glob: there is more."


async def test_the_start_of_a_file_leads_to_its_end(host: CompactHost, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("".join(f"{number}\n" for number in range(5_000)))
    first = await host.call("fs_read", path="long.txt", max_bytes=2_000)
    assert (first["countsAreLowerBounds"], "All of this answer" in first["hint"]) == (True, True)
    last = (await host.pages("fs_read", first))[-1]
    assert last["hasMore"] is True
    assert last["hint"] == f"Go on with fs_read_range from line {first['next_line']}."


async def test_the_lines_of_a_long_output_are_counted(host: CompactHost) -> None:
    shown = await host.call("shell_exec", command="seq 400000; printf unfinished")
    assert shown["missing_bytes"] > 0
    assert shown["stdout"]["totalCount"] == 400_001
    assert shown["stdout"]["omittedLines"] == 399_981
    assert "countsAreLowerBounds" not in shown
    assert "All of it: artifact_read" in shown["hint"]


async def test_a_part_of_what_a_session_printed_leads_to_the_next(host: CompactHost) -> None:
    started = await host.call("shell_start_session", command="seq 100000; echo over; sleep 60")
    about = {"session_id": started["session_id"], "input": ""}
    await host.call("shell_send_input", **about, until="over", wait_ms=20_000, since=-5)
    first = await host.call("shell_send_input", **about, since=0, wait_ms=0)
    assert (first["more"], first["countsAreLowerBounds"]) == (True, True)
    last = (await host.pages("shell_send_input", first))[-1]
    assert last["hint"] == f"Go on with shell_send_input since={first['next_offset']}."


@pytest.mark.parametrize("depth", [1, 3, 6])
async def test_what_is_passed_on_is_never_cut(host: CompactHost, tmp_path: Path, depth: int) -> None:
    folder = tmp_path.joinpath(*("n" * 200 for _ in range(depth)))
    folder.mkdir(parents=True)
    for number in range(30):
        (folder / f"{number:02}{'z' * 150}").write_text("needle\n")
    first = await host.call("fs_list", path=str(folder), max_entries=20)
    assert (first["path"], Path(first["next"]).parent) == (str(folder), folder)
    pages = await host.pages("fs_list", first)
    shown = [item for page in pages for item in page["items"]]
    following = await host.call("fs_list", path=str(folder), after=pages[-1]["next"], max_entries=1)
    assert [Path(item["id"]).name[:2] for item in (*shown, *following["items"])] == [f"{n:02}" for n in range(21)]
    assert all(Path(item["id"]).is_file() for item in shown)


async def test_a_path_that_is_too_long_to_show_is_numbered(host: CompactHost, tmp_path: Path) -> None:
    folder = tmp_path.joinpath(*("n" * 250 for _ in range(8)))
    folder.mkdir(parents=True)
    (folder / "file").touch()
    shown = await host.call("fs_search", base=str(folder), glob="*")
    assert shown["items"] == [{"id": "#1", "label": "file"}]
    assert json.loads(host.kept(shown))["matches"][0]["path"] == str(folder / "file")


@pytest.mark.parametrize("tool", ["fs_read", "read", "shell_exec", "bash"])
async def test_a_question_shows_the_lines_that_match_best(host: CompactHost, tmp_path: Path, tool: str) -> None:
    code = ["import os", *(f"def step_{number}(x):\n    return x + {number}\n" for number in range(300)), "main()"]
    code.insert(150, "# the retry policy backs off\ndef backoff(tries):\n    delay = 2 ** tries\n    return delay\n")
    (tmp_path / "code.py").write_text("\n".join(code))
    arguments = {"fs_read": {"path": "code.py"}, "read": {"file_path": "code.py"}}.get(tool, {"command": "cat code.py"})
    shown = await host.call(tool, context_focus_question="How does the retry policy back off?", **arguments)
    text = shown["content" if "read" in tool else "stdout"]
    assert set(text) == {"best", "omittedLines", "totalCount", "hasMore"}
    assert "# the retry policy backs off\ndef backoff(tries):\n    delay = 2 ** tries" in text["best"][0]
    assert "import os" not in str(text["best"])
    assert sum(run.count("\n") + 1 for run in text["best"]) + text["omittedLines"] == text["totalCount"]


async def test_a_question_shows_the_matches_that_answer_it(host: CompactHost, tmp_path: Path) -> None:
    lines = [f"value {number}" for number in range(100)]
    lines[70] = "value of the timeout"
    (tmp_path / "values").write_text("\n".join(lines))
    shown = await host.call("fs_grep", base=".", pattern="value", context_focus_question="what is the timeout?")
    assert shown["items"][[item["label"] for item in shown["items"]].index("value of the timeout")]["id"].endswith(
        ":71"
    )
    page = await host.call("fs_grep", cursor=shown["nextCursor"])
    assert page["summary"].startswith("matches 1 to 10 of ")


async def test_errors_are_as_short_as_results(host: CompactHost) -> None:
    ranges = [{"start_line": "a", "end_line": "b"}] * 600
    for era in ("handshake", "stateless", "rpc"):
        answer = await host.answer("recover_text", era=era, prune_id="prn_x", ranges=ranges)
        assert len(json.dumps(answer)) <= 8_000
    issues = answer["error"]["data"]["issues"]
    whole = await host.answer("recover_text", era="rpc", profile="default", prune_id="prn_x", ranges=ranges)
    every = whole["error"]["data"]["issues"]
    assert len(json.dumps(every)) > 30_000
    assert (issues, answer["error"]["data"]["issues_left_out"]) == (every[: len(issues)], len(every) - len(issues))
