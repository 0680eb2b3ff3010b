"""Where an argument can have only one meaning it is taken, and the result says so; where a letter holds, it is not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.calls.call import Call, Caller, Failure, Refusal, Success
from registry.catalog import discover
from registry.gate import Access, Gate, UnknownTool
from registry.profiles import SHIPPED, Profiles
from tests.support.shell_host import ShellHost, shell_host


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[ShellHost]:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("one\ntwo\nthree\n")
    async with shell_host(tmp_path) as started:
        yield started


@pytest.mark.parametrize(
    ("tool", "arguments", "field", "value", "notes"),
    [
        ("fs_read", {"file_path": "src/a.py"}, "content", "one\ntwo\nthree\n", None),
        ("fs_read", {"filePath": "src/a.py"}, "content", "one\ntwo\nthree\n", None),
        ("fs_read", {"path": "src/a.py", "max_bytes": "3"}, "content", "one", ["max_bytes: '3' was taken as 3"]),
        ("fs_read", {"path": "'src/a.py'"}, "content", "one\ntwo\nthree\n", ["path 'src/a.py' was taken as src/a.py"]),
        (
            "fs_read",
            {"path": "src/a.py", "description": "Read the file"},
            "content",
            "one\ntwo\nthree\n",
            None,
        ),
        ("read", {"path": "src/a.py"}, "content", "one\ntwo\nthree\n", None),
        ("bash", {"cmd": "echo hi"}, "stdout", "hi\n", None),
        (
            "shell_exec",
            {"cmd": "pwd -P | grep -o src", "workdir": "src"},
            "stdout",
            "src\n",
            None,
        ),
        (
            "shell_exec",
            {"command": "echo hi", "capture_stderr": "false"},
            "stdout",
            "hi\n",
            ["capture_stderr: 'false' was taken as false"],
        ),
        ("grep", {"pattern": "two", "paths": '["src"]'}, "match_count", 1, ["paths was a string and was read as JSON"]),
        ("grep", {"pattern": "two", "paths": "src"}, "match_count", 1, ["paths was taken as a list of one"]),
        (
            "fs_write",
            {"path": "new", "contents": "x", "mode": "Overwrite"},
            "bytes_written",
            1,
            ["mode: 'Overwrite' was taken as overwrite"],
        ),
    ],
)
async def test_what_can_have_one_meaning_is_taken_and_the_result_says_so(
    host: ShellHost, tool: str, arguments: dict[str, Any], field: str, value: object, notes: list[str] | None
) -> None:
    result = await host.call(tool, wire="http", **arguments)
    assert (result.get(field), result.get("notes")) == (value, notes), result


async def test_a_path_may_be_a_url_or_begin_at_home(host: ShellHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(host.folder))
    (host.folder / "src" / "a b.py").write_text("spaced\n")
    for path, name in (
        (f"file://{host.folder}/src/a%20b.py", "a b.py"),
        (f"file://localhost{host.folder}/src/a.py", "a.py"),
        ("$HOME/src/a.py", "a.py"),
        ("${HOME}/src/a.py", "a.py"),
        (f'"file://{host.folder}/src/a.py"', "a.py"),
    ):
        result = await host.call("fs_read", wire="http", path=path)
        assert result["path"] == f"{host.folder}/src/{name}"
        assert len(result["notes"]) == 1
        assert (await host.call("read", wire="http", file_path=path))["content"] == result["content"]
    elsewhere = await host.call("fs_read", wire="http", path="file://another-host/etc/hosts")
    assert elsewhere["error"]["code"] == "NOT_FOUND"
    plain = await host.call("fs_read", wire="http", path="src/a.py")
    assert "notes" not in plain


async def test_the_places_of_a_search_and_of_a_move_have_other_names(host: ShellHost) -> None:
    found = await host.call("fs_grep", wire="http", path="src", query="two", include="*.py")
    assert (len(found["matches"]), found.get("notes")) == (1, None)
    assert len((await host.call("fs_search", wire="http", path="src", pattern="*.py"))["matches"]) == 1
    assert "entries" in await host.call("fs_list", wire="http", base="src")
    moved = await host.call("fs_move", wire="http", source="src/a.py", destination="src/b.py")
    assert (moved["moved"], moved.get("notes")) == (True, None)


@pytest.mark.parametrize(
    ("arguments", "text", "notes"),
    [
        ({"old_string": "two", "new_string": "2"}, "one\n2\nthree\n", None),
        ({"old_str": "e", "new_str": "E", "replace_all": True}, "onE\ntwo\nthrEE\n", ["operation 1 changed 3 places"]),
        (
            {"old_string": "e", "new_string": "E", "expected_replacements": 3},
            "onE\ntwo\nthrEE\n",
            ["operation 1 changed 3 places"],
        ),
        ({"edits": [{"oldText": "t.*", "newText": "x"}, {"oldText": "two", "newText": "2"}]}, None, None),
        (
            {"edits": '[{"oldText": "two", "newText": "2"}]'},
            "one\n2\nthree\n",
            ["operations was a string and was read as JSON"],
        ),
        (
            {"patch": {"type": "replace_first", "pattern": "two", "replacement": "2"}},
            "one\n2\nthree\n",
            ["operations was taken as a list of one"],
        ),
    ],
)
async def test_an_old_and_a_new_text_are_one_literal_replacement(
    host: ShellHost, arguments: dict[str, Any], text: str | None, notes: list[str] | None
) -> None:
    result = await host.call("fs_patch", wire="http", file_path="src/a.py", **arguments)
    assert result.get("notes") == notes
    if text is None:
        assert result["error"]["code"] == "NO_MATCH"
    assert (host.folder / "src" / "a.py").read_text() == (text or "one\ntwo\nthree\n")


async def test_an_old_text_that_is_there_twice_is_not_guessed_at(host: ShellHost) -> None:
    result = await host.call("fs_patch", wire="http", path="src/a.py", old_string="e", new_string="x")
    assert result["error"]["code"] == "COUNT_MISMATCH"


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("fs_read", {"path": "a", "file_path": "b"}, "there is no argument 'file_path' (did you mean path?)"),
        ("fs_read", {"path": "src/a.py", "max_bytes": "many"}, "max_bytes must be an integer, not a string"),
        ("fs_read", {"path": "src/a.py", "max_bytes": "1e3"}, "max_bytes must be an integer, not a string"),
        ("fs_patch", {"path": "src/a.py", "patch": "two"}, "begin with *** Begin Patch"),
        ("fs_patch", {"path": "src/a.py", "old_string": "two"}, "there is no argument 'old_string'"),
        ("shell_exec", {"command": "true", "timeout": "soon"}, "there is no argument 'timeout'"),
    ],
)
async def test_what_could_mean_two_things_or_none_is_refused(
    host: ShellHost, tool: str, arguments: dict[str, Any], message: str
) -> None:
    error = (await host.call(tool, wire="http", **arguments))["error"]
    assert (error["code"], message in error["message"]) == ("INVALID_PARAMS", True), error


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("read", {"path": "src/a.py"}), ("bash", {"cmd": "true"}), ("grep", {"pattern": "x", "max_matches": "5"})],
)
async def test_on_rpc_the_letter_holds_for_the_pruning_tools_alone(
    host: ShellHost, tool: str, arguments: dict[str, Any]
) -> None:
    outcome = await host.daemon.dispatcher.call(Call("t", Caller("o", Access(), "rpc"), tool, arguments))
    assert isinstance(outcome, Refusal)
    assert outcome.error_code == -32602
    read = await host.call("fs_read", wire="rpc", file_path="src/a.py")
    assert read["content"] == "one\ntwo\nthree\n"
    quoted = await host.call("read", wire="rpc", file_path="'src/a.py'")
    assert quoted["error"]["code"] == "not_found"


async def test_a_model_reads_it_in_a_line_of_its_own(host: ShellHost) -> None:
    async def written(**arguments: Any) -> str:
        caller = Caller("owner", Access(), "http", "claude-code")
        outcome = await host.daemon.dispatcher.call(Call("t", caller, "fs_read", arguments))
        assert isinstance(outcome, Success | Failure)
        return str(outcome.written)

    assert (await written(path="src/a.py", max_bytes="9")).startswith("[max_bytes: '9' was taken as 9]\n/")
    assert (await written(path="src/none", max_bytes="9")).startswith("[max_bytes: '9' was taken as 9]\n[NOT_FOUND] ")
    assert (await written(file_path="src/a.py")).startswith(f"{host.folder}/src/a.py")


async def test_the_audit_log_keeps_a_path_by_whatever_name_it_came(host: ShellHost) -> None:
    await host.call("fs_read", wire="http", file_path="src/a.py")
    await host.call("shell_exec", wire="http", cmd="echo secret")
    fields = host.daemon.gate.catalog.by_name
    assert fields["fs_read"].parameters.fields["file_path"].audited
    assert fields["shell_exec"].parameters.fields["cmd"].is_command


def test_no_alias_is_in_a_schema_or_stands_for_two_arguments() -> None:
    for tool in discover().tools:
        parameters = tool.own_parameters
        assert not parameters.aliases.keys() & tool.input_schema.get("properties", {}).keys()
        declared = [alias for each in parameters.by_name.values() for alias in each.field.aliases]
        repeated = {alias for alias in declared if declared.count(alias) > 1}
        assert not repeated, f"{tool.name}: {repeated}"


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("read_file", "did you mean fs_read?"),
        ("mcp__agent__read_file", "did you mean fs_read?"),
        ("str_replace", "did you mean fs_patch?"),
        ("list_directory", "did you mean fs_list?"),
        ("run_command", "did you mean shell_exec?"),
        ("Bash", "did you mean bash?"),
        (
            "shell_list_sessions",
            "there is no tool for it: sessions are listed as resources, session://<id>, and shell_send_input with an "
            "unknown session_id answers with those that run",
        ),
    ],
)
def test_a_tool_by_the_name_of_another_program_is_told_its_name_here(name: str, hint: str) -> None:
    gate = Gate(discover(), Profiles("default", SHIPPED))
    with pytest.raises(UnknownTool) as refused:
        gate.admit(Access(), name)
    assert str(refused.value) == f"Unknown tool: {name} ({hint})"


def test_a_name_of_another_program_stands_for_one_tool() -> None:
    tools = discover().tools
    known = [name for tool in tools for name in (*tool.known_as, *tool.hints, tool.name)]
    assert sorted(known) == sorted(set(known))


async def test_what_still_does_not_fit_is_told_by_both_names(host: ShellHost) -> None:
    result = await host.call("fs_read", wire="http", file_path=["src/a.py"])
    assert result["error"]["message"] == "path must be a string, not an array (file_path was taken as path)"
