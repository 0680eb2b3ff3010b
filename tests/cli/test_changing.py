"""Commands that change tools.json: the running daemon makes the change, and what they say is so."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, command, running
from tests.support.peers import WIRES
from tests.support.waiting import PATIENCE_S, eventually


async def _listed(daemon: Daemon) -> set[str]:
    return {tool["name"] for tool in (await daemon.rpc("tools/list"))["result"]["tools"]}


async def test_the_daemon_with_another_file_makes_the_change(home: Path) -> None:
    with running(home) as daemon:
        # No --tools-file: by itself the command would take another file than the daemon has.
        done = command(home, "disable", "shell")
        assert not [name for name in await _listed(daemon) if name.startswith("shell_")]
    assert done.stdout.splitlines()[-2:] == [
        f"changed: {daemon.tools_json}",
        f"in force at {daemon.url}; no client is connected",
    ]
    assert not (home / ".config/mcp-agent/tools.json").exists()


def test_the_file_of_the_daemon_is_checked(daemon: Daemon) -> None:
    assert command(daemon.home, "check").stdout.startswith(f"{daemon.tools_json} is good")
    assert command(daemon.home, "profile", "show").stdout.endswith(f"from {daemon.tools_json}\n")


async def test_a_deleted_file_is_written_again_with_the_change(daemon: Daemon) -> None:
    assert daemon.cli("disable", "filesystem").returncode == 0
    daemon.tools_json.unlink()
    assert command(daemon.home, "profile", "show").returncode == 2
    assert not daemon.tools_json.exists()
    assert command(daemon.home, "disable", "shell").returncode == 0
    listed = await _listed(daemon)
    assert not [name for name in listed if name.startswith(("shell_", "fs_"))]
    entry = json.loads(daemon.tools_json.read_text())["profiles"][0]
    assert {each["id"] for each in entry["categories"] if not each["enabled"]} == {"filesystem", "shell"}


async def test_a_pinned_daemon_refuses_what_it_would_not_follow(home: Path) -> None:
    with running(home, "--profile", "lean") as daemon:
        before = daemon.tools_json.read_text()
        for refused in (("disable", "shell"), ("profile", "use", "default")):
            done = command(home, *refused)
            assert (done.returncode, done.stdout) == (1, "")
            assert "the running daemon is pinned to the profile lean" in done.stderr
        assert daemon.tools_json.read_text() == before
        done = command(home, "disable", "shell", "--profile", "lean")
        assert "shell is off in the profile lean" in done.stdout
        assert not [name for name in await _listed(daemon) if name.startswith("shell_")]


def test_a_token_of_the_environment_is_asked_for(home: Path) -> None:
    with running(home, extra={"MCP_AGENT_TOKEN": "a-token-of-the-environment"}) as daemon:
        before = daemon.tools_json.read_text()
        done = command(home, "disable", "shell")
        assert (done.returncode, done.stdout) == (1, "")
        assert "has its token from MCP_AGENT_TOKEN; set that here, too" in done.stderr
        assert daemon.tools_json.read_text() == before
        done = command(home, "disable", "shell", MCP_AGENT_TOKEN="a-token-of-the-environment")
    assert done.stdout.splitlines()[-1] == f"in force at {daemon.url}; no client is connected"


def test_without_a_daemon_the_changed_file_is_named(home: Path) -> None:
    done = command(home, "disable", "shell")
    path = home / ".config/mcp-agent/tools.json"
    assert done.stdout.splitlines()[-2:] == [
        f"changed: {path}",
        "no daemon is running: the next one begins with it, and `mcp-agent stdio` sees it within a second",
    ]
    assert json.loads(path.read_text())["profiles"][0]["categories"][1]["enabled"] is False


def test_a_file_that_is_named_is_changed_whatever_the_daemon_has(daemon: Daemon) -> None:
    other = daemon.home / "other.json"
    done = command(daemon.home, "disable", "shell", "--tools-file", str(other))
    assert done.stdout.splitlines()[-2:] == [
        f"changed: {other}",
        f"the running daemon uses another file, {daemon.tools_json}, and goes on as before",
    ]


async def test_the_command_says_what_connected_clients_see(daemon: Daemon) -> None:
    async with WIRES["mcp-handshake"](daemon) as peer:
        await peer.tools()
        done = daemon.cli("disable", "artifacts")
    assert f"in force at {daemon.url}; connected clients now see:" in done.stdout
    line = done.stdout.splitlines()[-1]
    assert "(owner)" in line
    assert line.endswith("19 tools, 1 fewer")


@pytest.mark.parametrize(
    ("target", "note"),
    [
        ("shell", "still on: bash can execute anything. To switch that off, too: mcp-agent disable --effect execute"),
        (
            "filesystem",
            "still on: grep and read can read files; shell_exec, shell_send_input, shell_start_session, "
            "shell_stop_session and bash can execute anything, these included. "
            "To switch that off, too: mcp-agent disable grep read --effect execute",
        ),
    ],
)
def test_what_can_still_do_it_is_said_with_the_command_that_ends_it(home: Path, target: str, note: str) -> None:
    assert command(home, "disable", target).stdout.splitlines()[1] == note
    told = note.partition(", too: mcp-agent ")[2].split()
    assert "still on" not in command(home, *told).stdout


async def test_an_effect_is_one_switch_for_every_tool(daemon: Daemon) -> None:
    done = daemon.cli("disable", "--effect", "execute")
    assert done.stdout.startswith("everything that can execute is off in the profile default\n")
    listed = (await daemon.rpc("tools/list"))["result"]["tools"]
    assert not [tool["name"] for tool in listed if tool["annotations"]["openWorldHint"]]
    refused = (await daemon.rpc("tools/call", name="bash", arguments={"command": "true"}))["result"]
    assert "mcp-agent enable --effect execute" in refused["structuredContent"]["error"]["hint"]
    # A category below it that is on changes nothing, and the command says so.
    assert (
        "every tool that can execute is off: mcp-agent enable --effect execute" in daemon.cli("enable", "shell").stdout
    )
    assert "bash" not in await _listed(daemon)
    assert daemon.cli("enable", "--effect", "execute").returncode == 0
    assert {"bash", "shell_exec"} <= await _listed(daemon)


async def test_a_wrapped_program_is_one_of_what_executes(daemon: Daemon) -> None:
    category = {"id": "cli", "wrap": [{"id": "git_run", "command": "git"}]}
    daemon.save({"profiles": [{"id": "default", "categories": [category]}]})
    await eventually(lambda: _listed(daemon), lambda listed: "git_run" in listed)
    assert "still on: bash and git_run can execute anything" in daemon.cli("disable", "shell").stdout
    assert daemon.cli("disable", "git_run").returncode == 0
    assert "git_run" not in await _listed(daemon)
    daemon.cli("enable", "git_run")
    daemon.cli("disable", "--effect", "execute")
    assert not {"git_run", "bash"} & await _listed(daemon)


def test_a_wrapped_program_is_switched_without_a_daemon_too(home: Path) -> None:
    category = {"id": "cli", "wrap": [{"id": "git_run", "command": "git"}]}
    (home / "tools.json").write_text(json.dumps({"profiles": [{"id": "default", "categories": [category]}]}))
    done = command(home, "disable", "git_run", "--tools-file", "tools.json")
    assert done.stdout.startswith("git_run is off in the profile default\n")
    assert "git_run" not in command(home, "tools", "--json", "--tools-file", "tools.json").stdout


async def test_running_sessions_are_named_and_can_be_ended(daemon: Daemon) -> None:
    started = await daemon.rpc("tools/call", name="shell_start_session", arguments={"command": "sleep 300"})
    session = started["result"]["structuredContent"]["session_id"]
    done = daemon.cli("disable", "shell")
    assert f"still running, out of reach of those clients: {session} (sleep 300)" in done.stdout
    assert "--stop-sessions" in done.stdout
    done = daemon.cli("disable", "shell", "--stop-sessions")
    assert f"stopped: {session} (sleep 300)" in done.stdout
    assert "still running" not in done.stdout
    assert json.loads(daemon.cli("sessions", "list", "--json").stdout)[0]["running"] is False


def test_several_names_are_one_change(home: Path) -> None:
    done = command(home, "disable", "fs_write", "fs_patch", "--effect", "execute")
    assert done.stdout.startswith("fs_write, fs_patch, everything that can execute are off in the profile default\n")
    unknown = command(home, "disable", "fs_read", "teleport")
    assert unknown.returncode == 2
    tools = command(home, "tools", "--json").stdout
    assert "fs_read" in tools
    assert "fs_write" not in tools


async def test_a_change_of_the_file_that_allows_more_is_a_warning_and_on_record(daemon: Daemon) -> None:
    daemon.cli("disable", "shell")
    daemon.save({"profiles": []})
    found = await daemon.logged("registry.widened")
    assert found[0]["level"] == "warn"
    assert found[0]["data"]["changes"] == ["default: shell on"]
    audited = await eventually(lambda: daemon.cli("audit", "--event", "policy").stdout, lambda text: "by file" in text)
    assert "it allows more: default: shell on" in audited
    # What the owner's own command allows is no surprise.
    daemon.cli("disable", "fs_read")
    daemon.cli("enable", "fs_read")
    assert len(await daemon.logged("registry.widened")) == 1


async def test_a_switch_is_in_force_when_the_command_answers(daemon: Daemon) -> None:
    async with daemon.http() as http, http.stream("GET", "/events") as events:
        assert events.status_code == 200
        daemon.cli("disable", "shell")
        refused = await daemon.rpc("tools/call", name="shell_exec", arguments={"command": "true"})
        assert refused["result"]["structuredContent"]["error"]["code"] == "TOOL_DISABLED"
        # The stream of a client that may no longer hear of sessions has an end.
        async with asyncio.timeout(PATIENCE_S):
            assert ": connected" in [line async for line in events.aiter_lines()]
        daemon.cli("enable", "shell")
        ran = await daemon.rpc("tools/call", name="shell_exec", arguments={"command": "true"})
        assert ran["result"]["structuredContent"]["exit_code"] == 0
