"""Many members of a fleet in one process: each has a connection of its own and speaks the protocol of members.

Its arguments are the address of NATS and how many; it prints a line when all have joined.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys

import orjson

from mcp_agent.fleet.bus import Bus, Message
from mcp_agent.fleet.call_protocol import pack
from mcp_agent.fleet.directory import BEAT_S
from mcp_agent.fleet.member import describe_tool
from mcp_agent.fleet.subjects import WHO, beat_subject, verb_subject, who_subject
from registry.catalog import discover

_JOINED_AT_ONCE = 25


async def _join(url: str, number: int, places: asyncio.Semaphore) -> Bus:
    name = f"box{number:04}"
    tools = [describe_tool(tool) for tool in discover().tools]
    digest = hashlib.sha256(orjson.dumps(tools)).hexdigest()[:16]
    labels = {"zone": f"z{number % 7}", "gpu": str(number % 2)}
    about = {"labels": labels, "directory": f"/srv/{name}", "version": "1", "host": name, "tools": digest}
    facts = {"box": name, "boot": f"{number:010}", "facts": f"{digest}{number}", "load": number / 100, "sessions": 0}
    facts |= {"calls": 0, "about": about}
    async with places:
        bus = await Bus.connect(url, name=f"box {name}", inbox_prefix=f"_INBOX.box.{name}")

        async def answer(message: Message) -> None:
            has = orjson.loads(message.data).get("has", ())
            await message.respond(pack({**facts, **({} if digest in has else {"tool_list": tools})}))

        async def announce(_: Message) -> None:
            await bus.publish(beat_subject(name), pack(facts))

        async def refuse(message: Message) -> None:
            await message.respond(pack({"is": "unknown"}))

        await bus.subscribe(who_subject(name), answer)
        await bus.subscribe(WHO, announce)
        await bus.subscribe(verb_subject(name, str(facts["boot"]), "call", "*"), refuse)
        await bus.publish(beat_subject(name), pack(facts))
    return bus


async def main(url: str, count: int) -> None:
    places = asyncio.Semaphore(_JOINED_AT_ONCE)
    buses = await asyncio.gather(*(_join(url, number, places) for number in range(count)))
    print("joined", flush=True)
    while True:
        # All of them answer it with a beat.
        await asyncio.sleep(BEAT_S)
        await buses[0].publish(WHO, b"{}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
