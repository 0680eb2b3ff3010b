"""The floor of a call through a gateway: nats-py between two programs that do nothing else.

`gateway URL` passes the body of every POST on and sends the answer back; `member URL` answers with what it was asked.
"""

from __future__ import annotations

import asyncio
import sys

import uvicorn
import uvloop
from nats.aio.client import Client
from nats.aio.msg import Msg
from starlette.types import Receive, Scope, Send

from tests.benchmarks.subjects.bare_http import PrintingServer

_SUBJECT = "bare.call"
_ANSWER_S = 10.0


async def be_gateway(client: Client) -> None:
    async def pass_on(scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive())["body"]
        answer = await client.request(_SUBJECT, body, timeout=_ANSWER_S)
        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer.data))]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": answer.data})

    config = uvicorn.Config(
        pass_on, port=0, http="httptools", lifespan="off", access_log=False, log_level="warning", timeout_keep_alive=60
    )
    await PrintingServer(config).serve()


async def be_member(client: Client) -> None:
    async def answer(message: Msg) -> None:
        await client.publish(message.reply, message.data)

    await client.subscribe(_SUBJECT, cb=answer)
    await client.flush()
    print(flush=True)
    await asyncio.Event().wait()


async def main(role: str, url: str) -> None:
    client = Client()
    await client.connect([url])
    await (be_member(client) if role == "member" else be_gateway(client))


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
