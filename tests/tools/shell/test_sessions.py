"""The three session tools: start, talk, stop."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.shell_host import ShellHost, shell_host
from tests.support.waiting import eventually
from tools.shell.waits import is_only_echo


async def test_a_session_has_an_id_a_pid_and_a_file_with_its_output(shell: ShellHost) -> None:
    started = await shell.call("shell_start_session", command="echo one; echo two >&2; cat")
    assert Path(f"/proc/{started['pid']}").exists()
    await shell.read(started["session_id"], "one[^$]*two|two[^$]*one")
    assert sorted(Path(started["output_path"]).read_text().split()) == ["one", "two"]


async def test_input_reaches_it_and_its_answer_comes_back(shell: ShellHost) -> None:
    session = await shell.start("cat")
    sent = await shell.call("shell_send_input", session_id=session, input="héllo\n", wait_ms=10_000)
    assert sent == {
        "session_id": session,
        "bytes_written": 7,
        "output": "héllo\n",
        "offset": 0,
        "next_offset": 7,
        "wait_ms": 10_000,
        "running": True,
    }


async def test_without_a_wait_only_what_was_written_is_told(shell: ShellHost) -> None:
    session = await shell.start("cat")
    sent = await shell.call("shell_send_input", session_id=session, input="abc")
    assert sent == {"session_id": session, "bytes_written": 3}


async def test_a_wait_is_clamped_and_the_value_used_is_told(shell: ShellHost) -> None:
    session = await shell.start("echo done")
    sent = await shell.call("shell_send_input", session_id=session, input="", wait_ms=3_600_000)
    assert sent["wait_ms"] == 30_000


async def test_a_wait_ends_at_the_pattern_although_more_output_comes(shell: ShellHost) -> None:
    session = await shell.start("echo warming up; sleep 0.4; echo listening on 8000; sleep 300")
    sent = await shell.call(
        "shell_send_input", session_id=session, input="", wait_ms=20_000, until=r"^listening on \d+$"
    )
    assert (sent["matched"], sent["output"]) == (True, "warming up\nlistening on 8000\n")


async def test_a_wait_ends_when_output_has_begun_and_paused(shell: ShellHost) -> None:
    session = await shell.start("echo prompt; sleep 300")
    loop = asyncio.get_running_loop()
    began = loop.time()
    sent = await shell.call("shell_send_input", session_id=session, input="", wait_ms=20_000)
    assert sent["output"] == "prompt\n"
    assert loop.time() - began < 10


async def test_with_a_pattern_a_pause_does_not_end_the_wait(shell: ShellHost) -> None:
    session = await shell.start("echo one; sleep 0.5; echo two; sleep 300")
    sent = await shell.call("shell_send_input", session_id=session, input="", wait_ms=20_000, until="two")
    assert (sent["output"], sent["matched"]) == ("one\ntwo\n", True)


async def test_a_pattern_that_would_never_end_is_refused(shell: ShellHost) -> None:
    session = await shell.start("yes aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa | head -c 60000 | tr -d '\\n'; sleep 300")
    sent = await shell.call("shell_send_input", session_id=session, input="", wait_ms=5_000, until="(a|aa)+$b")
    assert sent["error"]["code"] == "INVALID_PATTERN"


async def test_each_caller_is_given_what_is_new_to_it(shell: ShellHost) -> None:
    session = await shell.start("cat")
    first = await shell.call("shell_send_input", connection="a", session_id=session, input="1\n", wait_ms=10_000)
    second = await shell.call("shell_send_input", connection="a", session_id=session, input="2\n", wait_ms=10_000)
    other = await shell.call("shell_send_input", connection="b", session_id=session, input="", wait_ms=10_000)
    assert (first["output"], second["output"], other["output"]) == ("1\n", "2\n", "1\n2\n")


async def test_a_client_without_a_conversation_goes_on_where_its_program_was(shell: ShellHost) -> None:
    session = await shell.start("echo one; cat")
    about: dict[str, Any] = {"session_id": session, "connection": "", "wait_ms": 10_000}
    first = await shell.call("shell_send_input", **about, client="claude-code", input="", until="one")
    second = await shell.call("shell_send_input", **about, client="claude-code", input="two\n")
    other = await shell.call("shell_send_input", **about, client="another", input="")
    assert [each["output"] for each in (first, second, other)] == ["one\n", "two\n", "one\ntwo\n"]
    assert [(each["offset"], each["next_offset"]) for each in (first, second, other)] == [(0, 4), (4, 8), (0, 8)]


async def test_a_program_that_connects_for_each_call_goes_on_where_it_was(shell: ShellHost) -> None:
    """As LangChain does. A conversation that is open beside it has read nothing yet."""
    session = await shell.start("echo one; cat")
    outputs = []
    for connection in ("c1", "c2"):
        read = await shell.call(
            "shell_send_input", session_id=session, connection=connection, client="mcp", input="", wait_ms=10_000
        )
        outputs.append(read["output"])
        shell.daemon.sessions.on_disconnect(connection)
        await shell.call("shell_send_input", connection="typist", session_id=session, input="x\n", wait_ms=10_000)
    beside = await shell.call("shell_send_input", session_id=session, client="other", input="", wait_ms=10_000)
    assert [*outputs, beside["output"]] == ["one\n", "x\n", "one\nx\nx\n"]


async def test_a_session_is_started_with_its_first_output(shell: ShellHost) -> None:
    started = await shell.call("shell_start_session", command="echo ready; exec cat")
    assert (started["output"], started["next_offset"], started["running"]) == ("ready\n", 6, True)
    read = await shell.call("shell_send_input", session_id=started["session_id"], input="", until="^ready$")
    assert (read["matched"], read["output"]) == (True, ""), "what was shown at the start counts for the first wait"
    ended = await shell.call("shell_start_session", command="echo no such thing; exit 3")
    assert (ended["output"], ended["running"], ended["exit_code"]) == ("no such thing\n", False, 3)


async def test_an_empty_input_reads_without_a_wait(shell: ShellHost) -> None:
    started = await shell.call("shell_start_session", command="echo one; exec cat")
    read = await shell.call("shell_send_input", session_id=started["session_id"], input="", since=0)
    assert (read["output"], read["wait_ms"]) == ("one\n", 0)


@pytest.mark.parametrize(("since", "output"), [(0, "123456789\n"), (4, "56789\n"), (-3, "89\n"), (99, "")])
async def test_output_is_read_from_any_offset(shell: ShellHost, since: int, output: str) -> None:
    session = await shell.start("echo 123456789")
    await shell.read(session, "9")
    sent = await shell.call("shell_send_input", session_id=session, input="", wait_ms=0, since=since)
    assert sent["output"] == output


async def test_long_output_comes_a_page_at_a_time_and_none_is_missing(shell: ShellHost) -> None:
    session = await shell.start("seq 1 50000")
    text, offset = "", 0
    while True:
        page = await shell.call("shell_send_input", session_id=session, input="", wait_ms=10_000, since=offset)
        assert page["offset"] == offset
        text, offset = text + page["output"], page["next_offset"]
        if not page["running"] and "more" not in page:
            break
    assert text == "".join(f"{number}\n" for number in range(1, 50_001))


async def test_the_end_of_input_can_be_sent(shell: ShellHost) -> None:
    session = await shell.start("sort")
    sent = await shell.call("shell_send_input", session_id=session, input="b\na\n", eof=True, wait_ms=10_000)
    assert (sent["output"], sent["exit_code"]) == ("a\nb\n", 0)


async def test_a_finished_session_can_be_read_and_not_written_to(shell: ShellHost) -> None:
    session = await shell.start("echo last words; exit 4")
    read = await shell.call("shell_send_input", session_id=session, input="", wait_ms=10_000)
    assert (read["output"], read["running"], read["exit_code"]) == ("last words\n", False, 4)
    refused = await shell.call("shell_send_input", session_id=session, input="hello?\n")
    assert refused["error"]["code"] == "SESSION_ENDED"
    assert "exit code 4" in refused["error"]["message"]


async def test_an_unknown_session_is_refused_with_the_live_ones(shell: ShellHost) -> None:
    session = await shell.start("sleep 300")
    refused = await shell.call("shell_send_input", session_id="s00000000", input="")
    assert refused["error"]["code"] == "SESSION_NOT_FOUND"
    assert f"{session} (sleep 300)" in refused["error"]["hint"]


async def test_variables_are_added_and_our_tag_stays(shell: ShellHost) -> None:
    environment = {"GREETING": "hello", "MCP_AGENT_SESSION": "forged"}
    session = await shell.start('echo "$GREETING $MCP_AGENT_SESSION"', env=environment)
    output = (await shell.read(session, "\n"))["output"]
    assert output == f"hello {shell.daemon.hub.boot}-{session}\n"


async def test_a_terminal_has_its_size_and_hears_ctrl_c(shell: ShellHost) -> None:
    session = await shell.start(
        "stty size; trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.05; done",
        pty=True,
        cols=91,
        rows=17,
    )
    assert (await shell.read(session, "ready"))["output"].startswith("17 91\r\n")
    ended = await shell.call("shell_send_input", session_id=session, input="\x03", wait_ms=10_000, until="caught")
    assert ended["matched"]
    ended = await shell.call("shell_send_input", session_id=session, input="", wait_ms=10_000, until="never")
    assert (ended["running"], ended["exit_code"]) == (False, 7)


async def test_what_a_program_prints_last_in_a_terminal_is_not_lost(shell: ShellHost) -> None:
    started = [await shell.start("sleep 0.0$$; printf last", pty=True) for _ in range(10)]
    for session in started:
        ended = await shell.call("shell_send_input", session_id=session, input="", wait_ms=10_000, until="never")
        assert (ended["running"], ended["output"]) == (False, "last")


async def test_a_prompt_of_python_answers_in_a_terminal(shell: ShellHost) -> None:
    session = await shell.start("exec python3 -q", pty=True)
    await shell.read(session, ">>> $")
    assert "\r\n42\r\n" in (await shell.read(session, "42\\r\\n.*>>> $", input="6 * 7\n"))["output"]
    ended = await shell.call("shell_send_input", session_id=session, input="\x04", wait_ms=10_000, until="never")
    assert (ended["running"], ended["exit_code"]) == (False, 0)


async def test_the_echo_of_a_terminal_does_not_end_the_wait(shell: ShellHost) -> None:
    session = await shell.start("read line; sleep 0.6; echo answer; sleep 300", pty=True)
    sent = await shell.call("shell_send_input", session_id=session, input="hello\n", wait_ms=10_000)
    assert sent["output"] == "hello\r\nanswer\r\n"


async def test_the_echo_of_a_line_editor_does_not_end_the_wait(shell: ShellHost) -> None:
    session = await shell.start("PS1='> ' exec bash --norc --noprofile -i", pty=True)
    await shell.read(session, "> $")
    sent = await shell.call(
        "shell_send_input", session_id=session, input="sleep 0.6; echo $((6 * 7))\n", wait_ms=10_000
    )
    assert "42\r\n" in sent["output"]


async def test_an_answer_that_repeats_the_input_is_no_echo_where_the_terminal_has_none(shell: ShellHost) -> None:
    session = await shell.start("stty -echo; echo ready; cat", pty=True)
    await shell.read(session, "ready")
    began = time.monotonic()
    sent = await shell.call("shell_send_input", session_id=session, input="hello\n", wait_ms=15_000)
    assert sent["output"].endswith("hello\r\n")
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("output", "typed", "is_echo"),
    [
        ("", "ls\n", True),
        ("l", "ls\n", True),
        ("ls\r\n", "ls\n", True),
        ("ls\r\n", "ls\r", True),
        ("ls\r\na.txt", "ls\n", False),
        ("\r\n", "\n", True),
        ("\r\n\r\n", "\n", False),
        ("^C", "\x03", True),
        ("^C\r\nbye", "\x03", False),
        ("ls\r\n\x1b[?2004l\r", "ls\n", True),
        ("ls\r\n\x1b[?2004l\r\x1b[?2004h$ ", "ls\n", False),
        ("a long line \rthat wraps\r\n", "a long line that wraps\n", True),
        ("lx", "ls\n", False),
    ],
)
def test_an_echo_is_told_from_an_answer(output: str, typed: str, is_echo: bool) -> None:
    assert is_only_echo(output, typed) is is_echo


async def test_a_program_is_told_what_terminal_it_has(shell: ShellHost) -> None:
    with_terminal = await shell.start("echo $TERM", pty=True)
    without = await shell.start("echo $TERM")
    chosen = await shell.start("echo $TERM", env={"TERM": "vt100"})
    read = [(await shell.read(each, "\n"))["output"].strip() for each in (with_terminal, without, chosen)]
    executed = await shell.call("shell_exec", command="echo $TERM")
    assert (read, executed["stdout"]) == (["xterm-256color", "dumb", "vt100"], "dumb\n")


async def test_a_password_is_asked_for_in_a_terminal_and_not_shown(shell: ShellHost) -> None:
    command = "stty -echo; printf 'Password: '; read word; stty echo; echo; echo got ${#word}; sleep 300"
    session = await shell.start(command, pty=True)
    await shell.read(session, "Password: $")
    assert (await shell.read(session, r"got 6\r\n", input="secret\n"))["output"] == "\r\ngot 6\r\n"


async def test_stop_ends_it_and_says_how(shell: ShellHost) -> None:
    session = await shell.start("sleep 300")
    stopped = await shell.call("shell_stop_session", session_id=session)
    assert stopped == {"session_id": session, "stopped": True, "exit_code": 143, "signal": "TERM"}
    again = await shell.call("shell_stop_session", session_id=session)
    assert (again["stopped"], again["already_ended"]) == (True, True)


@pytest.mark.parametrize(("signal", "code"), [("INT", 130), ("SIGHUP", 129), ("9", 137), (10, 138), ("term", 143)])
async def test_a_signal_goes_by_name_or_number(shell: ShellHost, signal: str | int, code: int) -> None:
    session = await shell.start("exec sleep 300")
    assert (await shell.call("shell_stop_session", session_id=session, signal=signal))["exit_code"] == code


async def test_a_signal_that_does_not_exist_is_refused(shell: ShellHost) -> None:
    session = await shell.start("sleep 300")
    refused = await shell.call("shell_stop_session", session_id=session, signal="TREM")
    assert refused["error"]["code"] == "INVALID_PARAMS"


async def test_a_session_that_ignores_the_signal_is_killed_after_its_grace(shell: ShellHost) -> None:
    session = await shell.start("trap '' TERM; echo ready; while true; do sleep 1; done")
    await shell.read(session, "ready")
    stopped = await shell.call("shell_stop_session", session_id=session)
    assert (stopped["exit_code"], stopped["signal"], stopped["escalated"]) == (137, "KILL", True)


async def test_the_eleventh_session_is_refused_when_fifty_start_at_once(shell: ShellHost) -> None:
    calls = [shell.call("shell_start_session", command="exec sleep 300") for _ in range(50)]
    answers = await asyncio.gather(*calls)
    started = [answer for answer in answers if "session_id" in answer]
    refused = {answer["error"]["code"] for answer in answers if "error" in answer}
    assert (len(started), refused) == (10, {"SESSION_LIMIT"})
    # A process that is just becoming another program has no environment to be known by.
    await eventually(shell.processes, lambda found: len(found) == 10)


async def test_a_place_is_free_again_after_a_stop(tmp_path: Path) -> None:
    async with shell_host(tmp_path, max_sessions=1) as host:
        session = await host.start("sleep 300")
        assert (await host.call("shell_start_session", command="true"))["error"]["code"] == "SESSION_LIMIT"
        await host.call("shell_stop_session", session_id=session)
        await host.start("true")


async def test_a_session_is_ended_when_its_time_is_over(tmp_path: Path) -> None:
    async with shell_host(tmp_path, session_age_s=1) as host:
        session = await host.start("sleep 300")
        ended = await host.call("shell_send_input", session_id=session, input="", wait_ms=10_000)
        assert (ended["running"], ended["signal"]) == (False, "TERM")
