"""What credentials allow, and above all what they do not, on a real NATS server with the accounts that we write."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest

from mcp_agent.fleet.bus import Bus, BusError, Message, NoResponders, NotPermitted, Serve
from mcp_agent.fleet.credentials import FleetKeys, Role
from mcp_agent.fleet.nats_address import FleetError
from tests.support.daemon import command
from tests.support.fleet import call, running_fleet
from tests.support.nats import REFUSED, NatsServer, nats_server
from tests.support.waiting import PATIENCE_S, eventually

_PREFIX = {"member": "_INBOX.box", "gateway": "_INBOX.gateway"}
_NAMES = {"member": "gpu1", "gateway": "main"}
_NOTHING: Mapping[str, Serve] = {}


class Fleet:
    """A server with our accounts, and credentials for it."""

    def __init__(self, keys: FleetKeys, server: NatsServer, folder: Path) -> None:
        self.keys = keys
        self.server = server
        self._folder = folder

    def credentials(self, name: str, role: Role, lifetime_s: int | None = None) -> Path:
        file = self._folder / f"{role}-{name}.creds"
        if not file.exists():
            file.write_text(self.keys.invite(name, role, lifetime_s))
        return file

    @contextlib.asynccontextmanager
    async def connected(
        self, name: str, role: Role, serving: Mapping[str, Serve] = _NOTHING, *, lifetime_s: int | None = None
    ) -> AsyncIterator[Bus]:
        file = self.credentials(name, role, lifetime_s)
        bus = Bus(self.server.url, name=name, credentials=file, inbox_prefix=f"{_PREFIX[role]}.{name}")
        for subject, serve in serving.items():
            bus.serve(subject, serve)
        await bus.start()
        try:
            yield bus
        finally:
            await bus.close()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    keys = FleetKeys(folder / "keys")
    keys.create()
    with nats_server(folder, keys.server_accounts()) as server:
        yield Fleet(keys, server, folder)


async def answer(message: Message) -> None:
    await message.respond(message.subject.encode())


async def test_one_role_serves_every_box(fleet: Fleet) -> None:
    def served_by(name: str) -> dict[str, Serve]:
        calls = (f"agent.{name}.b00t.{verb}.*" for verb in ("call", "read", "cancel"))
        return dict.fromkeys((*calls, f"agent.{name}.who", "agent.who"), answer)

    async with (
        fleet.connected("gpu1", "member", served_by("gpu1")),
        fleet.connected("gpu2", "member", served_by("gpu2")),
        fleet.connected("main", "gateway") as gateway,
    ):
        for name in ("gpu1", "gpu2"):
            for verb in ("call", "read", "cancel"):
                subject = f"agent.{name}.b00t.{verb}.main"
                assert await gateway.request(subject, b"", PATIENCE_S) == subject.encode()
            assert await gateway.request(f"agent.{name}.who", b"", PATIENCE_S)
        assert await gateway.request("agent.who", b"", PATIENCE_S)


async def test_beats_of_members_reach_gateways(fleet: Fleet) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def hear(message: Message) -> None:
        heard.put_nowait(message.subject)

    async with (
        fleet.connected("gpu1", "member") as member,
        fleet.connected("main", "gateway", {"agent.*.beat": hear}),
    ):
        await member.publish("agent.gpu1.beat", b"")
        async with asyncio.timeout(PATIENCE_S):
            assert await heard.get() == "agent.gpu1.beat"


@pytest.mark.parametrize(
    ("role", "subject"),
    [
        # A box is no other box, calls nobody, and answers only what it was asked.
        ("member", "agent.gpu2.beat"),
        ("member", "agent.gpu2.who"),
        ("member", "agent.who"),
        ("member", "agent.gpu2.b00t.call.main"),
        ("member", "agent.gpu1.b00t.call.main"),
        ("member", "agent.gpu2.b00t.call.gpu1"),
        ("member", "_INBOX.gateway.main.1.1"),
        ("member", "$SRV.PING"),
        ("member", "$SYS.REQ.SERVER.PING"),
        # A gateway calls under its own name, and is no box.
        ("gateway", "agent.gpu1.b00t.call.other"),
        ("gateway", "agent.gpu1.b00t.read.other"),
        ("gateway", "agent.gpu1.b00t.cancel.other"),
        ("gateway", "agent.gpu1.beat"),
        ("gateway", "_INBOX.gateway.other.1.1"),
        ("gateway", "_INBOX.box.gpu1.1.1"),
        ("gateway", "$SYS.REQ.SERVER.PING"),
    ],
)
async def test_what_a_role_may_not_publish(fleet: Fleet, role: Role, subject: str) -> None:
    async with fleet.connected(_NAMES[role], role) as bus:
        with pytest.raises(NotPermitted):
            await bus.request(subject, b"", PATIENCE_S)


@pytest.mark.parametrize(
    ("role", "subject"),
    [
        ("member", "agent.gpu2.b00t.call.*"),
        ("member", "agent.*.b00t.call.*"),
        ("member", "agent.gpu2.who"),
        ("member", "agent.*.beat"),
        ("member", "agent.gpu1.beat"),
        ("member", "agent.>"),
        ("member", ">"),
        ("member", "_INBOX.>"),
        ("member", "_INBOX.gateway.main.>"),
        ("member", "_INBOX.box.gpu2.>"),
        ("member", "$SRV.PING.mcp-agent.gpu2"),
        ("gateway", "agent.gpu1.b00t.call.*"),
        ("gateway", "agent.gpu1.b00t.call.main"),
        ("gateway", "agent.gpu1.who"),
        ("gateway", "agent.who"),
        ("gateway", "_INBOX.gateway.other.>"),
        ("gateway", "_INBOX.>"),
        ("gateway", ">"),
    ],
)
async def test_what_a_role_may_not_hear(fleet: Fleet, role: Role, subject: str) -> None:
    with pytest.raises(FleetError, match="they do not allow to subscribe to"):
        async with fleet.connected(_NAMES[role], role, {subject: answer}):
            pass


async def test_a_member_answers_a_request_once_and_to_an_inbox_only(
    fleet: Fleet, caplog: pytest.LogCaptureFixture
) -> None:
    """A gateway that asks for the answer on the subject of another gateway's call must not get it delivered there."""
    served: asyncio.Queue[str] = asyncio.Queue()

    async def answer_twice(message: Message) -> None:
        await message.respond(b"first")
        await message.respond(b"second")
        served.put_nowait(message.reply)

    reached: list[Message] = []

    async def reach(message: Message) -> None:
        reached.append(message)
        await message.respond(b"")

    async with (
        fleet.connected("gpu1", "member", {"agent.gpu1.b00t.call.*": answer_twice}),
        fleet.connected("gpu2", "member", {"agent.gpu2.b00t.call.*": reach}),
        fleet.connected("main", "gateway") as gateway,
    ):
        assert await gateway.request("agent.gpu1.b00t.call.main", b"", PATIENCE_S) == b"first"
        async with asyncio.timeout(PATIENCE_S):
            inbox = await served.get()
            assert inbox.startswith("_INBOX.gateway.main.")
            await eventually(lambda: f"do not allow to publish to {inbox.lower()}" in caplog.text)
            await _publish_with_reply(fleet, "agent.gpu1.b00t.call.main", "agent.gpu2.b00t.call.other")
            assert await served.get() == ""
        await gateway.request("agent.gpu2.b00t.call.main", b"", PATIENCE_S)
        assert [message.subject for message in reached] == ["agent.gpu2.b00t.call.main"]


