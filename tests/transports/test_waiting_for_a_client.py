"""Ten seconds for a head and for a TLS handshake. The only test here that waits for them, for all at once."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path

from mcp_agent.transports.connection import MOST_HEAD_S
from tests.support.certificate import self_signed
from tests.support.daemon import Daemon, running
from tests.support.sockets import Pair, ask, authorised, connected, head

# A busy machine is late; a client that is held for ever would be held for longer than that.
_LATE_S = 5.0


async def _seconds_until_closed(pair: Pair, repeated: bytes = b"") -> float:
    """How long the daemon holds a client that sends `repeated` twice a second and never finishes."""
    reader, writer = pair
    began = time.monotonic()
    with contextlib.suppress(ConnectionError):
        while time.monotonic() - began < MOST_HEAD_S + _LATE_S:
            writer.write(repeated)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5):
                    while await reader.read(65_536):
                        pass
                    break
    return time.monotonic() - began


async def test_a_head_or_a_handshake_that_is_not_finished_in_ten_seconds_is_given_up(
    daemon: Daemon, tmp_path: Path
) -> None:
    async def wait(asked: Daemon, opening: bytes = b"", repeated: bytes = b"", first: bytes = b"") -> float:
        async with connected(asked) as pair:
            if first:
                assert await ask(pair, first) == 200
            pair[1].write(opening)
            return await _seconds_until_closed(pair, repeated)

    half = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Some: "
    health = head("GET /health HTTP/1.1")
    self_signed(tmp_path)
    keys = ("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    with running(tmp_path, *keys) as tls:
        waits = {
            "nothing": wait(daemon),
            "half a head": wait(daemon, half),
            "a head byte by byte": wait(daemon, half, b"x"),
            "headers one by one": wait(daemon, half, b"x\r\nX-Some: "),
            "empty lines": wait(daemon, b"", b"\r\n"),
            "half a head of a second request": wait(daemon, half, first=health),
            "a second head byte by byte": wait(daemon, half, b"x", first=health),
            "a second head of a holder of a token": wait(
                daemon, half, b"x", first=authorised(daemon, "GET /api/status HTTP/1.1")
            ),
            "no handshake": wait(tls),
            "half a handshake": wait(tls, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
            "a handshake byte by byte": wait(tls, b"\x16\x03\x01\x02\x00\x01", b"\x00"),
        }
        took_s = dict(zip(waits, await asyncio.gather(*waits.values()), strict=True))
    assert {name: seconds for name, seconds in took_s.items() if seconds >= MOST_HEAD_S + _LATE_S} == {}
    early = {name: seconds for name, seconds in took_s.items() if seconds < MOST_HEAD_S - 1}
    # The parser may refuse bytes that are no handshake, and empty lines, before their time is over.
    assert set(early) <= {"a handshake byte by byte", "half a handshake", "empty lines"}


async def test_others_are_served_meanwhile(daemon: Daemon) -> None:
    async with connected(daemon) as slow, connected(daemon) as other:
        slow[1].write(b"GET /health HTTP/1.1\r\n")
        assert await ask(other, head("GET /health HTTP/1.1")) == 200
        assert await ask(slow, b"Host: localhost\r\n\r\n") == 200
