"""A command line program as a tool, with the `bn` of examples/binnacle."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
import shutil
import tokenize
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.calls.call import Call, Caller, Success
from mcp_agent.resources.wrapped_resources import WrappedResources
from registry.gate import Access
from registry.schema import Report
from registry.tools_json import WRAP
from tests.support.shell_host import ShellHost, shell_host
from tools.cli.program_help import value_options
from tools.cli.wrap import possible_subcommands

_NO_CODE = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.ENCODING, tokenize.INDENT, tokenize.DEDENT)
EXAMPLE = Path(__file__).parents[3] / "examples" / "binnacle"
OWNER = Caller("owner", Access(), "rpc", connection="a-test")


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


async def test_what_was_cut_before_a_timeout_is_kept_whole(tmp_path: Path) -> None:
    async with await wrapped(tmp_path, command="sh", timeout_seconds=2) as host:
        script = "head -c 3000000 /dev/zero | tr '\\0' a; sleep 60"
        answer = await host.call("run", args=["-c", script])
        assert (answer["exit_code"], answer["truncated"]) == (124, True)
        assert answer["error"]["hint"] == f"all that it printed is in {answer['artifactRef']}"
        sizes = {each.reference: each.size for each in host.daemon.artifacts.newest("owner", 10)}
        assert sizes[answer["artifactRef"]] == 3_000_000


async def test_a_caller_hears_what_a_wrapped_program_prints(tmp_path: Path) -> None:
    heard: list[str | None] = []
    async with await wrapped(tmp_path, command="sh") as host:
        script = "echo begun; read line < pipe"
        os.mkfifo(tmp_path / "pipe")
        caller = Caller("owner", Access(), "mcp")

        def report(done: float, total: float | None, message: str | None) -> None:
            heard.append(message)
            with contextlib.suppress(OSError):
                os.close(os.open(tmp_path / "pipe", os.O_WRONLY | os.O_NONBLOCK))

        call = Call("test", caller, "run", {"args": ["-c", script]}, report=report)
        assert isinstance(await host.daemon.dispatcher.call(call), Success)
    assert heard[0] == "1 line printed: begun"


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


async def test_goodbye_does_not_change_a_denied_file_behind_the_registry(host: ShellHost) -> None:
    await set_agent(host)
    agent = (await host.call("binnacle-orient"))["agent_id"]
    registry, secret = host.folder / "repo" / ".binnacle" / "agents.jsonl", host.folder / "secret"
    registry.rename(secret)
    registry.symlink_to(secret)
    document = json.loads((host.folder / "tools.json").read_text())
    rule = {"id": "secrets", "pattern": "secret", "reason": "private"}
    for profile in document["profiles"]:
        profile["deny"] = {"paths": [rule]}
    (host.folder / "tools.json").write_text(json.dumps(document))
    host.daemon.apply(host.daemon.file.load_or_create())
    assert (await host.call("binnacle-goodbye"))["error"]["code"] == "DENIED"
    assert agent in secret.read_text()


async def test_what_goodbye_changes_can_be_undone(host: ShellHost) -> None:
    await set_agent(host)
    agent = (await host.call("binnacle-orient"))["agent_id"]
    assert (await host.call("binnacle-goodbye"))["terminated"] is False
    (entry, *_) = host.daemon.journal.entries()
    host.daemon.journal.undo(entry.id)
    assert agent in (host.folder / "repo" / ".binnacle" / "agents.jsonl").read_text()


async def test_goodbye_knows_an_agent_that_registered_through_us_after_set_agent(host: ShellHost) -> None:
    await set_agent(host)
    oriented = await host.call("binnacle-orient")
    # What `mcp_hint` asks for.
    linked = await set_agent(host, agent_id=oriented["agent_id"])
    assert (await host.call("binnacle-goodbye"))["terminated"] is False
    assert (host.folder / "repo" / ".binnacle" / "agents.jsonl").read_text() == ""
    for handle in (linked["handle"], None):
        seen = json.loads((await host.call("bn_run", args=["whoami"], agent_handle=handle))["stdout"])
        assert seen["agent_id"] is None


async def test_goodbye_with_a_handle_leaves_the_other_agents_linked(host: ShellHost) -> None:
    await set_agent(host)
    first = await host.call("binnacle-orient")
    second = await host.call("binnacle-orient", agent_handle=first["handle"])
    assert (await host.call("binnacle-goodbye", agent_handle=first["handle"]))["terminated"] is False
    seen = json.loads((await host.call("bn_run", args=["whoami"]))["stdout"])
    assert seen["agent_id"] == second["agent_id"]


async def test_goodbye_leaves_a_registry_alone_that_it_cannot_read(host: ShellHost) -> None:
    await set_agent(host)
    await host.call("binnacle-orient")
    registry = host.folder / "repo" / ".binnacle" / "agents.jsonl"
    with registry.open("ab") as file:
        file.truncate(17 * 1024 * 1024)
    assert "error" in await host.call("binnacle-goodbye")
    assert registry.stat().st_size == 17 * 1024 * 1024


async def test_goodbye_keeps_the_link_that_the_registry_is(host: ShellHost) -> None:
    await set_agent(host)
    await host.call("binnacle-orient")
    registry = host.folder / "repo" / ".binnacle" / "agents.jsonl"
    registry.rename(host.folder / "elsewhere.jsonl")
    registry.symlink_to(host.folder / "elsewhere.jsonl")
    assert (await host.call("binnacle-goodbye"))["terminated"] is False
    assert (registry.is_symlink(), registry.read_text()) == (True, "")


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


def resources_of(host: ShellHost) -> WrappedResources:
    daemon = host.daemon
    return WrappedResources(daemon.gate, daemon.catalog, daemon.dispatcher, host.folder)


async def contents_of(host: ShellHost, uri: str) -> list[dict[str, Any]]:
    kind = resources_of(host)
    assert uri in [entry["uri"] for entry in kind.entries(OWNER)]
    contents = await kind.read(OWNER, uri)
    assert contents is not None
    return contents


async def read(host: ShellHost, uri: str) -> str:
    return str((await contents_of(host, uri))[0]["text"])


async def test_resources_are_the_output_of_a_command_and_a_file_of_the_session(host: ShellHost) -> None:
    (host.folder / "repo" / "AGENTS.md").write_text("Work in pairs.\n")
    await set_agent(host)
    assert json.loads(await read(host, "binnacle://status")) == {"tasks": 0, "agents": 0}
    assert await read(host, "binnacle://agents") == "Work in pairs.\n"


async def test_a_resource_that_is_too_large_for_a_message_is_cut_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_text("one line\n" * 150_000)
    resources = [{"uri": "run://out", "args": ["large.txt"]}, {"uri": "run://file", "file": "large.txt"}]
    async with await wrapped(tmp_path, command="cat", cwd_required=True, resources=resources) as host:
        for uri, fact in (("run://out", "artifactRef"), ("run://file", "next_line")):
            [contents] = await contents_of(host, uri)
            assert len(json.dumps(contents)) < 1_000_000
            assert contents["_meta"]["truncated"] is True
            assert fact in contents["_meta"]


async def test_a_resource_may_be_a_picture(tmp_path: Path) -> None:
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    (tmp_path / "dot.png").write_bytes(base64.b64decode(pixel))
    async with await wrapped(tmp_path, command="cat", resources=[{"uri": "run://dot", "file": "dot.png"}]) as host:
        assert await contents_of(host, "run://dot") == [{"uri": "run://dot", "mimeType": "image/png", "blob": pixel}]


async def test_a_file_is_no_resource_for_who_may_not_read_files(tmp_path: Path) -> None:
    resources = [{"uri": "run://out", "args": ["-"]}, {"uri": "run://file", "file": "tools.json"}]
    category = {"id": "cli", "wrap": {"id": "run", "command": "cat", "resources": resources}}
    off = {"id": "filesystem", "enabled": False}
    (tmp_path / "tools.json").write_text(json.dumps({"profiles": [{"id": "default", "categories": [category, off]}]}))
    async with shell_host(tmp_path) as host:
        kind = resources_of(host)
        assert [entry["uri"] for entry in kind.entries(OWNER)] == ["run://out"]
        assert await kind.read(OWNER, "run://file") is None


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
    assert [*possible_subcommands(["-v", "--repo", "x", "gui"], ["--repo"])] == ["gui"]
    assert [*possible_subcommands(["--repo"], ["--repo"])] == []
    assert [*possible_subcommands([], ["--repo"])] == []


@pytest.mark.parametrize(
    ("args", "found"),
    [
        (["-C", "x", "push", "rest"], ["x", "push"]),
        (["-C", "x", "-v", "push", "rest"], ["x", "push", "rest"]),
        (["--repo=x", "push", "rest"], ["push"]),
        (["push", "-C", "rest"], ["push"]),
        (["-v", "--", "push", "rest"], ["push"]),
    ],
)
def test_where_no_option_is_known_to_take_a_value_none_hides_a_subcommand(args: list[str], found: list[str]) -> None:
    assert [*possible_subcommands(args, ())] == found


@pytest.mark.parametrize(
    "before",
    [["-pC", "x"], ["-pCx"], ["-Cx"], ["-C=x"], ["-Cp"], ["-p"], ["-chdir", "x"], ["-chdir=x"], ["--C"], ["-pC", "--"]],
    ids=" ".join,
)
def test_a_subcommand_is_found_behind_short_options_in_one_argument(before: list[str]) -> None:
    assert [*possible_subcommands([*before, "push", "rest"], ("-C", "-chdir"))] == ["push"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("  -C <path>   go there", ["-C"]),
        ("  -n, --namespace='': the scope", ["-n", "--namespace"]),
        ('      --kubeconfig="": a file', ["--kubeconfig"]),
        ("      --cpus float         how many", ["--cpus"]),
        ("      --labels stringToString  labels", ["--labels"]),
        ("      --retries uint32   how often", ["--retries"]),
        ("  -o, --output {json,text}   the form", ["-o", "--output"]),
        ("  -f FILE, --file FILE   argparse", ["-f", "--file"]),
        ("  --choice [a|b]   click", ["--choice"]),
        ("  -D, --debug   Enable debug mode", []),
        ("  -v, --verbose count   louder", []),
        ("usage: git [-v | --version] [--exec-path[=<path>]] [-p | --paginate | -P | --no-pager] [OPTIONS]", []),
        ("      --insecure=false: believe everybody", []),
    ],
)
def test_options_with_a_value_are_read_from_the_help(text: str, found: list[str]) -> None:
    assert value_options(text) == found


async def test_a_relative_program_is_the_same_in_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLE)
    (tmp_path / "below").mkdir()
    async with await wrapped(tmp_path, command="./bn") as host:
        assert (await host.call("run", args=["status"], cwd="below"))["exit_code"] == 0


@pytest.mark.parametrize("name", ["--force", "remote add", "", " "])
def test_what_would_block_nothing_is_a_problem(name: str) -> None:
    report = Report()
    WRAP({"id": "run", "command": "git", "blocked": {name: "No."}}, "/wrap", report)
    problem = f"{name!r} would block nothing: a subcommand is one word and no option"
    assert [str(each) for each in report.found] == [f"/wrap/blocked/{name}: {problem}"]


def test_the_wrapper_has_fewer_than_300_lines_of_code() -> None:
    folder = Path(__file__).parents[3] / "tools" / "cli"
    code = 0
    for path in (folder / name for name in ("agents.py", "wrap.py", "wrapped_tools.py")):
        with path.open("rb") as file:
            tokens = [token for token in tokenize.tokenize(file.readline) if token.type not in _NO_CODE]
        # A docstring is a string alone on its line.
        code += len({token.start[0] for token in tokens if not token.line.strip().startswith('"""')})
    assert 100 < code < 300
