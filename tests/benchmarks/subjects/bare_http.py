"""The floor over HTTP: Starlette and orjson under uvicorn, answering a call of `echo` and nothing else."""

from __future__ import annotations

import socket

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


async def echo(request: Request) -> Response:
    call = orjson.loads(await request.body())
    said = {"text": call["params"]["arguments"]["text"]}
    result = {
        "content": [{"type": "text", "text": orjson.dumps(said).decode()}],
        "structuredContent": said,
        "isError": False,
    }
    body = orjson.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result})
    return Response(body, media_type="application/json")


class PrintingServer(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        port = self.servers[0].sockets[0].getsockname()[1]
        print(f"http://127.0.0.1:{port}/mcp", flush=True)


def main() -> None:
    app = Starlette(routes=[Route("/mcp", echo, methods=["POST"])])
    # Kept open while the other side is started, however long that takes.
    config = uvicorn.Config(
        app, port=0, loop="uvloop", http="httptools", access_log=False, log_level="warning", timeout_keep_alive=60
    )
    PrintingServer(config).run()


if __name__ == "__main__":
    main()
