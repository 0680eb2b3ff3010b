"""`mcp-agent status`, `stop`, `restart`, `logs` and `uninstall`, with a daemon and without."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.daemon import COMMAND, Daemon, command, environment, running
from tests.support.waiting import eventually_sync


def test_without_a_daemon_the_exit_code_is_three(home: Path) -> None:
    for words in (("status",), ("stop",), ("restart",), ("open",), ("sessions", "list"), ("mount", "restart", "x")):
        done = command(home, *words)
        assert done.returncode == 3, (words, done)
        assert "no daemon is running" in done.stdout + done.stderr
    assert json.loads(command(home, "status", "--json").stdout)["running"] is False


def test_status_says_where_the_daemon_is_and_what_it_does(daemon: Daemon) -> None:
    shown = dict(line.split("\t", 1) for line in daemon.cli("status").stdout.splitlines())
    assert shown["daemon"] == f"runs at {daemon.url}, process {daemon.process.pid}"
    assert shown["profile"] == "default"
    assert shown["tools"] == str(daemon.tools_json)
    facts = json.loads(daemon.cli("status", "--json").stdout)
    assert (facts["running"], facts["pid"], facts["url"]) == (True, daemon.process.pid, daemon.url)


def test_stop_ends_the_daemon_and_its_sessions(home: Path) -> None:
    with running(home) as daemon:
        daemon.cli("call", "shell_start_session", "command=sleep 300")
        done = daemon.cli("stop")
        assert (done.returncode, f"process {daemon.process.pid}" in done.stdout) == (0, True), done
        assert daemon.process.wait(1) == 0
        assert daemon.cli("status").returncode == 3


def test_restart_starts_it_with_the_same_flags_from_the_same_folder(home: Path) -> None:
    (home / "here").mkdir()
    with running(home, "--profile", "lean", "--text-bytes", "5000", cwd=home / "here") as daemon:
        done = daemon.cli("restart", "--json")
        assert done.returncode == 0, done.stderr
        facts = json.loads(done.stdout)
        try:
            assert facts["pid"] != daemon.process.pid
            assert json.loads(daemon.cli("status", "--json").stdout)["pid"] == facts["pid"]
            again = json.loads((home / ".local/state/mcp-agent/daemon.json").read_text())
            assert again["arguments"][-4:] == ["--profile", "lean", "--text-bytes", "5000"]
            assert again["folder"] == str(home / "here")
        finally:
            assert daemon.cli("stop").returncode == 0


def test_logs_are_kept_and_filtered_and_followed(home: Path) -> None:
    with running(home) as daemon:
        daemon.save('{"activeProfile": "nobody"}')
        eventually_sync(lambda: daemon.cli("logs").stdout, lambda shown: "registry.rejected" in shown)
        lines = [json.loads(line) for line in daemon.cli("logs", "--json").stdout.splitlines()]
        assert {"ts", "level", "event"} <= lines[0].keys()
        assert len(daemon.cli("logs", "--last", "1").stdout.splitlines()) == 1
        assert daemon.cli("logs", "--since", "2999-01-01").stdout == ""
    # They outlive the daemon.
    assert "registry.rejected" in command(home, "logs", "--since", "1h").stdout
    assert command(home, "logs", "--since", "soon").returncode == 2


@pytest.mark.parametrize("answer", ["\n", "no\n", ""])
def test_only_a_yes_uninstalls(home: Path, answer: str) -> None:
    assert command(home, "token", "create", "laptop").returncode == 0
    asked = subprocess.run(
        [COMMAND, "uninstall"], input=answer, capture_output=True, text=True, env=environment(home), check=False
    )
    assert (asked.returncode, "Nothing was removed." in asked.stdout) == (0, True), asked
    assert "laptop" in command(home, "token", "list").stdout


def test_uninstall_says_what_is_where_and_removes_what_we_wrote(home: Path) -> None:
    claude = home / ".gemini" / "settings.json"
    claude.parent.mkdir()
    claude.write_text('{"theme": "dark"}\n')
    settings = home / ".config/mcp-agent/config.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text("port = 0\n")
    foreign = home / ".local/state/mcp-agent/notes.txt"
    with running(home, "--tools-file", str(home / ".config/mcp-agent/tools.json")) as daemon:
        assert command(home, "connect", "gemini-cli").returncode == 0
        foreign.write_text("mine")
        foreign.with_name("oauth.json").write_text("{}")
        shown = command(home, "uninstall", "--dry-run")
        assert (shown.returncode, "Nothing was removed." in shown.stdout) == (0, True), shown
        assert "devbox" in claude.read_text()
        done = command(home, "uninstall", "--yes", "--json")
        assert done.returncode == 0, done.stderr
        facts = json.loads(done.stdout)
        assert (facts["removed"], facts["kept"]) == (True, [str(settings)])
        assert daemon.process.wait(1) == 0
    assert claude.read_text() == '{"theme": "dark"}\n'
    assert [path.name for path in settings.parent.iterdir()] == ["config.toml"]
    assert [path.name for path in foreign.parent.iterdir()] == ["notes.txt"]