async def test_a_fleet_with_credentials_serves_calls(fleet: Fleet, tmp_path: Path) -> None:
    with running_fleet(tmp_path, fleet.server.url) as programs:
        programs.member("gpu1", "--no-listen", "--creds", str(fleet.credentials("gpu1", "member")))
        gateway = programs.gateway("main", "--creds", str(fleet.credentials("main", "gateway"))).daemon
        assert gateway is not None
        assert (await call(gateway, "shell_exec", command="echo hello"))["stdout"] == "hello\n"
        # A tool that reads files does not read what the box logs in with.
        closed = await call(gateway, "fs_read", path=str(fleet.credentials("gpu1", "member")))
        assert "error" in closed


async def test_credentials_that_expired_are_refused(fleet: Fleet) -> None:
    with pytest.raises(FleetError, match=REFUSED):
        async with fleet.connected("late", "member", lifetime_s=-10):
            pass


async def test_credentials_of_another_fleet_are_refused(fleet: Fleet, tmp_path: Path) -> None:
    other = FleetKeys(tmp_path / "keys")
    other.create()
    file = tmp_path / "gpu1.creds"
    file.write_text(other.invite("gpu1", "member", None))
    with pytest.raises(FleetError, match=REFUSED):
        await Bus(fleet.server.url, name="gpu1", credentials=file, inbox_prefix="_INBOX.box.gpu1").start()
    with pytest.raises(FleetError, match=REFUSED):
        await Bus(fleet.server.url, name="gpu1", inbox_prefix="_INBOX.box.gpu1").start()


