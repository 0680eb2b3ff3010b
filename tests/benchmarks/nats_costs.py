"""What boxes cost a NATS server and a gateway while nothing is called: `python -m tests.benchmarks.nats_costs [BOXES]`.

The boxes are bare connections in a process of their own, with the subscriptions and the beats of members. The figures
are those of docs/fleet.md.
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import uvloop
from msgspec.structs import replace

from mcp_agent.fleet.bus import Bus
from mcp_agent.fleet.directory import Directory
from mcp_agent.fleet.messages import About, Beat, encode
from mcp_agent.fleet.subjects import WHO, Verb, beat_subject, verb_subject, who_subject
from tests.benchmarks.table import machine
from tests.support.nats import NatsServer, nats_server

_BEATS = 10
_VERBS: tuple[Verb, ...] = ("call", "read", "cancel")
_BOOT = "abcdefghij"
_BEAT = Beat(_BOOT, "0123456789abcdef", 0.42, 3, 0, 1)
_ABOUT = About({"gpu": "1", "zone": "eu"}, "/srv/work", "0.1.0", "host", "0123")


async def measure(count: int, server: NatsServer) -> None:
    before_kb, before_s = _memory_kb(server.pid), _processor_s(server.pid)
    boxes = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.benchmarks.nats_costs", str(count), server.host, str(server.port),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert boxes.stdin is not None
    assert boxes.stdout is not None
    await boxes.stdout.readline()
    kb = (_memory_kb(server.pid) - before_kb) / count
    print(
        f"a box at the server    {kb:.0f} kB, {(_processor_s(server.pid) - before_s) / count * 1e6:.0f} µs to connect"
    )

    bus = Bus(server.url, name="measure", inbox_prefix="_INBOX.gateway.measure")
    directory = Directory(bus)
    directory.tool_sets["0123"] = ()
    await bus.start()
    boxes.stdin.write(b"facts\n")
    await boxes.stdout.readline()
    while len(directory.boxes) < count:
        await asyncio.sleep(0.01)
    own_s, server_s = time.process_time(), _processor_s(server.pid)
    boxes.stdin.write(b"beats\n")
    await boxes.stdout.readline()
    # The load that a box tells of is the number of its beat.
    while min(box.load for box in directory.boxes.values()) < _BEATS - 1:
        await asyncio.sleep(0.01)
    beats = count * _BEATS
    print(f"a beat, {len(encode(_BEAT))} bytes       "
          f"{(_processor_s(server.pid) - server_s) / beats * 1e6:.0f} µs at the server, "
          f"{(time.process_time() - own_s) / beats * 1e6:.0f} µs at the gateway")  # fmt: skip
    await bus.close()
    boxes.stdin.close()
    await boxes.wait()


async def be_boxes(count: int, host: str, port: int) -> None:
    """Connect, and do what standard input asks for, each time with a line when it is done."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    boxes: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    for start in range(0, count, 100):
        numbers = range(start, min(start + 100, count))
        boxes += await asyncio.gather(*(_connect(f"b{number}", host, port) for number in numbers))
    print(flush=True)
    loop = asyncio.get_running_loop()
    while asked := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
        about = _ABOUT if asked == "facts" else None
        for turn in range(_BEATS if about is None else 1):
            for number, (_, writer) in enumerate(boxes):
                data = encode(replace(_BEAT, load=float(turn), about=about))
                writer.write(f"PUB {beat_subject(f'b{number}')} {len(data)}\r\n".encode() + data + b"\r\n")
            await asyncio.gather(*(_settle(*box) for box in boxes))
        print(flush=True)


async def _connect(box: str, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection(host, port)
    await reader.readline()
    verbs = [verb_subject(box, _BOOT, verb, "*") for verb in _VERBS]
    subjects = [f"_INBOX.box.{box}.0123456789abcdef.*", who_subject(box), WHO, *verbs]
    writer.write(b'CONNECT {"verbose":false,"headers":true,"no_responders":true}\r\n')
    writer.writelines(f"SUB {subject} {number}\r\n".encode() for number, subject in enumerate(subjects))
    await _settle(reader, writer)
    return reader, writer


async def _settle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"PING\r\n")
    while await reader.readline() != b"PONG\r\n":
        pass


def _memory_kb(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    if len(sys.argv) > 3:
        await be_boxes(count, sys.argv[2], int(sys.argv[3]))
        return
    print(f"machine  {machine()}\ncommand  python -m tests.benchmarks.nats_costs {count}\n")
    with tempfile.TemporaryDirectory() as folder, nats_server(Path(folder)) as server:
        await measure(count, server)


if __name__ == "__main__":
    uvloop.run(main())
