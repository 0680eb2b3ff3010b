"""`mcp-agent audit`: the log as people read it."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from mcp_agent.storage.audit_reader import parse_time
from tests.support.daemon import COMMAND, command, environment
from tests.support.terminal import on_a_terminal
from tests.support.waiting import PATIENCE_S

_NOW = datetime.now(UTC)


def _line(seq: int, tool: str = "fs_read", *, minutes_ago: float = 0, **facts: Any) -> str:
    at = (_NOW - timedelta(minutes=minutes_ago)).isoformat().replace("+00:00", "Z")
    line = {"ts": at, "seq": seq, "boot": "b", "client": "owner", "transport": "http", "tool": tool, "outcome": "ok"}
    return json.dumps({**line, "ms": 1.5, "bytes": 1234, "args": {"path": f"/{seq}"}, **facts}) + "\n"


@pytest.fixture
def folder(home: Path) -> Path:
    """An audit folder with three files, the oldest last, and something wrong in one."""
    folder = home / "state" / "audit"
    folder.mkdir(parents=True)
    (folder / "audit.jsonl.2").write_text(_line(1, minutes_ago=3_000) + _line(2, "shell_exec", minutes_ago=2_900))
    (folder / "audit.jsonl.1").write_text(_line(3, minutes_ago=90, client="bot") + "{damaged\n" + _line(4))
    newest = _line(5, outcome="DENIED", rule="no-env") + _line(6, outcome="NOT_FOUND") + _line(7, "fs_list")
    event = {"ts": _NOW.isoformat(), "seq": 8, "boot": "b", "event": "policy", "by": "file", "changes": ["default: x"]}
    (folder / "audit.jsonl").write_text(newest + json.dumps(event) + "\n")
    return folder


def _audit(home: Path, *options: str) -> subprocess.CompletedProcess[str]:
    done = command(home, "audit", "--state-dir", str(home / "state"), *options)
    assert done.returncode == 0, done.stderr
    return done


def _seqs(home: Path, *options: str) -> list[int]:
    return [json.loads(line)["seq"] for line in _audit(home, "--json", *options).stdout.splitlines()]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("options", "seqs"),
    [
        ([], [1, 2, 3, 4, 5, 6, 7, 8]),
        (["-n", "3"], [6, 7, 8]),
        (["--last", "0"], [1, 2, 3, 4, 5, 6, 7, 8]),
        (["--tool", "fs_read"], [1, 3, 4, 5, 6]),
        (["--tool", "fs_*", "-n", "2"], [6, 7]),
        (["--caller", "bot"], [3]),
        (["--outcome", "not_found"], [6]),
        (["--rule", "no-env"], [5]),
        (["--errors"], [5, 6]),
        (["--event", "policy"], [8]),
        (["--event", "*"], [8]),
        (["--since", "2h"], [3, 4, 5, 6, 7, 8]),
        (["--since", "30m", "--tool", "fs_list"], [7]),
        (["--since", "2d"], [3, 4, 5, 6, 7, 8]),
        (["--since", "9w"], [1, 2, 3, 4, 5, 6, 7, 8]),
        (["--since", (_NOW - timedelta(minutes=91)).isoformat()], [3, 4, 5, 6, 7, 8]),
        (["--since", "2999-01-01"], []),
    ],
)
def test_the_lines_that_are_asked_for_are_shown_in_order(home: Path, options: list[str], seqs: list[int]) -> None:
    if "2d" in options:
        # The first two are 50 and 48.3 hours old.
        assert _seqs(home, "--since", "49h") == [2, *seqs]
    assert _seqs(home, *options) == seqs


@pytest.mark.usefixtures("folder")
def test_a_line_reads_as_a_sentence(home: Path) -> None:
    shown = _audit(home, "-n", "4").stdout.splitlines()
    at = _NOW.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    assert shown[0] == f"{at}\towner/http\tfs_read\tDENIED\t2 ms\t1,234 B\trule no-env: path=/5"
    assert shown[2] == f"{at}\towner/http\tfs_list\tok\t2 ms\t1,234 B\tpath=/7"
    assert shown[3] == f"{at}\tPOLICY changed by file: default: x (None → None)"
    with on_a_terminal(home, "audit", "-n", "4", "--state-dir", str(home / "state")) as terminal:
        assert terminal.wait() == 0
    line = (
        f"{at}  owner/http        fs_read               DENIED               2 ms       1,234 B  rule no-env: path=/5"
    )
    assert line in terminal.shown.splitlines()
    assert f"\x1b[31m{line}\x1b[0m" in terminal.raw


@pytest.mark.usefixtures("folder")
def test_a_damaged_line_is_left_out_and_told(home: Path) -> None:
    assert _audit(home).stderr == "mcp-agent: 1 line is damaged and skipped\n"
    assert _audit(home, "-n", "1").stderr == ""


def test_control_characters_in_a_line_do_not_reach_the_terminal(home: Path, folder: Path) -> None:
    (folder / "audit.jsonl").write_text(_line(9, tool="\x1b[31mred\n"))
    assert "\\x1b[31mred\\x0a" in _audit(home, "-n", "1").stdout


@pytest.mark.parametrize("options", [["--since", "yesterday"], ["--since", "99999999999w"], ["-n", "-1"], ["-n", "x"]])
def test_what_cannot_be_meant_is_told(home: Path, options: list[str]) -> None:
    done = command(home, "audit", *options)
    assert done.returncode == 2
    assert done.stderr.startswith("mcp-agent: ")
    assert len(done.stderr.splitlines()) == 1


def test_where_there_is_no_log_that_is_said(home: Path) -> None:
    assert "there is no audit log in" in _audit(home).stderr


def test_a_follower_goes_on_over_changes_of_files(home: Path, folder: Path) -> None:
    with _following(home, "--json", "--tool", "fs_*") as heard:
        assert [heard() for _ in range(6)] == [1, 3, 4, 5, 6, 7]
        with open(folder / "audit.jsonl", "a") as log:
            log.write(_line(9) + _line(10, "shell_exec") + "{damaged\n" + _line(11)[:20])
            log.flush()
            assert heard() == 9
            # The rest of a line, and a last one in the old file after it has been moved on; then two more moves.
            (folder / "audit.jsonl").rename(folder / "audit.jsonl.1")
            log.write(_line(11)[20:] + _line(12))
        (folder / "audit.jsonl.1").rename(folder / "audit.jsonl.2")
        (folder / "audit.jsonl.1").write_text(_line(13))
        (folder / "audit.jsonl").write_text(_line(14))
        assert [heard() for _ in range(4)] == [11, 12, 13, 14]


def test_a_follower_waits_for_a_log_that_is_not_there_yet(home: Path) -> None:
    with _following(home, "--json") as heard:
        (home / "state" / "audit").mkdir(parents=True)
        (home / "state" / "audit" / "audit.jsonl").write_text(_line(1))
        assert heard() == 1


@contextmanager
def _following(home: Path, *options: str) -> Iterator[Any]:
    """A following command; the function gives the number of the next line that it prints."""
    process = subprocess.Popen(
        [COMMAND, "audit", "--follow", "--state-dir", str(home / "state"), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(home),
    )
    assert process.stdout is not None
    printed: Queue[bytes] = Queue()
    reader = threading.Thread(target=lambda: deque(map(printed.put, process.stdout or ()), maxlen=0), daemon=True)
    reader.start()
    try:
        yield lambda: json.loads(printed.get(timeout=PATIENCE_S))["seq"]
    finally:
        process.terminate()
        process.wait()
        reader.join()
        process.stdout.close()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("90s", "2026-11-16T11:58:30+00:00"),
        ("2h", "2026-11-16T10:00:00+00:00"),
        ("7d", "2026-11-09T12:00:00+00:00"),
        ("2026-11-01T10:00:00Z", "2026-11-01T10:00:00+00:00"),
    ],
)
def test_a_moment_is_told_in_several_ways(text: str, meant: str) -> None:
    assert parse_time(text, datetime(2026, 11, 16, 12, tzinfo=UTC)).isoformat() == meant
