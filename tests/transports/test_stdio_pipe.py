"""Standard input and output, whatever is at their other ends."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tools.sessions import process_tree
from tools.sessions.process_tree import ProcessId

_COMMAND = [str(Path(sys.executable).with_name("mcp-agent")), "stdio"]


def _request(request_id: int, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}).encode()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}


def _read_large(tmp_path: Path) -> bytes:
    large = tmp_path / "large.txt"
    large.write_text("0123456789" * 20_000)
    arguments = {"path": str(large), "max_bytes": 400_000}
    return _request(2, "tools/call", name="fs_read", arguments=arguments)


def test_requests_from_a_pipe_are_answered_however_they_are_cut(tmp_path: Path, environment: dict[str, str]) -> None:
    # A line longer than what one read gives, two lines in one piece, and a last one without its end.
    long = _request(1, "ping", padding="x" * 300_000)
    sent = b"\n".join([long, _read_large(tmp_path), _request(3, "ping"), _request(4, "ping")])
    run = subprocess.run(_COMMAND, input=sent, stdout=subprocess.PIPE, env=environment, timeout=20, check=True)
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, run.stdout.splitlines())}
    assert sorted(answers) == [1, 2, 3, 4]
    assert answers[2]["structuredContent"]["size"] == 200_000


def test_requests_from_a_file_are_answered(tmp_path: Path, environment: dict[str, str]) -> None:
    asked, answered = tmp_path / "asked", tmp_path / "answered"
    asked.write_bytes(_request(1, "ping") + b"\n" + _read_large(tmp_path) + b"\n")
    with asked.open("rb") as stdin, answered.open("wb") as stdout:
        subprocess.run(_COMMAND, stdin=stdin, stdout=stdout, env=environment, timeout=20, check=True)
    assert sorted(json.loads(line)["id"] for line in answered.read_bytes().splitlines()) == [1, 2]


def _answers(environment: dict[str, str], *lines: bytes) -> list[dict[str, Any]]:
    sent = b"".join(line + b"\n" for line in lines)
    run = subprocess.run(_COMMAND, input=sent, stdout=subprocess.PIPE, env=environment, timeout=60, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def _write(request_id: int, size: int) -> dict[str, Any]:
    call = {"name": "fs_write", "arguments": {"path": "/nowhere", "content": "x" * size}}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": call}


def test_what_is_too_large_is_answered_once_under_its_id_with_the_limit(environment: dict[str, str]) -> None:
    too_long_a_string = json.dumps(_write(1, 5_000_000)).encode()
    # Some clients write the id last.
    id_at_the_end = json.dumps(dict(reversed(_write(2, 5_000_000).items()))).encode()
    too_long_a_line, line_with_id_at_the_end = (
        json.dumps(each).encode() for each in (_write(3, 34_000_000), dict(reversed(_write(4, 17_000_000).items())))
    )
    too_deep = _request(5, "ping", deep=[[[{"id": 99}]]]).replace(b"[[[", b"[" * 100).replace(b"]]]", b"]" * 100)
    answers = _answers(
        environment,
        too_long_a_string,
        id_at_the_end,
        too_long_a_line,
        line_with_id_at_the_end,
        too_deep,
        b"x" * 17_000_000,
        _request(6, "ping"),
    )
    assert len(answers) == 7, "one answer to each line"
    told = {answer["id"]: answer.get("error", {}).get("message") for answer in answers}
    string, line = "a string in this message is longer than 4194304 bytes", "longer than 16777216 bytes"
    assert told[1] == told[2] == string
    assert line in told[3]
    assert told[3] == told[4] == told[None]
    assert "64 levels" in told[5]
    assert told[6] is None


_STUBBORN = "trap '' TERM; sleep 3197 & echo $!; while :; do sleep 1; done"


def _start_stubborn(environment: dict[str, str]) -> tuple[subprocess.Popen[bytes], ProcessId]:
    """A server in the middle of a call whose processes do not end by themselves, and one of those processes."""
    process = subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    assert process.stdin is not None
    assert process.stdout is not None
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a-test", "version": "1"}}
    session = {"name": "shell_start_session", "arguments": {"command": _STUBBORN}}
    call = {"name": "shell_exec", "arguments": {"command": _STUBBORN}}
    for line in (
        _request(1, "initialize", **params),
        b'{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        _request(2, "tools/call", **session),
        _request(3, "tools/call", **call),
    ):
        process.stdin.write(line + b"\n")
    process.stdin.flush()
    while (told := json.loads(process.stdout.readline())).get("method") != "notifications/shell_session_output":
        pass
    child = int(told["params"]["chunk"])
    started = process_tree.start_time(child)
    assert started is not None
    return process, ProcessId(child, started)


@pytest.mark.alone
def test_the_end_of_input_during_a_call_ends_the_program_within_a_second(environment: dict[str, str]) -> None:
    process, child = _start_stubborn(environment)
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        began = time.monotonic()
        process.stdin.close()
        told = [json.loads(line) for line in process.stdout]
        process.wait(20)
        took_s = time.monotonic() - began
    assert took_s < 1.0
    assert not process_tree.is_alive(child)
    assert [each["error"]["message"] for each in told if each.get("id") == 3] == [
        "Request cancelled: the input has ended, and so does the server"
    ]


@pytest.mark.alone
def test_a_broken_output_ends_the_program_also_when_it_has_nothing_to_say(environment: dict[str, str]) -> None:
    process, child = _start_stubborn(environment)
    with process:
        assert process.stdout is not None
        began = time.monotonic()
        process.stdout.close()
        process.wait(20)
        took_s = time.monotonic() - began
    assert took_s < 1.0
    assert not process_tree.is_alive(child)


def test_a_client_that_has_closed_its_side_and_does_not_read_holds_nothing_up(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    with subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None
        process.stdin.write(_read_large(tmp_path) + b"\n")
        process.stdin.close()
        process.wait(20)
