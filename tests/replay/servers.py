"""The servers that are asked: this daemon over /mcp, in text form, and two others over stdio."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Protocol

import orjson

from tests.support import node, programs
from tests.support.cache import NotInstalled
from tests.support.daemon import Daemon, running
from tests.support.waiting import PATIENCE_S

Arguments = dict[str, Any]


class Server(Protocol):
    name: str

    def call(self, tool: str, arguments: Arguments) -> tuple[str, bool]:
        """The text that a model is given, and whether it is an error."""

    def edit(self, path: Path, old: str, new: str, *, every: bool) -> tuple[str, bool]: ...

    def read(self, path: Path) -> tuple[str, bool]: ...


class Ours:
    name = "mcp-agent"

    def __init__(self, daemon: Daemon) -> None:
        self._connection = HTTPConnection(daemon.url.partition("://")[2], timeout=PATIENCE_S)
        self._headers = {
            **daemon.headers,
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "X-MCP-Agent-Form": "text",
        }
        self._ids = itertools.count(1)

    def close(self) -> None:
        self._connection.close()

    def call(self, tool: str, arguments: Arguments, *, chat: str = "") -> tuple[str, bool]:
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": "tools/call", "params": params}
        headers = {**self._headers, **({"X-Session-Id": chat} if chat else {})}
        # One that was idle while another server was asked may be closed by now.
        self._connection.close()
        self._connection.request("POST", "/mcp", json.dumps(message), headers)
        body = self._connection.getresponse().read()
        return _told(orjson.loads(body.rpartition(b"data: ")[2] if body[:1] in b":ed" else body))

    def edit(self, path: Path, old: str, new: str, *, every: bool) -> tuple[str, bool]:
        asked = {"path": str(path), "old_string": old, "new_string": new, "replace_all": every}
        return self.call("fs_patch", {key: value for key, value in asked.items() if value is not False})

    def read(self, path: Path) -> tuple[str, bool]:
        return self.call("fs_read", {"path": str(path)})


class _OverStdio:
    """A program that is asked one thing after another."""

    def __init__(self, script: Path, folder: Path, *arguments: str, **environment: str) -> None:
        self._process = subprocess.Popen(
            [node.NODE, str(script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=folder,
            env={**node.environment(), "HOME": str(folder), **environment},
        )
        self._ids, self._rest = itertools.count(1), b""
        info = {"name": "claude-code", "version": "1"}
        self._ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info})
        self._send({"method": "notifications/initialized"})

    def call(self, tool: str, arguments: Arguments) -> tuple[str, bool]:
        return _told(self._ask("tools/call", {"name": tool, "arguments": arguments}))

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _ask(self, method: str, params: Arguments) -> Any:
        number = next(self._ids)
        self._send({"id": number, "method": method, "params": params})
        while True:
            line = self._line()
            if line[:1] == b"{" and (message := orjson.loads(line)).get("id") == number and "method" not in message:
                return message

    def _send(self, message: Arguments) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._process.stdin.flush()

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        while b"\n" not in self._rest:
            if not select.select([pipe], [], [], PATIENCE_S)[0] or not (data := os.read(pipe, 1 << 20)):
                raise ConnectionError("the server does not answer")
            self._rest += data
        line, self._rest = self._rest.split(b"\n", 1)
        return line


class DesktopCommander(_OverStdio):
    name = "Desktop Commander"

    def __init__(self, folder: Path) -> None:
        settings = folder / ".claude-server-commander" / "config.json"
        settings.parent.mkdir(parents=True)
        settings.write_text(json.dumps({"telemetryEnabled": False, "allowedDirectories": [], "blockedCommands": []}))
        super().__init__(programs.desktop_commander(), folder, DC_FLAG_URL="http://127.0.0.1:9/")

    def edit(self, path: Path, old: str, new: str, *, every: bool) -> tuple[str, bool]:
        asked = {"file_path": str(path), "old_string": old, "new_string": new}
        count = path.read_text(errors="replace").count(old) if every else 1
        return self.call("edit_block", {**asked, "expected_replacements": count})

    def read(self, path: Path) -> tuple[str, bool]:
        return self.call("read_file", {"path": str(path)})


class FilesystemServer(_OverStdio):
    name = "server-filesystem"

    def __init__(self, folder: Path) -> None:
        # It keeps to the folders that it is given: here the one in which the files of all servers are.
        super().__init__(programs.filesystem_server(), folder, str(folder.parent))

    def edit(self, path: Path, old: str, new: str, *, every: bool) -> tuple[str, bool]:
        count = max(path.read_text(errors="replace").count(old), 1) if every else 1
        return self.call("edit_file", {"path": str(path), "edits": [{"oldText": old, "newText": new}] * count})

    def read(self, path: Path) -> tuple[str, bool]:
        return self.call("read_text_file", {"path": str(path)})


def _told(message: Any) -> tuple[str, bool]:
    if "error" in message:
        return json.dumps(message["error"]), True
    result = message["result"]
    texts = [block.get("text", "") for block in result.get("content", ())]
    return "\n".join(texts), bool(result.get("isError"))


@contextlib.contextmanager
def ours(folder: Path, cwd: Path) -> Iterator[Ours]:
    """A daemon whose profile does not show again what was shown; only calls that name a chat can tell."""
    folder.mkdir(parents=True)
    (folder / "tools.json").write_text('{"profiles": [{"id": "default", "repeat": "changes"}]}')
    with running(folder, cwd=cwd) as daemon, contextlib.closing(Ours(daemon)) as server:
        yield server


@contextlib.contextmanager
def others(folder: Path) -> Iterator[list[Server]]:
    """Those that can be had; of any other it is said why not."""
    made: list[DesktopCommander | FilesystemServer] = []
    try:
        for kind in (DesktopCommander, FilesystemServer):
            (home := folder / kind.__name__.lower()).mkdir(parents=True)
            try:
                made.append(kind(home))
            except NotInstalled as missing:
                print(f"{kind.name} is left out: {missing}", file=sys.stderr)
        yield list(made)
    finally:
        for server in made:
            server.close()
