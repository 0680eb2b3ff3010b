"""A real `mcp-pruner http` for tests, and plain requests to it."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.daemon import environment
from tests.support.waiting import PATIENCE_S

PRUNER = str(Path(sys.executable).with_name("mcp-pruner"))
OPTIONS = {
    "max_prune_ratio": 0.55,
    "min_keep_lines": 40,
    "timeout_ms": 10_000,
    "annotate_lines": False,
    "include_markers": True,
}


def clean(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a user who has set nothing of the pruner's but `extra`."""
    own = environment(home, extra)
    kept = {name: value for name, value in own.items() if not name.startswith(("PRUNER_", "MCP_PRUNER_"))}
    return {**kept, **(extra or {})}


@dataclass
class Pruner:
    process: subprocess.Popen[bytes]
    url: str
    stderr: Path

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection(self.url.partition("//")[2], timeout=PATIENCE_S)
        try:
            encoded = None if body is None else json.dumps(body)
            told = {"Content-Type": "application/json"} if body is not None else {}
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, encoded, {**told, **named})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read() or b"null")
        finally:
            connection.close()

    def rpc(self, method: str, **params: Any) -> dict[str, Any]:
        message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
        answer: dict[str, Any] = self.request("POST", "/rpc", message)[1]
        return answer

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool answers, or the JSON-RPC error."""
        answer = self.rpc("tools/call", name=tool, arguments=arguments)
        if "error" in answer:
            error: dict[str, Any] = answer["error"]
            return error
        result = answer["result"]
        told: dict[str, Any] = json.loads(result["content"][0]["text"])
        assert told == result["structuredContent"]
        return told


@contextlib.contextmanager
def pruner(home: Path, **extra: str) -> Iterator[Pruner]:
    stderr = home / "pruner.stderr"
    with stderr.open("ab") as log:
        process = subprocess.Popen(
            [PRUNER, "http"],
            stdout=subprocess.PIPE,
            stderr=log,
            env=clean(home, {"MCP_PRUNER_PORT": "0", **extra}),
            cwd=home,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, stderr.read_text()
        yield Pruner(process, json.loads(line)["url"], stderr)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
        process.stdout.close()
