"""Documents of clients are fetched from where strangers choose, and from nowhere that is ours."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mcp_agent.oauth import client_documents
from mcp_agent.oauth.client_documents import MOST_BYTES, ClientDocuments, is_on_internet
from mcp_agent.oauth.oauth_clients import OAuthClients, OAuthError, UnreadableDocument
from tests.support.certificate import self_signed
from tests.support.oauth import CALLBACK, OAuthPeer, public_daemon
from tests.support.waiting import within


class Site:
    """A real HTTPS server with the document of a client, which it can be told to serve otherwise."""

    def __init__(self, folder: Path) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.status, self.headers, self.body = 200, {"content-type": "application/json"}, b""
        self.drips, self.pause = False, threading.Event()
        self.certificate = folder / "cert.pem"
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append((self.path, self.headers["host"]))
                body = site.body or json.dumps(site.document).encode()
                self.send_response(site.status)
                for name, value in {**site.headers, "content-length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                with contextlib.suppress(OSError):
                    while site.drips:
                        self.wfile.write(b" ")
                        site.pause.wait(0.2)
                    self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port
        # The name on the certificate.
        self.url = f"https://localhost:{self.port}/client.json"
        self.document: dict[str, Any] = {
            "client_id": self.url,
            "client_name": "An App",
            "redirect_uris": [CALLBACK, "https://app.example/callback"],
        }

    def reader(self, *addresses: str) -> ClientDocuments:
        """One for which the name has these addresses, and this machine counts as one on the internet."""

        async def resolve(host: str, port: int) -> list[str]:
            return [*addresses] or ["127.0.0.1"]

        context = ssl.create_default_context(cafile=str(self.certificate))
        return ClientDocuments(resolve, lambda each: each == "127.0.0.1" or is_on_internet(each), context)

    @contextlib.contextmanager
    def serving(self) -> Iterator[Site]:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        try:
            yield self
        finally:
            self.drips = False
            self.pause.set()
            self._server.shutdown()
            self._server.server_close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with Site(self_signed(tmp_path)).serving() as started:
        yield started


def _clients(documents: ClientDocuments) -> OAuthClients:
    return OAuthClients(lambda: b"key", documents.read)


async def test_a_document_says_who_a_client_is(site: Site) -> None:
    found = await _clients(site.reader()).find(site.url, CALLBACK)
    assert (found.name, found.voucher, found.redirects) == (
        "An App",
        "localhost",
        tuple(site.document["redirect_uris"]),
    )
    assert site.asked == [("/client.json", f"localhost:{site.port}")]


async def test_it_is_kept_for_as_long_as_it_may_be(site: Site) -> None:
    documents = site.reader()
    for _ in range(3):
        await documents.read(site.url)
    assert len(site.asked) == 1
    # One that could not be read is asked for again.
    site.status = 503
    other = f"{site.url}?other"
    for _ in range(2):
        with pytest.raises(UnreadableDocument):
            await documents.read(other)
    assert len(site.asked) == 3


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.9.1",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.0.2.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fd00::1",
        "::ffff:127.0.0.1",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    ],
)
async def test_a_name_that_leads_into_our_network_is_not_asked(site: Site, address: str) -> None:
    """Alone, and beside an address on the internet: whoever answers for a name can give both."""
    assert not is_on_internet(address)
    for addresses in ([address], ["93.184.215.14", address]):

        async def resolve(host: str, port: int, addresses: list[str] = addresses) -> list[str]:
            return addresses

        with pytest.raises(OAuthError, match="is not on the internet"):
            await ClientDocuments(resolve).read(site.url)
    assert site.asked == []


def test_the_internet_is_the_rest() -> None:
    assert all(map(is_on_internet, ("93.184.215.14", "1.1.1.1", "2606:4700:4700::1111")))


async def test_the_address_that_was_checked_is_the_one_that_is_asked(site: Site) -> None:
    """A second look-up could give another. Here the name means this machine only to us."""
    url = f"https://rebinds.example:{site.port}/client.json"
    with pytest.raises(UnreadableDocument, match="certificate"):
        await site.reader("127.0.0.1").read(url)
    with pytest.raises(UnreadableDocument, match="cannot be read"):
        await ClientDocuments(_nowhere, lambda _: True).read(site.url)


async def _nowhere(host: str, port: int) -> list[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return [f"127.0.0.{2 + free.getsockname()[1] % 200}"]


@pytest.mark.parametrize(
    "url",
    [
        "https://localhost",
        "https://localhost/",
        "https://user@localhost/client.json",
        "https://localhost/client.json#x",
        "https://localhost:0/client.json",
        "https://localhost:99999/client.json",
        "https://localhost/a b",
        "https://localhost\\@evil.example/",
        "https:///client.json",
        "https://[::1/client.json",
        "https://loc\u00e4lhost/x",
    ],
)
async def test_only_a_plain_https_url_is_fetched(site: Site, url: str) -> None:
    with pytest.raises(OAuthError):
        await _clients(site.reader()).find(url, "https://app.example/callback")
    assert site.asked == []


async def test_a_redirect_is_not_followed(site: Site) -> None:
    site.status, site.headers = 302, {"location": "/elsewhere.json"}
    with pytest.raises(UnreadableDocument, match="answered 302"):
        await site.reader().read(site.url)
    assert [path for path, _ in site.asked] == ["/client.json"]


async def test_what_is_too_large_or_compressed_or_no_object_is_no_document(site: Site) -> None:
    for body in (b'"' + b"x" * MOST_BYTES + b'"', b"\x1f\x8b" + b"x" * 100, b"[]", b"<html>", b'"text"'):
        site.body = body
        with pytest.raises(UnreadableDocument):
            await site.reader().read(site.url)


async def test_a_server_that_is_silent_or_drips_is_given_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """In all, however often something comes; here a second in the place of five."""
    assert client_documents._TIMEOUT_S == 5
    monkeypatch.setattr(client_documents, "_TIMEOUT_S", 1.0)
    site.drips = True
    async with within(5):
        with pytest.raises(UnreadableDocument, match="did not answer within 1 s"):
            await site.reader().read(site.url)
        with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(UnreadableDocument, match="Timeout"):
            await site.reader().read(f"https://localhost:{silent.getsockname()[1]}/client.json")


@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": "https://localhost/other.json"},
        {"client_id": None},
        {"redirect_uris": []},
        {"redirect_uris": ["javascript:alert(1)"]},
        {"redirect_uris": ["http://evil.example/"]},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"token_endpoint_auth_methods_supported": ["private_key_jwt"]},
        {"token_endpoint_auth_methods_supported": "none"},
    ],
)
async def test_a_document_that_does_not_fit_is_refused(site: Site, changed: dict[str, Any]) -> None:
    site.document |= changed
    with pytest.raises(OAuthError) as caught:
        await _clients(site.reader()).find(site.url, CALLBACK)
    assert (caught.value.code, caught.value.status) == ("invalid_client", 401)
    assert not isinstance(caught.value, UnreadableDocument)


async def test_a_client_that_prefers_another_method_and_takes_none_is_let_in(site: Site) -> None:
    """As the document of ChatGPT says it."""
    site.document |= {
        "token_endpoint_auth_method": "private_key_jwt",
        "token_endpoint_auth_methods_supported": ["none", "private_key_jwt"],
    }
    assert (await _clients(site.reader()).find(site.url, CALLBACK)).name == "An App"


async def test_a_document_that_cannot_be_read_is_no_more_than_a_registration(site: Site) -> None:
    """With an answer on the user's own machine nobody vouches for it, and with any other it is refused."""
    site.status = 403
    found = await _clients(site.reader()).find(site.url, CALLBACK)
    assert (found.voucher, found.redirects) == (None, (CALLBACK,))
    with pytest.raises(UnreadableDocument):
        await _clients(site.reader()).find(site.url, "https://app.example/callback")


