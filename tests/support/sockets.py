"""Plain connections to a daemon: bytes out, bytes in, and what its process does meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.daemon import Daemon
from tests.support.waiting import PATIENCE_S

Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


def address(daemon: Daemon) -> tuple[str, int]:
    parts = urlsplit(daemon.url)
    return str(parts.hostname), parts.port or 0


def head(line: str, *fields: str) -> bytes:
    return "\r\n".join([line, "Host: localhost", *fields, "", ""]).encode()


def authorised(daemon: Daemon, line: str, *fields: str) -> bytes:
    return head(line, f"Authorization: Bearer {daemon.token}", *fields)


@contextlib.asynccontextmanager
async def connected(daemon: Daemon) -> AsyncIterator[Pair]:
    reader, writer = await asyncio.open_connection(*address(daemon))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes, bytes]:
    """The status, the head and the body of the next answer that has a length."""
    async with asyncio.timeout(PATIENCE_S):
        found = await reader.readuntil(b"\r\n\r\n")
        length = _LENGTH.search(found)
        body = await reader.readexactly(int(length[1])) if length else b""
        return int(found.split()[1]), found, body


async def ask(pair: Pair, data: bytes) -> int:
    pair[1].write(data)
    return (await answer(pair[0]))[0]


async def to_the_end(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the daemon ends the connection, also if it ends it abruptly."""
    received = b""
    async with asyncio.timeout(PATIENCE_S):
        with contextlib.suppress(ConnectionError):
            while chunk := await reader.read(65_536):
                received += chunk
    return received


async def exchange(daemon: Daemon, pieces: Iterable[bytes], opening: bytes = b"") -> bytes:
    """Send `pieces` one after the other, and give all that comes back; `opening` is answered before them."""
    async with connected(daemon) as (reader, writer):
        if opening:
            assert await ask((reader, writer), opening) == 200
        # Read meanwhile: an answer that comes before the daemon resets the connection must not be lost.
        reading = asyncio.create_task(to_the_end(reader))
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                # A piece of its own for the daemon too.
                await asyncio.sleep(0.001)
        return await reading


def statuses(received: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received) if status != b"100"]


class Memory:
    """How much a daemon has grown since this was made, at its peak."""

    def __init__(self, daemon: Daemon) -> None:
        self._folder = Path("/proc") / str(daemon.process.pid)
        # 5: the peak is counted anew from here.
        (self._folder / "clear_refs").write_text("5")
        self._before = self._peak_kb()

    @property
    def growth_mb(self) -> float:
        return (self._peak_kb() - self._before) / 1024

    def _peak_kb(self) -> int:
        found = re.search(r"VmHWM:\s+(\d+) kB", (self._folder / "status").read_text())
        assert found is not None
        return int(found[1])


async def seconds_until_gone(pid_file: Path) -> float:
    """How long the process lives whose id is in `pid_file`."""
    began = time.monotonic()
    process = Path("/proc") / pid_file.read_text().strip()
    async with asyncio.timeout(PATIENCE_S):
        while process.exists():
            await asyncio.sleep(0.01)
    return time.monotonic() - began
