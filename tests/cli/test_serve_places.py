"""Where the daemon is started, and where it is reached from."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.daemon import COMMAND, EVERY_TOOL, Daemon, environment, running
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with packages of the same names as ours, which must not be taken for ours."""
    folder = tmp_path / "project"
    for package in ("tools", "registry", "starlette", "orjson"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").write_text("raise SystemExit('the wrong package was imported')\n")
    (folder / "logging.py").write_text("raise SystemExit('the wrong module was imported')\n")
    return folder


@pytest.mark.parametrize("variables", [{}, {"PYTHONPATH": "."}], ids=["plain", "PYTHONPATH=."])
@pytest.mark.parametrize("start", [(COMMAND,), (sys.executable, "-m", "mcp_agent")], ids=["script", "module"])
async def test_a_project_with_packages_of_our_names_is_served(
    home: Path, project: Path, start: tuple[str, ...], variables: dict[str, str]
) -> None:
    # A module of the standard library can be shadowed before our first line runs; that is Python's to answer for.
    (project / "logging.py").unlink()
    with running(home, cwd=project, extra=variables, start=start) as daemon:
        answer = await daemon.rpc("tools/call", name="fs_list", arguments={"path": "."})
    listed = [entry["path"] for entry in answer["result"]["structuredContent"]["entries"]]
    assert str(project / "tools") in listed


def test_stdio_in_such_a_project_is_served_too(home: Path, project: Path) -> None:
    (project / "logging.py").unlink()
    done = subprocess.run(
        [sys.executable, "-m", "mcp_agent", "stdio"],
        input=b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n',
        capture_output=True,
        cwd=project,
        env=environment(home, {"PYTHONPATH": "."}),
        timeout=PATIENCE_S,
        check=True,
    )
    assert len(json.loads(done.stdout)["result"]["tools"]) == len(EVERY_TOOL)


_FROM_THE_NETWORK = """
    import fcntl, http.client, json, socket, struct, subprocess, sys

    # A network of our own: loopback brought up, and an address on it that is not a loopback one.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        def configure(name, address):
            request = struct.pack("16sHH4s8x", name, socket.AF_INET, 0, socket.inet_aton(address))
            fcntl.ioctl(control, 0x8916, request)
            fcntl.ioctl(control, 0x8914, struct.pack("16sH14x", name, 0x41))
        configure(b"lo", "127.0.0.1")
        configure(b"lo:1", "198.51.100.7")
    daemon = subprocess.Popen([*sys.argv[1:], "--host", "0.0.0.0", "--port", "0"], stdout=subprocess.PIPE)
    ready = json.loads(daemon.stdout.readline())
    port = int(ready["url"].rpartition(":")[2])
    token = open(ready["token_file"]).read().strip()
    answers = {}
    for host in ("198.51.100.7", socket.gethostname(), "host.docker.internal", "evil.example", "203.0.113.9"):
        connection = http.client.HTTPConnection("198.51.100.7", port, timeout=20)
        connection.request("GET", "/api/status", headers={"Host": f"{host}:{port}", "Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        answers[host] = [answer.status, json.loads(answer.read()).get("error", {}).get("hint")]
    answers["doctor"] = subprocess.run([sys.argv[1], "doctor"], stdout=subprocess.PIPE).returncode
    daemon.terminate()
    daemon.wait()
    print(json.dumps(answers))
"""


def test_a_daemon_open_to_the_network_answers_to_its_own_names(home: Path) -> None:
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", textwrap.dedent(_FROM_THE_NETWORK), COMMAND, "serve"],
        capture_output=True,
        text=True,
        env=environment(home),
        cwd=home,
        timeout=3 * PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "198.51.100.7": [200, None],
        socket.gethostname(): [200, None],
        "host.docker.internal": [200, None],
        "evil.example": [421, "if the name is meant, start it with: mcp-agent serve --allow-host evil.example"],
        "203.0.113.9": [421, "if the name is meant, start it with: mcp-agent serve --allow-host 203.0.113.9"],
        "doctor": 0,
    }


async def test_an_allowed_name_is_answered_to(home: Path) -> None:
    with running(home, "--allow-host", "box.example") as daemon:
        async with daemon.http(Host="box.example") as http:
            assert (await http.get("/api/status")).status_code == 200


@pytest.mark.alone
async def test_clients_that_stop_reading_delay_nobody(daemon: Daemon) -> None:
    """Twenty clients open streams and never read them, while switches are thrown and another client works."""
    address = daemon.url.removeprefix("http://").split(":")
    stalled = contextlib.ExitStack()
    for index in range(20):
        client = stalled.enter_context(socket.socket())
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.connect((address[0], int(address[1])))
        head = f"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.token}\r\n"
        head += f"Accept: text/event-stream\r\nMcp-Session-Id: stalled-stalled-stalled-{index:02}\r\n\r\n"
        client.sendall(head.encode())
    before_kb = _resident_kb(daemon)
    async with asyncio.timeout(PATIENCE_S), daemon.http() as http:
        for index in range(300):
            body = {"target": "fs_read", "enabled": index % 2 == 1}
            assert (await http.post("/api/switch", json=body)).status_code == 200
        health = (await http.get("/health")).json()
    assert health["clients"]["sessions"] == 20
    assert _resident_kb(daemon) - before_kb < 16_000
    stalled.close()


def _resident_kb(daemon: Daemon) -> int:
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def test_a_stopped_daemon_ends_open_streams_and_leaves_at_once(home: Path) -> None:
    with running(home) as daemon, contextlib.ExitStack() as closing:
        address = daemon.url.removeprefix("http://").split(":")
        client = closing.enter_context(socket.create_connection((address[0], int(address[1])), PATIENCE_S))
        head = f"GET /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.token}\r\n"
        client.sendall(f"{head}Accept: text/event-stream\r\nMcp-Session-Id: {'s' * 30}\r\n\r\n".encode())
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        daemon.process.terminate()
        received = b""
        while chunk := client.recv(65536):
            received += chunk
        assert received.endswith(b"0\r\n\r\n")
        assert daemon.process.wait(PATIENCE_S) == 0
    assert not (home / ".local/state/mcp-agent/daemon.json").exists()
