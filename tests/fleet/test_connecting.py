"""What a bus connects to, and what it refuses: addresses, servers and credentials."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_agent.fleet import nats_address
from mcp_agent.fleet.bus import Bus
from mcp_agent.fleet.nats_address import FleetError
from tests.support import ROOT
from tests.support.certificate import self_signed
from tests.support.daemon import command
from tests.support.nats import REFUSED, NatsServer, nats_server

_CLOSED = "authorization { users: [{user: few, password: x}] }"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path) as started:
        yield started


async def _connected(url: str, credentials: Path | None = None) -> Bus:
    bus = Bus(url, name="test", credentials=credentials, inbox_prefix="_INBOX")
    await bus.start()
    return bus


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "is empty"),
        ("http://127.0.0.1", "no address of NATS"),
        ("nats://127.0.0.1:port", "no address of NATS"),
        ("nats://192.0.2.1:4222", "no credentials are given"),
        ("nats://127.0.0.1,nats.example", "no credentials are given"),
    ],
)
def test_an_address_that_cannot_be_used_is_refused(url: str, message: str) -> None:
    with pytest.raises(FleetError, match=message):
        Bus(url, name="test", inbox_prefix="_INBOX")


async def test_a_server_that_is_not_there_is_named(server: NatsServer) -> None:
    server.kill()
    bus = await _connected(server.url)
    assert f"NATS at {server.host}:{server.port} cannot be used: Connection refused" in str(bus.problem)
    await bus.close()


async def test_a_server_of_small_messages_is_refused_with_what_to_set(tmp_path: Path) -> None:
    with nats_server(tmp_path, "max_payload: 40000") as server:
        ended = command(tmp_path, "serve", "--no-listen", "--box", "one", "--fleet", server.url)
    assert (ended.returncode, "its max_payload is 40000 bytes, and a fleet needs 1048576" in ended.stderr) == (1, True)


async def test_a_wrong_password_is_named_without_showing_it(tmp_path: Path) -> None:
    with nats_server(tmp_path, _CLOSED) as server:
        url = server.url.replace("nats://", "nats://few:secret@")
        with pytest.raises(FleetError, match=REFUSED) as error:
            await _connected(url)
        assert "secret" not in str(error.value)


async def test_an_address_with_tls_is_never_connected_to_in_plain_text(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FleetError, match="does not encrypt"):
        await _connected(server.url.replace("nats://", "tls://"))
    folder = self_signed(tmp_path)
    encrypting = NatsServer(
        tmp_path, f'tls {{ cert_file: "{folder}/cert.pem", key_file: "{folder}/key.pem" }}', host="127.0.0.1"
    )
    encrypting.start()
    try:
        url = encrypting.url.replace("nats://", "tls://")
        with pytest.raises(FleetError, match="its certificate is not trusted"):
            await _connected(url)
        monkeypatch.setenv("SSL_CERT_FILE", str(folder / "cert.pem"))
        bus = await _connected(url)
        assert bus.is_connected
        await bus.close()
    finally:
        encrypting.kill()


async def test_a_server_beyond_this_machine_must_authenticate(server: NatsServer, tmp_path: Path) -> None:
    """Servers of tests are on this machine, so the check of the greeting is called itself."""
    (open_one,) = nats_address.parse_servers(server.url)
    with pytest.raises(FleetError, match="accepts anonymous clients"):
        await nats_address.refuse_open_server(open_one)
    with nats_server(tmp_path, _CLOSED) as closed:
        await nats_address.refuse_open_server(nats_address.parse_servers(closed.url)[0])


@pytest.mark.parametrize("text", ["", "no credentials\n", "-----BEGIN NATS USER JWT-----\n"])
async def test_a_file_that_holds_no_credentials_is_refused(server: NatsServer, tmp_path: Path, text: str) -> None:
    file = tmp_path / "gpu1.creds"
    file.write_text(text)
    with pytest.raises(FleetError, match="no credentials file of NATS"):
        await _connected(server.url, file)


def test_without_the_extra_an_error_says_what_to_install() -> None:
    program = f"""
import asyncio, sys
sys.path.insert(0, {str(ROOT)!r})
sys.modules["nats"] = None
from mcp_agent.fleet.bus import Bus
asyncio.run(Bus("nats://127.0.0.1", name="x", inbox_prefix="_INBOX").start())
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "the client of NATS is not installed" in ended.stderr
    assert f"install it with: {sys.executable} -m pip install 'nats-py" in ended.stderr
