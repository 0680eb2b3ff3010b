"""Standard input and output, whatever is at their other ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

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
