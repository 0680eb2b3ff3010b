"""shell_exec: one command, its output, its end."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import stat
from pathlib import Path
from typing import Any

import orjson
import pytest

from mcp_agent.answers.budget import MOST_MESSAGE_BYTES
from mcp_agent.calls.call import Call, Caller, Success
from mcp_agent.protocol.methods import tool_result
from registry.gate import Access
from tests.support.shell_host import ShellHost, shell_host
from tests.support.waiting import eventually
from tools.sessions import process_tree


async def test_output_and_exit_code_come_back_and_failing_is_no_error(shell: ShellHost) -> None:
    done = await shell.call("shell_exec", command="echo out; echo err >&2; exit 3")
    assert (done["exit_code"], done["stdout"], done["stderr"]) == (3, "out\n", "err\n")
    assert "error" not in done


async def test_death_by_a_signal_is_128_and_its_number_with_its_name(shell: ShellHost) -> None:
    done = await shell.call("shell_exec", command="kill -KILL $$")
    assert (done["exit_code"], done["signal"]) == (137, "KILL")


async def test_it_runs_in_the_folder_that_is_named(shell: ShellHost, tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    assert (await shell.call("shell_exec", command="pwd", cwd="below"))["stdout"] == f"{tmp_path}/below\n"


async def test_a_folder_that_is_not_there_is_told(shell: ShellHost) -> None:
    answer = await shell.call("shell_exec", command="true", cwd="/nowhere/at-all")
    assert answer["error"]["code"] == "NOT_FOUND"
    assert "/nowhere/at-all" in answer["error"]["message"]


async def test_stdin_is_empty_and_pagers_are_off(shell: ShellHost) -> None:
    done = await shell.call("shell_exec", command='cat; echo "$PAGER $GIT_PAGER"')
    assert done["stdout"] == "cat cat\n"


async def test_stderr_that_is_not_wanted_is_not_there(shell: ShellHost) -> None:
    done = await shell.call("shell_exec", command="echo err >&2", capture_stderr=False)
    assert "stderr" not in done


async def test_a_child_sees_neither_our_token_nor_our_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MCP_AGENT_TOKEN", "a-secret-of-the-daemon")
    read, write = os.pipe()
    os.set_inheritable(write, True)
    try:
        async with shell_host(tmp_path) as host:
            done = await host.call("shell_exec", command="env; ls /proc/self/fd")
    finally:
        os.close(read)
        os.close(write)
    assert "a-secret-of-the-daemon" not in done["stdout"]
    assert str(write) not in done["stdout"].splitlines()


async def test_a_command_that_takes_too_long_is_ended_with_all_it_started(shell: ShellHost) -> None:
    command = "echo begun; setsid sleep 300 & sleep 300"
    done = await shell.call("shell_exec", command=command, timeout_seconds=0.3)
    assert (done["exit_code"], done["timed_out"], done["stdout"]) == (124, True, "begun\n")
    assert shell.processes() == set()


async def test_the_end_is_seen_although_a_grandchild_holds_the_pipe(shell: ShellHost) -> None:
    done = await shell.call("shell_exec", command="sleep 300 & echo done")
    assert (done["exit_code"], done["stdout"]) == (0, "done\n")
    assert done["duration_s"] < 60
    # It shows no environment, so it is not found, in the moment in which it becomes `sleep`.
    await eventually(shell.processes, lambda left: len(left) == 1)


async def test_a_grandchild_that_goes_on_writing_does_not_die_of_it(shell: ShellHost, tmp_path: Path) -> None:
    script = "while [ ! -e stop ]; do echo still here; sleep 0.02; done; echo ended > ended"
    await shell.call("shell_exec", command=f"({script}) & exit 0")
    (tmp_path / "stop").touch()
    await shell.call("shell_exec", command="while [ ! -e ended ]; do sleep 0.01; done", timeout_seconds=10)
    assert (tmp_path / "ended").read_text() == "ended\n"


async def test_a_call_that_is_called_off_ends_its_command(shell: ShellHost) -> None:
    call = asyncio.create_task(shell.call("shell_exec", command="trap '' TERM; touch begun; sleep 300 & wait"))
    await shell.call("shell_exec", command="while [ ! -e begun ]; do sleep 0.01; done", timeout_seconds=10)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    await eventually(shell.processes, lambda left: not left)


async def test_output_over_the_cap_keeps_head_and_tail_and_a_file_has_the_rest(shell: ShellHost) -> None:
    done = await shell.call("shell_exec", command="seq 1 200000", max_output_bytes=1_000)
    whole = "".join(f"{number}\n" for number in range(1, 200_001))
    head, note, tail = done["stdout"].partition(f"\n[… {done['missing_bytes']} bytes left out …]\n")
    assert note
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert (len(head), len(tail)) == (500, 500)
    assert len(whole) == len(head) + len(tail) + done["missing_bytes"]
    assert done["truncated"] is True
    assert Path(done["output_path"]).read_text() == whole
    assert _artifact(shell, done) == whole


async def test_a_small_cap_keeps_the_whole_too(shell: ShellHost) -> None:
    done = await shell.call("shell_exec", command="seq 1 1000; echo problem >&2", max_output_bytes=256)
    whole = "".join(f"{number}\n" for number in range(1, 1_001))
    assert _artifact(shell, done).replace("problem\n", "") == whole
    part = await shell.call("artifact_read", ref=done["artifactRef"], limit=6)
    assert part["content"] == "1\n2\n3\n"


async def test_the_artifact_says_what_even_the_spool_has_let_go(tmp_path: Path) -> None:
    async with shell_host(tmp_path, session_spool_mib=8, artifacts_caller_mb=12) as host:
        done = await host.call("shell_exec", command="seq -f '%07.0f' 1 2000000")
        head, note, tail = re.split(r"\n\[… (\d+) bytes are gone …]\n", _artifact(host, done))
    whole = "".join(f"{number:07}\n" for number in range(1, 2_000_001))
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert len(whole) == len(head) + int(note) + len(tail)


async def test_as_much_as_an_artifact_may_have_is_kept_whole_and_not_written_twice(tmp_path: Path) -> None:
    async with shell_host(tmp_path, session_spool_mib=8) as host:
        done = await host.call("shell_exec", command="seq -f '%07.0f' 1 2000000")
        assert _artifact(host, done) == "".join(f"{number:07}\n" for number in range(1, 2_000_001))
        artifact = host.daemon.artifacts.of("owner").path_of(done["artifactRef"])
        assert artifact.samefile(done["output_path"])
        assert stat.S_IMODE(artifact.stat().st_mode) == 0o400


async def test_files_of_cut_output_are_bounded_in_number(tmp_path: Path) -> None:
    async with shell_host(tmp_path) as host:
        done = [await host.call("shell_exec", command="seq 1 200", max_output_bytes=256) for _ in range(205)]
        assert [Path(each["output_path"]).exists() for each in done] == [False] * 5 + [True] * 200
        assert _artifact(host, done[0]) == "".join(f"{number}\n" for number in range(1, 201))


async def test_output_that_cannot_be_kept_is_still_in_its_file(tmp_path: Path) -> None:
    async with shell_host(tmp_path, artifacts_caller_mb=0) as host:
        done = await host.call("shell_exec", command="seq 1 1000", max_output_bytes=256)
        assert "artifactRef" not in done
        assert Path(done["output_path"]).read_text() == "".join(f"{number}\n" for number in range(1, 1_001))


@pytest.mark.parametrize("what", ["head -c 3000000 /dev/zero", "yes '\"\\\\' | head -c 3000000"])
async def test_whatever_it_prints_the_answer_fits_one_message(shell: ShellHost, what: str) -> None:
    caller = Caller("owner", Access(), "rpc")
    arguments = {"command": f"{what}; {what} >&2"}
    outcome = await shell.daemon.dispatcher.call(Call("test", caller, "shell_exec", arguments))
    assert isinstance(outcome, Success)
    answer = tool_result(outcome)
    assert answer["isError"] is False
    assert len(orjson.dumps(answer)) < MOST_MESSAGE_BYTES
    assert outcome.reply.as_object()["truncated"] is True


async def test_bytes_that_are_no_text_become_replacement_characters(shell: ShellHost) -> None:
    done = await shell.call("shell_exec", command=r"printf 'a\377b\303'")
    assert done["stdout"] == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"


async def test_a_command_that_runs_on_becomes_a_session_with_all_its_output(shell: ShellHost, tmp_path: Path) -> None:
    command = "echo one; while [ ! -e go ]; do sleep 0.01; done; echo two"
    answer = await shell.call("shell_exec", command=command, yield_ms=200)
    # On a busy machine the shell may not have begun by then.
    assert answer["running"]
    assert answer["stdout"] in ("", "one\n")
    assert "exit_code" not in answer
    (tmp_path / "go").touch()
    rest = await shell.read(answer["session_id"], "two")
    assert answer["stdout"] + rest["output"] == "one\ntwo\n"
    assert rest["offset"] == len(answer["stdout"])


async def test_only_clients_of_mcp_are_given_a_session_unasked(tmp_path: Path) -> None:
    async with shell_host(tmp_path, yield_ms=100) as host:
        on_mcp = await host.call("shell_exec", wire="http", command="sleep 0.4; echo done")
        on_rpc = await host.call("shell_exec", wire="rpc", command="sleep 0.4; echo done")
    assert on_mcp["running"] is True
    assert on_rpc["stdout"] == "done\n"


async def test_a_timeout_that_was_asked_for_holds_for_the_session_too(shell: ShellHost) -> None:
    answer = await shell.call("shell_exec", command="sleep 300", yield_ms=50, timeout_seconds=0.3)
    ended = await shell.call("shell_send_input", session_id=answer["session_id"], input="", wait_ms=10_000)
    assert (ended["running"], ended["signal"]) == (False, "TERM")


async def test_a_command_waits_on_where_there_is_no_room_for_a_session(tmp_path: Path) -> None:
    async with shell_host(tmp_path, max_sessions=1) as host:
        await host.start("sleep 300")
        done = await host.call("shell_exec", command="sleep 0.3; echo done", yield_ms=50)
    assert (done["exit_code"], done["stdout"]) == (0, "done\n")


async def test_a_hundred_commands_leave_neither_a_zombie_nor_a_descriptor(shell: ShellHost) -> None:
    await shell.call("shell_exec", command="true")
    before, zombies = _descriptors(), process_tree.orphan_zombies(os.getsid(0))
    for _ in range(100):
        await shell.call("shell_exec", command="true")
    # Zombies of an earlier test may be reaped in the meantime.
    assert (_descriptors(), process_tree.orphan_zombies(os.getsid(0)) - zombies) == (before, set())


async def test_a_cwd_that_is_a_file_is_said_to_be_one(shell: ShellHost) -> None:
    file = shell.folder / "file"
    file.touch()
    for tool in ("shell_exec", "shell_start_session"):
        answer = await shell.call(tool, command="pwd", cwd="file")
        assert (answer["error"]["code"], answer["error"]["message"]) == (
            "NOT_A_DIRECTORY",
            f"cwd {file} is a file, not a folder",
        )


@pytest.mark.parametrize("tool", ["shell_exec", "shell_start_session", "terminal"])
async def test_no_descriptor_for_a_command_is_said_and_nothing_is_started(shell: ShellHost, tool: str) -> None:
    arguments: dict[str, Any] = {"pty": True} if tool == "terminal" else {}
    tool = "shell_start_session" if tool == "terminal" else tool
    await shell.call("shell_exec", command="true")
    # The limit is on the number of a descriptor, so the free numbers below the highest one are taken first.
    highest = max(int(each.name) for each in Path("/proc/self/fd").iterdir())
    taken = [os.open(os.devnull, os.O_RDONLY)]
    while taken[-1] <= highest:
        taken.append(os.open(os.devnull, os.O_RDONLY))
    before, allowed = _descriptors(), resource.getrlimit(resource.RLIMIT_NOFILE)
    for spare in range(20):
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + 1 + spare, allowed[1]))
        try:
            answer = await shell.call(tool, command="echo started >> witness", **arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, allowed)
        if "error" not in answer:
            break
        assert answer["error"]["code"] == "IO_ERROR", answer
        assert answer["error"]["message"] == ("the command was not started: the daemon has no file descriptors left")
        assert (_descriptors(), (shell.folder / "witness").exists()) == (before, False)
    else:
        pytest.fail("it never started")
    for descriptor in taken:
        os.close(descriptor)
    assert spare > 2


async def test_a_command_that_is_too_long_for_the_system_is_told(shell: ShellHost) -> None:
    answer = await shell.call("shell_exec", command=f"true {'x' * 200_000}")
    assert answer["error"]["code"] == "IO_ERROR"
    assert "too long for the system (200005 characters)" in answer["error"]["message"]


async def test_a_command_with_a_nul_is_an_argument_that_does_not_fit(shell: ShellHost) -> None:
    answer = await shell.call("shell_exec", command="echo \0")
    assert answer["error"]["code"] == "INVALID_PARAMS"


async def test_the_rendering_is_a_header_and_the_raw_text(shell: ShellHost) -> None:
    caller = Caller("owner", Access(), "rpc")
    arguments = {"command": "echo out; echo err >&2; exit 2"}
    outcome = await shell.daemon.dispatcher.call(Call("test", caller, "shell_exec", arguments))
    assert isinstance(outcome, Success)
    header, rest = outcome.result.render().split("\n", 1)
    assert header.startswith("[exit 2 · ")
    assert rest == "out\n[stderr]\nerr\n"


def _artifact(shell: ShellHost, done: dict[str, Any]) -> str:
    return shell.daemon.artifacts.of("owner").path_of(done["artifactRef"]).read_text()


def _descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
