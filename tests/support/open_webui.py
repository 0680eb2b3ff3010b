"""The real Open WebUI, offline, with a model that does what a script says; and what it asks of the daemon."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import socket
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2

from tests.support import programs
from tests.support.waiting import eventually

_BOOT_S = 240.0
_MODEL = "scripted"
# What a message says, and the tool that the model then calls.
Script = Mapping[str, tuple[str, dict[str, Any]]]


@dataclass
class Told:
    """What the model was told: its system prompt, the results of its calls, and the images that it was shown."""

    system: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)


@contextlib.contextmanager
def scripted_model(script: Script) -> Iterator[tuple[str, Told]]:
    """A model behind the API of OpenAI, its URL, and what it was told."""
    told = Told()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *arguments: object) -> None:
            pass

        def do_GET(self) -> None:
            self._answer({"object": "list", "data": [{"id": _MODEL, "object": "model", "owned_by": "tests"}]})

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            told.system += [str(each["content"]) for each in request["messages"] if each["role"] == "system"]
            last = request["messages"][-1]
            parts = [
                part for each in request["messages"] if isinstance(each["content"], list) for part in each["content"]
            ]
            told.images = [part["image_url"]["url"] for part in parts if part.get("type") == "image_url"] or told.images
            told.results = [_text(each) for each in request["messages"] if each["role"] == "tool"] or told.results
            called = script.get(_text(last).strip()) if last["role"] == "user" else None
            delta: dict[str, Any] = {"role": "assistant", "content": "It is done."}
            if called is not None and request.get("tools"):
                function = {"name": called[0], "arguments": json.dumps(called[1])}
                delta = {
                    "role": "assistant",
                    "tool_calls": [{"index": 0, "id": "call-1", "type": "function", "function": function}],
                }
            if not request.get("stream"):
                self._answer({"id": "x", "object": "chat.completion", "choices": [{"index": 0, "message": delta}]})
                return
            reason = "tool_calls" if "tool_calls" in delta else "stop"
            chunks: list[dict[str, Any]] = [
                {"delta": delta, "finish_reason": None},
                {"delta": {}, "finish_reason": reason},
            ]
            events = [
                {"id": "x", "object": "chat.completion.chunk", "choices": [{"index": 0, **each}]} for each in chunks
            ]
            lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
            self._send(f"{lines}data: [DONE]\n\n".encode(), "text/event-stream")

        def _answer(self, value: object) -> None:
            self._send(json.dumps(value).encode(), "application/json")

        def _send(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", told
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class OpenWebUI:
    url: str
    token: str


@contextlib.asynccontextmanager
async def open_webui(folder: Path, model_url: str) -> AsyncIterator[OpenWebUI]:
    """Open WebUI with a data folder of its own and its first user, who is its admin."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        "DATA_DIR": str(folder),
        "HOME": str(folder),
        "WEBUI_SECRET_KEY": "a-test",
        "OFFLINE_MODE": "true",
        "HF_HUB_OFFLINE": "1",
        "ENABLE_OLLAMA_API": "false",
        "OPENAI_API_BASE_URL": model_url,
        "OPENAI_API_KEY": "none",
        "RAG_EMBEDDING_ENGINE": "openai",
        "BYPASS_EMBEDDING_AND_RETRIEVAL": "true",
        "ENABLE_VERSION_UPDATE_CHECK": "false",
        "ENABLE_TITLE_GENERATION": "false",
        "ENABLE_TAGS_GENERATION": "false",
        "ENABLE_FOLLOW_UP_GENERATION": "false",
        "SCARF_NO_ANALYTICS": "true",
        "DO_NOT_TRACK": "true",
        "ANONYMIZED_TELEMETRY": "false",
    }
    # By the interpreter: the environment was moved when it was whole, so the first line of its scripts leads nowhere.
    python = programs.open_webui()
    command = [python, str(Path(python).with_name("open-webui"))]
    with (folder / "open-webui.log").open("wb") as log:
        process = subprocess.Popen(  # noqa: ASYNC220 - it runs as long as the block
            [*command, "serve", "--host", "127.0.0.1", "--port", str(port)],
            env={**os.environ, **settings},
            stdout=log,
            stderr=log,
        )
    try:
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:

            async def is_up() -> bool:
                assert process.poll() is None, (folder / "open-webui.log").read_text()
                with contextlib.suppress(httpx2.TransportError):
                    return (await client.get("/health")).status_code == 200
                return False

            await eventually(is_up, within_s=_BOOT_S)
            person = {"name": "Ada", "email": "ada@example.com", "password": "a-test-password"}
            token = (await client.post("/api/v1/auths/signup", json=person)).json()["token"]
            # Else the first page is about what is new in this version.
            version = (await client.get("/api/version")).json()["version"]
            await client.post(
                "/api/v1/users/user/settings/update",
                json={"ui": {"version": version}},
                headers={"Authorization": f"Bearer {token}"},
            )
        yield OpenWebUI(f"http://127.0.0.1:{port}", token)
    finally:
        process.terminate()
        process.wait(30)


@dataclass(frozen=True)
class Recorded:
    """One request of Open WebUI: what it sent, without what differs from run to run."""

    method: str
    target: str
    headers: tuple[str, ...]
    body: str

    @classmethod
    def all_of(cls, sent: bytes, replaced: Mapping[str, str]) -> Iterator[Recorded]:
        """The requests of one connection."""
        while sent:
            head, _, rest = sent.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
            size = len(rest) if b"upgrade: websocket" in head.lower() else int(length[1]) if length else 0
            yield cls._of(head, rest[:size], replaced)
            sent = rest[size:]

    @classmethod
    def _of(cls, head: bytes, body: bytes, replaced: Mapping[str, str]) -> Recorded:
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        names = sorted({line.partition(":")[0].lower() for line in lines})
        kept = tuple(name for name in names if name.startswith(("x-", "authorization", "content-type", "upgrade")))
        text = body.decode("utf-8", "replace") if "upgrade" not in names else ""
        for value, name in replaced.items():
            target, text = target.replace(value, name), text.replace(value, name)
        target = re.sub(
            r"(/execute/)s[0-9a-f]{8}|(/api/terminals/)[\w-]{22}", lambda found: f"{found[1] or found[2]}{{id}}", target
        )
        target = re.sub(r"(/notebooks/)[0-9a-f]{16}", r"\1{notebook}", target)
        target = re.sub(r"(/proxy/)\d+", r"\1{port}", target)
        target = re.sub(r"user_id=[\w-]+", "user_id={user}", re.sub(r"offset=\d+", "offset={offset}", target))
        return cls(method, target, kept, text)


@contextlib.asynccontextmanager
async def recorder(target_port: int, replaced: Mapping[str, str]) -> AsyncIterator[tuple[int, list[Recorded]]]:
    """A port that passes everything on to `target_port` and keeps the requests; Open WebUI sends one a connection."""
    requests: list[Recorded] = []

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, kept: bytearray | None) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if kept is not None and len(kept) < 65_536:
                    kept += data
                writer.write(data)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = bytearray()
        inner, outer = await asyncio.open_connection("127.0.0.1", target_port)
        try:
            await asyncio.gather(pass_on(reader, outer, sent), pass_on(inner, writer, None))
        finally:
            requests.extend(Recorded.all_of(bytes(sent), replaced))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], requests


def _text(message: Mapping[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)
