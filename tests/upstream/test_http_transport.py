"""A mounted URL answers as it likes: what it sends is bounded while it is read."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.waiting import eventually
from tests.upstream.mounting import document, mounted, send
from tests.upstream.test_upstream_server import memory_kb

_TOOL = {"name": "look", "inputSchema": {"type": "object"}}

# Writes the answer to a request of a tool.
Answer = Callable[[BaseHTTPRequestHandler, int], None]


@contextmanager
def hostile(answer: Answer, tools: list[dict[str, Any]]) -> Iterator[str]:
    """The URL of a server that greets as it should, lists `tools`, and answers calls with `answer`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            results: dict[str, Any] = {
                "initialize": {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "hostile", "version": "1"},
                },
                "tools/list": {"tools": tools},
            }
            if message.get("method") == "tools/call":
                answer(self, message["id"])
            elif "id" not in message:
                self.send_response(202)
                self.end_headers()
            elif message["method"] in results:
                body = {"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}
                reply(self, json.dumps(body).encode())
            else:
                error = {"code": -32601, "message": "no such method"}
                reply(self, json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode())

        def do_GET(self) -> None:
            self.send_error(405)

        do_DELETE = do_GET  # noqa: N815 - as above

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()


def reply(request: BaseHTTPRequestHandler, body: bytes, **headers: str) -> None:
    request.send_response(200)
    request.send_header("content-type", "application/json")
    request.send_header("content-length", str(len(body)))
    for name, value in headers.items():
        request.send_header(name, value)
    request.end_headers()
    request.wfile.write(body)


def endless(request: BaseHTTPRequestHandler, _: int) -> None:
    request.send_response(200)
    request.send_header("content-type", "application/json")
    request.end_headers()
    try:
        # Not for ever, so that it ends where nothing bounds it.
        for _ in range(150):
            request.wfile.write(b" " * 1_000_000)
    except OSError:
        pass


def result(number: int, content: list[Any]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": {"content": content}}).encode()


async def test_an_answer_without_end_is_given_up_while_it_is_read(tmp_path: Path) -> None:
    with hostile(endless, [_TOOL]) as url:
        async with mounted(tmp_path, {"far": {"url": url}}) as host:
            before = memory_kb()
            said = (await send(host, "look"))["content"][0]["text"]
            assert "it answered with more than 16777216 bytes" in said
            assert memory_kb() - before < 100_000


async def test_a_compressed_answer_is_not_unpacked(tmp_path: Path) -> None:
    def bomb(request: BaseHTTPRequestHandler, number: int) -> None:
        text = {"type": "text", "text": "a" * 60_000_000}
        reply(request, gzip.compress(result(number, [text])), **{"content-encoding": "gzip"})

    with hostile(bomb, [_TOOL]) as url:
        async with mounted(tmp_path, {"far": {"url": url}}) as host:
            said = (await send(host, "look"))["content"][0]["text"]
            assert "it compressed its answer (gzip), which nobody asked it for" in said


async def test_sixty_thousand_tools_are_refused_before_they_are_objects(tmp_path: Path) -> None:
    tools = [{**_TOOL, "name": f"t{number}"} for number in range(60_000)]
    with hostile(endless, tools) as url:
        (tmp_path / "tools.json").write_text(json.dumps(document({"far": {"url": url}})))
        async with mounted(tmp_path) as host:
            facts = await eventually(lambda: host.daemon.mounts.facts["far"], lambda facts: "problem" in facts)
            assert "more than 50000 elements" in facts["problem"]
            assert facts["tools"] == 0


async def test_an_answer_as_it_should_be_passes(tmp_path: Path) -> None:
    def large(request: BaseHTTPRequestHandler, number: int) -> None:
        reply(request, result(number, [{"type": "text", "text": "a" * 3_000_000}]))

    with hostile(large, [_TOOL]) as url:
        async with mounted(tmp_path, {"far": {"url": url}}) as host:
            answers = await asyncio.gather(*(host.call("look") for _ in range(3)))
            assert [len(answer["text"]) for answer in answers] == [3_000_000] * 3
