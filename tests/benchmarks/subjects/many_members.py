"""Many members of a fleet in one process: each has a connection of its own and speaks the protocol of members.

Its arguments are the address of NATS and how many; it prints a line when all have joined.
"""

from __future__ import annotations

import asyncio
import sys

from msgspec.structs import replace

from mcp_agent.fleet.bus import Bus, Message
from mcp_agent.fleet.directory import HEARTBEAT_S
from mcp_agent.fleet.messages import About, Beat, NoResult, ToolEntry, Who, digest, encode, pack_tools, read_who
from mcp_agent.fleet.subjects import WHO, beat_subject, verb_subject, who_subject
from registry.catalog import discover

_JOINED_AT_ONCE = 25


async def _join(url: str, number: int, places: asyncio.Semaphore) -> Bus:
    name, boot = f"box{number:04}", f"{number:010}"
    tools = pack_tools(map(ToolEntry.of, discover().tools))
    labels = {"zone": f"z{number % 7}", "gpu": str(number % 2)}
    beat = Beat(boot, f"facts of {number}", number / 100, about=About(labels, f"/srv/{name}", "1", name, digest(tools)))
    async with places:
        bus = Bus(url, name=f"box {name}", inbox_prefix=f"_INBOX.box.{name}")

        async def answer(message: Message) -> None:
            has = read_who(message.data).has
            await message.respond(encode(replace(beat, tools=None if digest(tools) in has else tools)))

        async def announce(_: Message | None = None) -> None:
            await bus.publish(beat_subject(name), encode(beat))

        async def refuse(message: Message) -> None:
            await message.respond(encode(NoResult("unknown")))

        bus.serve(who_subject(name), answer)
        bus.serve(WHO, announce)
        bus.serve(verb_subject(name, boot, "call", "*"), refuse)
        bus.on_connected = announce
        await bus.start()
    return bus


async def main(url: str, count: int) -> None:
    places = asyncio.Semaphore(_JOINED_AT_ONCE)
    buses = await asyncio.gather(*(_join(url, number, places) for number in range(count)))
    print("joined", flush=True)
    while True:
        # All of them answer it with a beat.
        await asyncio.sleep(HEARTBEAT_S)
        await buses[0].publish(WHO, encode(Who()))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
