"""A profile with `"repeat": "changes"`: what a conversation was shown is not shown to it again."""

from __future__ import annotations

import json
import random
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.answers import repeats
from mcp_agent.calls.call import Call, Caller, Success
from registry.gate import Access
from tests.support.shell_host import ShellHost, shell_host

_TEXT = "".join(f"line {number} of a text that is worth its tokens\n" for number in range(1, 41))
_AGAIN = re.compile(r"· (unchanged since|printed the same as) \d+ s ago; pass again=true to see it$", re.MULTILINE)


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[ShellHost]:
    profiles = [{"id": "default"}, {"id": "brief", "repeat": "changes"}]
    (tmp_path / "tools.json").write_text(json.dumps({"profiles": profiles}))
    (tmp_path / "a.txt").write_text(_TEXT)
    async with shell_host(tmp_path) as started:
        yield started


async def _ask(
    host: ShellHost, tool: str, *, chat: str = "one", profile: str = "brief", form: Any = "text", **arguments: Any
) -> str:
    """The text that the model of a conversation gets."""
    caller = Caller("owner", Access(profile), "http", "claude-code", form=form, chat=chat)
    outcome = await host.daemon.dispatcher.call(Call("t", caller, tool, arguments))
    assert isinstance(outcome, Success), outcome
    written = outcome.written
    assert isinstance(written, str | bytes)
    return written if isinstance(written, str) else written.decode()


@pytest.mark.parametrize("tool", ["fs_read", "read"])
async def test_a_file_that_has_not_changed_is_shown_once_and_not_left_out_twice_in_a_row(
    host: ShellHost, tool: str
) -> None:
    answers = [await _ask(host, tool, path="a.txt") for _ in range(4)]
    assert ["line 7 of" in answer for answer in answers] == [True, False, True, False]
    assert _AGAIN.search(answers[1])
    assert "40 lines" in answers[1]


async def test_lines_that_were_shown_with_more_are_not_shown_again(host: ShellHost) -> None:
    await _ask(host, "fs_read", path="a.txt")
    assert _AGAIN.search(await _ask(host, "fs_read", path="a.txt", offset=5, limit=20))
    # And the other way round: of lines alone nobody knows whether they are all.
    await _ask(host, "fs_read", path="a.txt", chat="two", limit=40)
    assert not _AGAIN.search(await _ask(host, "fs_read", path="a.txt", chat="two"))


async def test_a_file_that_has_changed_is_shown_as_its_difference(host: ShellHost, tmp_path: Path) -> None:
    await _ask(host, "fs_read", path="a.txt")
    (tmp_path / "a.txt").write_text(_TEXT.replace("line 20 of", "line twenty of"))
    changed = await _ask(host, "fs_read", path="a.txt")
    assert "· the changes since 0 s ago; pass again=true to see it\n@@ -17,7 +17,7 @@\n" in changed
    assert "-line 20 of" in changed
    assert "+line twenty of" in changed
    assert "line 30 of" not in changed


@pytest.mark.parametrize("tool", ["shell_exec", "bash"])
async def test_a_command_that_prints_the_same_says_so(host: ShellHost, tool: str) -> None:
    command = {"command": f"cat a.txt; exit $(wc -l < {host.folder}/runs)"}
    exits = []
    for run in range(3):
        (host.folder / "runs").write_text("x\n" * run)
        answer = await _ask(host, tool, **command)
        exits.append((answer[:7], bool(_AGAIN.search(answer)), "line 7 of" in answer))
    assert exits == [("[exit 0", False, True), ("[exit 1", True, False), ("[exit 2", False, True)]


async def test_again_shows_it_in_every_profile(host: ShellHost) -> None:
    for profile in ("brief", "default"):
        for _ in range(3):
            assert "line 7 of" in await _ask(host, "fs_read", profile=profile, path="a.txt", again=True)


