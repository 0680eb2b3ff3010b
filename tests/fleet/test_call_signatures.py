"""Signed calls: what a box takes that trusts gateways by their key, and not the operator of NATS."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_agent.fleet.bus_errors import FleetError
from mcp_agent.fleet.call_signatures import NotTrusted, Signer, Trust, load_signer, make_signing_key, public_bytes
from mcp_agent.fleet.nats_jwt import new_key
from tests.support.daemon import command
from tests.support.fleet import Fleet, call, running_fleet
from tests.support.nats import nats_server

_SUBJECT = "agent.gpu1.b00t.call.main"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with nats_server(tmp_path) as server, running_fleet(tmp_path, server.url) as started:
        yield started


def test_a_signed_message_is_taken_as_it_was_sent() -> None:
    key = new_key("user")
    sealed = Signer(key).seal(_SUBJECT, b'{"id": 1}')
    assert Trust([new_key("user").public, key.public]).open(_SUBJECT, sealed) == b'{"id": 1}'
    assert Trust([]).open(_SUBJECT, sealed) == b'{"id": 1}'
    assert Trust([]).open(_SUBJECT, b'{"id": 1}') == b'{"id": 1}'


def test_only_what_goes_to_a_box_is_signed() -> None:
    signer = Signer(new_key("user"))
    for subject in ("agent.who", "agent.gpu1.who", "_INBOX.gateway.main.1.2"):
        assert signer.seal(subject, b"{}") == b"{}"


def test_what_is_not_exactly_as_it_was_signed_is_refused() -> None:
    key = new_key("user")
    trust = Trust([key.public])
    sealed = Signer(key).seal(_SUBJECT, b'{"id": 1}')
    refused = {
        "not signed": [(_SUBJECT, b'{"id": 1}'), (_SUBJECT, b"")],
        "cut off": [(_SUBJECT, sealed[:50])],
        "does not trust": [(_SUBJECT, Signer(new_key("user")).seal(_SUBJECT, b'{"id": 1}'))],
        "does not fit": [
            (_SUBJECT, sealed + b" "),
            (_SUBJECT, sealed[:-1]),
            ("agent.gpu2.b00t.call.main", sealed),
            ("agent.gpu1.0ther.call.main", sealed),
            ("agent.gpu1.b00t.cancel.main", sealed),
            ("agent.gpu1.b00t.call.other", sealed),
            # Another time.
            (_SUBJECT, sealed[:8] + bytes([sealed[8] ^ 1]) + sealed[9:]),
        ],
    }
    for reason, messages in refused.items():
        for subject, data in messages:
            with pytest.raises(NotTrusted, match=reason):
                trust.open(subject, data)


def test_a_key_that_is_bound_to_a_name_signs_for_no_other_gateway() -> None:
    key, free = new_key("user"), new_key("user")
    trust = Trust([f"main={key.public}", f"spare={key.public}", free.public])
    for gateway in ("main", "spare", "other"):
        subject = f"agent.gpu1.b00t.call.{gateway}"
        assert trust.open(subject, Signer(free).seal(subject, b"{}")) == b"{}"
        sealed = Signer(key).seal(subject, b"{}")
        if gateway == "other":
            with pytest.raises(NotTrusted, match="is that of main or spare, not of other"):
                trust.open(subject, sealed)
        else:
            assert trust.open(subject, sealed) == b"{}"


def test_a_key_that_is_trusted_by_itself_too_signs_for_every_gateway() -> None:
    key = new_key("user")
    sealed = Signer(key).seal(_SUBJECT, b"{}")
    assert Trust([f"other={key.public}", key.public]).open(_SUBJECT, sealed) == b"{}"


def test_an_old_message_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    key = new_key("user")
    now = time.time()
    for apart in (-300.0, 300.0):
        with monkeypatch.context() as other_time:
            other_time.setattr(time, "time", lambda apart=apart: now + apart)
            sealed = Signer(key).seal(_SUBJECT, b"{}")
        with pytest.raises(NotTrusted, match="300 s ago"):
            Trust([key.public]).open(_SUBJECT, sealed)


@pytest.mark.parametrize("text", ["", "abc", "U" * 56, "not base 32!"])
def test_what_is_no_public_key_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no public key"):
        public_bytes(text)


def test_a_key_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    assert load_signer(tmp_path) is None
    public, is_new = make_signing_key(tmp_path)
    assert is_new
    assert make_signing_key(tmp_path) == (public, False)
    assert load_signer(tmp_path) is not None
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("no seed\n")
    with pytest.raises(FleetError, match="cannot be used"):
        load_signer(tmp_path)


async def test_a_box_refuses_a_gateway_that_has_the_key_of_another(fleet: Fleet) -> None:
    home = fleet.folder / "stolen"
    home.mkdir()
    shown = command(home, "fleet", "key", "--name", "main", "--state-dir", str(home / "state"))
    entry = shown.stdout.split('"')[1]
    assert entry.startswith("main=U")
    fleet.member("careful", "--no-listen", "--fleet-trust", entry)
    stolen = fleet.gateway("stolen").daemon
    assert stolen is not None
    refused = await call(stolen, "shell_exec", command="touch ran")
    assert refused["error"]["code"] == "BOX_UNREACHABLE"
    assert "is that of main, not of stolen" in refused["error"]["message"]
    assert not (fleet.folder / "careful" / "ran").exists()


async def test_a_box_that_trusts_a_key_serves_that_gateway_alone(fleet: Fleet) -> None:
    home = fleet.folder / "signing"
    home.mkdir()
    shown = command(home, "fleet", "key", "--state-dir", str(home / "state"))
    assert shown.returncode == 0, shown.stderr
    public = shown.stdout.split('"')[1]
    fleet.member("careful", "--no-listen", "--fleet-trust", public)
    fleet.member("open")
    signing, plain = fleet.gateway("signing").daemon, fleet.gateway("plain").daemon
    assert signing is not None
    assert plain is not None

    for box in ("careful", "open"):
        assert (await call(signing, "shell_exec", command="echo hello", box=box))["stdout"] == "hello\n"
    assert (await call(plain, "shell_exec", command="echo hello", box="open"))["stdout"] == "hello\n"
    refused = await call(plain, "shell_exec", command="touch ran", box="careful")
    assert refused["error"]["code"] == "BOX_UNREACHABLE"
    assert "takes only signed ones" in refused["error"]["message"]
    assert not (fleet.folder / "careful" / "ran").exists()


def test_a_trusted_key_that_is_none_is_refused_at_the_start(home: Path) -> None:
    for key, message in (
        ("short", "no public key"),
        ("U" * 56, "no public key"),
        ("main=short", "no public key"),
        ("Main!=short", "no name of a gateway"),
        ("=short", "no name of a gateway"),
    ):
        ended = command(home, "serve", "--fleet", "nats://127.0.0.1:9", "--no-listen", "--fleet-trust", key)
        assert ended.returncode == 2
        assert message in ended.stderr
