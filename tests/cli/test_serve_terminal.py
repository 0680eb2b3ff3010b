"""`mcp-agent serve` on a terminal: what it shows when it is ready, while it runs, and when it is ended."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import COMMAND, environment
from tests.support.terminal import Terminal, on_a_terminal
from tests.support.waiting import PATIENCE_S, eventually_sync


@contextlib.contextmanager
def _serving(home: Path, *arguments: str, **extra: str) -> Iterator[Terminal]:
    with on_a_terminal(home, "serve", "--port", "0", *arguments, **extra) as terminal:
        terminal.wait_for("Ctrl-C ends it.")
        yield terminal
        assert terminal.interrupt() == 0


def _url(shown: str) -> str:
    found = re.search(r"URL +(http://127\.0\.0\.1:\d+)/mcp\n", shown)
    assert found is not None
    return found[1]


def test_it_shows_how_to_connect(home: Path) -> None:
    file = home / ".local" / "state" / "mcp-agent" / "token"
    with _serving(home) as terminal:
        token = file.read_text().strip()
        assert _url(terminal.shown)
        # Apart from the word Bearer: it is pasted into a field for the key.
        assert f"  key    {token}\n         new, kept in {file}\n" in terminal.shown
        assert f"  tools  {home / '.config' / 'mcp-agent' / 'tools.json'}\n" in terminal.shown
        assert "plain HTTP" not in terminal.shown
    with _serving(home) as terminal:
        # A token is shown once, when it is made; after that, where it is.
        assert token not in terminal.shown
        assert f"  key    in {file}; to see it: " in terminal.shown


@pytest.mark.parametrize("has_own_place", [False, True])
def test_the_commands_it_shows_work_as_they_stand(home: Path, has_own_place: bool) -> None:
    """Seen: after `make serve`, `mcp-agent` is not on the PATH, and each command of the banner was not found; and with
    `--state-dir`, they asked another daemon, or none.
    """
    places = ("--state-dir", str(home / "a state"), "--tools-file", str(home / "own.json")) if has_own_place else ()
    with _serving(home, *places, PATH="/usr/bin:/bin") as terminal:
        port = _url(terminal.shown).rpartition(":")[2]
        assert f"  page   http://127.0.0.1:{port}/\n         to log in: /" in terminal.shown
        lines = [line.strip() for line in terminal.shown.splitlines() if line.startswith("    /")]
        commands = [line.partition("#")[0].strip() for line in lines]
        assert [line.split()[1] for line in commands] == ["connect", "connect", "connect", "call", "doctor"]
        commands[1] += " --dry-run"
        for line in commands:
            done = subprocess.run(
                ["sh", "-c", line],
                env=environment(home, {"PATH": "/usr/bin:/bin"}),
                capture_output=True,
                text=True,
                cwd=home,
                timeout=PATIENCE_S,
                check=False,
            )
            assert done.returncode == 0, (line, done.stderr)
            assert ("--print" not in line and "--dry-run" not in line) or f":{port}/" in done.stdout, done.stdout
    with _serving(home, PATH=f"{Path(COMMAND).parent}:/usr/bin:/bin") as terminal:
        assert "    mcp-agent doctor" in terminal.shown


def test_it_warns_of_plain_http_and_shows_only_what_leads_here(home: Path) -> None:
    with _serving(home, "--host", "0.0.0.0") as terminal:
        assert "This is plain HTTP: what is sent can be read on the way." in terminal.shown
        hosts = re.findall(r"http://(\S+):(\d+)/mcp\n", terminal.shown)
        assert hosts
        for host, port in hosts:
            socket.create_connection((host.strip("[]"), int(port)), PATIENCE_S).close()


def test_it_shows_who_connects_and_each_call_and_what_ctrl_c_did(home: Path) -> None:
    with _serving(home) as terminal:
        _play_client(_url(terminal.shown), (home / ".local/state/mcp-agent/token").read_text().strip())
        shown = terminal.wait_for("LOGIN refused: wrong token")
        assert "goose 2.5 connected over http (token owner, profile default, results as text)\n" in shown
        assert re.search(r"\d\d:\d\d:\d\d  goose  fs_list \S+  ok  \d+ ms, [\d.]+ k?B\n", shown)
        assert re.search(r"goose  fs_read missing  NOT_FOUND  ", shown)
        assert re.search(r"goose  shell_exec exit … <6 chars>  exit 3  ", shown)
        assert "\x1b[32mok\x1b[0m" in terminal.raw
        # One line for a call: the log does not repeat it.
        assert "tool.exec_failed" not in shown
        assert terminal.interrupt() == 0
        assert "Stopping: 1 session and every stream end now. Ctrl-C again ends it at once.\n" in terminal.shown
        assert re.search(r"mcp-agent has stopped after \d+ s and 4 calls\.", terminal.shown)


def test_quiet_shows_nothing(home: Path) -> None:
    runtime = home / ".local" / "state" / "mcp-agent" / "daemon.json"
    with on_a_terminal(home, "serve", "--port", "0", "-q") as terminal:
        eventually_sync(runtime.exists)
        # It answers: from here on it ends in order.
        urllib.request.urlopen(f"{json.loads(runtime.read_text())['url']}/health", timeout=PATIENCE_S).close()
        assert terminal.interrupt() == 0
        assert terminal.raw == ""


def _play_client(url: str, token: str) -> None:
    """A client introduces itself, calls four tools, and comes back with a wrong token."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

    def post(method: str, key: str, **params: object) -> http.client.HTTPResponse:
        message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        asked = urllib.request.Request(f"{url}/mcp/", message, {"Authorization": f"Bearer {key}", **headers})
        answer: http.client.HTTPResponse = urllib.request.urlopen(asked, timeout=PATIENCE_S)
        answer.read()
        return answer

    info = {"name": "goose", "version": "2.5"}
    answer = post("initialize", token, protocolVersion="2025-11-25", capabilities={}, clientInfo=info)
    headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
    post("tools/call", token, name="fs_list", arguments={"path": "."})
    post("tools/call", token, name="fs_read", arguments={"path": "missing"})
    post("tools/call", token, name="shell_start_session", arguments={"command": "sleep 600"})
    post("tools/call", token, name="shell_exec", arguments={"command": "exit 3"})
    with pytest.raises(urllib.error.HTTPError, match="401"):
        post("ping", "wrong")
