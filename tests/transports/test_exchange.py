"""An exchange that takes its time: its client may leave, and that ends the work."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Scope

from mcp_agent.protocol.jsonrpc import WireAnswer
from mcp_agent.security.auth_tokens import Principal
from mcp_agent.security.open_streams import OpenStreams
from mcp_agent.transports.exchange import Exchange


def _scope() -> Scope:
    return {"state": {"principal": Principal("someone"), "streams": OpenStreams(), "revocations": 0}}


async def _gone() -> Message:
    return {"type": "http.disconnect"}


async def _unheard(message: Message) -> None:
    raise AssertionError(f"nobody is there to read {message}")


async def test_a_client_that_leaves_while_it_waits_calls_the_work_off() -> None:
    ended: list[str] = []

    async def work(name: str) -> WireAnswer:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(name)
        return WireAnswer(b"{}")

    async with asyncio.timeout(5):
        for name in ("first", "second"):
            await Exchange(_scope(), _gone, _unheard).run(1, work(name))
    assert ended == ["first", "second"]


async def test_an_exchange_that_is_over_at_once_looks_for_nobody() -> None:
    sent: list[Message] = []

    async def work() -> WireAnswer:
        return WireAnswer(b"{}")

    async def endless() -> WireAnswer:
        await asyncio.sleep(60)
        return WireAnswer(b"{}")

    async def never() -> Message:
        raise AssertionError("the answer was there before anybody had to look")

    async def send(message: Message) -> None:
        sent.append(message)

    await Exchange(_scope(), never, send).run(1, work())
    # This one ends when somebody looks for its client; by then somebody would have looked for the first one's too.
    async with asyncio.timeout(5):
        await Exchange(_scope(), _gone, _unheard).run(2, endless())
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
