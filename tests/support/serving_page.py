"""A web page of another site, for what a browser does with it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextlib.contextmanager
def serving_page(body: str) -> Iterator[str]:
    """The address of a page with that body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = f"<!doctype html>{body}".encode()
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        # By another name than the daemon's: another site.
        yield f"http://localhost:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
