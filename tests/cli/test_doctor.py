"""`mcp-agent doctor` tells apart what clients show as one failure."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from mcp_agent.answers.budget import text_client
from tests.support.daemon import EVERY_TOOL, Daemon, command, environment, running
from tests.support.waiting import PATIENCE_S, eventually
from tests.upstream.mounting import small


def test_a_healthy_daemon_is_found_well(daemon: Daemon) -> None:
    done = daemon.cli("doctor")
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith("all is well\n")
    subjects = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("ok")]
    assert subjects[:3] == ["network", "protocol", "host"]
    for told in (
        "the token is right",
        "handshake settles on 2025-11-25",
        "speaks 2026-07-28",
        f"{len(EVERY_TOOL)} tools, listed in",
    ):
        assert told in done.stdout
    assert "the stream opens and its first event comes at once" in done.stdout


async def test_it_tells_who_was_refused_and_who_was_there_and_what_each_was_given(daemon: Daemon) -> None:
    begin = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "@cline/core", "version": "3.1"},
    }
    async with daemon.http(Accept="application/json, text/event-stream") as http:
        for method, params in (
            ("initialize", begin),
            ("tools/call", {"name": "fs_list", "arguments": {"path": "."}}),
            ("tools/call", {"name": "fs_read", "arguments": {"path": "missing"}}),
        ):
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            answer = await http.post("/mcp", json=message)
            if "Mcp-Session-Id" in answer.headers:
                http.headers["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
        for _ in range(2):
            assert (await http.get("/mcp", headers={"Authorization": "Bearer wrong"})).status_code == 401
    cline = text_client("@cline/core")
    assert cline is not None
    done = daemon.cli("doctor")
    # Somebody was refused: that is worth a look, and nothing is wrong with the daemon.
    assert done.returncode == 0, done.stdout
    assert (
        "note  refusals   refused 2 times in the last hour: wrong token, lastly from 127.0.0.1 for /mcp\n"
        in done.stdout
    )
    assert "→ the client has an old or a mistyped token; `mcp-agent token show` prints the owner's" in done.stdout
    assert (
        "ok    client     @cline/core 3.1 over http, MCP 2025-11-25: token owner, profile default, "
        f"results as text of at most {cline.most_bytes:,} bytes; 2 calls, 1 failed, last seen "
    ) in done.stdout
    findings = json.loads(daemon.cli("doctor", "--json").stdout)
    assert {finding["subject"]: finding["ok"] for finding in findings}["refusals"] is True
    assert all(finding["ok"] for finding in findings)


def test_a_closed_port_is_told_from_a_wrong_name(home: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    closed = command(home, "doctor", f"http://127.0.0.1:{port}")
    assert closed.returncode == 1
    assert "no program listens" in closed.stdout
    assert "mcp-agent serve" in closed.stdout
    unknown = command(home, "doctor", "http://nobody.invalid:8765")
    assert "the name nobody.invalid is not known here" in unknown.stdout


def test_a_misspelt_variable_is_told(daemon: Daemon) -> None:
    done = command(daemon.home, "doctor", "--tools-file", str(daemon.tools_json), MCP_AGENT_PROT="1")
    assert done.returncode == 1
    assert "there is no setting MCP_AGENT_PROT (did you mean MCP_AGENT_PORT?)" in done.stdout
    assert done.stdout.endswith("1 to correct\n")


def test_a_wrong_token_is_told(daemon: Daemon, tmp_path: Path) -> None:
    other = tmp_path / "token"
    other.write_text("not-the-right-token\n")
    other.chmod(0o600)
    done = daemon.cli("doctor", daemon.url, "--token-file", str(other))
    assert done.returncode == 1
    assert "the token is wrong" in done.stdout
    assert "mcp-agent token show" in done.stdout


def test_a_name_it_does_not_answer_to_is_told_with_the_flag(home: Path) -> None:
    with running(home, "--host", "127.0.0.2") as daemon:
        # Names of the loopback network resolve here without a server; this one is not in the list.
        done = daemon.cli("doctor", daemon.url.replace("127.0.0.2", "127.2"))
    assert "--allow-host 127.2" in done.stdout


def test_https_on_a_plain_port_is_told(daemon: Daemon) -> None:
    done = daemon.cli("doctor", daemon.url.replace("http://", "https://"))
    assert done.returncode == 1
    assert "write http:// in the URL" in done.stdout


def test_another_program_on_the_port_is_told(home: Path) -> None:
    with _shouting() as port:
        done = command(home, "doctor", f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert "does not answer HTTP" in done.stdout


def test_a_broken_registry_and_open_files_are_told(daemon: Daemon) -> None:
    daemon.save("{")
    token = daemon.home / ".local/state/mcp-agent/token"
    token.chmod(0o644)
    done = daemon.cli("doctor", daemon.url)
    assert done.returncode == 1
    assert f"chmod 600 {token}" in done.stdout


def test_an_empty_profile_is_told(home: Path) -> None:
    with running(home, "--profile", "browser-only") as daemon:
        done = daemon.cli("doctor")
    assert "the profile shows no tools" in done.stdout


async def test_a_mounted_server_that_does_not_run_is_told(daemon: Daemon) -> None:
    servers = {"gone": {"command": "no-such-program"}, "small": small()}
    categories = [{"id": name, "mount": mount} for name, mount in servers.items()]
    daemon.save({"profiles": [{"id": "default", "categories": categories}]})
    done = await eventually(lambda: daemon.cli("doctor"), lambda done: "gone does not run" in done.stdout)
    assert "FAIL  mount      gone does not run: " in done.stdout
    assert "mount      small is " in done.stdout
    assert "then: mcp-agent mount restart gone\n" in done.stdout


def test_what_is_not_installed_is_told(daemon: Daemon) -> None:
    code = "import sys; sys.modules['PIL'] = None; from mcp_agent.cli.main import run; sys.exit(run(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, "doctor"],
        capture_output=True,
        text=True,
        env=environment(daemon.home),
        timeout=PATIENCE_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "note  images     images that are too large for a message are not scaled down\n" in done.stdout
    assert "pip install 'pillow" in done.stdout
    assert "images " not in daemon.cli("doctor").stdout


@contextlib.contextmanager
def _shouting() -> Iterator[int]:
    """A program that takes connections and answers with something else than HTTP."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")

        threading.Thread(target=answer, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)


async def test_a_name_that_somebody_else_chose_forges_no_line(daemon: Daemon) -> None:
    """Seen: a line feed in a client's name made a line `FAIL` in `doctor`, one in a label a rule in `profile show`."""
    forged = "x\nFAIL  token      forged\r\x1b[2K\u2028"
    rule = {"id": "secret", "pattern": "*.pem", "reason": forged}
    profile = {"id": "default", "label": forged, "description": forged, "deny": {"paths": [rule]}}
    daemon.save({"profiles": [profile, {"id": "mine", "label": forged}]})
    begin = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": forged, "version": forged}}
    async with daemon.http(Accept="application/json, text/event-stream") as http:
        await http.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": begin})
        session = {"command": f"sleep 60 # {forged}"}
        assert (await http.post("/tools/shell_start_session", json=session)).status_code == 200
    for words in (
        ("doctor",),
        ("profile", "show"),
        ("profile", "list"),
        ("token", "list"),
        ("sessions", "list"),
        ("status",),
        ("audit", "--event", "*"),
        ("disable", "fs_read"),
    ):
        done = daemon.cli(*words)
        assert "forged" in done.stdout or words[0] in ("token", "status"), words
        assert [line for line in done.stdout.splitlines() if line.startswith("FAIL")] == [], words
        assert "\x1b" not in done.stdout
