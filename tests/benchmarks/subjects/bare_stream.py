"""The floor for output: Starlette streaming chunks as server-sent events to each client, and nothing else.

GET /stream?chunks=N&bytes=M   N events of M bytes of text in lines
GET /lines?count=N             a line every 10 ms, each with the moment at which it was written
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from tests.benchmarks.subjects.bare_http import PrintingServer

_LINE = "0123456789012345678901234567890123456789012345678\n"


def _event(chunk: str, offset: int) -> bytes:
    data = {"type": "output", "session_id": "s", "stream": "stdout", "chunk": chunk, "offset": offset}
    return b"event: output\nid: %d\ndata: " % offset + orjson.dumps(data) + b"\n\n"


async def stream(request: Request) -> StreamingResponse:
    chunks, size = int(request.query_params["chunks"]), int(request.query_params["bytes"])
    chunk = (_LINE * (size // len(_LINE) + 1))[:size]

    async def events() -> AsyncIterator[bytes]:
        for index in range(chunks):
            yield _event(chunk, index * size)

    return StreamingResponse(events(), media_type="text/event-stream")


async def lines(request: Request) -> StreamingResponse:
    count = int(request.query_params["count"])

    async def events() -> AsyncIterator[bytes]:
        for _ in range(count):
            await asyncio.sleep(0.01)
            yield _event(f"{time.monotonic_ns()}\n", 0)

    return StreamingResponse(events(), media_type="text/event-stream")


def main() -> None:
    app = Starlette(routes=[Route("/stream", stream), Route("/lines", lines)])
    config = uvicorn.Config(app, port=0, loop="uvloop", http="httptools", access_log=False, log_level="warning")
    PrintingServer(config).run()


if __name__ == "__main__":
    main()
