"""Commands and sessions: what one costs beside the bare process, and how its output reaches clients.

Output is compared byte for byte after the clock has stopped; a byte that is missing fails the row.
"""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any
from urllib.parse import quote

import orjson

from tests.benchmarks.event_client import Room, delays_ms, opened, receive
from tests.benchmarks.http_client import HttpClient
from tests.benchmarks.mcp_messages import http_call, unopened_http
from tests.benchmarks.processes import Program, mcp_agent, running, subject
from tests.benchmarks.rows import Bench, Goal, Meter, Row

MB = 1_000_000
LINE = "0123456789012345678901234567890123456789012345678"
EXEC_TRUE = {"command": "true"}
_CHUNK = 65_536
_BARE = "bare Starlette doing the same"
# The last chunk of a response.
_END = b"\r\n0\r\n\r\n"


def rows() -> list[Row]:
    return [
        Row(
            "exec-true",
            "shell_exec true, over /rpc",
            "sh -c true, and a bare call",
            "ms",
            Goal(1.4),
            _exec_true,
        ),
        Row("exec-100mb", "a command that prints 100 MB", "reading its pipe", "ms", Goal(1.5), _exec_large, 5),
        Row(
            "exec-100mb-memory",
            "the same: how much the daemon grows",
            "nothing",
            "MB",
            Goal(20.0, of="ours"),
            _exec_memory,
            1,
        ),
        Row(
            "stream-1",
            "100 MB in lines → one client of /events",
            _BARE,
            "MB/s",
            Goal(0.7, is_ceiling=False),
            partial(_streams, 1, False),
            9,
        ),
        Row(
            "stream-1-ready",
            "the same",
            "bare Starlette that runs no command",
            "MB/s",
            Goal(0.7, is_ceiling=False),
            partial(_streams, 1, True),
            9,
        ),
        Row(
            "stream-20",
            "100 MB in lines → 20 clients, in all",
            f"{_BARE}, 20 clients",
            "MB/s",
            Goal(0.6, is_ceiling=False),
            partial(_streams, 20, False),
            3,
        ),
        Row("line-p99", "a line every 10 ms → client, p99", _BARE, "ms", Goal(1.5), _lines, 5),
        Row(
            "ten-sessions",
            "ten sessions × 50 MB → one client, bytes lost",
            "nothing",
            "bytes",
            Goal(0.0, of="ours"),
            _ten_sessions,
            1,
        ),
        Row(
            "flood-memory",
            "1 GB with a client that sleeps: how much the daemon grows",
            "nothing",
            "MB",
            Goal(64.0, of="ours"),
            _flood,
            1,
        ),
    ]


class Host:
    """Our daemon, and the calls that the rows make."""

    def __init__(self, program: Program) -> None:
        self.program = program
        ready = orjson.loads(program.line())
        self.url: str = ready["url"]
        with open(ready["token_file"]) as file:
            self.token = file.read().strip()
        self.client = self._connected()

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """On a connection of its own: the daemon does not keep an idle one for as long as a round lasts."""
        client = self._connected()
        answer = orjson.loads(client.exchange(http_call(client, "2025-11-25", tool, arguments)).body)
        client.close()
        result: dict[str, Any] = answer["result"]["structuredContent"]
        return result

    def written(self, tool: str, arguments: dict[str, Any]) -> bytes:
        """A call to be made on `client` as often as one likes."""
        return http_call(self.client, "2025-11-25", tool, arguments)

    def listen(self) -> socket.socket:
        """A client of /events that the daemon knows of."""
        return opened(self.url, "/events", self.token)

    def _connected(self) -> HttpClient:
        return unopened_http(f"{self.url}/rpc", "2025-11-25", self.token)


def daemon(stack: ExitStack, bench: Bench) -> Host:
    return Host(stack.enter_context(running(mcp_agent("serve", "--port", "0"), bench.folder)))


def _bare(stack: ExitStack, bench: Bench) -> str:
    program = stack.enter_context(running(subject("bare_stream"), bench.folder))
    return program.line().decode().strip().removesuffix("/mcp")


