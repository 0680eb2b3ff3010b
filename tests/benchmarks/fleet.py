"""A fleet: what a call through a gateway costs, how fast a file is copied, and what many boxes change."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import orjson

from mcp_agent.fleet.nats_address import FleetError
from tests.benchmarks.event_client import Room, opened, receive
from tests.benchmarks.http_client import HttpClient
from tests.benchmarks.mcp_messages import Era, http_call, message, opened_http, unopened_http
from tests.benchmarks.processes import Program, mcp_agent, running, subject
from tests.benchmarks.rows import Bench, Goal, Meter, PeerMissing, Row
from tests.benchmarks.shell import LINE, MB
from tests.support.nats import NatsServer, nats_server

_TOKEN = "benchmark-token-of-32-characters"
_ERA: Era = "2025-11-25"
_FILE_MB = _OUTPUT_MB = 100
_MANY, _FEW = 500, 5
_AT_ONCE = 8
_PATIENCE_S = 30.0

Call = Callable[[], object]
_IN_A_FLEET = "the same on the box"
_BARE = "a bare gateway on nats-py"


def rows() -> list[Row]:
    few = f"with {_FEW} boxes"
    return [
        Row("fleet-call", "p50 of a trivial call through a gateway", _IN_A_FLEET, "µs", Goal(4.2), _call_latency),
        Row(
            "fleet-call-cpu",
            "processor time of a gateway for a trivial call",
            "serve for the same",
            "µs",
            Goal(2.3),
            _call_processor_time,
        ),
        Row("fleet-call-bare", "the same: its p50", _BARE, "µs", Goal(1.7), _bare_latency),
        Row("fleet-call-bare-cpu", "the same: its processor time", _BARE, "µs", Goal(2.3), _bare_processor_time),
        Row(
            "fleet-call-bare-eight",
            f"the same for {_AT_ONCE} clients at once, a call",
            _BARE,
            "µs",
            Goal(1.5),
            _bare_at_once,
        ),
        Row(
            "fleet-copy",
            f"box_copy of {_FILE_MB} MB",
            "a copy on one disk, synced",
            "MB/s",
            Goal(150.0, is_ceiling=False, of="ours"),
            _copies,
            rounds=7,
        ),
        Row(
            "fleet-events",
            f"{_OUTPUT_MB} MB in lines → one client of /events of a gateway",
            "/events of the box",
            "MB/s",
            Goal(0.35, is_ceiling=False),
            _events,
            rounds=7,
        ),
        Row(
            "fleet-events-rate",
            "the same: its rate alone",
            "/events of the box",
            "MB/s",
            Goal(100.0, is_ceiling=False, of="ours"),
            _events,
            rounds=7,
        ),
        Row("fleet-boxes", f"boxes, of {_MANY}", few, "ms", Goal(2.0), partial(_many_boxes, "boxes")),
        Row("fleet-list", f"tools/list, of {_MANY} boxes", few, "ms", Goal(2.0), partial(_many_boxes, "list")),
        Row(
            "fleet-list-time",
            f"tools/list, of {_MANY} boxes: its time alone",
            few,
            "ms",
            Goal(10.0, of="ours"),
            partial(_many_boxes, "list"),
            rounds=5,
        ),
    ]


class _Fleet:
    """A nats-server, and members and gateways that end with the stack."""

    def __init__(self, stack: ExitStack, bench: Bench) -> None:
        self._stack = stack
        self._folder = bench.folder
        try:
            self._server: NatsServer = stack.enter_context(nats_server(bench.folder))
        except FleetError as error:
            raise PeerMissing(str(error)) from None

    @property
    def url(self) -> str:
        return self._server.url

    def member(self, name: str, *more: str) -> tuple[Program, str]:
        return self._start(subject("echo_cli"), name, "serve", "--fleet", self.url, "--box", name, "--port", "0", *more)

    def gateway(self, name: str = "gw") -> tuple[Program, str]:
        return self._start(mcp_agent("gateway"), name, "--fleet", self.url, "--name", name, "--port", "0")

    def many(self, count: int) -> None:
        """Members that only say who they are."""
        program = self._stack.enter_context(running([*subject("many_members"), self.url, str(count)], self._folder))
        program.line()

    def bare_gateway(self) -> tuple[Program, str]:
        """One that only passes bodies on, to a member that only sends them back."""
        member, gateway = (
            self._stack.enter_context(running([*subject("bare_gateway"), role, self.url], self._folder))
            for role in ("member", "gateway")
        )
        member.line()
        return gateway, gateway.line().decode().strip().removesuffix("/mcp")

    def _start(self, command: list[str], name: str, *arguments: str) -> tuple[Program, str]:
        home = self._folder / name
        home.mkdir()
        places = ("--tools-file", str(home / "tools.json"), "--state-dir", str(home / "state"))
        program = self._stack.enter_context(
            running([*command, *arguments, *places], home, environment={"MCP_AGENT_TOKEN": _TOKEN})
        )
        return program, json.loads(program.line())["url"]


@contextmanager
def _call_latency(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    with ExitStack() as stack:
        (_, direct), (_, through) = _gateway_and_box(stack, bench)
        yield _p50(_echo(through), bench), _p50(_echo(direct), bench)


@contextmanager
def _call_processor_time(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    with ExitStack() as stack:
        (box, direct), (gateway, through) = _gateway_and_box(stack, bench)
        yield _processor_time(gateway, _echo(through), bench), _processor_time(box, _echo(direct), bench)


@contextmanager
def _bare_latency(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    with ExitStack() as stack:
        (_, through), (_, bare) = _gateway_and_bare(stack, bench)
        yield _p50(_echo(through), bench), _p50(_echo_unopened(bare), bench)


@contextmanager
def _bare_processor_time(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    with ExitStack() as stack:
        (gateway, through), (floor, bare) = _gateway_and_bare(stack, bench)
        ours = _processor_time(gateway, _echo(through), bench)
        yield ours, _processor_time(floor, _echo_unopened(bare), bench)


@contextmanager
def _bare_at_once(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    with ExitStack() as stack:
        (_, through), (_, bare) = _gateway_and_bare(stack, bench)
        ours = [opened_http(f"{through}/mcp", _ERA, _TOKEN) for _ in range(_AT_ONCE)]
        floor = [unopened_http(f"{bare}/mcp", _ERA, _TOKEN) for _ in range(_AT_ONCE)]
        yield _p50(_echoes(ours), bench, 1e6 / _AT_ONCE), _p50(_echoes(floor), bench, 1e6 / _AT_ONCE)


def _echoes(clients: list[HttpClient]) -> Call:
    """A call of each client, all under way at once."""
    requests = [http_call(client, _ERA, "echo", {"text": "hello"}) for client in clients]

    def call() -> None:
        for client, request in zip(clients, requests, strict=True):
            client.send(request)
        for client in clients:
            client.receive()

    return call


def _gateway_and_bare(stack: ExitStack, bench: Bench) -> tuple[tuple[Program, str], tuple[Program, str]]:
    fleet = _Fleet(stack, bench)
    fleet.member("one")
    bare = fleet.bare_gateway()
    return fleet.gateway(), bare


def _gateway_and_box(stack: ExitStack, bench: Bench) -> tuple[tuple[Program, str], tuple[Program, str]]:
    fleet = _Fleet(stack, bench)
    box = fleet.member("one")
    return box, fleet.gateway()


@contextmanager
def _copies(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    source = bench.folder / "source"
    block = os.urandom(1_000_000)
    with source.open("wb") as writing:
        for _ in range(_FILE_MB):
            writing.write(block)
    with ExitStack() as stack:
        fleet = _Fleet(stack, bench)
        fleet.member("one")
        fleet.member("two")
        client = HttpClient(f"{fleet.gateway()[1]}/tools/box_copy", {"authorization": f"Bearer {_TOKEN}"})

        def ours() -> float:
            target = bench.folder / "copy"
            target.unlink(missing_ok=True)
            body = {"from_box": "one", "from": str(source), "to_box": "two", "to": str(target)}
            began = time.perf_counter()
            answer = orjson.loads(client.exchange(client.written(orjson.dumps(body))).body)
            took_s = time.perf_counter() - began
            if answer.get("bytes") != source.stat().st_size:
                raise RuntimeError(f"it was not copied: {answer}")
            return _FILE_MB / took_s

        yield ours, lambda: _local_copy(source, bench.folder / "local")


@contextmanager
def _events(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    size = _OUTPUT_MB * MB
    room = Room(size + size // 8)
    with ExitStack() as stack:
        (_, direct), (_, through) = _gateway_and_box(stack, bench)

        def rate(url: str) -> float:
            listening = opened(url, "/events", _TOKEN)
            starter = unopened_http(f"{direct}/rpc", _ERA, _TOKEN)
            began = time.perf_counter()
            starter.exchange(
                http_call(starter, _ERA, "shell_start_session", {"command": f"yes {LINE} | head -c {size}"})
            )
            receive([listening], [room], b"shell_session_exit")
            took_s = time.perf_counter() - began
            starter.close()
            if sum(len(each["chunk"]) for each in room.events() if "chunk" in each) != size:
                raise RuntimeError("bytes are missing")
            return _OUTPUT_MB / took_s

        yield partial(rate, through), partial(rate, direct)


def _local_copy(source: Path, target: Path) -> float:
    target.unlink(missing_ok=True)
    began = time.perf_counter()
    with source.open("rb") as reading, target.open("wb") as writing:
        shutil.copyfileobj(reading, writing, 1 << 20)
        os.fsync(writing.fileno())
    return _FILE_MB / (time.perf_counter() - began)


@contextmanager
def _many_boxes(what: str, bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    with ExitStack() as stack:
        meters: list[Meter] = []
        for count in (_MANY, _FEW):
            place = Bench(bench.folder / str(count), bench.is_quick)
            place.folder.mkdir()
            fleet = _Fleet(stack, place)
            fleet.many(count)
            client = opened_http(f"{fleet.gateway()[1]}/mcp", _ERA, _TOKEN)
            _wait_for_boxes(client, count)
            request = (
                http_call(client, _ERA, "boxes", {})
                if what == "boxes"
                else client.written(message("tools/list", request_id=1))
            )
            meters.append(_p50(partial(client.exchange, request), bench, unit_s=1e3))
        yield meters[0], meters[1]


def _wait_for_boxes(client: HttpClient, count: int) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        answer = orjson.loads(client.exchange(http_call(client, _ERA, "boxes", {})).body)
        found: dict[str, Any] = answer["result"]
        if f"{count} boxes" in str(found["content"]) or f'"total":{count}' in str(found["content"]).replace(" ", ""):
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"{count} boxes did not join: {answer}")
        time.sleep(0.1)


def _echo(url: str) -> Call:
    return _echo_of(opened_http(f"{url}/mcp", _ERA, _TOKEN))


def _echo_unopened(url: str) -> Call:
    """Of a server that knows no handshake."""
    return _echo_of(unopened_http(f"{url}/mcp", _ERA, _TOKEN))


def _echo_of(client: HttpClient) -> Call:
    request = http_call(client, _ERA, "echo", {"text": "hello"})
    answer = orjson.loads(client.exchange(request).body)
    if "hello" not in str(answer):
        raise RuntimeError(f"this is no echo: {answer}")
    return partial(client.exchange, request)


def _p50(call: Call, bench: Bench, unit_s: float = 1e6) -> Meter:
    def measure() -> float:
        times: list[float] = []
        deadline = time.perf_counter() + bench.round_s
        while (began := time.perf_counter()) < deadline:
            call()
            times.append(time.perf_counter() - began)
        return median(times) * unit_s

    return measure


def _processor_time(program: Program, call: Call, bench: Bench) -> Meter:
    def measure() -> float:
        before, used, calls = program.processor_s(), 0.0, 0
        # The clock has steps of 10 ms: a round in which the machine stood still is made longer.
        while not used:
            deadline = time.perf_counter() + bench.round_s
            while time.perf_counter() < deadline:
                call()
                calls += 1
            used = program.processor_s() - before
        return used / calls * 1e6

    return measure
