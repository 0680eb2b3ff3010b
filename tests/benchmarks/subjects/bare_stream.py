"""The floor for output: Starlette that sends chunks of text to its clients as events, and nothing else.

    GET /stream?clients=N&command=C      what C prints, once N clients are there
    GET /ready?clients=N&line=L&bytes=B  the same chunks without a command: that line over and over, B bytes of it

No spool, no limits, no second command; the slowest client stops everybody.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from tests.benchmarks.subjects.bare_http import PrintingServer

_CHUNK_BYTES = 65_536
_MOST_WAITING = 32


def _event(chunk: str, offset: int) -> bytes:
    data = {"type": "output", "session_id": "s", "stream": "stdout", "chunk": chunk, "offset": offset}
    return b"event: output\nid: %d\ndata: " % offset + orjson.dumps(data) + b"\n\n"


class Broadcast:
    """The clients of one command, or of chunks that are there already."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Queue[bytes | None]] = []
        self._task: asyncio.Task[None] | None = None

    async def stream(self, request: Request) -> StreamingResponse:
        return self._joined(request, _printed(request.query_params["command"]))

    async def ready(self, request: Request) -> StreamingResponse:
        query = request.query_params
        return self._joined(request, _repeated(f"{query['line']}\n".encode(), int(query["bytes"])))

    def _joined(self, request: Request, chunks: AsyncIterator[bytes]) -> StreamingResponse:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_WAITING)
        self._waiting.append(queue)
        if len(self._waiting) == int(request.query_params["clients"]):
            queues, self._waiting = self._waiting, []
            self._task = asyncio.create_task(_sent(chunks, queues))

        async def events() -> AsyncIterator[bytes]:
            while (event := await queue.get()) is not None:
                yield event

        return StreamingResponse(events(), media_type="text/event-stream")


async def _sent(chunks: AsyncIterator[bytes], queues: list[asyncio.Queue[bytes | None]]) -> None:
    offset = 0
    async for data in chunks:
        event = _event(data.decode(), offset)
        offset += len(data)
        for queue in queues:
            await queue.put(event)
    for queue in queues:
        await queue.put(None)


async def _printed(command: str) -> AsyncIterator[bytes]:
    process = await asyncio.create_subprocess_shell(command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None, "it is started with a pipe"
    while data := await process.stdout.read(_CHUNK_BYTES):
        yield data


async def _repeated(line: bytes, size: int) -> AsyncIterator[bytes]:
    block = line * (2 * _CHUNK_BYTES // len(line) + 1)
    for offset in range(0, size, _CHUNK_BYTES):
        begins = offset % len(line)
        yield block[begins : begins + min(_CHUNK_BYTES, size - offset)]


def main() -> None:
    broadcast = Broadcast()
    app = Starlette(routes=[Route("/stream", broadcast.stream), Route("/ready", broadcast.ready)])
    config = uvicorn.Config(app, port=0, loop="uvloop", http="httptools", access_log=False, log_level="warning")
    PrintingServer(config).run()


if __name__ == "__main__":
    main()
