"""What a caller that asked for progress hears of a command while it runs, and of a search."""

from __future__ import annotations

import asyncio
import itertools
import time
from pathlib import Path

import pytest

from mcp_agent.calls.call import Call, Caller, Success
from registry.gate import Access
from tests.support.shell_host import ShellHost, shell_host
from tests.support.waiting import PATIENCE_S, eventually
from tools.context import ToolContext
from tools.files.paths import OpenPaths

Heard = tuple[float, float | None, str | None]


@pytest.mark.parametrize("tool", ["shell_exec", "bash"])
async def test_it_hears_the_lines_and_the_last_one_at_most_twice_a_second(shell: ShellHost, tool: str) -> None:
    heard: list[tuple[float, Heard]] = []

    def report(done: float, total: float | None, message: str | None) -> None:
        heard.append((time.monotonic(), (done, total, message)))

    go = shell.folder / "go"
    command = f"seq 1 100; echo Grüße >&2; until [ -e {go} ]; do echo more; sleep 0.05; done"
    call = Call("test", Caller("owner", Access(), "http"), tool, {"command": command}, report)
    running = asyncio.create_task(shell.daemon.dispatcher.call(call))
    await eventually(lambda: len(heard) >= 3)
    go.touch()
    assert isinstance(await running, Success)
    messages = [message for _, (_, _, message) in heard]
    assert all(message is not None and " lines printed: " in message for message in messages)
    counts = [int((message or "").partition(" ")[0].replace(",", "")) for message in messages]
    assert counts == sorted(counts)
    assert counts[0] >= 101
    assert messages[-1] is not None
    assert messages[-1].endswith(": more")
    # MCP wants the number to grow with each.
    done = [each for _, (each, _, _) in heard]
    assert done == sorted(set(done))
    assert all(later - earlier >= 0.4 for (earlier, _), (later, _) in itertools.pairwise(heard))


async def test_a_short_command_is_answered_without_any(shell: ShellHost) -> None:
    heard: list[Heard] = []
    call = Call(
        "test", Caller("owner", Access(), "http"), "shell_exec", {"command": "echo x"}, lambda *each: heard.append(each)
    )
    assert isinstance(await shell.daemon.dispatcher.call(call), Success)
    assert heard == []


def test_what_checks_for_cancellation_says_that_it_is_at_work(tmp_path: Path) -> None:
    """Searches and walks call `check` all the time."""
    heard: list[Heard] = []
    ctx = ToolContext("test", OpenPaths(tmp_path), report=lambda *each: heard.append(each))
    began = time.monotonic()
    while len(heard) < 2 and time.monotonic() < began + PATIENCE_S:
        ctx.check()
    assert time.monotonic() - began >= 1.0
    assert [(message or "")[:12] for _, _, message in heard] == ["at work for "] * 2
    assert heard[0][0] < heard[1][0]


async def test_bash_goes_on_as_a_session_on_the_wires_of_mcp(tmp_path: Path) -> None:
    async with shell_host(tmp_path, yield_ms="300") as host:
        go = tmp_path / "go"
        command = f"echo begun; until [ -e {go} ]; do sleep 0.05; done; echo ended"
        result = await host.call("bash", wire="http", command=command, timeout_ms=60_000)
        assert (result["running"], result["timed_out"]) == (True, False)
        assert "exit_code" not in result
        go.touch()
        read = await host.read(result["session_id"], "ended", since=0)
        assert read["output"] == "begun\nended\n"
        assert Path(result["output_path"]).read_text() == "begun\nended\n"
        # Where a client waits as long as it takes, it is run to its end.
        for wire in ("rpc", "tools"):
            whole = await host.call("bash", wire=wire, command="sleep 0.5; echo done")
            assert (whole["stdout"], whole["exit_code"]) == ("done\n", 0)
            assert "running" not in whole


async def test_bash_that_is_still_due_times_out_and_is_ended(tmp_path: Path) -> None:
    async with shell_host(tmp_path, yield_ms="60000") as host:
        result = await host.call("bash", wire="http", command="echo begun; sleep 60", timeout_ms=300)
        assert result["error"]["code"] == "timeout"
        await eventually(host.processes, lambda left: not left)
