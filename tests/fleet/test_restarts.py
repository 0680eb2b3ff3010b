"""What a gateway does when a box is another start of itself: a box in the test that says what the test wants."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from mcp_agent.fleet.bus import Bus, Message
from mcp_agent.fleet.messages import (
    About,
    Beat,
    BoxAnswer,
    CallRefused,
    StillRunning,
    ToolEntry,
    digest,
    encode,
    pack_tools,
)
from tests.support.daemon import Daemon
from tests.support.fleet import call, running_fleet
from tests.support.nats import nats_server

_TOOLS = pack_tools([ToolEntry("shell_exec", "shell", "execute")])


class _Box:
    """Speaks the member's protocol under the name `one`, and runs nothing. Each start of it has a connection."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._bus: Bus | None = None
        self._boot = ""
        # The boot id that each call was sent to.
        self.asked: list[str] = []
        self.is_asked = asyncio.Event()
        self.answer: BoxAnswer = StillRunning()

    async def start(self, boot: str) -> None:
        """Be another start, without saying so."""
        await self.end()
        self._boot = boot
        self._bus = Bus(self._url, name="box", inbox_prefix="_INBOX.box.one")
        self._bus.serve("agent.one.who", self._serve_who)
        self._bus.serve("agent.who", self._serve_question)
        self._bus.serve(f"agent.one.{boot}.call.*", self._serve_call)
        await self._bus.start()

    async def end(self) -> None:
        if self._bus is not None:
            await self._bus.close()

    async def _serve_call(self, message: Message) -> None:
        self.asked.append(message.subject.split(".")[2])
        self.is_asked.set()
        await message.respond(encode(self.answer))

    async def _serve_who(self, message: Message) -> None:
        await message.respond(encode(self._beat()))

    async def _serve_question(self, message: Message) -> None:
        assert self._bus is not None
        await self._bus.publish("agent.one.beat", encode(self._beat()))

    def _beat(self) -> Beat:
        return Beat(self._boot, "its facts", about=About({}, "/", "0", "one", digest(_TOOLS)), tools=_TOOLS)


@contextlib.asynccontextmanager
async def _box_and_gateway(folder: Path) -> AsyncIterator[tuple[_Box, Daemon]]:
    with nats_server(folder) as server:
        box = _Box(server.url)
        await box.start("first")
        with running_fleet(folder, server.url) as fleet:
            # In a thread: the box has to answer meanwhile.
            program = await asyncio.to_thread(fleet.gateway, "gw", boxes=1)
            yield box, program.running
        await box.end()


async def test_a_call_that_a_box_may_have_had_before_its_restart_is_not_sent_again(tmp_path: Path) -> None:
    async with _box_and_gateway(tmp_path) as (box, gateway):
        under_way = asyncio.create_task(call(gateway, "shell_exec", command="true"))
        await box.is_asked.wait()
        await box.start("second")
        assert (await under_way)["error"]["code"] == "OUTCOME_UNKNOWN"
        assert set(box.asked) == {"first"}


async def test_a_call_that_nobody_had_goes_to_the_new_start_of_its_box(tmp_path: Path) -> None:
    async with _box_and_gateway(tmp_path) as (box, gateway):
        await box.start("second")
        box.answer = CallRefused(-32602, "this is the second", None, "")
        answer = await call(gateway, "shell_exec", command="true")
        assert answer["error"]["message"] == "this is the second"
        assert box.asked == ["second"]
