"""Where the daemon can be reached: its addresses, its names, and with TLS."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mcp_agent.security import addresses
from tests.support.certificate import self_signed
from tests.support.daemon import Daemon, command, running
from tests.support.raw import request, send


@pytest.fixture(scope="module")
def open_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """A daemon on every network of this machine, which also answers to a name of its owner's choice."""
    home = tmp_path_factory.mktemp("home")
    with running(home, "--host", "0.0.0.0", "--allow-host", "Box.Example", "--allow-host", "other.example") as started:
        yield started


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with cert.pem and key.pem for 127.0.0.1, signed by itself."""
    return self_signed(tmp_path_factory.mktemp("tls"))


def test_an_ipv6_address_is_served_under_its_own_name(home: Path) -> None:
    with running(home, "--host", "::1") as daemon:
        parts = urlsplit(daemon.url)
        assert (parts.scheme, parts.hostname) == ("http", "::1")
        assert request(daemon, path="/api/status").status == 200
        assert request(daemon, path="/api/status", Host=f"[::1]:{parts.port}").status == 200
        assert request(daemon, path="/api/status", Origin=daemon.url).status == 200
        assert request(daemon, path="/api/status", Host="[::2]").status == 421


@pytest.mark.parametrize("host", ["box.example", "BOX.example:80", "other.example", *addresses.own_names()])
def test_on_every_network_its_own_names_and_allowed_ones_are_answered_to(open_daemon: Daemon, host: str) -> None:
    assert request(open_daemon, Host=host).status == 200


@pytest.mark.parametrize("host", ["evil.example", "box.example.evil.example", "1.2.3.4"])
def test_on_every_network_a_foreign_name_is_still_refused(open_daemon: Daemon, host: str) -> None:
    answer = request(open_daemon, Host=host)
    assert (answer.status, answer.object["error"]["hint"]) == (
        421,
        f"if the name is meant, start it with: mcp-agent serve --allow-host {host}",
    )


def test_tls_is_served_and_plain_http_is_not(home: Path, certificate: Path) -> None:
    keys = ("--tls-cert", str(certificate / "cert.pem"), "--tls-key", str(certificate / "key.pem"))
    with running(home, *keys) as daemon:
        assert daemon.url.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=str(certificate / "cert.pem"))
        head = f"GET /api/status HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {daemon.token}\r\nConnection: close\r\n\r\n"
        assert send(daemon, head.encode(), trusting).object["status"] == "ok"
        done = daemon.cli("call", "fs_list", f"path={home / '.local'}")
        assert (done.returncode, done.stdout.splitlines()[0]) == (0, f"{home / '.local'} · 1 entry")
        with socket.create_connection(("127.0.0.1", urlsplit(daemon.url).port or 0)) as plain:
            plain.sendall(head.encode())
            assert not plain.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("broken", ["cert.pem", "key.pem"])
def test_a_certificate_that_cannot_be_used_is_one_sentence(home: Path, certificate: Path, broken: str) -> None:
    (home / broken).write_text("no PEM")
    keys = {name: certificate / name for name in ("cert.pem", "key.pem")} | {broken: home / broken}
    ended = command(
        home, "serve", "--port", "0", "--tls-cert", str(keys["cert.pem"]), "--tls-key", str(keys["key.pem"])
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"mcp-agent: --tls-cert {keys['cert.pem']} and --tls-key {keys['key.pem']} cannot ")
    assert ended.stderr.count("\n") == 1
