"""`mcp-agent mount`, `wrap` and what `tools` says of mounted servers."""

from __future__ import annotations

import json
import stat
import subprocess
from pathlib import Path
from typing import Any

from tests.support.daemon import Daemon, command, running
from tests.support.waiting import eventually, eventually_sync
from tests.upstream.mounting import document, small

SERVER = small()
LINE = [SERVER["command"], *SERVER["args"]]


def categories(file: Path) -> dict[str, Any]:
    return {each["id"]: each for each in json.loads(file.read_text())["profiles"][0]["categories"]}


def mount(daemon: Daemon, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`mcp-agent mount add`; what stands behind -- stays there."""
    return command(daemon.home, "mount", "add", "--tools-file", str(daemon.tools_json), *arguments)


async def text_of(daemon: Daemon, tool: str, **arguments: Any) -> str:
    answer = await daemon.rpc("tools/call", name=tool, arguments=arguments)
    return str(answer["result"]["structuredContent"]["text"])


async def test_mount_answers_when_the_tools_can_be_called_and_remove_takes_them_away(home: Path) -> None:
    with running(home) as daemon:
        done = mount(daemon, "small", "--only", "echo", "environment", "--env", "KEY=hush", "--", *LINE)
        assert done.returncode == 0, done.stderr
        assert "small is mounted in the profile default\n" in done.stdout
        assert f"changed: {daemon.tools_json}\n" in done.stdout
        assert "small: running; 2 of 16 tools, " in done.stdout
        assert "small: shown in the profiles default, lean, careful, compact\n" in done.stdout
        assert await text_of(daemon, "echo", text="hi") == "hi"
        assert await text_of(daemon, "environment", name="KEY") == "hush"
        # The secret is in the closed folder, not in the file that tools can read.
        assert "hush" not in daemon.tools_json.read_text()
        place = Path(categories(daemon.tools_json)["small"]["mount"]["env"]["KEY"]["file"])
        assert place.read_text() == "hush"
        assert stat.S_IMODE(place.stat().st_mode) == 0o600
        denied = await daemon.rpc("tools/call", name="fs_read", arguments={"path": str(place)})
        assert denied["result"]["structuredContent"]["error"]["code"] == "DENIED"

        listed = daemon.cli("mount", "list").stdout
        assert "  small                  running; 2 of 16 tools" in listed
        assert "\n      shown in the profiles default, lean, careful, compact\n" in listed
        assert json.loads(daemon.cli("mount", "list", "--json").stdout)["small"]["profiles"] == [
            "default",
            "lean",
            "careful",
            "compact",
        ]
        assert [daemon.cli("mount", verb, "nobody").returncode for verb in ("remove", "restart")] == [2, 2]
        shown = daemon.cli("tools").stdout
        each = [int(line.split("\t")[3].split()[0]) for line in shown.splitlines() if "\tsmall\t" in line]
        assert (len(each), f"running; 2 of 16 tools, {sum(each)} tokens\n" in shown) == (2, True)
        assert daemon.cli("disable", "echo").returncode == 0
        assert categories(daemon.tools_json)["small"]["tools"][0] == {"id": "echo", "label": "echo", "enabled": False}

        done = daemon.cli("mount", "remove", "small")
        assert (done.returncode, "Unmounted small.\n" in done.stdout) == (0, True)
        assert "small" not in categories(daemon.tools_json)
        assert not place.exists()
        assert "error" in await daemon.rpc("tools/call", name="echo", arguments={})
        assert "no server is mounted as 'small'" in daemon.cli("mount", "remove", "small").stderr


async def test_a_mount_says_which_connected_client_does_not_see_it_and_why(home: Path) -> None:
    with running(home) as daemon:
        async with daemon.http() as http, http.stream("GET", "/sse"):
            assert command(home, "profile", "use", "read-only").returncode == 0
            done = mount(daemon, "small", "--", *LINE)
        assert "its profile is read-only, and it shows only tools that it names: mcp-agent enable TOOL" in done.stdout
        assert "default" in done.stdout.partition("shown in the profiles ")[2].splitlines()[0]


async def test_coding_clients_see_what_is_mounted_and_wrapped(home: Path) -> None:
    """They are connected to the profile lean."""
    with running(home) as daemon:
        assert mount(daemon, "small", "--only", "echo", "--", *LINE).returncode == 0
        assert daemon.cli("wrap", "add", "git").returncode == 0
        async with daemon.http() as http:
            answer = await http.post("/mcp/lean", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
        names = [tool["name"] for tool in answer.json()["result"]["tools"]]
        assert (len(names), set(names) >= {"echo", "git_run", "fs_read"}) == (15, True)
        done = daemon.cli("wrap", "add", "echo", "--id", "say", "--json")
        assert json.loads(done.stdout)["seen_by"]["say"]["profiles"] == ["default", "lean", "careful", "compact"]


async def test_a_mount_that_does_not_start_says_why(home: Path) -> None:
    with running(home) as daemon:
        done = mount(daemon, "broken", "--", *LINE, "--exit", "7", "--stderr", "the disk is full")
        assert done.returncode == 1
        assert "broken: failed; 0 tools, 0 tokens; it ended with exit code 7 before it answered" in done.stdout
        assert "the disk is full" in done.stdout
        assert "broken: who sees it is known when it has started once" in done.stdout
        assert "the disk is full" in daemon.cli("tools").stdout


def test_a_mount_in_the_place_of_one_that_failed_is_waited_for(home: Path) -> None:
    with running(home) as daemon:
        mount(daemon, "small", "--", *LINE, "--exit", "7")
        for _ in range(3):
            done = mount(daemon, "small", "--cwd", str(home), "--", *LINE, "--exit", "7")
            assert "failed; 0 tools, 0 tokens; it ended with exit code 7" in done.stdout, done
            done = mount(daemon, "small", "--", "/no/such/program")
            assert "failed; 0 tools, 0 tokens; /no/such/program is not a program that is there" in done.stdout, done
        assert "small: running; 16 tools" in mount(daemon, "small", "--", *LINE).stdout
        # A wrapped program in the same category is none of its tools.
        assert daemon.cli("wrap", "add", "echo", "--category", "small").returncode == 0
        assert "running; 16 tools, " in daemon.cli("mount", "list").stdout


def test_a_mount_that_is_refused_changes_nothing_and_keeps_no_secret(home: Path) -> None:
    with running(home) as daemon:
        before = daemon.tools_json.read_text()
        for name, sentence in (
            ("shell", "there is a category shell already; give the mount another name"),
            ("bad name", "mount: the category of a mount must be letters, digits, _ and -, at most 64"),
        ):
            done = mount(daemon, name, "--env", "KEY=hush", "--", "true")
            assert (done.returncode, done.stderr.strip()) == (2, f"mcp-agent: {sentence}")
        assert daemon.tools_json.read_text() == before
        assert not list(home.rglob("env-KEY"))


async def test_a_given_up_server_is_started_again_by_hand(home: Path) -> None:
    flag = home / "works"
    script = f"test -e {flag} && exec {' '.join(LINE)}; exit 1"
    with running(home) as daemon:
        assert mount(daemon, "late", "--", "sh", "-c", script).returncode == 1
        flag.touch()
        done = daemon.cli("mount", "restart", "late")
        assert (done.returncode, "late: running; 16 tools" in done.stdout) == (0, True), done.stdout
        assert "no server is mounted as 'other'" in daemon.cli("mount", "restart", "other").stderr


def test_without_a_daemon_the_file_is_written_and_the_next_daemon_lists_the_tools(home: Path) -> None:
    done = command(home, "mount", "add", "small", "--tools-file", "tools.json", "--", *LINE)
    assert "no daemon is running" in done.stdout.lower()
    with running(home) as daemon:
        eventually_sync(lambda: daemon.cli("tools").stdout, lambda shown: "running; 16 tools" in shown)
    # What was listed is kept.
    shown = command(home, "tools", "--tools-file", "tools.json").stdout
    assert "  small                  no daemon is running; 16 tools, " in shown
    assert "echo\tsmall\texecute\t" in shown


async def test_a_mount_that_is_refused_leaves_the_one_of_that_name_its_secrets(home: Path) -> None:
    with running(home) as daemon:
        mount(daemon, "small", "--env", "KEY=hush", "--", *LINE)
        refused = mount(daemon, "small", "--url", "ftp://127.0.0.1", "--header", "KEY: other")
        assert refused.returncode == 2, refused.stdout
        place = Path(categories(daemon.tools_json)["small"]["mount"]["env"]["KEY"]["file"])
        assert [(file.name, file.read_text()) for file in place.parent.iterdir()] == [(place.name, "hush")]
        assert await text_of(daemon, "environment", name="KEY") == "hush"


async def test_what_another_client_has_is_taken_over_and_its_secrets_are_moved(home: Path) -> None:
    theirs = {
        "mcpServers": {
            "small": {"command": LINE[0], "args": LINE[1:], "env": {"KEY": "hush", "FROM": "${MY_VARIABLE}"}},
            "with input": {"command": "npx", "args": ["${input:token}"]},
            "ourselves": {"command": "/usr/bin/mcp-agent", "args": ["stdio"]},
            "shell": {"command": "true"},
        },
        "projects": {"/repo": {"mcpServers": {"remote": {"type": "http", "url": "http://127.0.0.1:1/mcp"}}}},
    }
    (home / ".claude.json").write_text(json.dumps(theirs))
    with running(home, extra={"MY_VARIABLE": "seen"}) as daemon:
        done = daemon.cli("mount", "import", "~/.claude.json")
        assert "mounted from " in done.stdout
        assert "/.claude.json: small, remote\n" in done.stdout
        assert "left out: with-input: its args has ${input:token}, which only that client can fill in\n" in done.stdout
        assert "left out: ourselves: it is this program itself\n" in done.stdout
        assert "left out: shell: there is a category of that name already\n" in done.stdout
        assert "small: running; 16 tools" in done.stdout
        assert "remote: failed;" in done.stdout
        assert "hush" not in daemon.tools_json.read_text()
        assert await text_of(daemon, "environment", name="KEY") == "hush"
        assert await text_of(daemon, "environment", name="FROM") == "seen"


def test_the_files_of_other_clients_are_understood(home: Path) -> None:
    from mcp_agent.cli.commands.other_clients import servers_of

    (home / "mcp.json").write_text(
        '{// VS Code\n"servers": {"one": {"type": "stdio", "command": "one", "args": ["x"]}}}'
    )
    (home / "config.toml").write_text('[mcp_servers.two]\ncommand = "two"\nenabled_tools = ["a"]\n')
    (home / "opencode.json").write_text('{"mcp": {"three": {"type": "local", "command": ["three", "-v"]}}}')
    (home / "copilot.json").write_text(
        '{"mcpServers": {"four": {"url": "https://example.com/mcp", "headers": {"A": "$TOKEN"}, "tools": ["*"]}}}'
    )
    found = {each.name: each.mount for file in sorted(home.glob("*.*")) for each in servers_of(file)}
    assert found == {
        "one": {"command": "one", "args": ["x"]},
        "two": {"command": "two", "args": [], "only": ["a"]},
        "three": {"command": "three", "args": ["-v"]},
        "four": {"url": "https://example.com/mcp", "headers": {"A": {"variable": "TOKEN"}}},
    }


def test_what_cannot_be_taken_over_as_it_is_is_told_and_not_lost(home: Path) -> None:
    from mcp_agent.cli.commands.other_clients import servers_of

    theirs = {
        "mcpServers": {
            "null": {"command": "one", "env": {"KEPT": 5, "UNSET": None}},
            "object": {"command": "one", "env": {"KEY": {"x": 1}}},
            "file": {"command": "one", "envFile": ".env"},
            "key": {"url": "https://example.com/mcp", "bearer_token_env_var": "KEY"},
            "header": {"url": "https://example.com/mcp", "env_http_headers": {"X-Key": "KEY"}},
            "same": {"command": "one"},
        },
        "projects": {
            "/same": {"mcpServers": {"same": {"command": "one"}}},
            "/other": {"mcpServers": {"same": {"command": "other"}}},
        },
    }
    (home / "theirs.json").write_text(json.dumps(theirs))
    found = servers_of(home / "theirs.json")
    assert {each.name: each.mount for each in found if not each.problem} == {
        "null": {"command": "one", "args": [], "env": {"KEPT": "5"}},
        "header": {"url": "https://example.com/mcp", "headers": {"X-Key": {"variable": "KEY"}}},
        "same": {"command": "one", "args": []},
    }
    assert [f"{each.name}: {each.problem}" for each in found if each.problem] == [
        "object: its env/KEY is no text",
        "file: its variables are in a file (envFile) that only that client reads",
        "key: its token is in the variable KEY; mount it with --url and --header",
        "same: another server there, which is taken, has this name, too",
    ]


def test_one_server_that_is_refused_does_not_keep_the_others_from_being_taken_over(home: Path) -> None:
    theirs = {"bad": {"command": "a\0b"}, "small": {"command": LINE[0], "args": LINE[1:]}}
    (home / "theirs.json").write_text(json.dumps({"mcpServers": theirs}))
    with running(home) as daemon:
        done = daemon.cli("mount", "import", "theirs.json")
        assert (done.returncode, "left out: bad: mount/command: must be a string" in done.stdout) == (0, True), done
        assert "small: running; 16 tools" in done.stdout


def test_a_file_without_servers_is_a_sentence(home: Path) -> None:
    (home / "empty.json").write_text("{}")
    assert "empty.json has no MCP servers" in command(home, "mount", "import", "empty.json").stderr
    assert "gone.json cannot be read" in command(home, "mount", "import", "gone.json").stderr
    assert "say what to mount" in command(home, "mount", "add", "browser").stderr


async def test_changed_tools_are_told_until_they_are_accepted(home: Path) -> None:
    more = home / "more.json"
    schema = {"type": "object"}
    more.write_text(json.dumps({"helper": {"description": "Adds numbers.", "inputSchema": schema}}))
    (home / "tools.json").write_text(json.dumps(document({"one": small("--tools", str(more))})))
    with running(home) as daemon:
        await eventually(lambda: daemon.rpc("tools/list"), lambda answer: '"helper"' in json.dumps(answer))
        assert (
            "every tool of the mounted servers is as you have last seen it" in daemon.cli("tools", "--changed").stdout
        )
        more.write_text(json.dumps({"helper": {"description": "Send keys.", "inputSchema": schema}}))
        daemon.cli("mount", "restart", "one")
        shown = daemon.cli("tools", "--changed").stdout
        assert "one: helper has another description\n  before: Adds numbers.\n  now:    Send keys.\n" in shown
        assert "not as you have seen them: helper (mcp-agent tools --changed)" in daemon.cli("tools").stdout
        assert "accepted" in daemon.cli("tools", "--changed", "--accept").stdout
        assert "as you have last seen it" in daemon.cli("tools", "--changed").stdout
        assert "not as you have seen them" not in daemon.cli("tools").stdout


async def test_wrap_makes_a_program_a_tool_and_remove_takes_it_away(home: Path) -> None:
    with running(home) as daemon:
        done = daemon.cli("wrap", "add", "git", "--block", "push=People push.", "--value-option=-C")
        assert done.returncode == 0, done.stderr
        assert "git is the tool git_run in the profile default\n" in done.stdout
        assert "git_run: shown in the profiles default, lean, careful, compact\n" in done.stdout
        assert categories(daemon.tools_json)["cli"]["wrap"] == {
            "id": "git_run",
            "command": "git",
            "blocked": {"push": "People push."},
            "value_options": ["-C"],
        }
        daemon.cli("wrap", "add", "echo", "--id", "say")
        ran = await daemon.rpc("tools/call", name="git_run", arguments={"args": ["--version"]})
        assert ran["result"]["structuredContent"]["stdout"].startswith("git version")
        refused = await daemon.rpc("tools/call", name="git_run", arguments={"args": ["-C", ".", "push"]})
        message = "Subcommand 'push' is blocked in git_run. People push."
        assert refused["result"]["structuredContent"]["error"]["message"] == message
        eventually_sync(lambda: daemon.cli("tools").stdout, lambda shown: "git_run" in shown and "say" in shown)
        assert "Removed the tool git_run." in daemon.cli("wrap", "remove", "git").stdout, "by the name it was added by"
        assert categories(daemon.tools_json)["cli"]["wrap"] == [{"id": "say", "command": "echo"}]
        assert daemon.cli("wrap", "remove", "say").returncode == 0
        assert "wrap" not in categories(daemon.tools_json)["cli"]
        assert "no program is wrapped as 'say'" in daemon.cli("wrap", "remove", "say").stderr


def test_wrap_refuses_what_would_not_do_what_it_says(home: Path) -> None:
    with running(home) as daemon:
        for arguments, told in (
            (["--block", "=why"], "'' would block nothing"),
            (["--block=--force"], "'--force' would block nothing"),
            (["--timeout", "0"], "must be a number of seconds"),
            (["--env", "NAME"], "--env needs NAME=VALUE, not 'NAME'"),
        ):
            done = daemon.cli("wrap", "add", "git", *arguments)
            assert (done.returncode, told in done.stderr) == (2, True), (arguments, done.stderr)
        assert "cli" not in categories(daemon.tools_json)


async def test_a_program_that_is_named_by_a_relative_path_is_found_from_every_folder(home: Path) -> None:
    program = home / "here" / "deploy"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\npwd\n")
    program.chmod(0o755)
    with running(home) as daemon:
        done = command(home, "wrap", "add", "./deploy", "--tools-file", str(daemon.tools_json), cwd=program.parent)
        assert done.returncode == 0, done.stderr
        ran = await daemon.rpc("tools/call", name="deploy_run", arguments={"args": [], "cwd": "/"})
        assert ran["result"]["structuredContent"]["stdout"] == "/\n"


async def test_a_program_is_run_for_its_help_only_where_its_owner_asks(home: Path) -> None:
    """Seen: the daemon ran each wrapped program with `--help`; a script that ignores its arguments did its work."""
    program, ran = home / "deploy", home / "ran"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {ran}\n'
        "echo 'usage: deploy [-C <path>] [--site=SITE] [--deep[=<n>]] [-v | --verbose] COMMAND'\n"
        "echo '  -H, --host list      where to'\necho '      --quiet          say nothing'\n"
    )
    program.chmod(0o755)
    with running(home) as daemon:
        wrap = ("wrap", "add", str(program), "--id", "deploy", "--block", "remove")
        assert "behind an option two arguments are looked at" in daemon.cli(*wrap).stdout

        async def refused(*args: str) -> bool:
            answer = await daemon.rpc("tools/call", name="deploy", arguments={"args": args})
            return bool(answer["result"]["structuredContent"].get("error", {}).get("code") == "BLOCKED_SUBCOMMAND")

        assert await refused("-C", ".", "remove")
        assert await refused("--quiet", "list", "remove")
        daemon.cli("wrap", "remove", "deploy")
        with running(home, "--state-dir", str(home / "other")):
            assert not ran.exists()
        done = daemon.cli(*wrap, "--learn-help")
        assert ran.read_text() == "--help\n"
        assert "options with a value, by its help: -C, --site, -H, --host; --value-option" in done.stdout
        assert "[-v | --verbose] COMMAND" in categories(daemon.tools_json)["cli"]["wrap"]["description"]
        for before in (["-C", "."], ["--site", "a"], ["-v", "-H", "b"], ["--host", "b", "--quiet"]):
            assert await refused(*before, "remove"), before
        assert not await refused("--quiet", "list", "remove")


def test_a_program_that_is_not_there_is_wrapped_and_said_so(home: Path) -> None:
    with running(home) as daemon:
        done = daemon.cli("wrap", "add", "no-such-program", "--learn-help")
        assert "note: there is no program no-such-program here yet" in done.stdout
        assert json.loads(daemon.cli("wrap", "add", "git", "--json").stdout)["is_found"] is True
