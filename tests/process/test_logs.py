"""Log lines: one JSON object each, whatever a client sends."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mcp_agent.process.logs import JsonLines, logging_to
from tests.support.daemon import Daemon, running
from tests.support.raw import request
from tests.support.waiting import PATIENCE_S, eventually, eventually_sync


@pytest.mark.parametrize(
    ("path", "logged"),
    [
        ("/%0a%7b%22event%22%3a%22forged%22%7d", '/\n{"event":"forged"}'),
        ("/%1b%5b31mred%00", "/\x1b[31mred\x00"),
        ("/%c2%9b31m%7f", "/\x9b31m\x7f"),
        ("/%e2%80%a8line", "/\u2028line"),
    ],
)
def test_a_path_with_control_characters_is_escaped(home: Path, path: str, logged: str) -> None:
    with running(home) as daemon:
        request(daemon, path=path, Authorization="Bearer wrong")
    text = daemon.stderr.read_text("utf-8")
    assert not set(text) & {"\x00", "\x1b", "\x7f", "\x9b", "\u2028", "\r"}
    told = [line for line in map(json.loads, text.split("\n")[:-1]) if line["event"] == "security.token_refused"]
    assert [(line["level"], line["data"]) for line in told] == [("warn", {"path": logged})]


@pytest.mark.parametrize("host", [b"evil\x9b31m.example", b"\xff\xfe", b'"quoted"'])
def test_a_host_that_is_no_name_never_reaches_the_log(home: Path, host: bytes) -> None:
    with running(home) as daemon:
        assert request(daemon, Host=host).status == 400
    text = daemon.stderr.read_text("utf-8")
    assert host.decode("latin-1") not in text
    assert host.decode("utf-8", "replace") not in text


def test_a_foreign_host_is_told_up_to_a_length(home: Path) -> None:
    with running(home) as daemon:
        assert request(daemon, Host=b"x" * 5_000).status == 421
    told = [line for line in daemon.log() if line["event"] == "security.host_refused"]
    assert [line["data"] for line in told] == [{"host": "x" * 200}]


def test_a_day_of_a_daemon_is_told_in_json_lines(home: Path) -> None:
    with running(home, "--log-level", "debug") as daemon:
        assert daemon.cli("call", "fs_read", f"path={home / 'nowhere'}").returncode == 1
        assert daemon.cli("disable", "fs_read").returncode == 0
    lines = [json.loads(line) for line in daemon.stderr.read_text().splitlines()]
    assert all(set(line) <= {"ts", "level", "event", "request_id", "data"} for line in lines)
    events = [line["event"] for line in lines if line["event"].startswith(("tool.", "registry."))]
    assert events == ["tool.request_received", "tool.exec_start", "tool.exec_failed", "registry.reloaded"]
    assert len({line["request_id"] for line in lines if line["event"].startswith("tool.")}) == 1


def test_half_a_surrogate_pair_is_no_end_of_logging() -> None:
    record = logging.LogRecord("x", logging.INFO, "", 0, "an.event", None, None)
    record.data = {"path": "caf\udce9", "object": Path("x")}
    line = json.loads(JsonLines().format(record))
    assert (line["event"], line["data"]) == ("an.event", {"path": "caf\udce9", "object": "x"})


def test_misspelt_variables_are_told_at_the_start(home: Path) -> None:
    extra = {"MCP_AGENT_STATE_DRI": "x", "MCP_AGENT_SESSION": "of another daemon", "MCP_AGENT_LOG_LEVEL": "info"}
    with running(home, extra=extra) as daemon:
        told = asyncio.run(daemon.logged("config.unknown_variable"))
    assert [(line["level"], line["data"]) for line in told] == [
        ("warn", {"message": "there is no setting MCP_AGENT_STATE_DRI (did you mean MCP_AGENT_STATE_DIR?)"})
    ]


def test_lines_that_were_dropped_are_told_in_a_line_like_all_others() -> None:
    """As when a parent does not read our stderr for a while."""

    class Unread(io.StringIO):
        is_read = threading.Event()

        def write(self, text: str) -> int:
            self.is_read.wait()
            return super().write(text)

    stream = Unread()
    with logging_to(stream, "info"):
        for number in range(10_050):
            logging.getLogger("x").info("event.%d", number)
        stream.is_read.set()
        eventually_sync(stream.getvalue, lambda text: "event.9999" in text)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    (dropped,) = [line for line in lines if line["event"] == "log.lines_dropped"]
    assert (dropped["level"], dropped["data"]["count"]) == ("warn", 10_050 - len(lines) + 1)


def test_a_parent_that_never_reads_stderr_does_not_keep_the_process() -> None:
    """As when a StreamHandler waits in `write` with its lock, and `logging.shutdown` waits for that lock."""
    script = (
        "import logging, sys\n"
        "from mcp_agent.process.logs import logging_to\n"
        "with logging_to(sys.stderr, 'info'):\n"
        "    for number in range(11_000):\n"
        "        logging.getLogger('x').info('event.%d', number)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE) as process:
        assert process.wait(PATIENCE_S) == 0


async def test_no_tool_changes_the_log_of_the_daemon(daemon: Daemon) -> None:
    log = daemon.home / ".local" / "state" / "mcp-agent" / "daemon.log"
    await eventually(log.exists, bool)
    log.with_name("daemon.log.1").write_text("older\n")
    async with daemon.http() as client:
        for name in ("daemon.log", "daemon.log.1"):
            path = {"path": str(log.with_name(name))}
            assert (await client.post("/tools/fs_read", json=path)).status_code == 200
            for tool, more in (("fs_delete", {}), ("fs_write", {"content": ""})):
                refused = await client.post(f"/tools/{tool}", json={**path, **more})
                assert refused.json()["error"]["code"] == "DENIED", (tool, name)