async def test_revoked_credentials_end_when_the_server_reads_its_accounts_again(tmp_path: Path) -> None:
    keys = FleetKeys(tmp_path / "keys")
    keys.create()
    with nats_server(tmp_path, keys.server_accounts()) as server:
        fleet = Fleet(keys, server, tmp_path)
        async with fleet.connected("gpu1", "member") as revoked, fleet.connected("gpu2", "member") as kept:
            assert keys.revoke("gpu1") == 1
            server.reload(keys.server_accounts())
            await eventually(lambda: not revoked.is_connected)
            with pytest.raises(FleetError, match=REFUSED):
                async with fleet.connected("gpu1", "member"):
                    pass
            # The server may let go of everybody of an account that has changed; who is not revoked comes back.
            await eventually(lambda: kept.is_connected)
        # A new file for the same box is as good as the first one was.
        (tmp_path / "member-gpu1.creds").unlink()
        async with fleet.connected("gpu1", "member", {"agent.gpu1.who": answer}):
            pass


@pytest.mark.parametrize("name", ["", "GPU", "a.b", "*", "a b", ">", "x" * 41, "-a"])
def test_a_name_that_would_be_more_than_a_name_is_refused(tmp_path: Path, name: str) -> None:
    keys = FleetKeys(tmp_path / "keys")
    keys.create()
    with pytest.raises(FleetError, match="lower-case letters"):
        keys.invite(name, "member", None)


async def test_the_commands_make_a_fleet_that_works(home: Path) -> None:
    made = command(home, "fleet", "init", "--out", "server")
    assert made.returncode == 0, made.stderr
    keys = home / ".local" / "state" / "mcp-agent" / "fleet"
    assert f"in {keys}" in made.stdout
    assert (keys.stat().st_mode & 0o777, (keys / "keys.json").stat().st_mode & 0o777) == (0o700, 0o600)
    accounts = (home / "server" / "nats-accounts.conf").read_text()
    assert not any(seed in accounts for seed in json.loads((keys / "keys.json").read_text())["keys"].values())
    assert "include ./nats-accounts.conf" in (home / "server" / "nats-server.conf").read_text()

    assert command(home, "fleet", "invite", "gpu1").returncode == 0
    assert (home / "gpu1.creds").stat().st_mode & 0o777 == 0o600
    assert command(home, "fleet", "invite", "main", "--gateway", "--expires", "30d").returncode == 0
    again = command(home, "fleet", "invite", "gpu1")
    assert (again.returncode, "gpu1.creds exists" in again.stderr) == (1, True)

    with nats_server(home, accounts) as server:
        member = Bus(server.url, name="gpu1", credentials=home / "gpu1.creds", inbox_prefix="_INBOX.box.gpu1")
        gateway = Bus(server.url, name="main", credentials=home / "main.creds", inbox_prefix="_INBOX.gateway.main")
        member.serve("agent.gpu1.b00t.call.*", answer)
        await member.start()
        await gateway.start()
        assert await gateway.request("agent.gpu1.b00t.call.main", b"", PATIENCE_S)

        revoked = command(home, "fleet", "revoke", "gpu1")
        assert revoked.returncode == 0, revoked.stderr
        server.reload((home / "server" / "nats-accounts.conf").read_text())

        async def is_gone() -> bool:
            try:
                await gateway.request("agent.gpu1.b00t.call.main", b"", 1)
            except NoResponders:
                return True
            except BusError:
                pass
            return False

        await eventually(is_gone)
        await member.close()
        await gateway.close()
    listed = json.loads(command(home, "fleet", "invited", "--json").stdout)
    assert [(each["name"], each["role"], each["revoked"]) for each in listed] == [
        ("gpu1", "member", True),
        ("main", "gateway", False),
    ]
    assert "revoked" in command(home, "fleet", "invited").stdout


