"""The bus over a real NATS server; most claims are about what nats-py alone does not do."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path

import pytest

from mcp_agent.fleet.bus import (
    Bus,
    Disconnected,
    Message,
    NoResponders,
    NotPermitted,
    PayloadTooLarge,
    Serve,
    TimedOut,
)
from mcp_agent.fleet.nats_address import FleetError
from tests.support.nats import NatsServer, nats_cluster, nats_server
from tests.support.waiting import PATIENCE_S, eventually, within

_RIGHTS = """
authorization {
  users: [
    {user: all, password: x}
    {user: few, password: x, permissions: {publish: ["Mine.>", "_INBOX.>"], subscribe: ["Mine.>", "_INBOX.>"]}}
  ]
}
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with nats_server(tmp_path) as started:
        yield started


@contextlib.asynccontextmanager
async def connected(url: str, **serving: Serve) -> AsyncIterator[Bus]:
    """A bus that serves the subjects of these names."""
    bus = Bus(url, name="test", inbox_prefix="_INBOX")
    for subject, serve in serving.items():
        bus.serve(subject.replace("__", "."), serve)
    await bus.start()
    try:
        yield bus
    finally:
        async with within():
            await bus.close()


async def echo(message: Message) -> None:
    await message.respond(message.data)


async def test_a_request_is_answered(server: NatsServer) -> None:
    async with connected(server.url, who=echo), connected(server.url) as gateway:
        assert await gateway.request("who", b"hello", PATIENCE_S) == b"hello"
        assert await gateway.request("who", b"", PATIENCE_S) == b""


async def test_requests_time_out_each_at_its_own_time(server: NatsServer) -> None:
    async def stay_silent(message: Message) -> None:
        pass

    async with connected(server.url, a=stay_silent), connected(server.url) as gateway:
        late = asyncio.create_task(gateway.request("a", b"", 3_600))
        for timeout_s in (0.2, 0.05, 0.1):
            with pytest.raises(TimedOut, match=f"within {timeout_s:g} s"):
                await gateway.request("a", b"", timeout_s)
        assert not late.done()
        late.cancel()
        await asyncio.wait([late])


async def test_a_request_that_nobody_serves_fails_at_once(server: NatsServer) -> None:
    async with connected(server.url) as gateway, within():
        with pytest.raises(NoResponders, match=r"who"):
            await gateway.request("who", b"", 3_600)


async def test_messages_of_one_subscription_are_served_side_by_side(server: NatsServer) -> None:
    together = asyncio.Barrier(20)

    async def wait_for_the_others(message: Message) -> None:
        await together.wait()
        await message.respond(b"all here")

    async with connected(server.url, a=wait_for_the_others), connected(server.url) as gateway:
        answers = await asyncio.gather(*(gateway.request("a", b"", PATIENCE_S) for _ in range(20)))
        assert answers == [b"all here"] * 20


