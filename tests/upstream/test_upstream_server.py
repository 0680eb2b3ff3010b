"""The life of a mounted server: its start, its failures, its end, and that it delays nobody."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from mcp_agent.calls.call import Call, Caller, Success
from registry.gate import Access
from tests.support.daemon import running
from tests.support.shell_host import ShellHost
from tests.support.waiting import eventually, within
from tests.upstream.mounting import document, mounted, names, small


async def process(host: ShellHost, tool: str = "process", caller: str = "owner") -> int:
    call = Call("test", Caller(caller, Access(), "rpc"), tool, {})
    outcome = await host.daemon.dispatcher.call(call)
    assert isinstance(outcome, Success), outcome
    return int(outcome.result.as_object()["text"])


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_server_is_started_at_its_first_use_and_ended_with_the_daemon(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"small": small()}):
        pass
    async with mounted(tmp_path) as host:
        assert names(host, "small")
        assert host.processes() == set()
        pid = await process(host)
        assert host.daemon.mounts.facts["small"]["state"] == "running"
        assert await process(host) == pid
    assert not is_alive(pid)


async def test_a_server_that_is_killed_in_the_middle_of_a_call_fails_that_call_and_is_started_again(
    tmp_path: Path,
) -> None:
    async with mounted(tmp_path, {"small": small()}) as host:
        pid = await process(host)
        hanging = asyncio.create_task(host.call("hang"))
        await eventually(lambda: host.daemon.mounts._upstreams["small", ""].calls_under_way)
        os.kill(pid, signal.SIGKILL)
        async with within():
            error = (await hanging)["error"]
        assert error["code"] == "UPSTREAM_UNAVAILABLE"
        assert error["message"].startswith("the mounted server small died during hang; what it did is not known: ")
        assert await process(host) != pid
        assert host.daemon.mounts.facts["small"]["restarts"] == 1


async def test_a_server_that_is_used_while_it_is_restarted_runs_and_says_so(tmp_path: Path) -> None:
    """Seen on a busy machine: it ran, and `mount restart` said that it was not started."""
    async with mounted(tmp_path, {"small": small()}) as host:
        await process(host)
        upstream = host.daemon.mounts._upstreams["small", ""]
        # As when the connection is lost.
        upstream._ended.set()
        using = asyncio.create_task(upstream.list_tools())
        # It waits for the end of the last connection.
        await asyncio.sleep(0)
        async with within():
            await upstream.restart()
            assert await using
        assert upstream.state == "running"


async def test_the_last_lines_of_its_stderr_are_in_the_error_and_in_its_facts(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"small": small()}) as host:
        answer = await host.call("die", last_words="one\ntwo\nthree\nfour\nfive\nsix")
        assert answer["stderr"] == "two\nthree\nfour\nfive\nsix"
        assert "exit code 137" in answer["error"]["message"]
        facts = await eventually(lambda: host.daemon.mounts.facts["small"], lambda facts: facts["state"] == "failed")
        assert facts["stderr"] == "two\nthree\nfour\nfive\nsix"
        # They stay while it is started again.
        starting = asyncio.create_task(process(host))
        facts = await eventually(lambda: host.daemon.mounts.facts["small"], lambda facts: facts["state"] == "starting")
        assert facts["stderr"] == "two\nthree\nfour\nfive\nsix"
        await starting
        assert "stderr" not in host.daemon.mounts.facts["small"]


async def test_a_server_that_fails_again_and_again_is_given_up_after_five_restarts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mcp_agent.upstream import upstream_server

    monkeypatch.setattr(upstream_server, "_FIRST_PAUSE_S", 0.01)
    (tmp_path / "tools.json").write_text(json.dumps(document({"broken": small("--exit", "3", "--stderr", "no disk")})))
    async with mounted(tmp_path) as host:
        upstream = await eventually(lambda: host.daemon.mounts._upstreams.get(("broken", "")))
        assert upstream is not None
        await eventually(lambda: upstream.has_given_up)
        facts = host.daemon.mounts.facts["broken"]
        assert (facts["state"], facts["restarts"], facts["stderr"]) == ("failed", 5, "no disk")
        with pytest.raises(Exception, match="the mounted server broken does not run") as error:
            await upstream.list_tools()
        assert "it failed 6 times and is not started again" in str(getattr(error.value, "hint", ""))
        assert "mcp-agent mount restart broken" in str(getattr(error.value, "hint", ""))


async def test_the_pauses_before_a_restart_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mcp_agent.upstream import upstream_server

    monkeypatch.setattr(upstream_server, "_FIRST_PAUSE_S", 0.2)
    async with mounted(tmp_path, {"small": small()}) as host:
        waits: list[float] = []
        for _ in range(3):
            await host.call("die")
            began = time.monotonic()
            await process(host)
            waits.append(time.monotonic() - began)
        assert waits[0] >= 0.1
        assert waits[1] >= 0.3
        assert waits[2] >= 0.7


async def test_a_server_that_hangs_delays_no_other_server_and_no_other_tool(tmp_path: Path) -> None:
    mounts = {"silent": small("--silent"), "small": small()}
    (tmp_path / "tools.json").write_text(json.dumps(document(mounts)))
    async with mounted(tmp_path) as host:
        await eventually(lambda: names(host, "small"))
        assert host.daemon.mounts.facts["silent"]["state"] == "starting"
        hanging = asyncio.create_task(host.call("hang"))
        async with within():
            assert "entries" in await host.call("fs_list", path=str(tmp_path))
        hanging.cancel()
        await asyncio.wait([hanging])


async def test_a_call_ends_at_the_timeout_of_its_mount(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"small": small(timeout_seconds=0.5)}) as host:
        error = (await host.call("hang"))["error"]
        assert error == {
            "code": "TIMEOUT",
            "message": "hang took longer than 0.5 s and was given up",
            "hint": "ask for less at once",
        }


async def test_a_server_that_floods_delays_nobody_and_costs_bounded_memory(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"flooding": small(), "small": small(only=["echo"])}) as host:
        flooding = asyncio.create_task(host.call("flood"))
        await eventually(lambda: host.daemon.mounts._upstreams["flooding", ""].calls_under_way)
        before = memory_kb()
        waits: list[float] = []
        for number in range(30):
            began = time.monotonic()
            assert (await host.call("small_echo", text=str(number)))["text"] == str(number)
            waits.append(time.monotonic() - began)
        # A daemon that is kept from its work would answer none of them.
        assert sorted(waits)[15] < 2.0
        assert memory_kb() - before < 60_000
        flooding.cancel()
        await asyncio.wait([flooding])


def memory_kb() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4


async def test_a_line_that_is_too_long_ends_the_connection_with_a_sentence(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"small": small()}) as host:
        assert len((await host.call("write_line", size=3_000_000))["text"]) == 3_000_000
        message = (await host.call("write_line", size=17_000_000))["error"]["message"]
        assert "died during write_line" in message
        assert message.endswith(": it sent a line of more than 16777216 bytes")
        facts = await eventually(lambda: host.daemon.mounts.facts["small"], lambda facts: "problem" in facts)
        assert facts["problem"] == "it sent a line of more than 16777216 bytes"


async def test_a_program_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "tools.json").write_text(json.dumps(document({"gone": {"command": "no-such-program"}})))
    async with mounted(tmp_path) as host:
        facts = await eventually(lambda: host.daemon.mounts.facts["gone"], lambda facts: "problem" in facts)
        assert facts["problem"] == "no-such-program is not on the daemon's PATH"


async def test_one_server_is_for_all_callers_or_one_for_each(tmp_path: Path) -> None:
    mounts = {"shared": small(), "own": small(instance="caller", only=["process"])}
    async with mounted(tmp_path, mounts) as host:
        assert await process(host, caller="ann") == await process(host, caller="bob")
        ann, bob = await process(host, "own_process", "ann"), await process(host, "own_process", "bob")
        assert ann != bob
        assert await process(host, "own_process", "ann") == ann
        assert host.daemon.mounts.facts["own"]["instances"] == 2


async def test_of_too_many_callers_the_one_that_was_idle_longest_loses_its_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mcp_agent.upstream import mounted_servers

    monkeypatch.setattr(mounted_servers, "_MOST_INSTANCES", 2)
    async with mounted(tmp_path, {"own": small(instance="caller")}) as host:
        ann, bob = await process(host, caller="ann"), await process(host, caller="bob")
        assert await process(host, caller="ann") == ann
        await process(host, caller="eve")
        await eventually(lambda: not is_alive(bob))
        assert await process(host, caller="ann") == ann


async def test_secrets_come_from_a_file_or_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("from a file\n")
    monkeypatch.setenv("OUR_SECRET", "from a variable")
    env = {"ONE": {"file": str(tmp_path / "secret")}, "TWO": {"variable": "OUR_SECRET"}, "THREE": "plain"}
    async with mounted(tmp_path, {"small": small(env=env)}) as host:
        answers = [(await host.call("environment", name=name))["text"] for name in env]
        assert answers == ["from a file", "from a variable", "plain"]


async def test_a_secret_that_a_server_prints_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("sk-1234567890\n")
    env = {"KEY": {"file": str(tmp_path / "secret")}}
    async with mounted(tmp_path, {"small": small(env=env)}) as host:
        answer = await host.call("die", last_words="cannot log in with sk-1234567890\nbye")
        assert answer["stderr"] == "cannot log in with …\nbye"
        facts = await eventually(lambda: host.daemon.mounts.facts["small"], lambda facts: facts["state"] == "failed")
        assert facts["stderr"] == "cannot log in with …\nbye"


async def test_a_secret_that_is_not_there_is_named_and_not_shown(tmp_path: Path) -> None:
    mounts = {
        "one": small(env={"KEY": {"file": f"{tmp_path}/gone"}}),
        "two": small(env={"KEY": {"variable": "NOT_SET_HERE"}}),
    }
    (tmp_path / "tools.json").write_text(json.dumps(document(mounts)))
    async with mounted(tmp_path) as host:
        await eventually(
            lambda: {name: facts.get("problem") for name, facts in host.daemon.mounts.facts.items()},
            lambda problems: (
                problems
                == {
                    "one": f"{tmp_path}/gone cannot be read: No such file or directory",
                    "two": "the variable NOT_SET_HERE is not set in the daemon's environment",
                }
            ),
        )


async def test_our_token_does_not_reach_a_mounted_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_AGENT_TOKEN", "x" * 40)
    async with mounted(tmp_path, {"small": small()}) as host:
        assert (await host.call("environment", name="MCP_AGENT_TOKEN"))["text"] == "is not set"


async def test_a_mount_that_leaves_tools_json_is_ended(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"small": small()}) as host:
        pid = await process(host)
        (tmp_path / "tools.json").write_text(json.dumps(document({})))
        await eventually(lambda: not is_alive(pid))
        assert names(host, "small") == []


async def test_a_cancelled_call_leaves_the_server_running(tmp_path: Path) -> None:
    async with mounted(tmp_path, {"small": small()}) as host:
        pid = await process(host)
        call = asyncio.create_task(host.call("print_lines", count=10))
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        assert await process(host) == pid


async def test_a_daemon_that_was_killed_leaves_no_mounted_server_behind(home: Path) -> None:
    """A server that ignores the end of its input would go on for ever; the next start ends it."""
    script = "trap '' HUP; exec 2>/dev/null; " + f"{sys.executable} {small()['args'][0]}; sleep 600"
    (home / "tools.json").write_text(json.dumps(document({"stubborn": {"command": "sh", "args": ["-c", script]}})))
    with running(home) as daemon:
        answer = await eventually(
            lambda: daemon.rpc("tools/call", name="process", arguments={}), lambda answer: "result" in answer
        )
        pid = int(answer["result"]["structuredContent"]["text"])
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        daemon.process.kill()
        daemon.process.wait()
        assert is_alive(parent)
    with running(home):
        await eventually(lambda: not is_alive(parent))