def test_init_keeps_keys_and_a_configuration_that_are_there(home: Path) -> None:
    command(home, "fleet", "init", "--out", "server")
    keys = (home / ".local" / "state" / "mcp-agent" / "fleet" / "keys.json").read_text()
    config = home / "server" / "nats-server.conf"
    config.write_text(config.read_text().replace("64K", "128K"))
    again = command(home, "fleet", "init", "--out", "server")
    assert again.returncode == 0
    assert "128K" in config.read_text()
    assert (home / ".local" / "state" / "mcp-agent" / "fleet" / "keys.json").read_text() == keys


@pytest.mark.parametrize("arguments", [("invite", "gpu1"), ("invited",), ("revoke", "gpu1")])
def test_without_keys_the_first_step_is_named(home: Path, arguments: tuple[str, ...]) -> None:
    ended = command(home, "fleet", *arguments)
    assert ended.returncode == 1
    assert "`mcp-agent fleet init` makes them" in ended.stderr


async def _publish_with_reply(fleet: Fleet, subject: str, reply: str) -> None:
    """As no gateway of ours does."""
    import nats

    client = await nats.connect(fleet.server.url, user_credentials=str(fleet.credentials("main", "gateway")))
    await client.publish(subject, b"", reply=reply)
    await client.close()


def test_who_joins_with_the_credentials_of_another_is_told_whose_are_wanted(fleet: Fleet, home: Path) -> None:
    url = fleet.server.url.replace("nats://", "nats://somebody:sesame@")
    others, gateway = fleet.credentials("gpu2", "member"), fleet.credentials("main", "gateway")
    for asked, expected in (
        (
            ("serve", "--box", "gpu1", "--no-listen", "--creds", str(others)),
            "these credentials are not those of mcp-agent box gpu1",
        ),
        (
            ("gateway", "--name", "spare", "--port", "0", "--creds", str(gateway)),
            "these credentials are not those of mcp-agent gateway spare",
        ),
        (
            ("gateway", "--name", "gpu2", "--port", "0", "--creds", str(others)),
            "these credentials are not those of mcp-agent gateway gpu2",
        ),
        (("serve", "--box", "gpu1", "--no-listen"), "credentials (--creds)"),
    ):
        ended = command(home, *asked, "--fleet", url)
        assert (ended.returncode, expected in ended.stderr) == (1, True), ended.stderr
        assert "sesame" not in ended.stderr


@pytest.mark.parametrize("address", ["nats://me:sesame@127.0.0.1:99999", "me:sesame@[::1", "http://me:sesame@host"])
def test_a_password_in_an_address_that_is_none_is_not_shown(home: Path, address: str) -> None:
    ended = command(home, "serve", "--no-listen", "--fleet", address)
    assert (ended.returncode, "is no address of NATS" in ended.stderr, "sesame" in ended.stderr) == (1, True, False)


def test_what_cannot_be_written_is_not_invited(home: Path) -> None:
    made = command(home, "fleet", "init", "--out", str(home / "nats"), "--listen", "127.0.0.1:5222")
    assert "nats://SERVER:5222" in made.stdout
    for asked in (("gpu1", "--out", str(home / "nowhere" / "x")), ("GPU 1", "--out", str(home / "x"))):
        assert command(home, "fleet", "invite", *asked).returncode == 1
    assert not (home / "x").exists()
    assert command(home, "fleet", "invited").stdout == ""
