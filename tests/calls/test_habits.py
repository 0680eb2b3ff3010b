"""The arguments that models write from habit, for the tools of their own clients: taken where they mean one thing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.calls.call import Call, Caller, Refusal
from registry.catalog import discover
from registry.gate import Access
from tests.support.shell_host import ShellHost, shell_host
from tools.kit.habits import HABITS

_LINES = "".join(f"line {number}\n" for number in range(1, 31))


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[ShellHost]:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text(_LINES)
    (tmp_path / "src" / "b.go").write_text("line 1\nline 2\n")
    async with shell_host(tmp_path) as started:
        yield started


@pytest.mark.parametrize("tool", ["fs_read", "read"])
@pytest.mark.parametrize(
    ("arguments", "first", "last"),
    [
        ({"offset": 3, "limit": 2}, 3, 4),
        ({"offset": "3", "limit": "2"}, 3, 4),
        ({"limit": 2}, 1, 2),
        ({"offset": 0, "limit": 2}, 1, 2),
        ({"offset": 29}, 29, 30),
        ({"offset": 29, "limit": 2000}, 29, 30),
        ({"start_line": 3, "end_line": 4}, 3, 4),
        ({"start_line": 28}, 28, 30),
        ({"start_line": 3, "limit": 2}, 3, 4),
        ({"view_range": [3, 4]}, 3, 4),
        ({"view_range": [28, -1]}, 28, 30),
        ({"offset": -2}, 29, 30),
        ({"limit": 2, "description": "the head"}, 1, 2),
        ({"limit": 2, "mode": "slice"}, 1, 2),
        ({"start_line_one_indexed": 3, "end_line_one_indexed_inclusive": 4, "should_read_entire_file": False}, 3, 4),
        ({"offset": 29, "allow_large": True}, 29, 30),
    ],
)
async def test_some_lines_of_a_file(
    host: ShellHost, tool: str, arguments: dict[str, Any], first: int, last: int
) -> None:
    found = await host.call(tool, wire="http", file_path="src/a.py", **arguments)
    assert (found["start_line"], found["end_line"], found["total_lines"]) == (first, last, 30)
    assert found["content"].rstrip() == "\n".join(f"line {number}" for number in range(first, last + 1))
    assert "notes" not in found


@pytest.mark.parametrize("tool", ["shell_exec", "bash"])
@pytest.mark.parametrize(
    ("arguments", "printed", "notes"),
    [
        ({"command": "echo hi", "description": "Say hi", "timeout": 120000}, "hi", None),
        ({"command": "echo hi", "timeout": 5}, "hi", None),
        ({"command": "echo hi", "run_in_background": False, "dangerouslyDisableSandbox": True}, "hi", None),
        ({"cmd": ["bash", "-lc", "echo $((1+1))"], "workdir": "src"}, "2", None),
        ({"command": ["echo", "a b", "$c"]}, "a b $c", None),
        ({"cmd": "pwd -P | grep -o 'src$'", "workdir": "src", "login": False, "tty": False}, "src", None),
        ({"cmd": "echo hi", "yield_time_ms": 10000, "max_output_tokens": 2000, "justification": "look"}, "hi", None),
        ({"cmd": "echo hi", "sandbox_permissions": "require_escalated", "prefix_rule": ["echo"]}, "hi", None),
        ({"cmd": "[[ $0 == *bash ]] && echo hi", "shell": "/bin/bash", "tty": False}, "hi", None),
        ({"cmd": "shopt -q login_shell && echo hi", "shell": "bash", "login": True}, "hi", None),
        ({"cmd": ["/bin/bash", "-lc", "[[ -n x ]] && echo hi"], "timeout_ms": 10000}, "hi", None),
        ({"command": ["sh", "-c", "echo hi"], "with_escalated_permissions": True, "justification": "x"}, "hi", None),
        (
            {
                "cmd": "echo hi",
                "sandbox_permissions": "with_additional_permissions",
                "additional_permissions": {"network": {"enabled": True}, "file_system": {"write": ["/x"]}},
                "environment_id": "local",
            },
            "hi",
            None,
        ),
        ({"cmd": "echo hi", "tty": True}, "hi", ["tty was left aside: shell_start_session with pty has a terminal"]),
    ],
)
async def test_a_command(
    host: ShellHost, tool: str, arguments: dict[str, Any], printed: str, notes: list[str] | None
) -> None:
    done = await host.call(tool, wire="http", **arguments)
    assert (done["stdout"].strip(), done.get("notes")) == (printed, notes), done


@pytest.mark.parametrize(("tool", "own"), [("shell_exec", "sh"), ("bash", "bash")])
async def test_a_shell_that_is_not_here_is_left_aside_with_a_note(host: ShellHost, tool: str, own: str) -> None:
    done = await host.call(tool, wire="http", cmd="echo hi", shell="/opt/pwsh")
    assert (done["stdout"], done["notes"]) == ("hi\n", [f"shell /opt/pwsh was left aside: {own} runs the command"])


@pytest.mark.parametrize(
    "poll",
    [
        {"chars": "", "yield_time_ms": 20_000, "max_output_tokens": 6_000},
        {"yield_time_ms": 20_000},
        {"block": True, "timeout": 20_000},
        {"timeout": 20_000},
        {"block": True},
    ],
)
async def test_a_poll_as_other_clients_write_it(host: ShellHost, poll: dict[str, Any]) -> None:
    for name in ("session_id", "task_id", "bash_id", "shell_id"):
        session = await host.start("echo hi")
        read = await host.call("shell_send_input", wire="http", **{name: session}, **poll)
        assert (read["output"], "notes" in read) == ("hi\n", False), read


async def test_a_poll_that_is_not_to_block_answers_at_once(host: ShellHost) -> None:
    session = await host.start("echo hi; sleep 60")
    read = await host.call("shell_send_input", wire="http", task_id=session, block=False, timeout=30_000)
    assert (read["running"], read["wait_ms"], "notes" in read) == (True, 0, False)
    stopped = await host.call("shell_stop_session", wire="http", task_id=session, signal="KILL")
    assert stopped["stopped"]


async def test_a_poll_with_few_tokens_is_given_few(host: ShellHost) -> None:
    session = await host.start("seq 1000")
    asked: dict[str, Any] = {"session_id": session, "yield_time_ms": 20_000, "max_output_tokens": 100}
    read = await host.call("shell_send_input", wire="http", **asked)
    assert (read["next_offset"], read["more"]) == (400, True)


@pytest.mark.parametrize("tool", ["shell_exec", "bash"])
async def test_a_command_in_the_background_is_a_session_at_once(host: ShellHost, tool: str) -> None:
    for habit in ({"run_in_background": True}, {"yield_time_ms": 0}):
        started = await host.call(tool, wire="http", command="sleep 60", **habit)
        assert started["running"], started
        await host.call("shell_stop_session", session_id=started["session_id"], signal="SIGKILL")


@pytest.mark.parametrize(
    ("tool", "limit", "meant"),
    [
        ("shell_exec", 5, {"timeout_seconds": 5}),
        ("shell_exec", 1_000, {"timeout_seconds": 1_000}),
        ("shell_exec", 120_000, {"timeout_seconds": 120}),
        ("bash", 5, {"timeout_ms": 5_000}),
        ("bash", 120_000, {"timeout_ms": 120_000}),
        ("bash", 600_000, {"timeout_ms": 300_000}),
    ],
)
def test_a_timeout_is_in_milliseconds_when_it_is_over_a_thousand(tool: str, limit: int, meant: dict[str, Any]) -> None:
    parsed, notes = discover().by_name[tool].parse_tolerantly({"command": "true", "timeout": limit}, habits=True)
    assert parsed.items() >= meant.items()
    assert notes == (["the command may take 300000 ms, the most there is"] if limit == 600_000 else [])


def test_an_output_in_tokens_is_one_in_bytes() -> None:
    for tool, tokens, size in (("shell_exec", 10, 256), ("shell_exec", 6_000, 24_000), ("bash", 10, 1_024)):
        asked = {"cmd": "true", "max_output_tokens": tokens}
        assert discover().by_name[tool].parse_tolerantly(asked, habits=True)[0]["max_output_bytes"] == size


@pytest.mark.parametrize("tool", ["fs_grep", "grep"])
@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"pattern": "line 2$", "output_mode": "content", "-n": True}, [("a.py", 2), ("b.go", 2)]),
        ({"pattern": "LINE 2$", "output_mode": "content", "-i": True, "type": "go"}, [("b.go", 2)]),
        ({"pattern": "LINE 2$", "case_sensitive": False, "glob": "*.go *.rs"}, [("b.go", 2)]),
        ({"pattern": "LINE 2$", "output_mode": "content", "-i": False}, []),
        ({"pattern": "line 2$", "include": "*.py"}, [("a.py", 2)]),
        ({"pattern": "line 2$", "glob": "!*.py"}, [("b.go", 2)]),
        ({"pattern": "line 2$", "type": "py", "glob": "**/a.*"}, [("a.py", 2)]),
        ({"pattern": "line 2$", "type": "py", "glob": "*.go"}, []),
        ({"pattern": "line", "head_limit": 1, "output_mode": "content"}, [("a.py", 1)]),
        ({"pattern": "line", "head_limit": 2, "offset": 1, "type": "py"}, [("a.py", 2), ("a.py", 3)]),
        ({"pattern": "line 2", "head_limit": 0, "type": "go"}, [("b.go", 2)]),
        ({"pattern": "line 1.line 2", "multiline": True, "type": "go"}, [("b.go", 1)]),
    ],
)
async def test_a_search(host: ShellHost, tool: str, arguments: dict[str, Any], found: list[tuple[str, int]]) -> None:
    for place in ({"path": "src"}, {"path": str(host.folder / "src")}):
        result = await host.call(tool, wire="http", **place, **arguments)
        assert [(match["path"].rpartition("/")[2], match["line"]) for match in result["matches"]] == found, result
        assert "notes" not in result or "offset" in arguments


@pytest.mark.parametrize("tool", ["fs_grep", "grep"])
async def test_lines_around_a_match(host: ShellHost, tool: str) -> None:
    asked = {"path": "src/a.py", "pattern": "line 9$", "output_mode": "content"}
    cases: tuple[tuple[dict[str, Any], list[str] | None, list[str] | None], ...] = (
        ({"-A": 1}, None, ["line 10"]),
        ({"-B": 2}, ["line 7", "line 8"], None),
        ({"-A": 1, "-B": 1}, ["line 8"], ["line 10"]),
        ({"-C": 1}, ["line 8"], ["line 10"]),
        ({"context": 1}, ["line 8"], ["line 10"]),
        ({"-C": 2, "-B": 1}, ["line 8"], ["line 10", "line 11"]),
        ({"-A": 80}, None, [f"line {number}" for number in range(10, 31)]),
    )
    for around, before, after in cases:
        (match,) = (await host.call(tool, wire="http", **asked, **around))["matches"]
        assert (match.get("before"), match.get("after")) == (before, after)


@pytest.mark.parametrize("tool", ["fs_grep", "grep"])
async def test_files_and_counts(host: ShellHost, tool: str) -> None:
    asked = {"path": "src", "pattern": "line [12]$"}
    files = await host.call(tool, wire="http", **asked, output_mode="files_with_matches")
    assert files == {
        "files": [{"path": f"{host.folder}/src/a.py"}, {"path": f"{host.folder}/src/b.go"}],
        **_rest(files),
    }
    first = await host.call(tool, wire="http", **asked, output_mode="files_with_matches", head_limit=1)
    assert ([file["path"][-4:] for file in first["files"]], first["truncated"]) == (["a.py"], True)
    counts = await host.call(tool, wire="http", **asked, output_mode="count")
    assert [(file["path"][-4:], file["count"]) for file in counts["files"]] == [("a.py", 2), ("b.go", 2)]


def _rest(result: dict[str, Any]) -> dict[str, Any]:
    """What the host adds for a tool that always takes a question."""
    return {"pruning": result["pruning"]} if "pruning" in result else {}


@pytest.mark.parametrize("argument", ["patch", "input"])
async def test_a_patch_as_text_begins_in_the_folder_of_the_conversation(host: ShellHost, argument: str) -> None:
    text = "*** Begin Patch\n*** Update File: src/b.go\n@@\n-line 2\n+line two\n*** Add File: new/c\n+c\n*** End Patch"
    done = await host.call("fs_patch", wire="http", explanation="why", **{argument: text})
    assert [(each["path"], each["change"]) for each in done["files"]] == [
        (str(host.folder / "src" / "b.go"), "changed"),
        (str(host.folder / "new" / "c"), "added"),
    ]
    assert (host.folder / "src" / "b.go").read_text() == "line 1\nline two\n"


async def test_a_search_without_a_place_is_in_the_working_directory(host: ShellHost) -> None:
    assert len((await host.call("fs_grep", wire="http", pattern="line 2$"))["matches"]) == 2
    assert len((await host.call("grep", wire="http", pattern="line 2$", type="go"))["matches"]) == 1
    assert len((await host.call("fs_search", wire="http", pattern="**/*.go"))["matches"]) == 1
    assert len((await host.call("fs_search", wire="http", pattern="*.go", path="src"))["matches"]) == 1


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("fs_read", {"path": "src/a.py", "limit": 2}),
        ("fs_read", {"path": "src/a.py", "start_line": 2}),
        ("fs_grep", {"pattern": "line"}),
        ("fs_grep", {"base": "src", "pattern": "line", "-A": 1}),
        ("shell_exec", {"command": "true", "timeout": 5}),
        ("fs_patch", {"patch": "*** Begin Patch\n*** Delete File: src/a.py\n*** End Patch"}),
    ],
)
async def test_programs_on_rpc_have_no_habits(host: ShellHost, tool: str, arguments: dict[str, Any]) -> None:
    assert (await host.call(tool, wire="rpc", **arguments))["error"]["code"] == "INVALID_PARAMS"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read", {"file_path": "src/a.py", "start_line": 2}),
        ("grep", {"pattern": "line", "files_only": True}),
        ("bash", {"command": "true", "yield_ms": 5}),
    ],
)
async def test_what_is_hidden_is_refused_where_the_letter_of_a_contract_holds(
    host: ShellHost, tool: str, arguments: dict[str, Any]
) -> None:
    outcome = await host.daemon.dispatcher.call(Call("t", Caller("o", Access(), "rpc"), tool, arguments))
    assert isinstance(outcome, Refusal)


async def test_an_argument_that_says_the_same_twice_gives_way_to_ours(host: ShellHost) -> None:
    found = await host.call("fs_grep", wire="http", base="src", pattern="line 2$", max_matches=1, head_limit=5)
    assert (len(found["matches"]), found["notes"]) == (1, ["head_limit was left aside, because max_matches is there"])


def test_every_habit_is_about_an_argument_that_the_tool_has() -> None:
    catalog = discover().by_name
    for tool, habits in HABITS.items():
        assert tool in catalog
        assert not habits.keys() & catalog[tool].input_schema["properties"].keys() - {
            "command",
            "glob",
            "timeout_ms",
            "diff",
            "operations",
            "max_output_bytes",
        }
