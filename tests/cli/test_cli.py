"""The commands as a person types them, without a daemon."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mcp_agent import __version__
from registry.catalog import discover
from tests.cli.conftest import Run, Said
from tests.support.daemon import COMMAND, environment
from tests.support.waiting import PATIENCE_S
from tools.files.revisions import rev_of_bytes, short_rev


def test_a_category_that_is_on_with_nothing_in_it_is_told(run: Run, tools_json: Path) -> None:
    tools_json.parent.mkdir(parents=True)
    tools_json.write_text('{"profiles": [{"id": "default", "unlisted": "disabled"}]}')
    said = run("enable", "filesystem")
    assert "every tool of filesystem is off: mcp-agent enable fs_delete fs_grep" in said.out
    run("enable", "fs_read")
    assert "is off" not in run("enable", "filesystem").out


def test_the_version_is_told(run: Run) -> None:
    for asked in ("--version", "-V", "version"):
        assert run(asked) == Said(0, f"mcp-agent {__version__}\n", "")
    assert json.loads(run("version", "--json").out)["version"] == __version__


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("srve",), "there is no command 'mcp-agent srve' (did you mean serve?)"),
        (("serve", "--prot", "1"), "there is no flag --prot in mcp-agent serve (did you mean --port?)"),
        (("serve", "now"), "mcp-agent serve does not take 'now'; mcp-agent serve --help shows how to use it"),
        (("tools", "fs_raed"), "there is no tool 'fs_raed' (did you mean fs_read?)"),
        (("connect", "claude-cod"), "there is no client 'claude-cod' (did you mean claude-code?)"),
        (("serve", "--port", "abc"), "--port: needs a whole number from 0 to 65535, not 'abc'"),
        (("serve", "--port", "65536"), "--port: needs a whole number from 0 to 65535, not '65536'"),
        (("serve", "--port", "-1"), "--port: needs a whole number from 0 to 65535, not '-1'"),
        (("serve", "--port", "0", "--host", ""), "--host: needs a value, a text"),
        (("serve", "--port", "0", "--host", "1.2.3.4"), "cannot listen on 1.2.3.4 port 0: "),
        (("serve", "--port", "0", "--log-level", "loud"), "--log-level: the level must be one of debug, info, "),
        (("serve", "--port", "0", "--tls-cert", "x"), "--tls-cert and --tls-key belong together: give both or neither"),
        (("serve", "--port", "0", "--tls-cert", "x", "--tls-key", "y"), "--tls-cert: there is no file {home}/x"),
        (("serve", "--port", "0", "--allow-host", "http://x"), "--allow-host: 'http://x' must be a bare name"),
        (("serve", "--port", "0", "--allow-host", "*"), "--allow-host: '*' must be a bare name"),
        (("serve", "--port", "0", "--tools-file", "x" * 300), "{home}/" + "x" * 300 + " cannot be used:"),
        (("stdio", "--tools-file", "/dev/null/x"), "/dev/null/x cannot be used:"),
        (("tools", "--tools-file", "/dev/null/x"), "/dev/null/x cannot be used:"),
        (("tools", "--profile", "nobody"), "there is no profile 'nobody' (there are default, lean, "),
        (("check", "nowhere.json"), "nowhere.json is not there"),
        (("check", "x" * 300), "x" * 300 + " is not there"),
        (("profile",), "mcp-agent profile needs one of list|show|use|"),
        (("tools", "--profile", "laen"), "there is no profile 'laen' (did you mean lean?)"),
        (
            ("serve", "--port", "0", "--profile", "laen"),
            "--profile laen: there is no such profile (did you mean lean?)",
        ),
        (("profile", "show", "nobody"), "there is no profile 'nobody' (there are default, lean, "),
        (("profile", "use", "nobody"), "there is no profile 'nobody' (there are default, lean, "),
        (("enable", "fs_raed"), "there is no category or tool 'fs_raed' (did you mean fs_read?)"),
        (("disable", "teleport"), "there is no category or tool 'teleport'"),
        (("disable", "fs_read", "--profile", "nobody"), "there is no profile 'nobody' (there are default, lean, "),
        (("disable", "fs_read", "--tools-file", "/dev/null/x"), "/dev/null/x cannot be used:"),
        (("call", "fs_raed"), "Unknown tool: fs_raed (did you mean fs_read?)"),
        (("call", "fs_read", "path"), "'path' must be key=value, for example path=README.md"),
        (("call", "fs_read", "=x"), "'=x' must be key=value, for example path=README.md"),
        (("call", "fs_read", "--tools-file", "/dev/null/x"), "/dev/null/x cannot be used:"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(
    run: Run, home: Path, arguments: tuple[str, ...], message: str
) -> None:
    said = run(*arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"mcp-agent: {message.format(home=home)}")
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    "arguments", [("serve", "--port", "0"), ("stdio",), ("tools",), ("profile", "list"), ("call", "x")]
)
def test_a_broken_tools_json_is_told_by_every_command(run: Run, tools_json: Path, arguments: tuple[str, ...]) -> None:
    tools_json.parent.mkdir(parents=True)
    tools_json.write_text('{"activeProfile": "nobody", "version": 7}')
    said = run(*arguments)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"mcp-agent: {tools_json} cannot be used:")
    assert "/version: must be 1, not 7" in said.err
    assert "/activeProfile: there is no profile 'nobody'" in said.err


def test_check_tells_that_a_file_is_good(run: Run, home: Path) -> None:
    (home / "good.json").write_text('{"profiles": [{"id": "mine"}]}')
    said = run("check", "good.json")
    assert said == Said(0, "good.json is good: 8 profiles, default is active\n", "")


def test_check_tells_every_problem_on_a_line(run: Run, tools_json: Path) -> None:
    tools_json.parent.mkdir(parents=True)
    category = {"id": "filesystem", "tools": [{"id": "fs_raed"}, {"id": "teleport"}]}
    tools_json.write_text(json.dumps({"version": 2, "profiles": [{"id": "x", "categories": [category]}]}))
    said = run("check")
    at = "/profiles/0/categories/0/tools"
    assert (said.code, said.out, said.err.splitlines()) == (
        2,
        "",
        [
            f"{tools_json} /version: must be 1, not 2",
            f"{tools_json} {at}/0/id: no tool named fs_raed (did you mean fs_read?)",
            f"{tools_json} {at}/1/id: no tool named teleport; the switch has no effect (warning)",
        ],
    )


def test_check_tells_a_warning_of_a_good_file(run: Run, home: Path) -> None:
    category = {"id": "filesystem", "tools": [{"id": "teleport"}]}
    (home / "x.json").write_text(json.dumps({"profiles": [{"id": "x", "categories": [category]}]}))
    said = run("check", "x.json")
    assert (said.code, said.out.startswith("x.json is good")) == (0, True)
    assert said.err.endswith("no tool named teleport; the switch has no effect (warning)\n")


def test_tools_shows_what_a_client_would_see_and_what_it_costs(run: Run) -> None:
    said = run("tools")
    lines = said.out.splitlines()
    names = discover().names
    assert (said.code, said.err, lines[0]) == (0, "", f"profile default: {len(names)} tools (tokens are an estimate)")
    costs = {line.split()[0]: int(line.split(" tokens")[0].split()[-1]) for line in lines[1:]}
    assert tuple(costs) == (*names, "together")
    assert costs["together"] == sum(costs[name] for name in names) > 100
    assert run("tools", "--profile", "browser-only").out.startswith("profile browser-only: 0 tools ")


def test_tools_gives_the_list_as_json(run: Run) -> None:
    listed: list[dict[str, Any]] = json.loads(run("tools", "--json").out)["tools"]
    assert tuple(tool["name"] for tool in listed) == discover().names
    assert set(listed[0]) == {"name", "title", "description", "inputSchema", "annotations"}


def test_tools_shows_one_tool_with_its_arguments(run: Run) -> None:
    lines = run("tools", "fs_patch").out.splitlines()
    assert lines[0].startswith("fs_patch: filesystem, write, ")
    assert lines[0].endswith("on in the profile default")
    rows = {line.split("\t")[0]: line.split("\t")[1:3] for line in lines if "\t" in line}
    assert (rows["path"], rows["dry_run"]) == (["string", "required"], ["boolean", "false"])
    assert json.loads(run("tools", "fs_patch", "--json").out)["name"] == "fs_patch"
    run("disable", "fs_patch")
    assert run("tools", "fs_patch").out.splitlines()[0].endswith("off in the profile default")


def test_switches_are_saved_in_the_file(run: Run, tools_json: Path) -> None:
    assert run("disable", "fs_read").out.startswith("fs_read is off in the profile default\n")
    assert "fs_read " not in run("tools").out
    assert run("disable", "filesystem").out.startswith("filesystem is off in the profile default\n")
    told = run("enable", "fs_read").out.splitlines()
    assert told[:2] == [
        "fs_read is switched on in the profile default",
        "but the category filesystem is off: mcp-agent enable filesystem",
    ]
    assert run("enable", "filesystem").out.startswith("filesystem is on in the profile default\nchanged: ")
    assert "fs_read" in run("tools").out
    assert run("disable", "fs_list", "--profile", "lean").out.startswith("fs_list is off in the profile lean\n")
    assert [each["id"] for each in json.loads(tools_json.read_text())["profiles"]] == ["default", "lean"]


def test_profiles_are_listed_shown_and_chosen(run: Run, tools_json: Path) -> None:
    assert run("profile", "use", "read-only").out.startswith("read-only is the active profile\nchanged: ")
    lines = run("profile", "list").out.splitlines()
    assert [line.split("\t")[1] for line in lines if line.startswith(" ")] == [
        "default",
        "lean",
        "careful",
        "browser-only",
        "pruner",
        "compact",
    ]
    assert [line for line in lines if line.startswith("*")] == ["*\tread-only\tnothing that writes or executes"]
    run("disable", "fs_read")
    header, *shown, source = run("profile", "show").out.splitlines()
    assert (header, source) == ("read-only: Read only", f"from {tools_json}")
    assert [line.split() for line in shown if line.split()[0] in ("fs_list", "fs_read", "filesystem")] == [
        ["filesystem", "on"],
        ["fs_list", "on"],
        ["fs_read", "off"],
    ]


def test_a_call_gives_text_or_json(run: Run, home: Path) -> None:
    (home / "x y").write_text("one\n")
    rev = rev_of_bytes(b"one\n")
    assert run("call", "fs_read", "path=x y") == Said(
        0, f"{home / 'x y'} · 4 bytes · rev {short_rev(rev)}\none\n\n", ""
    )
    said = run("call", "fs_read", "path=x y", "max_bytes=2", "--json")
    expected = {"path": str(home / "x y"), "content": "on", "truncated": True, "size": 4, "next_line": 1, "rev": rev}
    assert (said.code, json.loads(said.out)) == (0, expected)


def test_a_session_without_a_daemon_is_said_to_end_with_the_command(run: Run) -> None:
    said = run("call", "shell_start_session", "command=exec sleep 300")
    assert said.out.startswith("[session s")
    session = said.out.split()[1]
    assert said.err == (
        f"mcp-agent: no daemon is running, so session {session} ends with this command; "
        "start a daemon with: mcp-agent serve\n"
    )
    assert run("call", "shell_exec", "command=echo x").err == ""


def test_a_name_that_is_no_text_can_be_passed_as_the_shell_passes_it(run: Run, home: Path) -> None:
    """It was a traceback: the audit line could not be written."""
    name = os.fsdecode(b"caf\xe9")
    (home / name).write_text("one\n")
    assert run("call", "fs_read", f"path={name}").out.startswith(f"{home}/caf\\xe9 · 4 bytes")


def test_an_error_of_a_tool_is_exit_1_and_on_stderr(run: Run, home: Path) -> None:
    assert run("call", "fs_read", "path=nowhere") == Said(
        1, "", f"[NOT_FOUND] {home / 'nowhere'} does not exist\nlist the folder it should be in with fs_list\n"
    )
    run("disable", "fs_read")
    said = run("call", "fs_read", "path=nowhere", "--json")
    assert (said.code, json.loads(said.err)["error"]["code"]) == (1, "TOOL_DISABLED")


def test_a_reader_who_has_seen_enough_is_no_error(home: Path) -> None:
    with subprocess.Popen(
        [COMMAND, "tools", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(home), cwd=home
    ) as writer:
        assert writer.stdout is not None
        assert writer.stderr is not None
        writer.stdout.close()
        assert (writer.wait(PATIENCE_S), writer.stderr.read()) == (0, b"")
