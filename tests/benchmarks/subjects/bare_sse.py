"""The floor for streams: Starlette under uvicorn, passing one event on to every open stream when it is posted to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tests.benchmarks.subjects.bare_http import PrintingServer

_EVENT = b'event: message\r\ndata: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\r\n\r\n'


def app() -> Starlette:
    streams: set[asyncio.Queue[bytes]] = set()

    async def stream(request: Request) -> Response:
        events: asyncio.Queue[bytes] = asyncio.Queue()
        streams.add(events)

        async def sent() -> AsyncIterator[bytes]:
            yield b": open\r\n\r\n"
            while True:
                yield await events.get()

        return StreamingResponse(sent(), media_type="text/event-stream")

    async def announce(request: Request) -> Response:
        await request.body()
        for events in streams:
            events.put_nowait(_EVENT)
        return Response(b"{}", media_type="application/json")

    return Starlette(routes=[Route("/sse", stream), Route("/mcp", announce, methods=["POST"])])


def main() -> None:
    config = uvicorn.Config(app(), port=0, loop="uvloop", http="httptools", access_log=False, log_level="warning")
    PrintingServer(config).run()


if __name__ == "__main__":
    main()
