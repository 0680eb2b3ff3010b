"""Host and Origin are read strictly: what is no plain host with a plain port is nobody's name."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from tests.support.daemon import Daemon
from tests.support.raw import request

_REFUSED = [
    "127.0.0.1:1@evil",
    "127.0.0.1:1@evil.example",
    "127.0.0.1:8765.evil.example",
    "127.0.0.1:8765evil",
    "[::1].evil.example",
    "[::1]evil",
    "[::1]:",
    "[::1]:1:2",
    "[::1",
    "::1]",
    "[]",
    "[localhost]",
    "[127.0.0.1]",
    "[::1%25lo]",
    "localhost:1/x",
    "localhost/x",
    "localhost:",
    "localhost:99999",
    "localhost:65536",
    "localhost:+1",
    "localhost:-1",
    "localhost:0x50",
    "localhost:1_0",
    "localhost:1:2",
    "localhost: 1",
    "localhost :1",
    "localhost:1 ,evil.example",
    "localhost,evil.example",
    "localhost evil.example",
    "localhost;evil",
    "localhost?x",
    "localhost#x",
    "localhost\\x",
    "localhost%00",
    "localhost%2eevil.example",
    "user@localhost",
    "user:pass@localhost",
    "@localhost",
    "localhost@",
    "http://localhost",
    "//localhost",
    ".localhost",
    "local.host",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0177.0.0.1",
    "localhost:１",
    "localhost:٣",
    "lоcalhost",
    "ｌocalhost",
    "localhost\xa0",
    "127。0。0。1",
]


@pytest.mark.parametrize("host", _REFUSED)
def test_a_host_that_is_spelt_oddly_is_refused(shared_daemon: Daemon, host: str) -> None:
    for path in ("/health", "/api/status"):
        assert request(shared_daemon, path=path, Host=host).status in (400, 421)


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("host", _REFUSED)
def test_an_origin_that_is_spelt_oddly_is_refused(shared_daemon: Daemon, scheme: str, host: str) -> None:
    assert request(shared_daemon, Origin=f"{scheme}://{host}").status in (400, 403)


@pytest.mark.parametrize("host", [each for each in _REFUSED if "//" not in each])
def test_a_page_at_an_odd_address_is_not_ours_because_it_says_so_twice(shared_daemon: Daemon, host: str) -> None:
    assert request(shared_daemon, Host=host, Origin=f"http://{host}").status in (400, 403, 421)


@pytest.mark.parametrize(
    "origin",
    [
        "{netloc}",
        "//{netloc}",
        "http:{netloc}",
        "http:/{netloc}",
        "http:///{netloc}",
        "http://{netloc}/",
        "http://{netloc}/x",
        "http://{netloc}?x",
        "http://{netloc}#x",
        "http://{netloc}.evil.example",
        "http://{netloc}@evil.example",
        "http://user@{netloc}",
        "http://{host}:0{port}",
        "http://{host}:+{port}",
        "http://{host}:{port}:{port}",
        "http://{host}:",
        "http://{host}",
        "ftp://{netloc}",
        "ws://{netloc}",
        "file://{netloc}",
        "null",
        "http://{netloc} http://{netloc}",
        "http://{netloc},http://evil.example",
        "http://evil.example http://{netloc}",
        "\xa0http://{netloc}",
    ],
)
def test_an_origin_that_only_resembles_ours_is_refused(shared_daemon: Daemon, origin: str) -> None:
    parts = urlsplit(shared_daemon.url)
    spelt = origin.format(netloc=parts.netloc, host=parts.hostname, port=parts.port)
    assert request(shared_daemon, Origin=spelt).status in (400, 403)


@pytest.mark.parametrize("host", ["localhost", "localhost:1", "LocalHost:65535", "127.0.0.1:80", "[::1]", "[::1]:80"])
def test_a_plain_host_is_served_and_so_is_its_page(shared_daemon: Daemon, host: str) -> None:
    assert request(shared_daemon, Host=host).status == 200
    for scheme in ("http", "https"):
        assert request(shared_daemon, Host=host, Origin=f"{scheme}://{host.lower()}").status == 200
