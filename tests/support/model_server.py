"""A scripted language model on loopback, in the four wires that coding clients speak.

It answers each request that offers our tools with the next step of its script: a call of one of them, or text. What the
client showed it, the tools and the results, is kept for the test to look at.
"""

from __future__ import annotations

import contextlib
import json
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_SEPARATORS = ("__", "_", "-", "/", ".", ":")


@dataclass(frozen=True)
class Step:
    """What the model does next: call the tool whose name ends so, or say something."""

    tool: str | None = None
    arguments: dict[str, Any] = field(default_factory=dict)
    text: str = "Done."
    # Done before the model answers, while the client waits for it.
    before: Callable[[], object] | None = None


@dataclass
class Seen:
    """What one request showed the model."""

    tools: list[str]
    results: list[str]


@dataclass
class ModelServer:
    url: str
    steps: list[Step] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def play(self, steps: Sequence[Step]) -> None:
        with self.lock:
            self.steps = list(steps)
            self.seen = []

    def next_step(self, seen: Seen) -> tuple[Step, str | None]:
        """The step for this request, and the full name of its tool as the client offers it."""
        with self.lock:
            if not any(_is_ours(name) for name in seen.tools):
                return Step(), None
            self.seen.append(seen)
            step = self.steps.pop(0) if self.steps else Step()
        if step.before is not None:
            step.before()
        if step.tool is None:
            return step, None
        name = next((each for each in seen.tools if _ends_with(each, step.tool)), None)
        return (Step(text=f"there is no tool {step.tool}"), None) if name is None else (step, name)


def _is_ours(name: str) -> bool:
    return any(_ends_with(name, tool) for tool in ("shell_exec", "fs_read", "fs_list"))


def _ends_with(name: str, tool: str) -> bool:
    return name == tool or any(name.endswith(separator + tool) for separator in _SEPARATORS)


