"""The official client, connected to the server that its arguments start.

For each line of input, a number of seconds, it calls `echo` for so long and prints the microseconds of a call.
"""

from __future__ import annotations

import asyncio
import sys
import time

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters


async def main(command: str, *arguments: str) -> None:
    async with Client(StdioServerParameters(command=command, args=list(arguments))) as client:
        await client.call_tool("echo", {"text": "hello"})
        for line in sys.stdin:
            count, began = 0, time.perf_counter()
            while time.perf_counter() - began < float(line):
                await client.call_tool("echo", {"text": "hello"})
                count += 1
            print((time.perf_counter() - began) / count * 1e6, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