async def test_an_error_while_serving_ends_neither_the_subscription_nor_the_bus(
    server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail_once(message: Message) -> None:
        if message.data == b"fail":
            raise KeyError("broken")
        await message.respond(b"ok")

    async with connected(server.url, a=fail_once), connected(server.url) as gateway:
        await gateway.publish("a", b"fail")
        assert await gateway.request("a", b"", PATIENCE_S) == b"ok"
        await eventually(lambda: "could not be served" in caplog.text)


async def test_a_payload_over_the_limit_is_refused_and_the_connection_stays(tmp_path: Path) -> None:
    with nats_server(tmp_path, "max_payload: 2000") as server:
        async with connected(server.url) as bus, connected(server.url, a=echo):
            assert bus.max_payload == 2_000
            for send in (bus.publish("a", bytes(2_001)), bus.request("a", bytes(2_001), 1)):
                with pytest.raises(PayloadTooLarge, match=r"2001 bytes .* \(2000\)"):
                    await send
            assert len(await bus.request("a", bytes(2_000), PATIENCE_S)) == 2_000


async def test_headers_of_a_request_do_not_come_back_and_make_the_answer_too_large(tmp_path: Path) -> None:
    """nats-py sends them back with the answer, does not count them, and the server closes its connection for good."""
    import nats

    async def answer_more(message: Message) -> None:
        await message.respond(bytes(1_500))

    with nats_server(tmp_path, "max_payload: 2000") as server:
        client = await nats.connect(server.url)
        async with connected(server.url, a=echo, b=answer_more) as bus:
            connected_at = bus.connected_at
            answer = await client.request("a", bytes(700), timeout=PATIENCE_S, headers={"large": "x" * 1_200})
            assert (len(answer.data), answer.headers) == (700, None)
            answer = await client.request("b", b"", timeout=PATIENCE_S, headers={"large": "x" * 1_200})
            assert len(answer.data) == 1_500
            assert bus.connected_at == connected_at
        await client.close()


async def test_an_error_that_closes_the_client_for_good_is_only_a_reconnect(tmp_path: Path) -> None:
    """The server is reloaded with a smaller limit. nats-py overlooks that, breaks it, and never connects again."""
    with nats_server(tmp_path, "max_payload: 100000") as server:
        async with connected(server.url) as bus, connected(server.url, a=echo):
            server.reload("max_payload: 1000")
            with contextlib.suppress(Disconnected, PayloadTooLarge):
                await bus.request("a", bytes(50_000), PATIENCE_S)
            await eventually(lambda: bus.max_payload, lambda limit: limit == 1_000)
            with pytest.raises(PayloadTooLarge):
                await bus.request("a", bytes(50_000), PATIENCE_S)
            assert await bus.request("a", b"still here", PATIENCE_S) == b"still here"


async def test_a_reconnect_of_nats_py_would_send_old_messages_late(server: NatsServer) -> None:
    """Why each connection is a new client, although nats-py could reconnect: what was in its buffer outlives it."""
    import nats

    heard: list[bytes] = []
    is_heard = asyncio.Event()

    async def hear(message: Message) -> None:
        heard.append(message.data)

    client = await nats.connect(
        server.url, max_reconnect_attempts=-1, reconnect_time_wait=0, pending_size=0, disconnected_cb=is_heard.wait
    )
    server.signal(signal.SIGSTOP)
    size = 0
    while client.pending_data_size == size or size < 4_000_000:
        size = client.pending_data_size
        await client.publish("a", bytes(500_000))
        await asyncio.sleep(0)
    server.kill()
    await eventually(lambda: client.is_reconnecting)
    assert client.pending_data_size > 0
    with pytest.raises(nats.errors.OutboundBufferLimitError):
        await client.publish("a", b"")
    server.start()
    async with connected(server.url, a=hear):
        is_heard.set()
        await eventually(lambda: heard)
    await client.close()


async def test_nothing_is_kept_for_later_while_there_is_no_connection(server: NatsServer) -> None:
    heard: list[bytes] = []

    async def hear(message: Message) -> None:
        heard.append(message.data)
        await message.respond(b"")

    async with connected(server.url) as bus, connected(server.url, a=hear) as member:
        server.kill()
        await eventually(lambda: not bus.is_connected)
        for send in (bus.publish("a", b"lost"), bus.request("a", b"lost", 1)):
            with pytest.raises(Disconnected) as error:
                await send
            assert not error.value.is_sent
        server.start()
        assert await bus.wait_connected(PATIENCE_S)
        assert await member.wait_connected(PATIENCE_S)
        await bus.request("a", b"after", PATIENCE_S)
        assert heard == [b"after"]


async def test_a_request_under_way_fails_when_the_connection_breaks(server: NatsServer) -> None:
    arrived = asyncio.Event()

    async def hang(message: Message) -> None:
        arrived.set()
        await asyncio.Event().wait()

    async with connected(server.url, a=hang), connected(server.url) as gateway:
        async with within(), asyncio.TaskGroup() as group:
            request = group.create_task(_error_of(gateway.request("a", b"", 3_600)))
            await arrived.wait()
            server.kill()
        error = request.result()
        assert isinstance(error, Disconnected)
        assert error.is_sent


async def test_it_connects_again_for_ever_and_keeps_its_subscriptions(server: NatsServer) -> None:
    async with connected(server.url, a=echo) as member, connected(server.url) as gateway:
        for turn in range(5):
            server.kill()
            await eventually(lambda: not member.is_connected and not gateway.is_connected)
            server.start()
            assert await member.wait_connected(PATIENCE_S)
            assert await gateway.wait_connected(PATIENCE_S)
            assert await gateway.request("a", b"%d" % turn, PATIENCE_S) == b"%d" % turn


async def test_two_buses_do_not_come_back_in_step(server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(min(seconds, 0.001))

    async with connected(server.url) as bus:
        server.kill()
        monkeypatch.setattr(asyncio, "sleep", note)
        # More attempts than those after which nats-py gives up.
        async with within(60):
            while len([pause for pause in pauses if pause > 0.02]) < 80:
                await sleep(0.01)
        monkeypatch.undo()
        assert not bus.is_connected
        longest = [pause for pause in pauses if pause > 4]
        assert max(longest) <= 10
        assert len(set(longest)) == len(longest)
        server.start()
        assert await bus.wait_connected(PATIENCE_S)


async def test_a_server_that_takes_nothing_makes_publish_raise(server: NatsServer) -> None:
    async with connected(server.url) as bus:
        await bus.publish("a", b"")
        server.signal(signal.SIGSTOP)
        try:
            async with within(60):
                error = await _error_of(_publish_much(bus))
            assert isinstance(error, TimedOut | Disconnected)
        finally:
            server.signal(signal.SIGCONT)
        assert await bus.wait_connected(PATIENCE_S)


async def test_a_publisher_that_waits_for_room_can_be_cancelled(server: NatsServer) -> None:
    async with connected(server.url) as bus:
        server.signal(signal.SIGSTOP)
        try:
            count = 0

            async def fill() -> None:
                nonlocal count
                while True:
                    await bus.publish("a", bytes(900_000))
                    count += 1

            filling = asyncio.create_task(fill())
            # As many as the buffer of the client holds; from then on it waits.
            await eventually(lambda: count, lambda published: published >= 5)
            filling.cancel()
            async with within():
                assert isinstance((await asyncio.gather(filling, return_exceptions=True))[0], asyncio.CancelledError)
        finally:
            server.signal(signal.SIGCONT)


async def test_what_the_credentials_do_not_allow_raises(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with nats_server(tmp_path, _RIGHTS) as server:
        address = server.url.removeprefix("nats://")
        owners, fews = f"nats://all:x@{address}", f"nats://few:x@{address}"
        async with connected(owners, Other__a=echo) as owner, connected(fews, Mine__a=echo) as few:
            async with within():
                with pytest.raises(NotPermitted, match=r"publish to Other\.a"):
                    await few.request("Other.a", b"", 3_600)
            # For what is only published, the server says it afterwards.
            await few.publish("Other.c", b"")
            await eventually(lambda: "do not allow to publish to other.c" in caplog.text)
            assert await owner.request("Mine.a", b"x", PATIENCE_S) == b"x"
        with pytest.raises(FleetError, match=r"they do not allow to subscribe to Other\.b"):
            async with connected(fews, Other__b=echo):
                pass


async def test_closing_ends_what_is_being_served(server: NatsServer) -> None:
    ended = asyncio.Event()

    async def hang(message: Message) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with connected(server.url) as gateway:
        async with connected(server.url, a=hang) as member:
            with pytest.raises(TimedOut):
                await gateway.request("a", b"", 0.2)
        assert ended.is_set()
        with pytest.raises(Disconnected):
            await member.publish("a", b"")


async def test_a_cluster_is_known_from_one_of_its_servers(tmp_path: Path) -> None:
    with nats_cluster(tmp_path) as servers:
        async with connected(servers[0].url, a=echo) as member, connected(servers[1].url) as gateway:

            async def ask() -> bytes:
                try:
                    return await gateway.request("a", b"x", 1)
                except (NoResponders, TimedOut, Disconnected):
                    return b""

            assert await eventually(ask) == b"x"
            servers[0].kill()
            servers[1].kill()
            assert await eventually(ask, lambda answer: answer == b"x" and member.is_connected) == b"x"


async def test_a_bus_ends_while_it_connects_again(server: NatsServer) -> None:
    """Seen: a cancellation was lost in nats-py, together with a refused connection, and the end waited for ever."""
    buses = [Bus(server.url, name="test", inbox_prefix="_INBOX") for _ in range(100)]
    for bus in buses:
        await bus.start()
    server.kill()
    await eventually(lambda: not any(bus.is_connected for bus in buses))

    async def close(number: int, bus: Bus) -> None:
        # Each in another moment of its attempts.
        await asyncio.sleep(number * 0.002)
        await bus.close()

    async with within():
        await asyncio.gather(*(close(number, bus) for number, bus in enumerate(buses)))


async def _publish_much(bus: Bus) -> None:
    """Far more than the buffers of the system and of the client hold; each message is small enough."""
    for _ in range(200):
        await bus.publish("a", bytes(900_000))


async def _error_of(work: Awaitable[object]) -> Exception | None:
    try:
        await work
    except Exception as error:
        return error
    return None
