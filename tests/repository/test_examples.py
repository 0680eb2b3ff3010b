"""What is under examples/ is run, or read by the program that it is for."""

from __future__ import annotations

import configparser
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from mcp_agent.fleet.trial import find_nats_server
from tests.support import ROOT
from tests.support.daemon import COMMAND, Daemon, environment
from tests.support.nats import free_port
from tests.support.waiting import PATIENCE_S, eventually_sync

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


def test_a_fleet_with_keys_of_its_own_is_made_by_the_script(home: Path) -> None:
    folder = home / "fleet"
    path = os.pathsep.join([str(Path(COMMAND).parent), str(find_nats_server().parent), os.environ["PATH"]])
    with (home / "stderr").open("wb") as stderr:
        fleet = subprocess.Popen(
            ["sh", str(_EXAMPLES / "fleet.sh"), str(folder), str(free_port("127.0.0.1"))],
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment(home, {"PATH": path}),
            start_new_session=True,
        )
    assert fleet.stdout is not None
    try:
        ready = next((json.loads(line) for line in fleet.stdout if line.startswith(b"{")), None)
        assert ready is not None, (home / "stderr").read_text()
        key = Path(ready["token_file"]).read_text().strip()
        with httpx2.Client(base_url=ready["url"], headers={"Authorization": f"Bearer {key}"}) as client:

            def boxes() -> list[str]:
                found = client.post("/tools/boxes", json={}).json()
                return [box["box"] for box in found.get("boxes", [])]

            eventually_sync(boxes, lambda found: found == ["one", "two"])
            asked = {"path": "hello.txt", "box": "zone=two"}
            assert client.post("/tools/fs_read", json=asked).json()["content"] == "hello from two\n"
    finally:
        os.killpg(fleet.pid, signal.SIGINT)
        fleet.communicate(timeout=PATIENCE_S)
