from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from tests.answers.host import CompactHost, compact_host

_COSTLY = '"\\\t\x01é漢😀 plain text that is longer than the rest\n'


async def test_a_list_goes_on_to_its_end_and_stays_as_it_was(host: CompactHost, tmp_path: Path) -> None:
    folder = tmp_path / "many"
    folder.mkdir()
    names = [f"{number:03}{'n' * (number % 150)}" for number in range(300)]
    for name in names:
        (folder / name).touch()
    first = await host.call("fs_list", path=str(folder))
    (folder / "000 new").touch()
    (folder / names[-1]).unlink()
    pages = await host.pages("fs_list", first)
    assert [Path(item["id"]).name for page in pages for item in page["items"]] == names
    assert {page["count"] for page in pages} == {300}
    assert "hasMore" not in pages[-1]
    assert pages[1]["summary"].startswith(f"entries {len(pages[0]['items']) + 1} to ")


async def test_a_command_does_not_run_again(host: CompactHost, tmp_path: Path) -> None:
    command = f"echo ran >> {tmp_path}/runs; seq 200"
    first = await host.call("shell_exec", command=command)
    pages = await host.pages("shell_exec", first)
    shown = [line for page in pages[1:] for line in (*page["text"]["head"], *page["text"]["tail"])]
    assert [*first["stdout"]["head"], *shown] == [str(number) for number in range(1, 201)]
    assert (tmp_path / "runs").read_text() == "ran\n"


@pytest.mark.parametrize("tool", ["fs_read_range", "recover_text", "prune_text", "artifact_read", "fs_read"])
async def test_text_that_was_asked_for_comes_to_its_last_byte(host: CompactHost, tmp_path: Path, tool: str) -> None:
    text = "".join(f"{number} {_COSTLY}" for number in range(600)) + "x" * 20_000 + "\nthe end"
    (tmp_path / "long.txt").write_text(text)
    options = {"max_prune_ratio": 0, "min_keep_lines": 0, "timeout_ms": 9_000, "annotate_lines": False}
    pruned = {
        "text": text,
        "goal_hint": "x",
        "source_type": "docs",
        "options": {**options, "include_markers": False},
    }
    arguments: dict[str, Any]
    match tool:
        case "fs_read_range":
            field, arguments = "content", {"path": str(tmp_path / "long.txt"), "start_line": 1, "end_line": -1}
        case "prune_text":
            field, arguments = "pruned_text", pruned
        case "recover_text":
            prune_id = (await host.call("prune_text", **pruned))["prune_id"]
            lines = {"start_line": 1, "end_line": 10_000}
            field, arguments = "raw_text", {"prune_id": prune_id, "ranges": [lines], "include_line_numbers": False}
        case _:
            kept = host.daemon.artifacts.of("owner").keep("test", [text.encode()])
            field, arguments = "content", {"ref" if tool == "artifact_read" else "path": kept}
    first = await host.call(tool, **arguments)
    pages = await host.pages(tool, first)
    assert "".join(page[field] for page in pages) == text
    # A result is filled as far as that goes: no page but the last is small.
    assert min(len(json.dumps(json.dumps(page))) for page in pages[:-1]) > 5_000


@pytest.mark.parametrize("tool", ["artifact_read", "fs_read"])
async def test_no_more_of_an_artifact_is_given_than_was_asked_for(host: CompactHost, tool: str) -> None:
    kept = host.daemon.artifacts.of("owner").keep("test", [b"0123456789" * 5_000])
    asked = {"ref": kept, "limit": 25} if tool == "artifact_read" else {"path": kept, "max_bytes": 25}
    first = await host.call(tool, **asked)
    assert first["content"] == ("0123456789" * 3)[:25]
    second = await host.call(tool, cursor=first["nextCursor"])
    assert second["content"].startswith("56789")


async def test_bytes_that_are_no_text_are_paged_to_the_last(host: CompactHost) -> None:
    data = bytes(range(256)) * 100 + b"\xf0\x9f\x98"
    kept = host.daemon.artifacts.of("owner").keep("test", [data])
    pages = await host.pages("artifact_read", await host.call("artifact_read", ref=kept))
    for page, following in itertools.pairwise(pages):
        assert data[page["offset"] : following["offset"]].decode("utf-8", "replace") == page["content"]
    assert data[pages[-1]["offset"] :].decode("utf-8", "replace") == pages[-1]["content"]


async def test_what_has_no_short_lines_is_paged_to_its_last_character(host: CompactHost, tmp_path: Path) -> None:
    """One endless line; an object, which is paged as its JSON."""
    (tmp_path / "line.txt").write_text("é" * 9_000)
    line = await host.call("fs_read", path=str(tmp_path / "line.txt"))
    nested = await host.call("nested", depth=30, width=1, text="y" * 900)
    for tool, first in (("fs_read", line), ("nested", nested)):
        pages = await host.pages(tool, first)
        rest = "".join("".join([*page["text"]["head"], *page["text"]["tail"]]) for page in pages[1:])
        if tool == "fs_read":
            assert first["content"].removesuffix("...") + rest == "é" * 9_000
        else:
            assert rest.encode() == host.kept(first)


async def test_a_cursor_is_worth_nothing_to_another_caller(host: CompactHost) -> None:
    first = await host.call("rows", count=25)
    refused = await host.call("rows", who="guest", cursor=first["nextCursor"])
    assert refused["error"]["code"] == "NOT_FOUND"


async def test_a_cursor_whose_whole_is_gone_says_so(host: CompactHost) -> None:
    first = await host.call("rows", count=25)
    artifact = host.daemon.artifacts.find(first["artifactRef"])
    assert artifact is not None
    host.daemon.artifacts.remove(artifact)
    gone = await host.call("rows", cursor=first["nextCursor"])
    assert (gone["error"]["code"], "repeat the call" in gone["error"]["hint"]) == ("NOT_FOUND", True)


async def test_a_tool_with_a_cursor_of_its_own_keeps_it(host: CompactHost) -> None:
    own = await host.call("leafing", cursor="page two")
    assert own["cursor_given"] == "page two"
    first = await host.call("leafing", size=100)
    second = await host.call("leafing", size=100, cursor=first["nextCursor"])
    assert second["artifactRef"] == first["artifactRef"]
    forged = await host.call("leafing", cursor=first["nextCursor"][:-1])
    assert forged["error"]["code"] == "INVALID_PARAMS"


async def test_the_own_cursors_of_artifact_read_still_work(host: CompactHost) -> None:
    kept = host.daemon.artifacts.of("owner").keep("test", [b"0123456789"])
    assert (await host.call("artifact_read", ref=kept, cursor="7"))["content"] == "789"


async def test_what_cannot_be_kept_is_as_short_and_says_so(tmp_path: Path) -> None:
    async with compact_host(tmp_path, artifacts_caller_mb=1) as host:
        listed = await host.call("rows", count=30_000, keys=9)
        printed = await host.call("echo", text="a line\n" * 300_000)
    for shown in (listed, printed):
        assert "artifactRef" not in shown
        assert "nextCursor" not in shown
        assert (shown["hasMore"], "could not be kept: it is larger than" in shown["hint"]) == (True, True)
    assert (listed["count"], len(listed["items"])) == (30_000, 10)
