"""A site as a model may start one: it says what it was sent, sets what it can set, and speaks WebSocket.

Run with a file to write its port to. `/hostile` is a page whose script tries what it must not reach. With `echo` it
answers every method with the body that it was sent.
"""

from __future__ import annotations

import asyncio
import json
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.http11 import Request, Response

_HOSTILE = """<!doctype html><title>hostile</title><link rel=stylesheet href=style.css><h1>A site</h1>
<script>
const tried = {};
const attempt = async (name, work) => {
  try { tried[name] = await work(); } catch (error) { tried[name] = `refused: ${error.name}`; }
};
const read = (path, options) => async () => {
  const answer = await fetch(path, { credentials: "include", ...options });
  return `read ${answer.status}`;
};
(async () => {
  await attempt("api", read("/api/tools"));
  await attempt("page api", read("/ui/api/tools", { headers: { "X-MCP-Agent-Page": "1" } }));
  await attempt("switch", read("/ui/api/profiles/default/disable", {
    method: "POST", headers: { "Content-Type": "application/json", "X-MCP-Agent-Page": "1" }, body: "{}" }));
  await attempt("approve", read("/ui/api/approvals/1", {
    method: "POST", headers: { "Content-Type": "application/json", "X-MCP-Agent-Page": "1" },
    body: JSON.stringify({ decision: "allow" }) }));
  await attempt("page", read("/"));
  await attempt("stream", read("/ui/stream", { headers: { "X-MCP-Agent-Page": "1" } }));
  await attempt("cookie", async () => document.cookie);
  await attempt("storage", async () => String(localStorage.length));
  await attempt("opener", async () => String(window.opener));
  await attempt("frame", () => new Promise((resolve, reject) => {
    const frame = document.createElement("iframe");
    frame.src = "/";
    frame.onload = () => {
      try { resolve(String(frame.contentDocument && frame.contentDocument.title)); } catch (error) { reject(error); }
    };
    document.body.append(frame);
  }));
  await attempt("own", read("own.json", { credentials: "omit" }));
  await attempt("socket", () => new Promise((resolve, reject) => {
    const socket = new WebSocket(new URL("socket", location.href.replace(/^http/, "ws")));
    socket.onopen = () => socket.send("hello");
    socket.onmessage = (event) => resolve(event.data);
    socket.onerror = () => reject(new Error("no socket"));
  }));
  await attempt("style", async () => getComputedStyle(document.querySelector("h1")).color);
  window.tried = tried;
})();
</script>"""


def _answer(connection: ServerConnection, request: Request) -> Response | None:
    path = request.path.partition("?")[0]
    if path == "/socket":
        return None
    headers = Headers()
    for name, value in (
        ("Content-Type", "text/html"),
        ("Set-Cookie", "mcp-agent-page=stolen; Path=/"),
        ("Clear-Site-Data", '"cookies"'),
        ("X-Frame-Options", "DENY"),
        ("WWW-Authenticate", "Basic"),
        ("Content-Security-Policy", "img-src 'none'"),
    ):
        headers[name] = value
    body = {"/hostile": _HOSTILE, "/style.css": "h1 { color: rgb(1, 2, 3) }"}.get(path, "")
    if path == "/style.css":
        del headers["Content-Type"]
        headers["Content-Type"] = "text/css"
    if path == "/moved/away":
        headers["Location"] = "/landed?x=1"
        return Response(302, "Found", headers, b"")
    if not body:
        sent = [[name, value] for name, value in request.headers.raw_items()]
        body = json.dumps({"path": request.path, "headers": sent})
    headers["Content-Length"] = str(len(body.encode()))
    return Response(HTTPStatus.OK, "OK", headers, body.encode())


async def _echo(connection: ServerConnection) -> None:
    assert connection.request is not None
    async for message in connection:
        sent = sorted(name.lower() for name, _ in connection.request.headers.raw_items())
        await connection.send(json.dumps({"echo": message, "headers": sent}) if isinstance(message, str) else message)


class _EchoBody(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(201)
        self.send_header("X-Method", self.command)
        self.send_header("Content-Type", self.headers["content-type"])
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_POST  # noqa: N815 - as http.server calls it


def _tell(told: Path, port: int) -> None:
    told.with_suffix(".part").write_text(str(port))
    told.with_suffix(".part").rename(told)


async def _serve(told: Path) -> None:
    async with serve(_echo, "127.0.0.1", 0, process_request=_answer) as server:
        _tell(told, next(iter(server.sockets)).getsockname()[1])
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    if sys.argv[2:] == ["echo"]:
        plain = ThreadingHTTPServer(("0.0.0.0", 0), _EchoBody)
        _tell(Path(sys.argv[1]), plain.server_port)
        plain.serve_forever()
    asyncio.run(_serve(Path(sys.argv[1])))
