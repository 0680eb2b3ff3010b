"""The pruner in the run of an agent: what the provider is handed, and what is logged as it reports."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.programs.pruner.runner import McpServer, PrunerRun, codex_overrides
from tests.support import ROOT
from tests.support.pruner_http import PRUNER, clean
from tests.support.waiting import PATIENCE_S

_ON = {"JEEVES_PRUNER_ENABLED": "true"}

# What was logged since the last call: each event with its level and data.
Logged = Callable[[], list[tuple[str, str, dict[str, Any]]]]


@pytest.fixture
def logged(capsys: pytest.CaptureFixture[str]) -> Logged:
    def lines() -> list[tuple[str, str, dict[str, Any]]]:
        told = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
        return [(line["event"], line["level"], line.get("data", {})) for line in told]

    return lines


def begun(server: McpServer, home: Path) -> subprocess.Popen[str]:
    """The server as a provider starts it, once it has answered."""
    process = subprocess.Popen(
        [server.command, *server.args],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=clean(home, dict(server.env)),
        cwd=home,
    )
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "provider"}}
    assert asked(process, "initialize", params)["serverInfo"]["name"] == "@jeeves/mcp-pruner"
    return process


def asked(process: subprocess.Popen[str], method: str, params: dict[str, Any]) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n")
    process.stdin.flush()
    answer: dict[str, Any] = json.loads(process.stdout.readline())["result"]
    return answer


def closed(process: subprocess.Popen[str]) -> int:
    """Its exit code, once both ends are closed."""
    with process:
        process.communicate(timeout=PATIENCE_S)
    return process.returncode


def test_an_agent_gets_a_pruner_that_works_in_its_folder(tmp_path: Path, logged: Logged) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes.txt").write_text("one\n")
    run = PrunerRun({**_ON, "JEEVES_PRUNER_URL": ""}, work)
    states = [run.state]
    assert {name: server.as_object() for name, server in run.mcp_servers.items()} == {
        "pruner": {"command": PRUNER, "args": [], "env": {"PRUNER_URL": "", "MCP_PRUNER_CWD": str(work)}}
    }
    process = begun(run.mcp_servers["pruner"], tmp_path)
    run.started()
    states.append(run.state)
    call = {"name": "read", "arguments": {"file_path": "notes.txt", "context_focus_question": "what?"}}
    read = asked(process, "tools/call", call)["structuredContent"]
    assert (read["content"], read["pruning"]["reason"]) == ("one\n", "disabled_or_unconfigured")
    assert closed(process) == 0
    run.ended()
    assert [*states, run.state] == ["run:mcp_pruner_starting", "run:mcp_pruner_running", "run:shutdown"]
    assert logged() == [("mcp_pruner.ready", "info", {"root": str(work)})]


@pytest.mark.parametrize("value", ["1", "true", "YES", "on"])
def test_the_pruner_is_on_for_every_word_of_yes(tmp_path: Path, value: str) -> None:
    assert PrunerRun({"JEEVES_PRUNER_ENABLED": value}, tmp_path).state == "run:mcp_pruner_starting"


@pytest.mark.parametrize("environment", [{}, *({"JEEVES_PRUNER_ENABLED": each} for each in ("", "0", "false", "y"))])
def test_without_one_the_agent_gets_no_pruner(tmp_path: Path, environment: dict[str, str], logged: Logged) -> None:
    run = PrunerRun(environment, tmp_path)
    assert (run.state, run.mcp_servers) == ("run:mcp_pruner_disabled", {})
    run.ended()
    assert logged() == [
        ("mcp_pruner.disabled", "info", {"reason": "config_disabled"}),
        ("mcp_pruner.not_running", "info", {}),
    ]


def test_the_service_is_the_usual_one_unless_another_is_named(tmp_path: Path) -> None:
    def url(**environment: str) -> str:
        return PrunerRun({**_ON, **environment}, tmp_path).mcp_servers["pruner"].env["PRUNER_URL"]

    assert url() == "http://localhost:8000/prune"
    assert url(JEEVES_PRUNER_URL="https://pruner.example:9/x") == "https://pruner.example:9/x"


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        (
            "JEEVES_PRUNER_URL",
            "pruner:8000",
            "JEEVES_PRUNER_URL: needs an absolute http or https URL, not 'pruner:8000'",
        ),
        (
            "JEEVES_PRUNER_URL",
            "http://user:secret@pruner:8000",
            "JEEVES_PRUNER_URL: a URL with a user name or a password in it cannot be asked",
        ),
        ("PRUNER_TIMEOUT_MS", "abc", "PRUNER_TIMEOUT_MS: needs a whole number from 100 to 300000, not 'abc'"),
        ("JEEVES_MCP_PRUNER_PATH", "/no/such/program", "JEEVES_MCP_PRUNER_PATH: /no/such/program is not a program"),
    ],
)
def test_what_is_set_wrongly_disables_the_pruner_and_not_the_run(
    tmp_path: Path, variable: str, value: str, message: str, logged: Logged
) -> None:
    run = PrunerRun({**_ON, variable: value}, tmp_path)
    assert (run.state, run.mcp_servers) == ("run:mcp_pruner_disabled", {})
    assert logged() == [
        ("mcp_pruner.config_invalid", "warn", {"message": message}),
        ("mcp_pruner.disabled", "info", {"reason": "config_invalid"}),
    ]


def test_the_program_is_found_where_it_is_said_or_beside_us_or_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logged: Logged
) -> None:
    def command(**environment: str) -> str:
        return PrunerRun({**_ON, **environment}, tmp_path).mcp_servers["pruner"].command

    told = tmp_path / "told"
    shutil.copy(PRUNER, told)
    assert command(JEEVES_MCP_PRUNER_PATH=str(told)) == str(told)
    assert command(PATH="") == PRUNER
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert command(PATH=str(Path(PRUNER).parent)) == PRUNER
    nowhere = PrunerRun({**_ON, "PATH": str(tmp_path)}, tmp_path)
    assert nowhere.state == "run:mcp_pruner_disabled"
    assert [name for name, _, _ in logged()] == ["mcp_pruner.config_invalid", "mcp_pruner.disabled"]


def test_a_server_that_does_not_start_leaves_the_run_without_it(tmp_path: Path, logged: Logged) -> None:
    run = PrunerRun(_ON, tmp_path)
    run.failed_to_start("connection closed")
    assert (run.state, run.mcp_servers) == ("run:mcp_pruner_disabled", {})
    run.ended()
    assert logged() == [
        ("mcp_pruner.spawn_error", "warn", {"message": "connection closed"}),
        ("mcp_pruner.start_failed", "warn", {"message": "connection closed"}),
        ("mcp_pruner.disabled", "info", {"reason": "start_failed"}),
        ("mcp_pruner.not_running", "info", {}),
    ]


def test_a_phase_that_ends_before_the_server_is_there_says_so(tmp_path: Path, logged: Logged) -> None:
    run = PrunerRun(_ON, tmp_path)
    run.ended()
    assert run.state == "run:shutdown"
    assert [name for name, _, _ in logged()][-2:] == ["mcp_pruner.disabled", "mcp_pruner.not_running"]


def test_a_server_that_is_lost_is_ended_with_the_phase(tmp_path: Path, logged: Logged) -> None:
    run = PrunerRun(_ON, tmp_path)
    process = begun(run.mcp_servers["pruner"], tmp_path)
    run.started()
    run.failed("unreachable", pid=process.pid)
    assert (run.state, run.mcp_servers) == ("run:mcp_pruner_degraded", {})
    assert process.poll() is None
    run.ended()
    assert run.state == "run:shutdown"
    # Its input is still open: it was told to end, and did so in order.
    assert process.wait(PATIENCE_S) == 0
    closed(process)
    assert logged()[1:] == [
        ("mcp_pruner.degraded", "warn", {"reason": "unreachable"}),
        ("mcp_pruner.shutdown_after_degraded", "info", {}),
    ]


def test_a_server_that_has_exited_is_told_with_how_it_did(tmp_path: Path, logged: Logged) -> None:
    run = PrunerRun(_ON, tmp_path)
    process = begun(run.mcp_servers["pruner"], tmp_path)
    run.started()
    code = closed(process)
    run.failed("exited", exit_code=code, pid=process.pid)
    run.ended()
    assert logged()[1:] == [
        ("mcp_pruner.degraded", "warn", {"reason": "exited", "exit_code": 0}),
        ("mcp_pruner.shutdown_after_degraded", "info", {}),
    ]


def test_no_state_is_entered_twice(tmp_path: Path) -> None:
    run = PrunerRun(_ON, tmp_path)
    run.started()
    for report in (run.started, lambda: run.failed_to_start("late")):
        with pytest.raises(RuntimeError, match="the run is in run:mcp_pruner_running"):
            report()
    run.ended()
    with pytest.raises(RuntimeError, match="the run is in run:shutdown"):
        run.failed("exited")


def test_codex_is_told_of_the_same_server_in_its_own_way(tmp_path: Path) -> None:
    folder = tmp_path / 'a "quoted" one'
    folder.mkdir()
    arguments = codex_overrides(PrunerRun(_ON, folder).mcp_servers)
    assert arguments[::2] == ["--config"] * 3
    assert tomllib.loads("\n".join(arguments[1::2])) == {
        "mcp_servers": {
            "pruner": {
                "command": PRUNER,
                "env": {"PRUNER_URL": "http://localhost:8000/prune", "MCP_PRUNER_CWD": str(folder)},
            }
        }
    }
    with_args = codex_overrides({"other": McpServer("node", ("server.js", "-v"), {})})
    assert with_args[3] == 'mcp_servers.other.args=["server.js","-v"]'


_AGENT = """
import json, os, subprocess
server = json.loads(os.environ["MCP_SERVERS"])["pruner"]
request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
asked = {"input": json.dumps(request) + "\\n", "capture_output": True, "text": True, "check": True}
done = subprocess.run([server["command"], *server["args"]], env={**os.environ, **server["env"]}, **asked)
print(*(tool["name"] for tool in json.loads(done.stdout)["result"]["tools"]))
"""


def test_the_example_hands_an_agent_the_pruner(home: Path) -> None:
    example = ROOT / "examples/pruning/runner.py"
    done = subprocess.run(
        [sys.executable, example, sys.executable, "-c", _AGENT],
        capture_output=True,
        text=True,
        env=clean(home, _ON),
        cwd=home,
        timeout=PATIENCE_S * 4,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("bash grep read\nrun:shutdown\n", 0), done.stderr
    (line,) = map(json.loads, done.stderr.splitlines())
    assert (line["event"], line["data"]) == ("mcp_pruner.ready", {"root": str(home)})


def test_without_the_switch_the_example_says_why_in_a_json_line(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples/pruning/runner.py", "true"],
        capture_output=True,
        text=True,
        env=clean(home),
        cwd=home,
        timeout=PATIENCE_S * 4,
        check=False,
    )
    events = [(line["event"], line.get("data")) for line in map(json.loads, done.stderr.splitlines())]
    assert events == [("mcp_pruner.disabled", {"reason": "config_disabled"}), ("mcp_pruner.not_running", None)]
