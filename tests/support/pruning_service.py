"""A small real pruning service that plays what such services do, good and bad."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Behaviour = str


class Service:
    """`behaviour` decides how the next requests are answered; `asked` has what they held."""

    def __init__(self) -> None:
        self.behaviour: Behaviour = "first half"
        self.asked: list[dict[str, Any]] = []
        self.is_over = threading.Event()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                service.asked.append(body)
                with contextlib.suppress(OSError):
                    service.answer(self, body)

            def do_GET(self) -> None:
                service.asked.append({"redirected": self.path})
                service.send(self, 200, {"pruned_code": "redirected"})

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/prune"

    def answer(self, request: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        code: str = body["code"]
        lines = code.split("\n")
        half = "\n".join([*lines[: len(lines) // 2], f"(filtered {len(lines) - len(lines) // 2} lines)"])
        match self.behaviour:
            case "first half":
                self.send(request, 200, {"pruned_code": half, "error_msg": None})
            case "field content":
                self.send(request, 200, {"content": half})
            case "field text":
                self.send(request, 200, {"pruned_code": 7, "text": half})
            case "unchanged with error_msg":
                self.send(request, 200, {"pruned_code": code, "error_msg": "the model is not loaded"})
            case "unchanged":
                self.send(request, 200, {"pruned_code": code})
            case "one line":
                self.send(request, 200, {"pruned_code": lines[0]})
            case "nothing left":
                self.send(request, 200, {"pruned_code": f"(filtered {len(lines)} lines)"})
            case "empty":
                self.send(request, 200, {"pruned_code": ""})
            case "larger than the input":
                self.send(request, 200, {"pruned_code": code + code})
            case "too large for us":
                self.send(request, 200, {"pruned_code": "x" * (17 * 1024 * 1024)})
            case "not json":
                self.write(request, 200, b"<html>")
            case "no field":
                self.send(request, 200, {"result": half})
            case "a list":
                self.send(request, 200, [half])
            case "server error":
                self.send(request, 500, {"pruned_code": half})
            case "redirect":
                request.send_response(302)
                request.send_header("Location", "/elsewhere")
                request.send_header("Content-Length", "0")
                request.end_headers()
            case "silence":
                self.is_over.wait(20)
            case "drip":
                request.send_response(200)
                request.send_header("Content-Length", "1000000")
                request.end_headers()
                while not self.is_over.wait(0.02):
                    request.wfile.write(b" ")
            case "endless headers":
                request.send_response(200)
                request.flush_headers()
                while not self.is_over.is_set():
                    request.wfile.write(b"X-More: " + b"x" * 60_000 + b"\r\n")
            case "hang up":
                request.send_response(200)
                request.send_header("Content-Length", "1000")
                request.end_headers()
                request.wfile.write(b'{"pruned_code"')
                request.close_connection = True
            case "chunked":
                request.send_response(200)
                request.send_header("Transfer-Encoding", "chunked")
                request.end_headers()
                encoded = json.dumps({"pruned_code": half}).encode()
                for start in range(0, len(encoded), 7):
                    piece = encoded[start : start + 7]
                    request.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                request.wfile.write(b"0\r\n\r\n")
            case "words that are no matches":
                self.send(request, 200, {"pruned_code": "\n".join(["the answer is here"] * (len(lines) // 2))})
            case other:
                raise AssertionError(other)

    def send(self, request: BaseHTTPRequestHandler, status: int, value: Any) -> None:
        self.write(request, status, json.dumps(value).encode())

    def write(self, request: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
        request.send_response(status)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)


@contextlib.contextmanager
def service() -> Iterator[Service]:
    started = Service()
    thread = threading.Thread(target=started.server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield started
    finally:
        started.is_over.set()
        started.server.shutdown()
        thread.join()
        started.server.server_close()
