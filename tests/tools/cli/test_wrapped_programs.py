"""A command line program as a tool, with the `bn` of examples/binnacle."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import tokenize
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.calls.call import Caller
from mcp_agent.protocol.wrapped_resources import WrappedResources
from registry.gate import Access
from tests.support.shell_host import ShellHost, shell_host
from tests.support.waiting import eventually
from tools.cli.wrap import Wrap

_NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENCODING, tokenize.INDENT, tokenize.DEDENT)
EXAMPLE = Path(__file__).parents[3] / "examples" / "binnacle"


@pytest.fixture(autouse=True)
def bn_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{EXAMPLE}{os.pathsep}{os.environ['PATH']}")


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[ShellHost]:
    """A daemon with the tools.json of the example."""
    shutil.copy(EXAMPLE / "tools.json", tmp_path / "tools.json")
    (tmp_path / "repo").mkdir()
    async with shell_host(tmp_path) as running:
        yield running


async def wrapped(tmp_path: Path, **wrap: Any) -> Any:
    """A daemon whose category `cli` wraps one program."""
    category = {"id": "cli", "wrap": {"id": "run", **wrap}}
    document = {"profiles": [{"id": "default", "categories": [category]}]}
    (tmp_path / "tools.json").write_text(json.dumps(document))
    return shell_host(tmp_path)


async def set_agent(host: ShellHost, **more: Any) -> dict[str, Any]:
    return await host.call("binnacle-set_agent", path=str(host.folder / "repo"), **more)


async def shell_orient(host: ShellHost) -> str:
    """The id of an agent that registered in a shell."""
    done = await host.call("shell_exec", command="bn orient --name tester", cwd=str(host.folder / "repo"))
    return str(json.loads(done["stdout"])["agent_id"])


# The tools


async def test_the_wrapped_program_takes_args_and_returns_stdout_stderr_and_exit_code(host: ShellHost) -> None:
    await set_agent(host)
    done = await host.call("bn_run", args=["task", "add", "a 'quoted' $HOME title"])
    assert (done["exit_code"], done["stderr"]) == (0, "")
    assert json.loads(done["stdout"])["tasks"][0]["title"] == "a 'quoted' $HOME title"


async def test_a_failing_program_is_a_result(host: ShellHost) -> None:
    await set_agent(host)
    done = await host.call("bn_run", args=["task", "nonsense"])
    assert done["exit_code"] == 2
    assert "invalid choice" in done["stderr"]


async def test_set_agent_answers_with_the_folder_the_agent_and_a_handle(host: ShellHost) -> None:
    agent = await shell_orient(host)
    answer = await set_agent(host, agent_id=agent)
    handle = answer.pop("handle")
    assert re.fullmatch(r"[0-9a-f]{16}", handle)
    assert answer == {
        "success": True,
        "message": f"Session initialized for agent {agent}",
        "cwd": str(host.folder / "repo"),
        "agent_id": agent,
    }


async def test_calls_are_attributed_to_the_linked_agent(host: ShellHost) -> None:
    agent = await shell_orient(host)
    await set_agent(host, agent_id=agent)
    seen = json.loads((await host.call("bn_run", args=["whoami"]))["stdout"])
    assert seen["agent_id"] == agent
    assert re.fullmatch(r"[0-9a-f-]{36}", seen["session"])


async def test_without_an_agent_the_session_has_an_id_of_its_own(host: ShellHost) -> None:
    assert (await set_agent(host))["message"] == "Session initialized"
    seen = json.loads((await host.call("bn_run", args=["whoami"]))["stdout"])
    assert seen["session"]
    assert seen["agent_id"] is None


async def test_a_handle_chooses_among_several_agents(host: ShellHost) -> None:
    first, second = await shell_orient(host), await shell_orient(host)
    handle = (await set_agent(host, agent_id=first))["handle"]
    await set_agent(host, agent_id=second)
    last = json.loads((await host.call("bn_run", args=["whoami"]))["stdout"])
    chosen = json.loads((await host.call("bn_run", args=["whoami"], agent_handle=handle))["stdout"])
    assert (last["agent_id"], chosen["agent_id"]) == (second, first)


async def test_two_conversations_of_one_caller_have_their_own_agents(host: ShellHost) -> None:
    first, second = await shell_orient(host), await shell_orient(host)
    await set_agent(host, agent_id=first, connection="one")
    await set_agent(host, agent_id=second, connection="two")
    seen = json.loads((await host.call("bn_run", args=["whoami"], connection="one"))["stdout"])
    assert seen["agent_id"] == first


async def test_an_unknown_handle_is_told(host: ShellHost) -> None:
    await set_agent(host)
    error = (await host.call("bn_run", args=["status"], agent_handle="0" * 16))["error"]
    assert (error["code"], error["hint"]) == ("NOT_FOUND", "call binnacle-set_agent again")


# The errors


async def test_before_set_agent_the_program_does_not_run(host: ShellHost) -> None:
    error = (await host.call("bn_run", args=["status"]))["error"]
    assert error["message"] == "Session not initialized. Call binnacle-set_agent first."
    assert error["code"] == "NOT_INITIALIZED"


async def test_an_agent_that_is_not_registered_is_refused(host: ShellHost) -> None:
    error = (await set_agent(host, agent_id="bna-beef"))["error"]
    assert error["message"] == "Agent bna-beef not found in registry"


@pytest.mark.parametrize("subcommand", ["gui", "mcp", "orient", "goodbye"])
@pytest.mark.parametrize(
    "before", [[], ["-H"], ["--"], ["--repo", "elsewhere"], ["--repo=elsewhere"], ["-H", "--repo", "x", "--"]]
)
async def test_a_blocked_subcommand_is_refused_also_behind_options(
    host: ShellHost, before: list[str], subcommand: str
) -> None:
    await set_agent(host)
    error = (await host.call("bn_run", args=[*before, subcommand, "rest"]))["error"]
    assert error["code"] == "BLOCKED_SUBCOMMAND"
    reason = json.loads((EXAMPLE / "tools.json").read_text())["profiles"][0]["categories"][0]["wrap"]["blocked"]
    assert error["message"] == f"Subcommand '{subcommand}' is blocked in bn_run. {reason[subcommand]}"


async def test_a_blocked_word_that_is_no_subcommand_is_fine(host: ShellHost) -> None:
    await set_agent(host)
    assert (await host.call("bn_run", args=["task", "add", "gui"]))["exit_code"] == 0
    assert (await host.call("bn_run", args=["--repo", "gui", "status"]))["exit_code"] == 0


async def test_at_its_timeout_the_program_is_ended_with_124_and_what_it_printed(tmp_path: Path) -> None:
    async with await wrapped(tmp_path, command="sh", timeout_seconds=0.5) as host:
        answer = await host.call("run", args=["-c", "echo begun; sleep 60"])
        assert answer["error"] == {"code": "TIMEOUT", "message": "Command timed out after 0.5 seconds"}
        assert (answer["exit_code"], answer["stdout"]) == (124, "begun\n")
        assert not host.processes()


async def test_a_missing_program_is_127(tmp_path: Path) -> None:
    async with await wrapped(tmp_path, command="no-such-program") as host:
        answer = await host.call("run", args=[])
        assert answer["exit_code"] == 127
        assert answer["error"]["message"] == "no-such-program binary not found"


# The life of an agent


async def test_orient_through_us_registers_and_says_what_it_cannot_do(host: ShellHost) -> None:
    await set_agent(host)
    answer = await host.call("binnacle-orient", args=["--name", "me"])
    hint = "Call binnacle-set_agent with this agent_id to link MCP calls to this registration"
    assert (answer["name"], answer["mcp_hint"]) == ("me", hint)
    assert answer["warning"] == (
        "Agent registered via MCP. Goodbye will not terminate process. Use shell tools for full lifecycle support."
    )
    seen = json.loads((await host.call("bn_run", args=["whoami"]))["stdout"])
    assert seen["agent_id"] == answer["agent_id"]


async def test_goodbye_of_an_agent_registered_through_us_removes_it_and_ends_no_process(host: ShellHost) -> None:
    other = await shell_orient(host)
    await set_agent(host)
    agent = (await host.call("binnacle-orient"))["agent_id"]
    answer = await host.call("binnacle-goodbye", reason="done")
    assert (answer["terminated"], answer["should_terminate"]) == (False, True)
    assert answer["warning"] == "Cannot terminate agent via MCP. Agent should self-terminate."
    registry = (host.folder / "repo" / ".binnacle" / "agents.jsonl").read_text()
    assert agent not in registry
    assert other in registry
    again = await host.call("binnacle-goodbye")
    assert again["warning"] == "No agent_id linked to MCP session. Agent should call goodbye via shell."


async def test_goodbye_of_an_agent_from_a_shell_points_to_the_shell(host: ShellHost) -> None:
    agent = await shell_orient(host)
    await set_agent(host, agent_id=agent)
    assert await host.call("binnacle-goodbye") == {
        "should_terminate": True,
        "use_shell": True,
        "hint": "Agent must call 'bn goodbye' via shell tool to terminate",
    }
    assert agent in (host.folder / "repo" / ".binnacle" / "agents.jsonl").read_text()


async def test_goodbye_without_an_agent_warns(host: ShellHost) -> None:
    await set_agent(host)
    assert await host.call("binnacle-goodbye") == {
        "should_terminate": True,
        "use_shell": True,
        "warning": "No agent_id linked to MCP session. Agent should call goodbye via shell.",
        "hint": "Use binnacle-set_agent with agent_id from shell-based orient call",
    }


async def test_goodbye_in_a_shell_ends_that_shell(host: ShellHost) -> None:
    session = await host.start("bn orient; read wait; bn goodbye done; echo still here", cwd=str(host.folder / "repo"))
    await host.read(session, "agent_id")
    end = await host.call("shell_send_input", session_id=session, input="\n", wait_ms=10_000, until="still here")
    assert (end["running"], end["matched"]) == (False, False)
    assert (host.folder / "repo" / ".binnacle" / "agents.jsonl").read_text() == ""


async def test_the_profile_of_the_example_switches_the_lifecycle_tools_off(host: ShellHost) -> None:
    document = json.loads((host.folder / "tools.json").read_text())
    document["activeProfile"] = "agents"
    (host.folder / "tools.json").write_text(json.dumps(document))
    host.daemon.apply(host.daemon.file.load())
    assert (await host.call("binnacle-orient"))["error"]["code"] == "TOOL_DISABLED"
    assert (await host.call("binnacle-goodbye"))["error"]["code"] == "TOOL_DISABLED"
    assert (await set_agent(host))["success"] is True


# Resources


async def read(host: ShellHost, uri: str) -> str:
    daemon = host.daemon
    kind = WrappedResources(daemon.gate, daemon.catalog, daemon.dispatcher, host.folder)
    caller = Caller("owner", Access(), "rpc")
    assert uri in [entry["uri"] for entry in kind.entries(caller)]
    contents = await kind.read(caller, uri)
    assert contents is not None
    return str(contents[0]["text"])


async def test_resources_are_the_output_of_a_command_and_a_file_of_the_session(host: ShellHost) -> None:
    (host.folder / "repo" / "AGENTS.md").write_text("Work in pairs.\n")
    await set_agent(host)
    assert json.loads(await read(host, "binnacle://status")) == {"tasks": 0, "agents": 0}
    assert await read(host, "binnacle://agents") == "Work in pairs.\n"


# Any program


async def test_a_program_without_an_identity_takes_the_folder(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    async with await wrapped(tmp_path, command="pwd") as host:
        assert (await host.call("run", args=[], cwd="below"))["stdout"] == f"{tmp_path}/below\n"
        assert (await host.call("run", args=[]))["stdout"] == f"{tmp_path}\n"


async def test_large_output_on_both_streams_stalls_nothing(tmp_path: Path) -> None:
    async with await wrapped(tmp_path, command="sh") as host:
        script = "head -c 5000000 /dev/zero | tr '\\0' a >&2; head -c 5000000 /dev/zero | tr '\\0' b"
        done = await host.call("run", args=["-c", script])
        assert (done["exit_code"], done["truncated"]) == (0, True)
        assert done["artifactRef"].startswith("ax://")


async def test_a_deny_rule_for_commands_holds_for_a_wrapped_program(tmp_path: Path) -> None:
    rule = {"id": "no-push", "pattern": "git push", "reason": "people push"}
    category = {"id": "cli", "wrap": {"id": "run_git", "command": "git"}}
    profile = {"id": "default", "deny": {"commands": [rule]}, "categories": [category]}
    (tmp_path / "tools.json").write_text(json.dumps({"profiles": [profile]}))
    async with shell_host(tmp_path) as host:
        assert (await host.call("run_git", args=["push", "origin"]))["error"]["code"] == "DENIED"


async def test_a_focus_question_prunes_what_a_wrapped_program_printed(tmp_path: Path) -> None:
    lines = [f"def handler_{number}(request):\n    return render(request, page={number})\n\n" for number in range(300)]
    lines.insert(170, "def refund(order):\n    return ledger.revert(order)\n\n")
    (tmp_path / "code.py").write_text("".join(lines))
    async with await wrapped(tmp_path, command="cat") as host:
        done = await host.call("run", args=["code.py"], context_focus_question="how is a refund of an order made?")
        assert "ledger.revert(order)" in done["stdout"]
        assert done["pruning"]["applied"] is True


async def test_the_environment_of_the_entry_reaches_the_program(tmp_path: Path) -> None:
    async with await wrapped(tmp_path, command="env", env={"OF_THE_ENTRY": "yes"}) as host:
        assert "OF_THE_ENTRY=yes\n" in (await host.call("run", args=[]))["stdout"]


def test_an_option_without_a_declared_value_hides_no_subcommand() -> None:
    wrap = Wrap("run", "bn", "cli", value_options=("--repo",))
    assert wrap.subcommand(["-v", "--repo", "x", "gui"]) == "gui"
    assert wrap.subcommand(["--repo"]) is None
    assert wrap.subcommand([]) is None


def test_the_wrapper_has_fewer_than_300_lines_of_code() -> None:
    folder = Path(__file__).parents[3] / "tools" / "cli"
    code = 0
    for path in folder.glob("*.py"):
        with path.open("rb") as file:
            tokens = [token for token in tokenize.tokenize(file.readline) if token.type not in _NO_CODE]
        # A docstring is a string alone on its line.
        code += len({token.start[0] for token in tokens if not token.line.strip().startswith('"""')})
    assert 100 < code < 300


async def test_a_program_is_described_by_its_own_help(tmp_path: Path) -> None:
    async with await wrapped(tmp_path, command="bn") as host:
        follower = asyncio.create_task(host.daemon.follow_registry())
        try:
            await eventually(lambda: "Keep the tasks" in host.daemon.gate.catalog.by_name["run"].description)
        finally:
            follower.cancel()
        assert len(host.daemon.gate.catalog.by_name["run"].description) < 500
    # The next daemon knows it from the start.
    async with await wrapped(tmp_path, command="bn") as host:
        assert "Keep the tasks" in host.daemon.gate.catalog.by_name["run"].description
