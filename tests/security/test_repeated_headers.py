"""A header that decides on access may stand once; of any other, the first counts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from starlette.types import Message, Receive, Scope, Send

from mcp_agent.security.auth_tokens import Tokens
from mcp_agent.security.guard import Guard
from mcp_agent.security.open_streams import OpenStreams
from mcp_agent.transports.http import header, send_object

_TOKEN = "a token"
_GOOD = [(b"host", b"localhost:8765"), (b"authorization", b"Bearer a token")]


async def _echo_accept(scope: Scope, receive: Receive, send: Send) -> None:
    await send_object(send, 200, (header(scope, b"accept") or b"").decode())


async def _answered(headers: Iterable[tuple[bytes, bytes]]) -> tuple[int, bytes]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/mcp", "headers": list(headers)}
    tokens = Tokens(Path("unused"), Path("unused"), _TOKEN)
    tokens.reload()
    await Guard(_echo_accept, tokens, OpenStreams(), ())(scope, receive, send)
    return sent[0]["status"], sent[1]["body"]


@pytest.mark.parametrize(
    ("further", "status"),
    [
        ((b"host", b"localhost:8765"), 400),
        ((b"authorization", b"Bearer a token"), 400),
        ((b"x-api-key", b"a token"), 400),
        ((b"origin", b"http://localhost:8765"), 200),
        ((b"accept", b"text/plain"), 200),
    ],
)
async def test_a_second_header_that_decides_on_access_is_refused(further: tuple[bytes, bytes], status: int) -> None:
    assert (await _answered([*_GOOD, further]))[0] == status


async def test_two_origins_are_refused_even_if_both_are_ours() -> None:
    origin = (b"origin", b"http://localhost:8765")
    assert (await _answered([*_GOOD, origin, origin]))[0] == 403


async def test_the_first_of_two_other_headers_counts() -> None:
    answer = await _answered([*_GOOD, (b"accept", b"first"), (b"accept", b"second")])
    assert answer == (200, b'"first"')
