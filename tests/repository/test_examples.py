"""What is under examples/ is run, or read by the program that it is for."""

from __future__ import annotations

import configparser
import subprocess
import sys

import pytest

from tests.support import ROOT
from tests.support.daemon import Daemon
from tests.support.waiting import PATIENCE_S

_EXAMPLES = ROOT / "examples"


def test_a_log_is_watched_while_tests_run(daemon: Daemon) -> None:
    done = subprocess.run(
        [sys.executable, str(_EXAMPLES / "watch_while_testing.py"), daemon.url, daemon.token],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "log   the application starts" in lines
    assert "log   a request was served" in lines
    assert "tests exit 0: a test begins / 1 passed" in lines
    assert lines.index("log   a request was served") < lines.index("tests exit 0: a test begins / 1 passed")
    assert lines[-2:] == ["log   ended with 143", "stopped: True"]


@pytest.mark.parametrize(
    "command", [(sys.executable, "minimal_client.py"), ("sh", "minimal_client.sh")], ids=("python", "curl")
)
def test_a_minimal_client_lists_calls_and_follows(daemon: Daemon, command: tuple[str, str]) -> None:
    done = subprocess.run(
        [command[0], str(_EXAMPLES / command[1]), daemon.url, daemon.token],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("tools: ")
    assert "exit 0 Linux" in done.stdout
    assert "one" in done.stdout
    assert done.stdout.splitlines()[-1] == "shell_session_exit 0"


def test_the_unit_ends_the_whole_control_group() -> None:
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # names of systemd keep their case
    unit.read(_EXAMPLES / "mcp-agent.service")
    assert unit["Service"]["KillMode"] == "control-group"
    assert unit["Service"]["Restart"] == "on-failure"
    assert unit["Service"]["ExecStart"].endswith("mcp-agent serve")