# A daemon for which this machine is one on the internet.
_START = (
    "import sys\n"
    "from mcp_agent.oauth import client_documents as documents\n"
    "documents.ClientDocuments.__init__.__defaults__ = (documents.addresses_of, lambda each: True, None)\n"
    "from mcp_agent.cli import main\n"
    "sys.exit(main.run(sys.argv[1:]))\n"
)


@pytest.fixture
async def asking(site: Site, home: Path) -> AsyncIterator[OAuthPeer]:
    extra = {"SSL_CERT_FILE": str(site.certificate)}
    with public_daemon(home, start=(sys.executable, "-c", _START), extra=extra) as daemon:
        async with OAuthPeer(daemon) as peer:
            yield peer


async def test_a_document_is_fetched_only_for_an_owner_who_is_logged_in(site: Site, asking: OAuthPeer) -> None:
    query = asking.query(site.url)
    assert (await asking.http.get("/authorize", params=query)).status_code == 303
    assert (await asking.http.get("/ui/consent", params=query)).status_code == 200
    shown = await asking.http.get("/ui/api/oauth/request", params=query, headers={"X-MCP-Agent-Page": "1"})
    assert shown.status_code == 401
    form = {"grant_type": "authorization_code", "client_id": site.url, "code": "x", "code_verifier": "x"}
    assert (await asking.http.post("/token", data=form)).json()["error"] == "invalid_grant"
    assert site.asked == []
    assert (await asking.ask(**query)).json()["voucher"] == "localhost"
    assert len(site.asked) == 1
    _, tokens = await asking.granted(site.url)
    assert (await asking.call(tokens["access_token"])).status_code == 200


async def test_a_daemon_asks_nobody_on_its_own_machine(site: Site, home: Path) -> None:
    with public_daemon(home) as daemon:
        async with OAuthPeer(daemon) as peer:
            shown = await peer.ask(**peer.query(site.url))
            assert (shown.status_code, site.asked) == (400, [])
            assert "localhost is not on the internet" in shown.text
