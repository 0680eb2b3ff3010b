"""Each client with exactly what `connect` wrote: it lists, calls, is cancelled, survives a restart, sees a switch."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_agent.cli.clients.known_clients import find_client
from tests.clients.real.coding_client import CodingClient, coding_client
from tests.support import ROOT, seven_steps
from tests.support.model_server import Step
from tests.support.programs import CODING_CLIENTS
from tests.support.waiting import eventually_sync

pytestmark = pytest.mark.timeout(600)

_LEAN = 13
_SAYS_NO_FOLDER = ("cline",)


@pytest.fixture(params=list(CODING_CLIENTS))
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[CodingClient]:
    home = tmp_path / "home"
    home.mkdir()
    with coding_client(request.param, home) as connected:
        connected.connect()
        yield connected


def _ours(tools: list[str]) -> list[str]:
    return [name for name in tools if "devbox" in name]


def test_it_lists_calls_survives_a_restart_and_sees_a_switch(client: CodingClient) -> None:
    model = client.model
    long = "seq -f 'line %06.0f' 1 30000; echo the end"
    model.play(
        [
            Step("shell_exec", {"command": "echo one $((20 + 1))"}),
            Step("shell_exec", {"command": "echo two $((20 + 2))"}, before=client.restart_daemon),
            Step("shell_exec", {"command": long}),
            Step("fs_write", {"path": "notes.txt", "content": "x\n"}),
            Step(text="The end."),
        ]
    )
    printed = client.run()
    assert len(model.seen) == 5, printed
    listed = _ours(model.seen[0].tools)
    assert len(listed) == _LEAN, listed
    first, second, noisy = (model.seen[number].results[-1] for number in (1, 2, 3))
    assert "one 21" in first
    assert first.count("one 21") == 1, "the same content twice"
    assert "two 22" in second, "the daemon was restarted in between"
    # Both ends, and the words that say how to go on: the client itself has cut nothing.
    assert "line 000001" in noisy
    assert "the end" in noisy
    assert "start_line=" in noisy, (len(noisy), noisy[len(noisy) // 2 - 200 : len(noisy) // 2 + 200])
    # In the folder that it works in, where it says which that is.
    where = client.daemon.home if client.name in _SAYS_NO_FOLDER else client.work
    assert (where / "notes.txt").read_text() == "x\n"
    seen = client.daemon.cli("audit", "--event", "*").stdout
    assert "results as text" in seen

    assert client.daemon.cli("disable", "fs_delete").returncode == 0
    model.play([Step("fs_list", {"path": str(client.work)}), Step(text="The end.")])
    client.run()
    after = _ours(model.seen[-1].tools)
    assert [name for name in listed if name not in after] == [name for name in listed if name.endswith("fs_delete")]
    _keep_recording(client)


def test_by_way_of_ssh_it_calls_and_survives_a_restart(client: CodingClient) -> None:
    client.connect_by_ssh()
    client.model.play(
        [
            Step("shell_exec", {"command": "echo one $((20 + 1))"}),
            Step("shell_exec", {"command": "echo two $((20 + 2))"}, before=client.restart_daemon),
            Step(text="The end."),
        ]
    )
    printed = client.run()
    assert len(client.model.seen) == 3, printed
    assert len(_ours(client.model.seen[0].tools)) == _LEAN
    assert "one 21" in client.model.seen[1].results[-1]
    assert "two 22" in client.model.seen[2].results[-1]


def test_what_connect_names_shows_that_it_works(client: CodingClient) -> None:
    known = find_client(client.name)
    assert known is not None
    if "`mcp-agent audit" in known.check:
        client.model.play([Step(text="The end.")])
        client.run()
        assert known.check.split()[-1] in client.daemon.cli("audit", "--event", "connect").stdout
        return
    printed = client.ask(known.check)
    assert "devbox" in printed
    assert client.recording.exists(), f"it has not connected: {printed}"


def test_a_call_ends_with_the_client_that_is_cancelled(client: CodingClient, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    client.model.play([Step("shell_exec", {"command": f"echo $$ > {mark}; exec sleep 300"}), Step(text="The end.")])
    with client.calling(mark) as process:
        # As a terminal does at Ctrl-C: some are two processes.
        os.killpg(process.pid, signal.SIGINT)
        # Where it lets go of the connection without a word, the daemon waits half a minute for it to come back.
        eventually_sync(
            lambda: Path(f"/proc/{mark.read_text().strip()}").exists(), lambda there: not there, within_s=90
        )


@pytest.mark.parametrize("client", ["claude-code"], indirect=True)
def test_each_step_of_a_small_task_costs_no_more_than_it_must(client: CodingClient) -> None:
    model, folder = client.model, client.work
    seven_steps.make_project(folder)
    steps = [*seven_steps.steps(folder), *seven_steps.steps_of_session("")]

    def name_session() -> None:
        (session,) = (found[1] for each in model.seen[-1].results if (found := re.search(r"\[session (\w+)", each)))
        for step in steps[-2:]:
            step.arguments["session_id"] = session

    played = [Step(step.tool, step.arguments, before=name_session if step.name == "watch" else None) for step in steps]
    model.play([*played, Step(text="The end.")])
    printed = client.run()
    assert len(model.seen) == len(steps) + 1, printed
    results = [seen.results[-1] for seen in model.seen[1:]]
    costs = {step.name: seven_steps.tokens(result) for step, result in zip(steps, results, strict=True)}
    print(seven_steps.report(costs))
    # The folder has a longer name than those of people, and is in three of the results.
    spare = seven_steps.tokens(str(folder))
    over = {step.name: costs[step.name] for step in steps if costs[step.name] > step.most_tokens + spare}
    assert over == {}, results
    assert sum(costs.values()) <= seven_steps.MOST_IN_ALL, seven_steps.report(costs)


@pytest.mark.parametrize("client", ["opencode"], indirect=True)
def test_progress_keeps_a_client_waiting_that_gives_up_after_a_minute(client: CodingClient) -> None:
    command = "for i in $(seq 1 70); do echo line $i; sleep 1; done"
    client.model.play([Step("shell_exec", {"command": command, "yield_ms": 0}), Step(text="The end.")])
    printed = client.run()
    assert len(client.model.seen) == 2, printed
    (result,) = client.model.seen[-1].results
    assert "[exit 0 · 7" in result[:200]
    assert result.endswith("line 69\nline 70\n")


def _keep_recording(client: CodingClient) -> None:
    """Write the exchange of the first run for the quick tests, without what differs from run to run."""
    if not os.environ.get("MCP_AGENT_TEST_RECORD"):
        return
    text = client.recording.read_text().replace(str(client.home), "$HOME").replace(client.daemon.url, "$URL")
    requests = [json.loads(line) for line in text.splitlines()]
    path = ROOT / "tests" / "clients" / "recorded" / f"{client.name}.json"
    path.write_text(json.dumps(requests, indent=1, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("client", ["claude-code"], indirect=True)
def test_an_entry_that_is_written_while_it_runs_stays(client: CodingClient, tmp_path: Path) -> None:
    """Claude Code writes its file, too, while it runs."""
    mark = tmp_path / "mark"
    assert client.daemon.cli("connect", "remove", "claude-code", "--name", "devbox").returncode == 0
    assert client.daemon.cli("connect", "claude-code", "--approve", "all").returncode == 0
    client.model.play([Step("shell_exec", {"command": f"echo $$ > {mark}; exec sleep 5"}), Step(text="The end.")])
    with client.calling(mark) as process:
        assert client.daemon.cli("connect", "claude-code", "--stdio", "--name", "other").returncode == 0
        process.communicate(timeout=60)
    servers = json.loads((client.home / ".claude.json").read_text())["mcpServers"]
    assert set(servers) == {"devbox", "other"}