@pytest.mark.parametrize(
    "other",
    [
        {"chat": "two"},
        {"chat": ""},
        {"profile": "default"},
        {"form": "json"},
        {"context_focus_question": "which line is the seventh?", "keep": 1.0},
    ],
)
async def test_nothing_is_left_out(host: ShellHost, other: dict[str, Any]) -> None:
    """For another conversation, one without a name, another profile, a program, and a question."""
    for each in ({}, other):
        assert "line 7 of" in await _ask(host, "fs_read", path="a.txt", **each)


async def test_a_range_that_was_asked_for_by_its_numbers_is_always_shown(host: ShellHost) -> None:
    for _ in range(3):
        assert "line 7 of" in await _ask(host, "fs_read_range", path="a.txt", start_line=1, end_line=30)


async def test_what_was_shown_counts_for_sixty_calls_and_half_an_hour(
    host: ShellHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    for calls, is_left_out in ((58, True), (61, False)):
        chat = str(calls)
        await _ask(host, "fs_read", path="a.txt", chat=chat)
        for _ in range(calls):
            await _ask(host, "fs_list", path=".", chat=chat)
        assert bool(_AGAIN.search(await _ask(host, "fs_read", path="a.txt", chat=chat))) == is_left_out
    monkeypatch.setattr(repeats, "_MOST_AGE_S", 0.0)
    await _ask(host, "fs_read", path="a.txt", chat="old")
    assert not _AGAIN.search(await _ask(host, "fs_read", path="a.txt", chat="old"))


@pytest.mark.parametrize("seed", range(8))
async def test_what_was_shown_and_what_is_shown_give_the_file(host: ShellHost, tmp_path: Path, seed: int) -> None:
    """A reader who believes every answer knows, after each read, the lines that it asked for, exactly."""
    rng = random.Random(seed)
    path = tmp_path / "a.txt"
    lines = _TEXT.split("\n")[:-1]
    known: dict[int, str] = {}
    whole = ""
    left_out = 0
    for _ in range(40):
        for _ in range(rng.choice((0, 0, 1, 3))):
            at = rng.randrange(len(lines))
            lines[at : at + rng.choice((0, 1, 2))] = [f"new {rng.random()}"] * rng.choice((0, 1, 1, 2))
            lines = lines or ["one"]
        text = "\n".join(lines) + rng.choice(("\n", "\n", ""))
        path.write_text(text)
        first = 1 if rng.random() < 0.6 else rng.randint(1, len(lines))
        asked: dict[str, Any] = {} if first == 1 else {"offset": first, "limit": rng.randint(1, len(lines))}
        header, _, shown = (await _ask(host, "fs_read", path="a.txt", **asked)).partition("\n")
        left_out += "again=true" in header
        if not asked:
            whole = whole if "unchanged" in header else _patched(whole, shown) if "changes" in header else shown
            known = dict(enumerate(whole.split("\n"), 1))
            assert whole == text
        else:
            wanted = lines[first - 1 : first - 1 + asked["limit"]]
            if "changes" in header:
                before = "\n".join(known[number] for number in range(first, first + len(wanted)))
                shown = _patched(before, shown, first)
            if "unchanged" not in header:
                known.update(enumerate(shown.split("\n"), first))
            assert [known[number] for number in range(first, first + len(wanted))] == wanted
    assert left_out


def _patched(text: str, difference: str, first: int = 1) -> str:
    """The text that a unified diff makes of another."""
    old, made, at = re.findall(r"[^\n]*\n|[^\n]+", text), [], 0
    lines = re.findall(r"[^\n]*\n|[^\n]+", difference)
    for index, line in enumerate(lines):
        is_last = index + 1 < len(lines) and lines[index + 1].startswith("\\")
        content = line[1:].removesuffix("\n") if is_last else line[1:]
        if found := re.match(r"@@ -(\d+)(?:,(\d+))?", line):
            start = int(found[1]) - (found[2] != "0") - first + 1
            made += old[at:start]
            at = start
        elif line[0] in " -":
            assert old[at] == content
            made += [content] if line[0] == " " else []
            at += 1
        elif line[0] == "+":
            made.append(content)
    return "".join([*made, *old[at:]])
