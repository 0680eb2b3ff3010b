"""The floor for output: Starlette that runs one command and sends what it reads to its clients, and nothing else.

    GET /stream?clients=N&command=C   what C prints, as events, once N clients are there

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
    """The clients of one command."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Queue[bytes | None]] = []
        self._task: asyncio.Task[None] | None = None

    async def stream(self, request: Request) -> StreamingResponse:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_WAITING)
        self._waiting.append(queue)
        if len(self._waiting) == int(request.query_params["clients"]):
            queues, self._waiting = self._waiting, []
            self._task = asyncio.create_task(self._run(request.query_params["command"], queues))

        async def events() -> AsyncIterator[bytes]:
            while (event := await queue.get()) is not None:
                yield event

        return StreamingResponse(events(), media_type="text/event-stream")

    async def _run(self, command: str, queues: list[asyncio.Queue[bytes | None]]) -> None:
        process = await asyncio.create_subprocess_shell(command, stdout=asyncio.subprocess.PIPE)
        assert process.stdout is not None, "it is started with a pipe"
        offset = 0
        while data := await process.stdout.read(_CHUNK_BYTES):
            event = _event(data.decode(), offset)
            offset += len(data)
            for queue in queues:
                await queue.put(event)
        for queue in queues:
            await queue.put(None)


def main() -> None:
    app = Starlette(routes=[Route("/stream", Broadcast().stream)])
    config = uvicorn.Config(app, port=0, loop="uvloop", http="httptools", access_log=False, log_level="warning")
    PrintingServer(config).run()


if __name__ == "__main__":
    main()
