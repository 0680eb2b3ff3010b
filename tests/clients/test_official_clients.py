"""Programs from the makers of the protocol, on every wire that each of them speaks."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.support import node, programs
from tests.support.daemon import COMMAND, Daemon, environment
from tests.support.waiting import within
from tools.files.revisions import rev_of_bytes

_SCRIPT = Path(__file__).with_name("typescript_client.mjs")
# All of them at once on two processors take a while to start.
_PATIENCE_S = 60.0


async def test_the_typescript_clients_on_every_wire(daemon: Daemon, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("één\n")
    wires = [
        (1, "handshake", "http"),
        (1, "handshake", "post-to-sse"),
        (1, "handshake", "sse"),
        (1, "handshake", "stdio"),
        (2, "handshake", "http"),
        (2, "stateless", "http"),
        (2, "handshake", "sse"),
        (2, "handshake", "stdio"),
        (2, "stateless", "stdio"),
    ]
    modules = {1: programs.typescript_sdk(), 2: programs.typescript_client()}
    before = (await daemon.rpc("tools/list"))["result"]["tools"]
    names = [tool["name"] for tool in before]
    async with within(_PATIENCE_S):
        clients = [await _client(daemon, modules[each[0]], *each, file) for each in wires]
        try:
            heard = await asyncio.gather(*(_line(client) for client in clients))
            assert heard == ["listening"] * len(wires)
            off = [{"id": "filesystem", "tools": [{"id": "fs_read", "enabled": False}]}]
            daemon.save({"profiles": [{"id": "default", "categories": off}]})
            seen = await asyncio.gather(*(_line(client) for client in clients))
        finally:
            for client in clients:
                if client.returncode is None:
                    client.terminate()
                await client.wait()
    expected = {"path": str(file), "content": "één\n", "size": 6, "rev": rev_of_bytes(file.read_bytes())}
    same = {
        "server": "mcp-agent",
        "before": names,
        "read": {"text": expected, "structured": expected},
        "missing": {"isError": True, "code": "NOT_FOUND"},
        "unknown": -32602,
        "after": [name for name in names if name != "fs_read"],
    }
    assert dict(zip(wires, seen, strict=True)) == dict.fromkeys(wires, same)


async def test_the_inspector_on_every_wire(shared_daemon: Daemon, tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("één\n")
    header = ["--header", f"Authorization: Bearer {shared_daemon.token}"]
    http = ["--server-url", f"{shared_daemon.url}/mcp", "--transport", "http", *header]
    wires = {
        "http-handshake": [*http, "--protocol-era", "legacy"],
        "http-stateless": [*http, "--protocol-era", "modern"],
        "sse": ["--server-url", f"{shared_daemon.url}/sse", "--transport", "sse", *header],
        "stdio": [COMMAND, "stdio"],
    }
    listing = ["--method", "tools/list"]
    reading = ["--method", "tools/call", "--tool-name", "fs_read", "--tool-arg", f"path={file}"]
    tools = (await shared_daemon.rpc("tools/list"))["result"]["tools"]
    modules = programs.inspector()
    runs = [[*wire, *method] for wire in wires.values() for method in (listing, reading)]
    async with within(_PATIENCE_S):
        inspected = await asyncio.gather(*(_inspected(tmp_path, modules, arguments) for arguments in runs))
    listed, read = inspected[::2], inspected[1::2]
    for wire, answer in zip(wires, listed, strict=True):
        assert [tool["name"] for tool in answer["tools"]] == [tool["name"] for tool in tools], wire
    for wire, answer in zip(wires, read, strict=True):
        assert answer["structuredContent"] == {
            "path": str(file),
            "content": "één\n",
            "size": 6,
            "rev": rev_of_bytes(file.read_bytes()),
        }, wire


async def _client(
    daemon: Daemon, modules: Path, generation: int, era: str, wire: str, file: Path
) -> asyncio.subprocess.Process:
    server = {
        "command": COMMAND,
        "args": ["stdio", "--config", str(daemon.tools_json)],
        "env": environment(daemon.home),
        "cwd": str(daemon.home),
        "stderr": "ignore",
    }
    asked = {
        "modules": str(modules),
        "generation": generation,
        "era": era,
        "wire": wire,
        "url": daemon.url,
        "token": daemon.token,
        "server": server,
        "file": str(file),
    }
    return await asyncio.create_subprocess_exec(
        node.NODE, str(_SCRIPT), json.dumps(asked), stdout=asyncio.subprocess.PIPE, env=node.environment()
    )


async def _line(client: asyncio.subprocess.Process) -> Any:
    assert client.stdout is not None
    line = await client.stdout.readline()
    return json.loads(line) if line else "nothing: the client ended"


async def _inspected(folder: Path, modules: Path, arguments: list[str]) -> dict[str, Any]:
    """The result that the command line of the Inspector prints."""
    process = await asyncio.create_subprocess_exec(
        str(modules / ".bin" / "mcp-inspector"),
        *("--cli", "--format", "json", "--quiet", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**node.environment(), "HOME": str(folder)},
        cwd=folder,
    )
    stdout, stderr = await process.communicate()
    assert process.returncode == 0, f"{arguments}: {stdout.decode()}{stderr.decode()}"
    found: dict[str, Any] = json.loads(stdout)["result"]
    return found
