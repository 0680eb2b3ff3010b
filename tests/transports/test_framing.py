"""How requests are told apart: the daemon is compared with both of uvicorn's parsers over real sockets.

A reader that takes less for a request than another one in front of it serves what the other thought a body. So the
daemon serves only what both parsers take for the same request, and never more requests than were sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from tests.support.daemon import Daemon
from tests.support.sockets import address, statuses, to_the_end
from tests.support.waiting import PATIENCE_S
from tests.transports.framing_cases import FIRST, Case, cases, early_ends

# As many as the daemon holds without closing one of them in favour of another.
_AT_ONCE = 100
# How long a server may be silent before the client tells it that nothing more will come.
_QUIET_S = 0.3
# The daemon is another process, and may be late on a busy machine.
_DAEMON_QUIET_S = 1.0
# h11 refuses a chunk size of more than 20 digits. The daemon reads it, and as the same number.
_READ_ALIKE = "chunk size b'0000000000000000000000000000000000000000%x'"
_MARK = re.compile(r'"path": "(\w+)\.(\w+)"')


class _Reference:
    """A plain application behind one of uvicorn's parsers, which notes every request that it received whole."""

    def __init__(self) -> None:
        self.served: set[tuple[str, str]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, has_more = b"", True
        while has_more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            has_more = message["more_body"]
        with contextlib.suppress(ValueError):
            json.loads(body)
            self.served |= set(_MARK.findall(body.decode()))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"{}"})


@contextlib.asynccontextmanager
async def _listening(
    app: _Reference, protocol: type[H11Protocol] | type[HttpToolsProtocol]
) -> AsyncIterator[tuple[str, int]]:
    config = Config(app, http=protocol, ws="none", lifespan="off", log_config=None)
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(lambda: protocol(config, state, {}), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()
    finally:
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()


async def _answers(case: Case, address: tuple[str, int], patience_s: float) -> list[int]:
    """Send a case as it is written, and read until the server ends the connection."""
    reader, writer = await asyncio.open_connection(*address)
    reading = asyncio.create_task(to_the_end(reader))
    try:
        with contextlib.suppress(ConnectionError):
            for piece in case.pieces:
                writer.write(piece)
                await writer.drain()
                if len(case.pieces) > 1:
                    # The client is slow: the server reads each piece by itself.
                    await asyncio.sleep(0.001)
            done, _ = await asyncio.wait([reading], timeout=patience_s)
            if not done:
                writer.write_eof()
                await asyncio.wait([reading], timeout=_QUIET_S)
    finally:
        writer.transport.abort()
    return statuses(await reading)


async def _reactions(
    each: Iterable[Case], address: tuple[str, int], quiet_s: float = _QUIET_S
) -> Mapping[str, list[int]]:
    places = asyncio.Semaphore(_AT_ONCE)

    async def react(case: Case) -> tuple[str, list[int]]:
        async with places:
            return case.case_id, await _answers(case, address, PATIENCE_S if case.must_serve else quiet_s)

    return dict(await asyncio.gather(*[react(case) for case in each]))


def _written(folder: Path) -> set[tuple[str, str]]:
    """The calls that had an effect: each leaves a file."""
    return {(path.stem, path.suffix[1:]) for path in folder.iterdir() if path.suffix in (".first", ".inner")}


async def test_nothing_is_served_that_either_parser_refuses_and_never_two_for_one(daemon: Daemon) -> None:
    table = [case for case in cases(daemon.token) if case.draft != _READ_ALIKE]
    assert len(table) > 700
    faults = await _faults(daemon, table)
    assert not faults, "\n".join(faults)


async def _faults(daemon: Daemon, table: list[Case]) -> list[str]:
    """Where the daemon reads a case less strictly than it has to."""
    by_h11, by_httptools = _Reference(), _Reference()
    async with _listening(by_h11, H11Protocol) as h11, _listening(by_httptools, HttpToolsProtocol) as httptools:
        answers, *_ = await asyncio.gather(
            _reactions(table, address(daemon), _DAEMON_QUIET_S), _reactions(table, h11), _reactions(table, httptools)
        )
    ours = _written(daemon.home)
    faults: list[str] = []
    for case in table:
        served = {mark for case_id, mark in ours if case_id == case.case_id}
        # uvicorn loses the body of an upgrade with httptools; the daemon ignores the upgrade, as h11 does.
        both = by_h11.served if case.is_upgrade else by_h11.served & by_httptools.served
        agreed = {mark for case_id, mark in both if case_id == case.case_id}
        answered = answers[case.case_id]
        if not served <= agreed:
            faults.append(f"{case}: served {served}, and both parsers serve {agreed}")
        if len(answered) > case.sent or (case.sent == 1 and not served <= {FIRST}):
            faults.append(f"{case}: {case.sent} sent, answers {answered}, served {served}")
        if not served and any(status < 400 for status in answered):
            faults.append(f"{case}: answered with {answered} and not served")
        if not set(case.must_serve) <= served:
            faults.append(f"{case}: {case.must_serve} was not served: {answered}")
    return faults


async def test_a_request_that_ends_early_has_no_effect(daemon: Daemon) -> None:
    places = asyncio.Semaphore(_AT_ONCE)

    async def leave(case: Case) -> None:
        async with places:
            _, writer = await asyncio.open_connection(*address(daemon))
            writer.write(case.pieces[0])
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*[leave(case) for case in early_ends(daemon.token)])
        # Answered after them all, on a connection that came after them all.
        assert "error" not in await daemon.rpc("tools/list")
    assert _written(daemon.home) == set()


@pytest.mark.parametrize("parser", [H11Protocol, HttpToolsProtocol])
async def test_the_references_serve_what_is_well_formed(parser: type[H11Protocol] | type[HttpToolsProtocol]) -> None:
    """Without this, a reference that serves nothing would excuse a daemon that serves nothing."""
    table = [case for case in cases("token") if case.must_serve]
    reference = _Reference()
    async with _listening(reference, parser) as address:
        await _reactions(table, address)
    assert {case.case_id for case in table} == {case_id for case_id, mark in reference.served if mark == FIRST}
