"""Programs from the makers of the protocol, on every wire that each of them speaks."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.support import node, programs
from tests.support.daemon import COMMAND, Daemon, environment
from tests.support.event_stream import start
from tests.support.waiting import within
from tools.files.revisions import rev_of_bytes

_SCRIPT = Path(__file__).with_name("typescript_client.mjs")
_PYTHON_SCRIPT = Path(__file__).with_name("python_client.py")
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


async def test_every_client_of_the_python_library_hears_every_line_of_a_session(shared_daemon: Daemon) -> None:
    """The library drops notifications that it does not know, so its clients are told by log messages."""
    lines = "".join(f"line {number}\n" for number in range(1, 31))
    command = "for i in $(seq 1 30); do echo line $i; sleep 0.01; done; exit 3"
    handshake = ["sse", "mcp", "stdio"]
    wires = {1: handshake, 2: [*handshake, "mcp stateless", "stdio stateless"]}
    interpreters = {1: programs.first_python_sdk(), 2: sys.executable}
    async with within(_PATIENCE_S):
        running = [
            await asyncio.create_subprocess_exec(
                *(interpreters[each], str(_PYTHON_SCRIPT), json.dumps(_asked(shared_daemon, wires[each], command))),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            for each in wires
        ]
        assert await asyncio.gather(*(_line(client) for client in running)) == ["listening"] * 2
        session = await start(shared_daemon, command)
        outputs = await asyncio.gather(*(client.communicate(b"go\n") for client in running))
    for generation, (stdout, stderr) in zip(wires, outputs, strict=True):
        assert "validat" not in stderr.decode(), f"the library refused a notification: {stderr.decode()}"
        clients = json.loads(stdout)
        assert [client["wire"] for client in clients] == [wire for wire in wires[generation] for _ in range(2)]
        for client in clients:
            *printed, exited = client["heard"]
            where = f"generation {generation}, {client['wire']}"
            assert "".join(each["chunk"] for each in printed) == lines, where
            assert (
                {each["logger"] for each in printed} == {each["type"] for each in printed} == {"shell_session_output"}
            )
            assert (exited["logger"], exited["type"], exited["exit_code"]) == (*["shell_session_exit"] * 2, 3), where
            assert "stdio" in client["wire"] or exited["session_id"] == session


def _asked(daemon: Daemon, wires: list[str], command: str) -> dict[str, Any]:
    server = {"command": COMMAND, "args": ["stdio"], "env": environment(daemon.home), "cwd": str(daemon.home)}
    return {"wires": wires, "url": daemon.url, "token": daemon.token, "server": server, "command": command}


async def _client(
    daemon: Daemon, modules: Path, generation: int, era: str, wire: str, file: Path
) -> asyncio.subprocess.Process:
    server = {
        "command": COMMAND,
        "args": ["stdio", "--tools-file", str(daemon.tools_json)],
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