@contextlib.contextmanager
def model_server() -> Iterator[ModelServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    model = ModelServer(f"http://127.0.0.1:{server.server_address[1]}")
    server.model = model  # type: ignore[attr-defined]  # the handler finds it there
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        return

    @property
    def _model(self) -> ModelServer:
        return self.server.model  # type: ignore[attr-defined, no-any-return]  # see above

    def do_GET(self) -> None:
        model = {"id": "scripted", "object": "model", "name": "models/scripted", "type": "model"}
        self._json({"object": "list", "data": [model], "models": [model], "has_more": False})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        path = self.path.partition("?")[0]
        if path.endswith("/count_tokens"):
            self._json({"input_tokens": 10})
        elif path.endswith(":countTokens"):
            self._json({"totalTokens": 10})
        elif path.endswith("/messages"):
            self._anthropic(body)
        elif path.endswith("/responses"):
            self._responses(body)
        elif path.endswith("/chat/completions"):
            self._chat(body)
        elif path.endswith((":generateContent", ":streamGenerateContent")):
            self._gemini(body, is_stream=path.endswith(":streamGenerateContent"))
        else:
            self._json({})

    def _anthropic(self, body: Any) -> None:
        tools = [tool.get("name", "") for tool in body.get("tools") or []]
        results = [
            _text(block.get("content"))
            for message in body.get("messages", [])
            if isinstance(message.get("content"), list)
            for block in message["content"]
            if block.get("type") == "tool_result"
        ]
        step, name = self._model.next_step(Seen(tools, results))
        if name is None:
            block: dict[str, Any] = {"type": "text", "text": ""}
            delta: dict[str, Any] = {"type": "text_delta", "text": step.text}
            whole: dict[str, Any] = {"type": "text", "text": step.text}
        else:
            block = {"type": "tool_use", "id": f"toolu_{uuid.uuid4().hex[:16]}", "name": name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(step.arguments)}
            whole = {**block, "input": step.arguments}
        reason = "end_turn" if name is None else "tool_use"
        usage = {"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
        message = {
            "id": f"msg_{uuid.uuid4().hex[:16]}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model", "scripted"),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        if not body.get("stream"):
            self._json({**message, "content": [whole], "stop_reason": reason})
            return
        self._events(
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        )

    def _responses(self, body: Any) -> None:
        tools: list[str] = []
        for tool in body.get("tools") or []:
            if tool.get("type") == "namespace":
                tools += [f"{tool['name']}\0{each['name']}" for each in tool.get("tools", [])]
            else:
                tools.append(tool.get("name", ""))
        shown = [name.replace("\0", "__") for name in tools]
        results = [
            _text(item.get("output"))
            for item in body.get("input", [])
            if isinstance(item, dict) and item.get("type") == "function_call_output"
        ]
        step, name = self._model.next_step(Seen(shown, results))
        answer_id = f"resp_{uuid.uuid4().hex[:16]}"
        if name is None:
            item: dict[str, Any] = {
                "type": "message",
                "id": f"msg_{uuid.uuid4().hex[:16]}",
                "role": "assistant",
                "status": "completed",
                "content": [{"type": "output_text", "text": step.text, "annotations": []}],
            }
        else:
            original = tools[shown.index(name)]
            namespace, _, bare = original.rpartition("\0")
            item = {
                "type": "function_call",
                "id": f"fc_{uuid.uuid4().hex[:16]}",
                "call_id": f"call_{uuid.uuid4().hex[:16]}",
                "name": bare,
                "arguments": json.dumps(step.arguments),
                "status": "completed",
                **({"namespace": namespace} if namespace else {}),
            }
        usage = {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 15,
        }
        response = {"id": answer_id, "object": "response", "status": "completed", "output": [item], "usage": usage}
        if not body.get("stream"):
            self._json(response)
            return
        self._events(
            {"type": "response.created", "response": {"id": answer_id, "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": response},
        )

    def _chat(self, body: Any) -> None:
        tools = [tool.get("function", {}).get("name", "") for tool in body.get("tools") or []]
        results = [_text(each.get("content")) for each in body.get("messages", []) if each.get("role") == "tool"]
        step, name = self._model.next_step(Seen(tools, results))
        message: dict[str, Any] = {"role": "assistant", "content": step.text}
        if name is not None:
            function = {"name": name, "arguments": json.dumps(step.arguments)}
            call = {"index": 0, "id": f"call_{uuid.uuid4().hex[:16]}", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        reason = "stop" if name is None else "tool_calls"
        base = {"id": f"chatcmpl-{uuid.uuid4().hex[:16]}", "created": 1, "model": body.get("model", "scripted")}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        if not body.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": reason}
            self._json({**base, "object": "chat.completion", "choices": [choice], "usage": usage})
            return
        kind = {**base, "object": "chat.completion.chunk"}
        self._events(
            {**kind, "choices": [{"index": 0, "delta": message, "finish_reason": None}]},
            {**kind, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]},
            {**kind, "choices": [], "usage": usage},
            is_named=False,
            end="[DONE]",
        )

    def _gemini(self, body: Any, *, is_stream: bool) -> None:
        tools = [
            each["name"]
            for tool in body.get("tools") or []
            for each in tool.get("functionDeclarations") or tool.get("function_declarations") or []
        ]
        results = [
            _text(part["functionResponse"].get("response"))
            for content in body.get("contents", [])
            for part in content.get("parts", [])
            if "functionResponse" in part
        ]
        step, name = self._model.next_step(Seen(tools, results))
        part: dict[str, Any] = {"text": step.text}
        if name is not None:
            part = {"functionCall": {"name": name, "args": step.arguments}}
        answer = {
            "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
            "modelVersion": "scripted",
        }
        if is_stream:
            self._events(answer, is_named=False)
        else:
            self._json(answer)

    def _events(self, *events: dict[str, Any], is_named: bool = True, end: str = "") -> None:
        frames = [(f"event: {each['type']}\n" if is_named else "") + f"data: {json.dumps(each)}\n\n" for each in events]
        self._send("".join([*frames, f"data: {end}\n\n" if end else ""]).encode(), "text/event-stream")

    def _json(self, value: Any) -> None:
        self._send(json.dumps(value).encode(), "application/json")

    def _send(self, data: bytes, kind: str) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)


def _text(content: Any) -> str:
    """The text of a tool's result, in whatever blocks the wire puts it."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(_text(each.get("text", each)) if isinstance(each, dict) else str(each) for each in content)
    if isinstance(content, dict) and isinstance(content.get("output"), str):
        return str(content["output"])
    return json.dumps(content)
