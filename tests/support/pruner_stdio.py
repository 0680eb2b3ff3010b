"""A real `mcp-pruner` over standard input and output, for tests."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.pruner_http import PRUNER, clean
from tests.support.waiting import PATIENCE_S, eventually_sync


@dataclass
class Reader:
    process: subprocess.Popen[str]
    stderr: Path
    sent: int = field(default=0)

    def rpc(self, method: str, params: Any = None) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.sent += 1
        message = {"jsonrpc": "2.0", "id": self.sent, "method": method}
        self.process.stdin.write(json.dumps(message if params is None else {**message, "params": params}) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert answer["id"] == self.sent
        return answer

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The object of a result, or the JSON-RPC error."""
        answer = self.rpc("tools/call", {"name": tool, "arguments": arguments})
        if "error" in answer:
            error: dict[str, Any] = answer["error"]
            return error
        told: dict[str, Any] = answer["result"]["structuredContent"]
        assert answer["result"]["isError"] == ("error" in told)
        return told

    def log(self, until: str = "mcp_pruner.ready") -> list[dict[str, Any]]:
        """The log, once it has an event `until`: a thread writes it, a little later."""

        def look() -> list[dict[str, Any]]:
            lines = self.stderr.read_text().splitlines(keepends=True)
            return [json.loads(line) for line in lines if line[-1] == "\n"]

        return eventually_sync(look, lambda lines: any(line["event"] == until for line in lines))


@contextlib.contextmanager
def reader(home: Path, root: Path, **extra: str) -> Iterator[Reader]:
    stderr = home / "reader.stderr"
    with stderr.open("wb") as log:
        process = subprocess.Popen(
            [PRUNER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=clean(home, {"MCP_PRUNER_CWD": str(root), **extra}),
            cwd=home,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Reader(process, stderr)
    finally:
        process.stdin.close()
        assert process.wait(PATIENCE_S) == 0
        assert process.stdout.read() == ""
        process.stdout.close()
