"""The programs of others that we are compared with: installed by name, started, called over their own wire, ended.

Each is installed once into the cache folder of the tests, in one version. Each runs in a network of its own with
nothing in it, because some of them report to their makers; an HTTP server is handed a socket of ours to listen on.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import orjson

from tests.benchmarks.http_client import HttpClient
from tests.benchmarks.mcp_messages import ask, message, open_stdio
from tests.benchmarks.processes import Program, running
from tests.benchmarks.rows import PeerMissing
from tests.support import node
from tests.support.cache import NotInstalled, python

_SERVER_FILESYSTEM = ("@modelcontextprotocol/server-filesystem", "2026.8.31", "dist/index.js")
_DESKTOP_COMMANDER = ("@wonderwhy-er/desktop-commander", "0.2.52", "dist/index.js")
# One of its dependencies asks for a version of this package that was never published.
_DESKTOP_COMMANDER_OVERRIDES = {"typedarray.prototype.slice": "1.0.5"}
_DESKTOP_COMMANDER_CONFIG = {"telemetryEnabled": False, "allowedDirectories": [], "defaultShell": "/bin/sh"}
_OPEN_TERMINAL = "open-terminal==0.14.5"
_KEY = "benchmark-key-of-a-peer"


class Peer(Protocol):
    """A program of somebody else that is running."""

    @property
    def program(self) -> Program: ...

    def written(self, tool: str, **arguments: Any) -> Callable[[], bytes]:
        """A call that is written once and made as often as one likes; it gives the answer as it came."""

    def call(self, tool: str, **arguments: Any) -> Any:
        """What a tool answers: the text of an MCP server, the object of another. Raises RuntimeError on an error."""


@dataclass(frozen=True, slots=True)
class StdioPeer:
    """An MCP server on its pipes, after the handshake."""

    program: Program

    def written(self, tool: str, **arguments: Any) -> Callable[[], bytes]:
        request = message("tools/call", {"name": tool, "arguments": arguments}, request_id=2)
        return partial(ask, self.program, request)

    def call(self, tool: str, **arguments: Any) -> str:
        answer = orjson.loads(self.written(tool, **arguments)())
        result = answer.get("result", {"isError": True})
        if result.get("isError"):
            raise RuntimeError(f"{tool} failed: {answer}")
        return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")


class HttpPeer:
    """A server with an OpenAPI description, in which a tool is an operation."""

    def __init__(self, program: Program, url: str, headers: Mapping[str, str]) -> None:
        self.program = program
        self.url = url
        self.headers = dict(headers)
        self._client = HttpClient(url, headers)
        described = orjson.loads(self._client.exchange(self._client.written(b"", "GET", "/openapi.json")).body)
        self._operations = {
            operation["operationId"]: (method.upper(), path, operation.get("parameters", ()))
            for path, methods in described["paths"].items()
            for method, operation in methods.items()
            if "operationId" in operation
        }

    def written(self, tool: str, **arguments: Any) -> Callable[[], bytes]:
        method, path, parameters = self._operations[tool]
        places = {parameter["name"]: parameter["in"] for parameter in parameters}
        query, body = {}, {}
        for name, value in arguments.items():
            if places.get(name) == "path":
                path = path.replace(f"{{{name}}}", quote(str(value), safe=""))
            elif places.get(name) == "query":
                query[name] = str(value).lower() if isinstance(value, bool) else value
            else:
                body[name] = value
        if query:
            path += "?" + urlencode(query)
        request = self._client.written(orjson.dumps(body) if body else b"", method, path)
        return lambda: self._client.exchange(request).body

    def call(self, tool: str, **arguments: Any) -> Any:
        return orjson.loads(self.written(tool, **arguments)())


def server_filesystem_command(root: Path) -> list[str]:
    """The command of the reference filesystem server for `root`. Raises PeerMissing."""
    return [*_npm_program(*_SERVER_FILESYSTEM), str(root)]


@contextmanager
def server_filesystem(folder: Path, root: Path | None = None) -> Iterator[StdioPeer]:
    """The reference filesystem server for `root`, else for `folder`, which is its home. Raises PeerMissing."""
    with _on_pipes(server_filesystem_command(root or folder), folder) as peer:
        yield peer


@contextmanager
def desktop_commander(folder: Path) -> Iterator[StdioPeer]:
    """Desktop Commander with `folder` as its home, and its reports to its makers switched off. Raises PeerMissing."""
    command = _npm_program(*_DESKTOP_COMMANDER, overrides=_DESKTOP_COMMANDER_OVERRIDES)
    config = folder / ".claude-server-commander" / "config.json"
    config.parent.mkdir(exist_ok=True)
    config.write_bytes(orjson.dumps(_DESKTOP_COMMANDER_CONFIG))
    # It asks `python3` for its version at every call: let that be a program and no script that looks for one.
    path = os.pathsep.join([str(Path(sys.base_prefix) / "bin"), os.environ["PATH"]])
    with _on_pipes(command, folder, {"PATH": path}) as peer:
        yield peer


@contextmanager
def open_terminal(folder: Path) -> Iterator[HttpPeer]:
    """open-terminal's API server, as its own command runs it but without a log of every request. Raises PeerMissing."""
    try:
        interpreter = python(_OPEN_TERMINAL)
    except NotInstalled as error:
        raise PeerMissing(f"{_OPEN_TERMINAL} cannot be installed") from error
    with socket.create_server(("127.0.0.1", 0)) as listener:
        # What the server sets itself on a socket that it opens.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        serve = ["-m", "uvicorn", "open_terminal.main:app", "--no-access-log", "--fd", str(listener.fileno())]
        environment = {"OPEN_TERMINAL_API_KEY": _KEY}
        command = [*_without_network(), interpreter, *serve]
        with running(command, folder, inherited=(listener.fileno(),), environment=environment) as program:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            yield HttpPeer(program, url, {"authorization": f"Bearer {_KEY}"})


@contextmanager
def _on_pipes(command: list[str], folder: Path, environment: Mapping[str, str] | None = None) -> Iterator[StdioPeer]:
    with running([*_without_network(), *command], folder, environment=environment) as program:
        open_stdio(program)
        yield StdioPeer(program)


def _npm_program(package: str, version: str, script: str, *, overrides: Mapping[str, str] | None = None) -> list[str]:
    """The command that runs it, with the machine's own Node if there is one: that is what its users have."""
    try:
        modules = node.installed(package, version, overrides=overrides)
    except NotInstalled as error:
        raise PeerMissing(f"{package} {version} cannot be installed") from error
    return [shutil.which("node") or node.NODE, str(modules / package / script)]


@cache
def _without_network() -> tuple[str, ...]:
    """What runs a command in a network of its own, in which there is nothing. Raises PeerMissing."""
    unshare = shutil.which("unshare")
    if sys.platform == "linux" and unshare is not None:
        options = ("--net",) if os.geteuid() == 0 else ("--net", "--map-current-user")
        if subprocess.run([unshare, *options, "true"], capture_output=True, check=False).returncode == 0:
            return (unshare, *options, "--")
    raise PeerMissing("a peer cannot be kept off the network here, which takes Linux and `unshare`")