@contextmanager
def _exec_true(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    with ExitStack() as stack:
        host = daemon(stack, bench)
        bare = unopened_http(
            stack.enter_context(running(subject("bare_http"), bench.folder)).line().decode().strip(), "2025-11-25", ""
        )
        ours = host.written("shell_exec", EXEC_TRUE)
        theirs = http_call(bare, "2025-11-25", "echo", {"text": "true"})

        def floor() -> None:
            bare.exchange(theirs)
            subprocess.run(["sh", "-c", "true"], check=True)

        count = 10 if bench.is_quick else 100
        yield median_ms(lambda: host.client.exchange(ours), count), median_ms(floor, count)


@contextmanager
def _exec_large(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    size = (10 if bench.is_quick else 100) * MB
    command = f"yes {LINE} | head -c {size}"
    with ExitStack() as stack:
        host = daemon(stack, bench)

        def ours() -> float:
            started = time.perf_counter()
            done = host.call("shell_exec", command=command)
            took = time.perf_counter() - started
            if done["exit_code"] != 0 or os.stat(done["output_path"]).st_size != size:  # noqa: PTH116 - a size
                raise RuntimeError(f"this is not all of it: {done['missing_bytes']}")
            return took * 1000

        def theirs() -> float:
            started = time.perf_counter()
            with subprocess.Popen(["sh", "-c", command], stdout=subprocess.PIPE) as process:
                assert process.stdout is not None, "it is started with a pipe"
                while os.read(process.stdout.fileno(), _CHUNK):
                    pass
            return (time.perf_counter() - started) * 1000

        yield ours, theirs


@contextmanager
def _exec_memory(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    size = (10 if bench.is_quick else 100) * MB
    with ExitStack() as stack:
        host = daemon(stack, bench)
        host.call("shell_exec", command="true")
        before = host.program.resident_mb()

        def ours() -> float:
            host.call("shell_exec", command=f"yes {LINE} | head -c {size}")
            return host.program.resident_mb() - before

        yield ours, lambda: 1.0


def _streams(clients: int, is_ready: bool, bench: Bench) -> AbstractContextManager[tuple[Meter, Meter]]:
    """`is_ready`: the other side has the chunks already; else it runs the command too."""

    @contextmanager
    def contest() -> Iterator[tuple[Meter, Meter]]:
        size = (8 if bench.is_quick else 100) * MB
        command = f"yes {LINE} | head -c {size}"
        expected = _digest(size)
        rooms = [Room(size + size // 8) for _ in range(clients)]
        path = f"/ready?line={LINE}&bytes={size}" if is_ready else f"/stream?command={quote(command)}"
        with ExitStack() as stack:
            host, bare = daemon(stack, bench), _bare(stack, bench)

            def ours() -> float:
                listening = [host.listen() for _ in range(clients)]
                started = time.perf_counter()
                host.call("shell_start_session", command=command)
                receive(listening, rooms, b"shell_session_exit")
                took = time.perf_counter() - started
                if any(_printed(room) != expected for room in rooms):
                    raise RuntimeError("bytes are missing")
                return clients * size / MB / took

            def theirs() -> float:
                started = time.perf_counter()
                receive([opened(bare, f"{path}&clients={clients}") for _ in range(clients)], rooms, _END)
                return clients * size / MB / (time.perf_counter() - started)

            yield ours, theirs

    return contest()


@contextmanager
def _lines(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    count = 30 if bench.is_quick else 700
    program = (
        "import os, time\n"
        f"for _ in range({count}):\n"
        "    time.sleep(0.01)\n"
        "    os.write(1, b'%d\\n' % time.monotonic_ns())"
    )
    with ExitStack() as stack:
        host, bare = daemon(stack, bench), _bare(stack, bench)
        command = f'exec python3 -c "{program}"'

        def both() -> tuple[float, float]:
            """At the same time: what disturbs the machine for a moment disturbs both, and decides a p99."""
            listening = host.listen()
            host.call("shell_start_session", command=command)
            other = opened(bare, f"/stream?clients=1&command={quote(command)}")
            ours, theirs = delays_ms([listening, other], count)
            return _p99(ours), _p99(theirs)

        waiting: dict[str, float] = {}

        def side(name: str) -> Meter:
            def meter() -> float:
                if name not in waiting:
                    waiting.update(zip(("ours", "theirs"), both(), strict=True))
                return waiting.pop(name)

            return meter

        yield side("ours"), side("theirs")


@contextmanager
def _ten_sessions(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    size = (2 if bench.is_quick else 50) * MB
    expected = _digest(size)
    room = Room(10 * (size + size // 8))
    with ExitStack() as stack:
        host = daemon(stack, bench)

        def ours() -> float:
            client = host.listen()
            started = [
                host.call("shell_start_session", command=f"yes {LINE} | head -c {size}")["session_id"]
                for _ in range(10)
            ]
            receive([client], [room], b"event: shell_session_exit", times=10)
            by_session: dict[str, Any] = {session: hashlib.sha256() for session in started}
            heard = 0
            for event in room.events():
                if event["type"] == "shell_session_output":
                    data = event["chunk"].encode()
                    heard += len(data)
                    by_session[event["session_id"]].update(data)
            lost = 10 * size - heard
            if lost == 0 and any(digest.hexdigest() != expected for digest in by_session.values()):
                raise RuntimeError("the bytes are not the ones that were printed")
            return float(lost)

        yield ours, lambda: 1.0


@contextmanager
def _flood(bench: Bench) -> Iterator[tuple[Meter, Meter]]:
    size = (100 if bench.is_quick else 1_000) * MB
    with ExitStack() as stack:
        host = daemon(stack, bench)
        sleeping = host.listen()
        stack.callback(sleeping.close)
        # Before the round that warms up: what the daemon keeps from then on counts too.
        before = host.program.resident_mb()

        def ours() -> float:
            most = before
            session = host.call("shell_start_session", command=f"yes {LINE} | head -c {size}")["session_id"]
            is_running = True
            while is_running:
                told = host.call("shell_send_input", session_id=session, input="", wait_ms=100, until="never", since=-1)
                is_running = told["running"]
                most = max(most, host.program.resident_mb())
            return most - before

        yield ours, lambda: 1.0


def median_ms(call: Callable[[], object], count: int) -> Meter:
    def measure() -> float:
        taken = []
        for _ in range(count):
            started = time.perf_counter()
            call()
            taken.append(time.perf_counter() - started)
        return sorted(taken)[count // 2] * 1000

    return measure


def _printed(room: Room) -> str:
    digest = hashlib.sha256()
    for event in room.events():
        if event["type"] == "shell_session_output":
            digest.update(event["chunk"].encode())
    return digest.hexdigest()


def _digest(size: int) -> str:
    line = f"{LINE}\n".encode()
    return hashlib.sha256((line * (size // len(line) + 1))[:size]).hexdigest()


def _p99(taken: list[float]) -> float:
    """The worst but one in a hundred."""
    return sorted(taken)[int(len(taken) * 0.99) - 1]
